"""StoreInspector: what an administrator asks of a store, and the cleaning he may order.

Beside MessageStore because none of it stands in the path of a message: where the index ends, what a queue's units hold,
when something was stored, and deletion on demand. Reading may touch the disk; call it where blocking is allowed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from flaremq.errors import FlareMQError, StoreIOError, UnavailableError
from flaremq.message.topics import is_stored_topic
from flaremq.storage.queue.consume_queue import FILLER_SIZE, UNIT

if TYPE_CHECKING:
    from flaremq.storage.message_store import MessageStore

_log = logging.getLogger(__name__)
_ATTEMPTS = 3  # to delete without keeping appends waiting
_TOPICS_AT_ONCE = 16  # nothing is appended, then dispatched, while so many are deleted


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
        retention.run_round()

    def delete_topics(self, topics: Collection[str]) -> int:
        """Forget the queues of these topics, durably; the number of queues. Their records expire with the log.

        A topic of the same name starts at queue offset 0 again. May be called while others put and read: for each of
        them a message is either of the earlier life, and gone, or of the new one.
        """
        store = self._store
        names = sorted({topic for topic in topics if is_stored_topic(topic)})
        deleted = 0
        with store._close_lock:
            store._check_open()
            if not store._driven:  # whoever drives a store wants to hear of what is dispatched
                store._dispatch_now()
            for at in range(0, len(names), _TOPICS_AT_ONCE):
                deleted += self._delete(names[at : at + _TOPICS_AT_ONCE])
            if deleted:
                store._checkpoint_quietly()
        return deleted

    def _delete(self, topics: list[str]) -> int:
        store = self._store
        queues = store._queues
        # A checkpoint under way would sync files that are removed here; dispatch would write to them.
        with store._checkpoint_lock, store._dispatch_lock:
            self._begin_new_lives(topics)
            keys = {key for key in queues.places if key[0] in topics}
            counted = sum(key in queues.simple or key in queues.batch for key in keys)
            try:
                queues.remove(keys)
            except FlareMQError as error:
                self._stop(error)  # units of both lives in one file: the next start builds these queues anew
                raise
        return counted

    def _begin_new_lives(self, topics: list[str]) -> None:
        """Make the deletion durable, then let the topics count from 0 again.

        Behind the deletion's offset no record may have a number of the earlier life. Appends need not wait for the
        disk for that: if one of these topics got a message meanwhile, the deletion is written again with the new end
        of the log. Only where somebody keeps sending do appends wait for the last attempt.
        """
        store = self._store
        log = store._commit_log
        end = -1
        numbers: dict[str, dict[int, int]] = {}
        for attempt in range(_ATTEMPTS):
            with log.lock:
                now = self._numbers(topics)
                if end >= 0 and now == numbers:
                    self._count_from_zero(topics)
                    return
                end, numbers = log.end_offset, now
            self._record(topics, end, attempt)
        with log.lock:
            if self._numbers(topics) != numbers:
                self._record(topics, log.end_offset, _ATTEMPTS)
            self._count_from_zero(topics)

    def _numbers(self, topics: list[str]) -> dict[str, dict[int, int]]:
        """The next queue offsets of these topics; with the lock of the log."""
        next_offsets = self._store._writer.queue_offsets
        return {topic: dict(next_offsets.get(topic, ())) for topic in topics}

    def _count_from_zero(self, topics: list[str]) -> None:
        writer = self._store._writer
        for topic in topics:
            writer.topics.pop(topic, None)
            # Emptied, not replaced: a put that waits for the lock holds this very table.
            writer.queue_offsets.get(topic, {}).clear()

    def _record(self, topics: list[str], log_end: int, attempt: int) -> None:
        store = self._store
        if store.health_state.poison is not None:
            raise UnavailableError(f"no topic is deleted: {store.health_state.refusal}")
        try:
            store._deleted.add(topics, log_end)
        except StoreIOError as error:
            # Perhaps deleted, perhaps not, or up to where an earlier attempt saw the log end: the next start decides.
            if attempt or not store._deleted.is_as_stored():
                self._stop(error)
            raise

    def _stop(self, error: FlareMQError) -> None:
        store = self._store
        store.health_state.fail_stop(error)
        _log.critical("a topic could be deleted only in part, writing stops: %s", error)
        with store._arrival:
            store._arrival.notify_all()
