"""A source that is a dict, and one increment of an archive without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from flaremq.errors import NotFoundError
from flaremq.pipeline.archive.entries import ArchiveFile
from flaremq.pipeline.archive.manifest import Manifest
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.jobs.archive.increment import begin, find_missing, finish, plan_tasks, recover
from flaremq.pipeline.jobs.archive.task import ArchiveTask, Receipt, archive_batches
from flaremq.pipeline.model.columns import SCHEMA
from flaremq.pipeline.model.source import ReadRequest, SourceSpec, TopicSelector
from flaremq.pipeline.model.spans import ProfilePoint, QueueExtent, QueueRef, SizeProfile, Span
from flaremq.pipeline.options import ScanOptions

DAY_MS = 86_400_000
NOON = 1_700_000_000_000 // DAY_MS * DAY_MS + DAY_MS // 2
EVERYTHING = ReadRequest(SCHEMA)
OPTIONS = ScanOptions(path="a-store")


def row(queue: QueueRef, offset: int, time_ms: int | None = None, **given: Any) -> dict[str, Any]:
    time_us = (NOON + offset * 10 if time_ms is None else time_ms) * 1000
    body = f"body {offset} of {queue}".encode() * 3
    values: dict[str, Any] = {name: None for name in SCHEMA.names}
    values |= {"topic": queue.topic, "brokerName": queue.broker, "queueId": queue.queue_id, "queueOffset": offset}
    values |= {
        "physicalOffset": offset * 1000 + queue.queue_id,
        "storeSize": 100 + len(body),
        "msgId": f"{offset:032X}",
    }
    values |= {"tags": f"t{offset % 3}", "keys": f"k{offset} shared", "body": body, "flag": 0, "sysFlag": 0}
    values |= {"properties": [("UNIQ_KEY", f"U{offset}"), ("region", "eu")], "bornHost": "127.0.0.1:1"}
    values |= {"bornTimestamp": time_us - 3000, "storeTimestamp": time_us, "storeHost": "127.0.0.1:10911"}
    values |= {"reconsumeTimes": 0}
    return values | given


class MemorySource:
    """Rows by queue and offset; batches of ``batch_rows`` that mix the queues, as a log does."""

    def __init__(self, *, batch_rows: int = 7) -> None:
        self.rows: dict[QueueRef, dict[int, dict[str, Any]]] = {}
        self.bounds: dict[QueueRef, tuple[int, int]] = {}
        self.reads: list[Span] = []
        self.batch_rows = batch_rows
        self.damaged: set[tuple[QueueRef, int]] = set()  # no row comes of these, and there should be one
        self.row_bytes = 120  # as profiles tell it; large ones make many tasks

    def put(self, queue: QueueRef, count: int = 1, *, time_ms: int | None = None) -> None:
        low, high = self.bounds.get(queue, (0, 0))
        for offset in range(high, high + count):
            self.rows.setdefault(queue, {})[offset] = row(queue, offset, time_ms)
        self.bounds[queue] = low, high + count

    def skip(self, queue: QueueRef, count: int = 1) -> None:
        """Offsets without a message."""
        low, high = self.bounds.get(queue, (0, 0))
        self.rows.setdefault(queue, {})
        self.bounds[queue] = low, high + count

    def delete_below(self, queue: QueueRef, offset: int) -> None:
        self.bounds[queue] = offset, self.bounds[queue][1]
        self.rows[queue] = {at: value for at, value in self.rows[queue].items() if at >= offset}

    def extents(self, topics: TopicSelector) -> list[QueueExtent]:
        names = {queue.topic for queue in self.bounds}
        for name in topics.names:
            if name not in names:
                raise NotFoundError(f"no topic {name!r}")
        chosen = topics.names or tuple(names)
        return [QueueExtent(queue, *self.bounds[queue]) for queue in sorted(self.bounds) if queue.topic in chosen]

    def offset_by_time(self, queue: QueueRef, timestamp_ms: int) -> int:
        late = [at for at, value in self.rows[queue].items() if value["storeTimestamp"] >= timestamp_ms * 1000]
        return min(late, default=self.bounds[queue][1])

    def profiles(self, spans: Sequence[Span]) -> list[SizeProfile]:
        return [
            SizeProfile(
                span, (ProfilePoint(span.start, 0), ProfilePoint(span.end, self.row_bytes * (span.end - span.start)))
            )
            for span in spans
        ]

    def read(self, spans: Sequence[Span], request: ReadRequest) -> Iterator[pa.RecordBatch]:
        self.reads += spans
        found = [
            self.rows[span.queue][at]
            for span in spans
            for at in range(span.start, span.end)
            if at in self.rows.get(span.queue, {}) and (span.queue, at) not in self.damaged
        ]
        found.sort(key=lambda value: (value["queueOffset"], value["queueId"]))
        for first in range(0, len(found), self.batch_rows):
            batch = pa.RecordBatch.from_pylist(found[first : first + self.batch_rows], SCHEMA)
            yield batch.select(request.schema.names)

    def is_lost(self, hole: Span) -> bool:
        return any((hole.queue, at) in self.damaged for at in range(hole.start, hole.end))

    def read_keys(self, keys: Sequence[str], spans: Sequence[Span], request: ReadRequest) -> Iterator[pa.RecordBatch]:
        wanted = set(keys)
        for batch in self.read(spans, ReadRequest(SCHEMA)):
            mask = pa.array([not wanted.isdisjoint((text or "").split()) for text in batch["keys"].to_pylist()])
            yield batch.filter(mask).select(request.schema.names)

    def close(self) -> None:
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None


@dataclass
class Increment:
    """What a run did."""

    recovered: list[ArchiveFile]
    spans: list[Span]
    files: list[ArchiveFile]


class CrashError(Exception):
    """The process is gone."""


def run_increment(
    source: MemorySource,
    out: Path | str,
    options: ScanOptions = OPTIONS,
    *,
    parallelism: int = 2,
    crash_after_tasks: int | None = None,
    crash_before_cleaning: bool = False,
    buffer_bytes: int | None = None,
) -> Increment:
    """Plan, write, commit; or stop dead after so many tasks, or between the commit and the cleaning after it."""
    root = ArchiveRoot(str(out))
    with root.locked():
        manifest = Manifest.load_or_new(root)
        recovered = recover(root, manifest)
        spans, gaps = find_missing(manifest, source, options, now_ms=NOON)
        tasks = plan_tasks(source, SourceSpec(), spans, str(out), options=options, parallelism=parallelism)
        if buffer_bytes is not None:
            tasks = [ArchiveTask(task.archive, task.spec, task.spans, buffer_bytes=buffer_bytes) for task in tasks]
        if not tasks and not gaps and manifest.sequence:
            return Increment(recovered, [], [])
        begin(root, sorted({span.queue.topic for span in spans}))
        receipts: list[Receipt] = []
        is_lost = None if options.fail_on_data_loss else source.is_lost
        for number, task in enumerate(tasks):
            if number == crash_after_tasks:
                raise CrashError
            receipts.append(archive_batches(task, source.read(task.spans, EVERYTHING), is_lost))
        if crash_after_tasks is not None:
            raise CrashError
        files = [file for receipt in receipts for file in receipt.files]
        if crash_before_cleaning:
            manifest.commit(files, gaps)
        else:
            finish(root, manifest, receipts, gaps)
    return Increment(recovered, spans, files)


def rows_of(
    source: Any, spans: Sequence[Span] | None = None, request: ReadRequest = EVERYTHING
) -> list[dict[str, Any]]:
    """All rows, sorted by place; in each queue they must have come in order."""
    if spans is None:
        spans = [Span(extent.queue, extent.min_offset, extent.max_offset) for extent in source.extents(TopicSelector())]
    found: list[dict[str, Any]] = []
    last: dict[tuple[Any, ...], int] = {}
    for batch in source.read(spans, request):
        assert batch.schema == request.schema
        for value in batch.to_pylist():
            place = value.get("topic"), value.get("brokerName"), value.get("queueId")
            if "queueOffset" in value:
                assert value["queueOffset"] > last.get(place, -1), "a queue's rows come in order, each once"
                last[place] = value["queueOffset"]
            found.append(value)
    return sorted(
        found,
        key=lambda value: (
            [str(value.get(name)) for name in ("topic", "brokerName", "queueId")] + [value.get("queueOffset", 0)]
        ),
    )
