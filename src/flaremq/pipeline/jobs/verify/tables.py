"""Tables held against the log they were made of; every message they cover, by count, offset and digest.

Rows and dead letters together are the messages of a queue. What retention has deleted from the log cannot be compared
any more and is counted apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.archive.row_digest import RowDigest
from flaremq.pipeline.jobs.object_access import object_access
from flaremq.pipeline.jobs.runner import TaskRunner
from flaremq.pipeline.jobs.session import AnySession
from flaremq.pipeline.jobs.table.job import topic_targets
from flaremq.pipeline.jobs.tasks import Progress
from flaremq.pipeline.jobs.verify.certificate import Certificate
from flaremq.pipeline.jobs.verify.difference import Difference, State
from flaremq.pipeline.jobs.verify.table_digests import (
    BLOCK_ROWS,
    Block,
    Digests,
    Wanted,
    has_body,
    log_digests,
    table_digests,
)
from flaremq.pipeline.model.source import Source
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.options import ScanOptions, parse_options
from flaremq.pipeline.sources.open import open_source, source_spec
from flaremq.pipeline.tables.model.lake_table import LakeTable
from flaremq.pipeline.tables.model.target import TableTarget
from flaremq.pipeline.tables.open import find_table, open_table


@dataclass(frozen=True, slots=True)
class ProvedQueue:
    """What the table, with its dead letters, holds of a stretch of a queue."""

    span: Span
    digest: RowDigest

    def to_json(self) -> dict[str, Any]:
        queue, start, end = self.span
        return {
            "topic": queue.topic,
            "brokerName": queue.broker,
            "queueId": queue.queue_id,
            "from": start,
            "to": end,
            "count": self.digest.count,
            "digest": self.digest.text,
        }


@dataclass(frozen=True, slots=True)
class TableProof:
    table: str
    version: str
    with_body: bool  # whether bodies are columns as they are, and so were compared
    queues: tuple[ProvedQueue, ...]
    differences: tuple[Difference, ...]
    expired: int  # offsets the table covers that the log no longer has

    @property
    def is_sound(self) -> bool:
        return not any(difference.is_failure for difference in self.differences)

    @property
    def messages(self) -> int:
        return sum(queue.digest.count for queue in self.queues)

    def summary(self) -> dict[str, Any]:
        """Without the queues, and without differences, which are told elsewhere."""
        document = self.to_json()
        del document["queues"], document["differences"]
        return document

    def certified(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "version": self.version,
            "withBody": self.with_body,
            "queues": [queue.to_json() for queue in self.queues],
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "verdict": "sound" if self.is_sound else "differs",
            "version": self.version,
            "messages": self.messages,
            "expired": self.expired,
            "withBody": self.with_body,
            "queues": [queue.to_json() for queue in self.queues],
            "differences": [difference.to_json() for difference in self.differences],
        }


def verify_tables(
    spark: AnySession | None,
    options: Mapping[str, str] | ScanOptions,
    target: TableTarget,
    *,
    on_progress: Progress | None = None,
) -> list[TableProof]:
    """Each table against its topics; without a session in this process. Anybody may write meanwhile."""
    parsed = options if isinstance(options, ScanOptions) else parse_options(options)
    runner = TaskRunner(spark, on_progress)
    target = replace(target, objects=object_access(target.objects, spark, target.path, target.warehouse))
    with open_source(source_spec(parsed)) as source:
        return [prove(runner, source, each, place) for place, each in topic_targets(source, parsed, target)]


def prove(runner: TaskRunner, source: Source, options: ScanOptions, target: TableTarget) -> TableProof:
    table = open_table(target)
    letters = find_table(target.dead_letters)
    spans, differences, expired = _spans(source, options, table)
    spec = source_spec(options)

    def sides(wanted: Wanted) -> tuple[Digests, Digests]:
        return log_digests(runner, source, spec, options, wanted), held_digests(runner, table, letters, wanted)

    with_body = has_body(table)
    logged, held = sides(Wanted(spans, BLOCK_ROWS, with_body))
    first: dict[QueueRef, Span] = {}
    for block in sorted(logged.keys() | held.keys()):
        if logged.get(block) != held.get(block):
            start, span = block.number * BLOCK_ROWS, spans[block.queue]
            first.setdefault(block.queue, Span(block.queue, max(start, span.start), min(start + BLOCK_ROWS, span.end)))
    if first:
        differences += _first_differences(*sides(Wanted(first, 1, with_body)))
    return TableProof(target.text, table.version(), with_body, proved_queues(spans, held), tuple(differences), expired)


def prove_of_store(
    runner: TaskRunner, path: str, target: TableTarget, broker_name: str, geometry: Mapping[str, str] | None
) -> TableProof:
    """Against a store that nobody has open; all topics that the table can be of."""
    options = parse_options({"path": f"{broker_name}={path}", "failOnDataLoss": "false"})
    options = replace(options, geometry=dict(geometry or {}))
    with open_source(source_spec(options)) as source:
        table = open_table(target)
        extents = source.extents(options.selector)
        topics = sorted({queue.topic for queue in table.coverage([extent.queue for extent in extents])})
        if not topics:
            raise InvalidArgumentError(f"{target.text} covers no topic of the store {path} of broker {broker_name!r}")
        return prove(runner, source, replace(options, topic=",".join(topics)), target)


def compare_table(runner: TaskRunner, certificate: Certificate, target: TableTarget) -> Iterator[Difference]:
    """What a certificate says of the table that is so no more."""
    before = certificate.tables.get(target.text)
    if before is None:
        return
    table = open_table(target)
    known = {QueueRef(queue["topic"], queue["brokerName"], queue["queueId"]): queue for queue in before["queues"]}
    spans = {queue: Span(queue, held["from"], held["to"]) for queue, held in known.items()}
    wanted = Wanted(spans, BLOCK_ROWS, before["withBody"])
    if before["withBody"] and not has_body(table):
        yield Difference(State.MISSING, "table", target.text, "it has no column body any more")
        return
    for now in proved_queues(spans, held_digests(runner, table, find_table(target.dead_letters), wanted)):
        held = known[now.span.queue]
        if (now.digest.count, now.digest.text) != (held["count"], held["digest"]):
            where = f"{now.span.queue} [{now.span.start}, {now.span.end})"
            detail = f"the table held {held['count']} messages with digest {held['digest']}, now {now.digest.count} "
            yield Difference(State.CHANGED, "table", where, f"{detail}with {now.digest.text}", now.span.start)


def held_digests(runner: TaskRunner, table: LakeTable, letters: LakeTable | None, wanted: Wanted) -> Digests:
    """Of the table and its dead letters together."""
    found = table_digests(runner, table, wanted)
    if letters is not None:
        for block, digest in table_digests(runner, letters, wanted).items():
            found[block] = found.get(block, RowDigest()) + digest
    return found


def proved_queues(spans: Mapping[QueueRef, Span], held: Digests) -> tuple[ProvedQueue, ...]:
    totals = dict.fromkeys(spans, RowDigest())
    for block, digest in held.items():
        totals[block.queue] += digest
    return tuple(ProvedQueue(spans[queue], totals[queue]) for queue in sorted(spans))


def _spans(
    source: Source, options: ScanOptions, table: LakeTable
) -> tuple[dict[QueueRef, Span], list[Difference], int]:
    """What both sides should hold; what shows at once; how much of the table the log no longer has."""
    extents = {extent.queue: extent for extent in source.extents(options.selector)}
    covered = table.coverage(extents)
    spans: dict[QueueRef, Span] = {}
    differences = []
    expired = 0
    for queue, extent in sorted(extents.items()):
        held = covered.get(queue)
        if held is None:
            detail = f"offsets [{extent.min_offset}, {extent.max_offset}) are not in the table yet"
            if extent.max_offset > extent.min_offset:
                differences.append(Difference(State.BEHIND, "table", str(queue), detail, extent.min_offset))
            continue
        if held.next > extent.max_offset:
            detail = f"the table covers it up to {held.next}, the log ends at {extent.max_offset}"
            differences.append(Difference(State.MISSING, "table", str(queue), detail, extent.max_offset))
        elif held.next < extent.max_offset:
            detail = f"offsets [{held.next}, {extent.max_offset}) are not in the table yet"
            differences.append(Difference(State.BEHIND, "table", str(queue), detail, held.next))
        start, end = max(held.start, extent.min_offset), min(held.next, extent.max_offset)
        expired += max(0, min(extent.min_offset, held.next) - held.start)
        if start < end:
            spans[queue] = Span(queue, start, end)
    return spans, differences, expired


def _first_differences(logged: Digests, held: Digests) -> Iterable[Difference]:
    """The first message of each queue in which the sides differ; blocks are of one offset here."""
    seen: set[QueueRef] = set()
    for block in sorted(logged.keys() | held.keys()):
        log, table = logged.get(block, RowDigest()), held.get(block, RowDigest())
        if log != table and block.queue not in seen:
            seen.add(block.queue)
            yield _difference(block, log, table)


def _difference(block: Block, log: RowDigest, table: RowDigest) -> Difference:
    state = State.CHANGED
    if not table.count:
        state, detail = State.MISSING, "the message is in the log and not in the table"
    elif not log.count:
        detail = "the table has a message that the log does not have"
    elif table.count > log.count:
        detail = f"the message is in the table {table.count} times"
    else:
        detail = "the message in the table is not the one in the log"
    return Difference(
        state, "table", f"{block.queue} [{block.number}]", f"{detail}; the first of this queue", block.number
    )
