"""StoreInspector: what an administrator asks of a store, and the cleaning he may order.

Beside MessageStore because none of it stands in the path of a message: where the index ends, what a queue's units hold,
when something was stored, and deletion on demand. Reading may touch the disk; call it where blocking is allowed.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from flaremq.errors import FlareMQError
from flaremq.storage.consume_queue import FILLER_SIZE, UNIT

if TYPE_CHECKING:
    from flaremq.storage.message_store import MessageStore


class QueueUnit(NamedTuple):
    """One unit of a queue as it lies there."""

    physical_offset: int
    size: int
    tags_code: int


class StoreInspector:
    """Questions to an open store. Any thread."""

    __slots__ = ("_store",)

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    # Looking

    def index_end(self) -> tuple[int, int]:
        """(store time, physical offset) of the last indexed record; zeros without an index."""
        index = self._store._index
        file = None if index is None else index.last
        return (0, 0) if file is None else (file.end_timestamp, file.end_offset)

    def has_queue(self, topic: str, queue_id: int) -> bool:
        return self._store._find_queue(topic, queue_id) is not None

    def units(self, topic: str, queue_id: int, start: int, count: int) -> list[QueueUnit]:
        """Units from a queue offset on, at most to the end of their file; fillers are left out."""
        queue = self._store._queues.simple.get((topic, queue_id))
        if queue is None:
            return []
        data = queue.read_units(start, count)
        return [QueueUnit(*unit) for unit in UNIT.iter_unpack(data) if unit[1] != FILLER_SIZE]

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """When the message at a queue offset was stored, in milliseconds; None if there is none."""
        queues = self._store._queues
        queue = queues.simple.get((topic, queue_id))
        if queue is not None:
            if not queue.min_offset <= queue_offset < queue.end:
                return None
            return self._store._reader.store_timestamp(queue, queue_offset)
        batch = queues.batch.get((topic, queue_id))
        if batch is None or not batch.min_offset <= queue_offset < batch.end:
            return None
        unit = batch.unit(batch.find(queue_offset))
        return None if unit is None else unit.store_timestamp

    def earliest_store_time(self) -> int | None:
        """Store time of the oldest record of the log."""
        log = self._store._commit_log
        return log.store_timestamp(log.min_offset)

    def used_ratios(self) -> tuple[dict[str, float], float]:
        """Used share of the disk under each log folder, and under the queues."""
        retention = self._store._retention
        logs = {folder: retention._used(folder) for folder in self._store._commit_log.files.folders}
        return logs, retention._used(self._store.path)

    # Cleaning

    def clean_expired_queues(self) -> None:
        """Drop units and index entries whose records are gone. Queues keep their numbering, so offsets stay valid."""
        self._store._retention.follow_log()

    def request_deletion(self) -> None:
        """Delete expired log files now and in the next rounds of cleaning, whatever the hour."""
        retention = self._store._retention
        retention.request()
        self._store._checkpoint_quietly()
        retention.run_round()

    def delete_topics(self, topics: Collection[str]) -> int:
        """Forget the queues of these topics, durably; the number of queues. Their records expire with the log.

        A topic of the same name starts at queue offset 0 again. The checkpoint afterwards keeps recovery from building
        the old queues anew.
        """
        store = self._store
        store._check_open()
        store._dispatch_now()
        deleted = 0
        with store._dispatch_lock:
            queues = store._queues
            for kind in ("simple", "batch", "ext"):
                table = getattr(queues, kind)
                gone = {key: queue for key, queue in table.items() if key[0] in topics}
                # A new dict, not fewer entries: readers may be walking the old one.
                setattr(queues, kind, {key: queue for key, queue in table.items() if key not in gone})
                for queue in gone.values():
                    queue.files.remove_all()
                    self._remove_folders(queue.files.folder)
                deleted += len(gone) if kind != "ext" else 0
        with store._commit_log.lock:
            for topic in topics:
                store._writer.topics.pop(topic, None)
                store._writer.queue_offsets.pop(topic, None)
        if deleted:
            store._checkpoint_quietly()
        return deleted

    def _remove_folders(self, folder: str) -> None:
        """The folder of a queue, and that of its topic after its last queue."""
        for path in (folder, os.path.dirname(folder)):
            try:
                self._store._filesystem.remove_directory(path)
            except FlareMQError:
                return  # something else lies in it; a folder without files is no queue either
