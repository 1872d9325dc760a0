"""StoreInspector: what an administrator asks of a store.

Beside MessageStore because none of it stands in the path of a message: where the index ends, what a queue's units hold,
when something was stored, which records contain some bytes. Reading may touch the disk; call it where blocking is
allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from flaremq.message.message_ext import MessageExt
from flaremq.storage.engine.parts import StoreParts
from flaremq.storage.engine.retention import Retention
from flaremq.storage.get.log_search import find_records
from flaremq.storage.get.reader import MessageReader
from flaremq.storage.queue.consume_queue import FILLER_SIZE, UNIT


class QueueUnit(NamedTuple):
    """One unit of a queue as it lies there."""

    physical_offset: int
    size: int
    tags_code: int


class QueueEnd(NamedTuple):
    """How far a queue goes."""

    queue_id: int
    end: int  # next queue offset
    log_end: int  # where its last record ends in the log


class LogFiles(NamedTuple):
    """The files of the log, and what retention did to them since the store was opened."""

    files: int
    oldest_newest_ms: int | None  # when the newest record of the oldest file was stored; None in an empty log
    deleted: int
    failed_rounds: int


class StoreInspector:
    """Questions to an open store. Any thread."""

    __slots__ = ("_deleted", "_index", "_log", "_queues", "_reader", "_retention")

    def __init__(self, parts: StoreParts, reader: MessageReader, retention: Retention) -> None:
        self._log = parts.log
        self._queues = parts.queues
        self._index = parts.index
        self._deleted = parts.deleted
        self._reader = reader
        self._retention = retention

    def index_end(self) -> tuple[int, int]:
        """(store time, physical offset) of the last indexed record; zeros without an index."""
        file = None if self._index is None else self._index.last
        return (0, 0) if file is None else (file.end_timestamp, file.end_offset)

    def has_queue(self, topic: str, queue_id: int) -> bool:
        return self._queues.find(topic, queue_id) is not None

    def topics(self) -> set[str]:
        """Topics that have a queue."""
        return {queue.topic for queue in self._queues.all()}

    def ends(self, topics: Collection[str]) -> dict[str, list[QueueEnd]]:
        """Of these topics: how far each of their queues goes that has a message."""
        found: dict[str, list[QueueEnd]] = {}
        for queue in self._queues.all():
            if queue.topic in topics and queue.max_physical_offset:
                found.setdefault(queue.topic, []).append(QueueEnd(queue.queue_id, queue.end, queue.max_physical_offset))
        return found

    def deletions(self) -> Mapping[str, int]:
        """Deleted topics of which the log may still have messages: no message before this log offset lives."""
        return self._deleted.ends

    def units(self, topic: str, queue_id: int, start: int, count: int) -> list[QueueUnit]:
        """Units from a queue offset on, at most to the end of their file; fillers are left out."""
        queue = self._queues.simple.get((topic, queue_id))
        if queue is None:
            return []
        data = queue.read_units(start, count)
        return [QueueUnit(*unit) for unit in UNIT.iter_unpack(data) if unit[1] != FILLER_SIZE]

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """When the message at a queue offset was stored, in milliseconds; None if there is none."""
        queue = self._queues.simple.get((topic, queue_id))
        if queue is not None:
            if not queue.min_offset <= queue_offset < queue.end:
                return None
            return self._reader.store_timestamp(queue, queue_offset)
        batch = self._queues.batch.get((topic, queue_id))
        if batch is None or not batch.min_offset <= queue_offset < batch.end:
            return None
        unit = batch.unit(batch.find(queue_offset))
        return None if unit is None else unit.store_timestamp

    def earliest_store_time(self) -> int | None:
        """Store time of the oldest record of the log."""
        return self._log.store_timestamp(self._log.min_offset)

    def log_files(self) -> LogFiles:
        """How many files the log has, how old the oldest is, and how many were deleted."""
        files = self._log.files.files
        newest = None
        if files:
            # As retention has it: a file is as old as the first record behind it.
            newest = self._log.store_timestamp(files[1].start) if len(files) > 1 else self._log.last_timestamp or None
        return LogFiles(len(files), newest, self._retention.deleted_count, self._retention.failed_count)

    def find_records(self, start: int, end: int, marks: Sequence[bytes]) -> Iterator[MessageExt]:
        """Records of the log in [start, end) that contain one of ``marks``; ``start`` must be where a record starts."""
        return find_records(self._log, start, end, marks)

    def used_ratios(self) -> tuple[dict[str, float], float]:
        """Used share of the disk under each log folder, and under the queues."""
        return self._retention.used_ratios()
