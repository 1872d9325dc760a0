"""Reading for a report: every message once, without bodies, as one Spark job of two stages.

The first stage counts (one task, one piece of the log); Spark carries counts of tags and keys to the bucket their
hash says, and all other counts to a bucket of their own; the second stage adds up. Only totals come back to the
driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from flaremq.digits import whole_number
from flaremq.message.properties import TIMER_OUT_MS
from flaremq.message.topics import HALF_TOPIC, OP_HALF_TOPIC, TIMER_TOPIC
from flaremq.pipeline.jobs.report.partial import COUNTED_COLUMNS, Partial
from flaremq.pipeline.jobs.report.texts import TextCounter, TextTotals, bucket_count, count_bucket
from flaremq.pipeline.jobs.report.transactions import HALF_COLUMNS, OP_COLUMNS, Transactions
from flaremq.pipeline.jobs.tasks import Progress, gather
from flaremq.pipeline.model.columns import schema_of
from flaremq.pipeline.model.source import ReadRequest, SourceSpec
from flaremq.pipeline.model.spans import Span
from flaremq.pipeline.sources.open import open_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Some system topics are read with a little more than the rest. Op records are the only ones whose body is read: it is
# a short list of offsets, and nothing else tells which half messages are done with.
_MORE_COLUMNS = {HALF_TOPIC: HALF_COLUMNS, OP_HALF_TOPIC: OP_COLUMNS, TIMER_TOPIC: ("properties",)}


@dataclass(frozen=True, slots=True)
class ScanTask:
    """What one task counts."""

    spec: SourceSpec
    spans: tuple[Span, ...]
    more_columns: tuple[str, ...]
    buckets: int
    now_ms: int
    tags: frozenset[str]
    fail_on_data_loss: bool


@dataclass(slots=True)
class Findings:
    """All counts of a scan."""

    counts: Partial = field(default_factory=Partial)
    transactions: Transactions = field(default_factory=Transactions)
    timers_waiting: int = 0
    texts: TextTotals = field(default_factory=TextTotals)

    def add(self, other: Findings, top: int) -> None:
        self.counts.add(other.counts)
        self.transactions.add(other.transactions)
        self.timers_waiting += other.timers_waiting
        self.texts.add(other.texts, top)


def scan_pieces(
    spark: SparkSession,
    spec: SourceSpec,
    pieces: Sequence[tuple[Span, ...]],
    *,
    top: int,
    now_ms: int,
    tags: frozenset[str] = frozenset(),
    fail_on_data_loss: bool = True,
    on_progress: Progress | None = None,
) -> Findings:
    """The counts of these pieces; no piece mixes topics of ``special_topic`` with others."""
    buckets = bucket_count(sum(span.count for piece in pieces for span in piece))
    tasks = [
        ScanTask(spec, piece, _MORE_COLUMNS.get(piece[0].queue.topic, ()), buckets, now_ms, tags, fail_on_data_loss)
        for piece in pieces
    ]
    findings = Findings()

    def added(bucket: int, packed: Iterable[bytes]) -> Iterator[bytes]:
        return add_up(bucket == buckets, packed, top)  # the bucket behind the last holds everything but texts

    for found in gather(spark, tasks, count_task, added, buckets=buckets + 1, what="report", on_progress=on_progress):
        findings.add(pickle.loads(found), top)
    return findings


def special_topic(topic: str) -> str:
    """The topic itself if it is read differently, else nothing: pieces are planned for each apart."""
    return topic if topic in _MORE_COLUMNS else ""


def count_task(task: ScanTask) -> Iterator[tuple[int, bytes]]:
    """(bucket, counts) of one task's messages."""
    columns = (*COUNTED_COLUMNS, *(name for name in task.more_columns if name not in COUNTED_COLUMNS))
    request = ReadRequest(schema_of(columns), tags=task.tags, fail_on_data_loss=task.fail_on_data_loss)
    findings = Findings()
    texts = TextCounter(task.buckets)
    topic = special_topic(task.spans[0].queue.topic)
    with open_source(task.spec) as source:
        for batch in source.read(task.spans, request):
            findings.counts.count(batch)
            yield from texts.count(batch)
            if topic == HALF_TOPIC:
                findings.transactions.count_halves(batch)
            elif topic == OP_HALF_TOPIC:
                findings.transactions.count_operations(batch)
            elif topic == TIMER_TOPIC:
                findings.timers_waiting += _due_after(batch, task.now_ms)
    yield from texts.flush()
    yield task.buckets, pickle.dumps(findings, pickle.HIGHEST_PROTOCOL)


def add_up(is_counts: bool, pieces: Iterable[bytes], top: int) -> Iterator[bytes]:
    """All pieces of one bucket as one."""
    findings = Findings()
    if is_counts:
        for piece in pieces:
            findings.add(pickle.loads(piece), top)
    else:
        findings.texts = count_bucket(pieces, top)
    yield pickle.dumps(findings, pickle.HIGHEST_PROTOCOL)


def _due_after(batch: pa.RecordBatch, now_ms: int) -> int:
    times = pc.map_lookup(batch.column("properties"), TIMER_OUT_MS, "last")
    return sum(1 for text in times.to_pylist() if (whole_number(text) or 0) > now_ms)
