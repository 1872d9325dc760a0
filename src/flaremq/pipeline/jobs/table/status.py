"""status: how far a table is behind its topics, in messages and in seconds, and what it is made of."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flaremq.pipeline.jobs.table.job import topic_targets
from flaremq.pipeline.jobs.table.progress import GroupReport
from flaremq.pipeline.model.columns import schema_of
from flaremq.pipeline.model.source import ReadRequest, Source
from flaremq.pipeline.model.spans import QueueExtent, Span
from flaremq.pipeline.options import ScanOptions, parse_options
from flaremq.pipeline.sources.open import open_source, source_spec
from flaremq.pipeline.tables.files import TARGET_BYTES
from flaremq.pipeline.tables.model.coverage import Covered
from flaremq.pipeline.tables.model.lake_table import LakeTable
from flaremq.pipeline.tables.model.target import TableTarget
from flaremq.pipeline.tables.open import find_table, open_table


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue of the topic. ``covered`` is ``None`` if the table knows nothing of it yet."""

    extent: QueueExtent
    covered: Covered | None
    oldest_ms: int | None  # when the first message that the table lacks was stored

    @property
    def lag(self) -> int:
        return max(0, self.extent.max_offset - self._next)

    @property
    def missing(self) -> Span:
        return Span(self.extent.queue, self._next, max(self._next, self.extent.max_offset))

    @property
    def _next(self) -> int:
        start = self.extent.min_offset
        return start if self.covered is None else max(self.covered.next, start)

    def to_json(self) -> dict[str, Any]:
        queue = self.extent.queue
        return {
            "topic": queue.topic,
            "brokerName": queue.broker,
            "queueId": queue.queue_id,
            "from": None if self.covered is None else self.covered.start,
            "to": None if self.covered is None else self.covered.next,
            "end": self.extent.max_offset,
            "lag": self.lag,
        }


@dataclass(frozen=True, slots=True)
class TableStatus:
    table: str
    version: str
    rows: int
    dead_letters: int
    files: int
    small_files: int  # below a quarter of the usual size: what `compact` is for
    file_bytes: int
    queues: tuple[QueueStatus, ...]
    now_ms: int

    @property
    def lag(self) -> int:
        return sum(queue.lag for queue in self.queues)

    @property
    def lag_seconds(self) -> float:
        """For how long the first message that is not in the table has been waiting."""
        oldest = min((queue.oldest_ms for queue in self.queues if queue.oldest_ms is not None), default=self.now_ms)
        return max(0, self.now_ms - oldest) / 1000

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "version": self.version,
            "rows": self.rows,
            "deadLetters": self.dead_letters,
            "files": self.files,
            "smallFiles": self.small_files,
            "fileBytes": self.file_bytes,
            "lag": {"messages": self.lag, "seconds": round(self.lag_seconds, 3)},
            "queues": [queue.to_json() for queue in self.queues],
        }


def status(
    options: Mapping[str, str] | ScanOptions, target: TableTarget, *, now_ms: int | None = None
) -> list[TableStatus]:
    """Of each table; with ``consumerGroup`` brokers are told where the tables are, so that others see the lag too."""
    parsed = options if isinstance(options, ScanOptions) else parse_options(options)
    now = int(time.time() * 1000) if now_ms is None else now_ms
    found = []
    with open_source(source_spec(parsed)) as source:
        for place, each in topic_targets(source, parsed, target):
            extents = source.extents(each.selector)
            found.append(_status(source, extents, place, now))
    report = GroupReport(parsed)
    report.tell({queue.extent.queue: queue.covered for each in found for queue in each.queues if queue.covered})
    return found


def _status(source: Source, extents: Sequence[QueueExtent], target: TableTarget, now_ms: int) -> TableStatus:
    table = open_table(target)
    covered = table.coverage([extent.queue for extent in extents])
    queues = [QueueStatus(extent, covered.get(extent.queue), None) for extent in extents]
    oldest = {queue.extent.queue: _stored_ms(source, queue.missing) for queue in queues if queue.lag}
    files = table.live_files()
    letters = find_table(target.dead_letters)
    return TableStatus(
        target.text,
        table.version(),
        sum(file.rows for file in files),
        0 if letters is None else _rows(letters),
        len(files),
        sum(file.size_bytes < TARGET_BYTES // 4 for file in files),
        sum(file.size_bytes for file in files),
        tuple(QueueStatus(queue.extent, queue.covered, oldest.get(queue.extent.queue)) for queue in queues),
        now_ms,
    )


def _rows(table: LakeTable) -> int:
    return sum(file.rows for file in table.live_files())


def _stored_ms(source: Source, span: Span) -> int | None:
    """When the first message of the span was stored; an offset may have no message."""
    request = ReadRequest(schema_of(["storeTimestamp"]), fail_on_data_loss=False)
    for end in (span.start + 1, span.end):
        for batch in source.read([span._replace(end=end)], request):
            if batch.num_rows:
                return int(batch.column("storeTimestamp")[0].value) // 1000
    return None
