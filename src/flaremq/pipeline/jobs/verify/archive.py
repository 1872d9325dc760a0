"""A store held against an archive: the messages of every archived range that the log still has, by row digests.

The archive's manifest keeps a digest of each run of a queue. A run that lies wholly in the log is read from the store
alone; of one whose beginning has expired the rest is read from both sides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.pipeline.archive.entries import DELETED, ArchiveGap
from flaremq.pipeline.archive.manifest import Manifest
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.archive.row_digest import DIGEST_COLUMNS, RowDigest, digest_batch
from flaremq.pipeline.jobs.runner import TaskRunner
from flaremq.pipeline.jobs.verify.difference import Difference, State
from flaremq.pipeline.model.columns import SCHEMA
from flaremq.pipeline.model.source import ReadRequest, SourceSpec, TopicSelector
from flaremq.pipeline.model.spans import Span
from flaremq.pipeline.sources.open import open_source
from flaremq.storage.arrow.bodies import AS_STORED, BodyRule

_TASK_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class _ArchivedSpan:
    span: Span  # what of an archived run the log still has
    whole: RowDigest | None  # the manifest's digest; None if part of the run has expired
    size_bytes: int


def check_archive(archive: ArchiveRoot, broker_name: str) -> None:
    """Before anything is read: whether there is an archive, and whether it can be of this store."""
    _broker(Manifest.load(archive), broker_name, archive.location)


def compare_archive(
    runner: TaskRunner,
    *,
    path: str,
    archive: ArchiveRoot,
    broker_name: str,
    geometry: Mapping[str, str] | None = None,
) -> tuple[int, list[Difference]]:
    """How many messages were found equal, and what was not."""
    manifest = Manifest.load(archive)
    broker = _broker(manifest, broker_name, archive.location)
    store = SourceSpec(paths=((broker, path),), geometry=dict(geometry or {}), fail_on_data_loss=False)
    with open_source(store) as source:
        extents = {extent.queue: extent for extent in source.extents(TopicSelector())}
        # System topics too, if they were archived.
        archived_topics = "|".join(sorted({re.escape(queue.topic) for queue in manifest.queues}))
        extents |= {extent.queue: extent for extent in source.extents(TopicSelector(pattern=archived_topics))}
    runs: list[_ArchivedSpan] = []
    differences: list[Difference] = []
    for queue in manifest.queues:
        if queue.broker != broker:
            continue
        extent = extents.get(queue)
        segments = [segment.run for segment in manifest.segments(queue)]
        archived = sum(run.messages for run in segments)
        if extent is None or extent.min_offset == extent.max_offset:
            detail = f"{archived} archived messages, none of them in the log any more"
            differences.append(Difference(State.EXPIRED, "archive", str(queue), detail))
            continue
        for run in segments:
            span = Span(queue, max(run.start, extent.min_offset), min(run.end, extent.max_offset))
            if run.end > extent.max_offset:
                detail = f"archived to offset {run.end}, the store ends at {extent.max_offset}"
                differences.append(Difference(State.MISSING, "archive", str(queue), detail, extent.max_offset))
            if span.start < span.end:
                is_whole = (span.start, span.end) == (run.start, run.end)
                whole = RowDigest.from_text(run.messages, run.digest) if is_whole else None
                runs.append(_ArchivedSpan(span, whole, run.size_bytes))
        missing = manifest.missing(Span(queue, extent.min_offset, extent.max_offset), known_gaps=True)
        differences += [_not_archived(span, extent.max_offset) for span in missing]
    differences += [_recorded(gap) for gap in manifest.gaps if gap.span.queue.broker == broker]
    for queue in sorted(extents.keys() - set(manifest.queues)):
        extent = extents[queue]
        if extent.max_offset > extent.min_offset:
            detail = f"offsets [{extent.min_offset}, {extent.max_offset}) were never archived"
            differences.append(Difference(State.BEHIND, "archive", str(queue), detail, extent.min_offset))
    archive_spec = SourceSpec(archive=archive.location, objects=archive.settings)
    tasks = [partial(_compare, store, archive_spec, group) for group in _grouped(runs)]
    equal = 0
    for count, found in runner.run(tasks, "archive"):
        equal += count
        differences += found
    return equal, differences


def _not_archived(span: Span, end: int) -> Difference:
    detail = f"offsets [{span.start}, {span.end}) are not in the archive" + (" yet" if span.end == end else "")
    return Difference(State.BEHIND, "archive", str(span.queue), detail, span.start)


def _recorded(gap: ArchiveGap) -> Difference:
    why = "deleted before they were archived" if gap.reason == DELETED else "unreadable when they were to be archived"
    detail = f"offsets [{gap.span.start}, {gap.span.end}) are missing in the archive: {why}, as it records"
    return Difference(State.LOST, "archive", str(gap.span.queue), detail, gap.span.start)


def _compare(
    store_spec: SourceSpec, archive_spec: SourceSpec, runs: Sequence[_ArchivedSpan]
) -> tuple[int, list[Difference]]:
    equal = 0
    differences: list[Difference] = []
    with open_source(store_spec) as store:
        for run in runs:
            span = run.span
            try:
                found = _digest(store.read([span], _request()))
                expected = run.whole
                if expected is None:
                    with open_source(archive_spec) as archive:
                        expected = _digest(archive.read([span], _request()))
            except CorruptionError as error:
                differences.append(_difference(span, f"cannot be read: {error}"))
                continue
            if found == expected:
                equal += found.count
            else:
                said = f"{found.count} messages with digest {found.text}"
                differences.append(
                    _difference(span, f"the store holds {said}, the archive {expected.count} with {expected.text}")
                )
    return equal, differences


def _difference(span: Span, detail: str) -> Difference:
    where = f"{span.queue} [{span.start}, {span.end})"
    return Difference(State.CHANGED, "archive", where, detail, span.start)


def _request() -> ReadRequest:
    # As they are stored: an archive keeps the bytes of a body that cannot be inflated too.
    return ReadRequest(pa.schema([SCHEMA.field(name) for name in DIGEST_COLUMNS]), bodies=BodyRule(AS_STORED))


def _digest(batches: Iterator[pa.RecordBatch]) -> RowDigest:
    total = RowDigest()
    for batch in batches:
        total += digest_batch(batch)
    return total


def _grouped(runs: Sequence[_ArchivedSpan]) -> list[list[_ArchivedSpan]]:
    groups: list[list[_ArchivedSpan]] = []
    size = _TASK_BYTES
    for run in runs:
        if size + run.size_bytes > _TASK_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(run)
        size += run.size_bytes
    return groups


def _broker(manifest: Manifest, broker_name: str, archive: str) -> str:
    """The name the archive knows this store by."""
    brokers = sorted({queue.broker for queue in manifest.queues})
    if not brokers or broker_name in brokers:
        return broker_name
    if len(brokers) == 1:
        return brokers[0]
    raise InvalidArgumentError(
        f"{archive} holds messages of {', '.join(brokers)}, none of {broker_name!r}; give broker_name"
    )
