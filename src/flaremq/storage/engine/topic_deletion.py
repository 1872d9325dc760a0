"""Deleting topics of an open store: queues go at once, records expire with the log, numbering starts at 0 again."""

from __future__ import annotations

import logging
from collections.abc import Collection

from flaremq.errors import FlareMQError, StoreIOError, UnavailableError
from flaremq.message.topics import is_stored_topic
from flaremq.storage.engine.checkpointer import Checkpointer
from flaremq.storage.engine.dispatch_service import DispatchService
from flaremq.storage.engine.parts import StoreParts
from flaremq.storage.put.writer import MessageWriter

_log = logging.getLogger(__name__)
_ATTEMPTS = 3  # to delete without keeping appends waiting
_TOPICS_AT_ONCE = 16  # nothing is appended, then dispatched, while so many are deleted


class TopicDeletion:
    """One caller at a time, and not while the store is being closed."""

    def __init__(
        self, parts: StoreParts, writer: MessageWriter, dispatch: DispatchService, checkpointer: Checkpointer
    ) -> None:
        self._log = parts.log
        self._queues = parts.queues
        self._deleted = parts.deleted
        self._health = parts.health
        self._writer = writer
        self._dispatch = dispatch
        self._checkpointer = checkpointer

    def delete(self, topics: Collection[str]) -> int:
        """Forget the queues of these topics, durably; the number of queues. Others may put and read meanwhile."""
        names = sorted({topic for topic in topics if is_stored_topic(topic)})
        deleted = 0
        for at in range(0, len(names), _TOPICS_AT_ONCE):
            deleted += self._delete(names[at : at + _TOPICS_AT_ONCE])
        if deleted:
            self._checkpointer.save_quietly()
        return deleted

    def _delete(self, topics: list[str]) -> int:
        queues = self._queues
        # A checkpoint under way would sync files that are removed here; dispatch would write to them.
        with self._checkpointer.lock, self._dispatch.lock:
            self._begin_new_lives(topics)
            keys = {key for key in queues.places if key[0] in topics}
            counted = sum(key in queues.simple or key in queues.batch for key in keys)
            try:
                queues.remove(keys)
            except FlareMQError as error:
                self._stop(error)  # units of both lives in one file: the next start builds these queues anew
                raise
        return counted

    def follow(self, topic: str, end: int) -> None:
        """A master deleted this topic behind log offset ``end``: delete it in its replica, see ``begin_anew``.

        The offset may lie far before the end of the log. So the checkpoint is saved before the topic's queues grow
        again; a crash before that is told by queues that begin behind the last one.
        """
        with self._checkpointer.lock, self._dispatch.lock:
            if self._dispatch.dispatcher.on_new_life is None:
                raise UnavailableError(f"topic {topic} is not deleted: this store follows no master any longer")
            if self._health.poison is not None:
                raise UnavailableError(f"no topic is deleted: {self._health.refusal}")
            try:
                self._dispatch.dispatcher.begin_anew(topic, end)
            except FlareMQError as error:
                if self._deleted.end_of(topic) >= end or not self._deleted.is_as_stored():
                    self._stop(error)
                raise
        self._checkpointer.save_quietly()

    def _begin_new_lives(self, topics: list[str]) -> None:
        """Make the deletion durable, then let the topics count from 0 again.

        Behind the deletion's offset no record may have a number of the earlier life. Appends need not wait for the
        disk for that: if one of these topics got a message meanwhile, the deletion is written again with the new end
        of the log. Only where somebody keeps sending do appends wait for the last attempt.
        """
        log = self._log
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
        next_offsets = self._writer.queue_offsets
        return {topic: dict(next_offsets.get(topic, ())) for topic in topics}

    def _count_from_zero(self, topics: list[str]) -> None:
        for topic in topics:
            self._writer.topics.pop(topic, None)
            # Emptied, not replaced: a put that waits for the lock holds this very table.
            self._writer.queue_offsets.get(topic, {}).clear()

    def _record(self, topics: list[str], log_end: int, attempt: int) -> None:
        if self._health.poison is not None:
            raise UnavailableError(f"no topic is deleted: {self._health.refusal}")
        try:
            self._deleted.add(topics, log_end)
        except StoreIOError as error:
            # Perhaps deleted, perhaps not, or up to where an earlier attempt saw the log end: the next start decides.
            if attempt or not self._deleted.is_as_stored():
                self._stop(error)
            raise

    def _stop(self, error: FlareMQError) -> None:
        _log.critical("a topic could be deleted only in part, writing stops: %s", error)
        self._health.fail_stop(error)
