"""StoreRole: whether a store takes messages of its own or the log of a master, and the change from one to the other.

A replica refuses puts (NOT_WRITABLE) and appends what its master appended; a store that takes puts refuses a master's
bytes. Both look at the role under ``log.lock``, so no append of the one kind follows one of the other by accident.
"""

from __future__ import annotations

import errno
import os

from flaremq.errors import InvalidArgumentError, StoreIOError, UnavailableError
from flaremq.storage.dispatch.next_offsets import next_queue_offsets
from flaremq.storage.dispatch.view_writer import stop_at_new_life
from flaremq.storage.engine.checkpointer import Checkpointer
from flaremq.storage.engine.dispatch_service import DispatchService
from flaremq.storage.engine.parts import StoreParts
from flaremq.storage.log.replica_append import ReplicaAppender
from flaremq.storage.put.writer import MessageWriter
from flaremq.storage.runtime.health import RunningFlag

_REPLICA = "this store is a replica"
_DISK = RunningFlag.DISK_FULL | RunningFlag.LOGIC_DISK_FULL
# What stops a replica: a disk that is full, queues that cannot be written. Puts are refused for more than that.
_STOPPING = _DISK | RunningFlag.LOGIC_QUEUE_ERROR | RunningFlag.INDEX_ERROR


class StoreRole:
    """The role of one open store. Any thread; one change of role at a time."""

    def __init__(
        self, parts: StoreParts, writer: MessageWriter, dispatch: DispatchService, checkpointer: Checkpointer
    ) -> None:
        self._parts = parts
        self._log = parts.log
        self._health = parts.health
        self._writer = writer
        self._dispatch = dispatch
        self._checkpointer = checkpointer
        self._appender = ReplicaAppender(parts.log)
        self._is_closed = False  # this and the role: guarded by log.lock
        self.is_replica = False

    # A replica's log

    def append(self, offset: int, data: bytes | bytearray | memoryview) -> int:
        """Append whole records of the master's log at our end; the new end. See ``log/replica_append``."""
        with self._log.lock:
            self._check_takes_log()
            return self._appender.append(offset, data)

    def begin_at(self, offset: int) -> None:
        """An empty log begins at this offset, the start of a file of the master."""
        parts, log = self._parts, self._log
        with self._dispatch.lock, log.lock:
            self._check_takes_log()
            if offset == log.end_offset:
                return
            if offset < log.end_offset or offset % log.files.file_size:
                raise InvalidArgumentError(
                    f"an empty log that ends at {log.end_offset} cannot begin at {offset}: log files have "
                    f"{log.files.file_size} bytes"
                )
            if log.end_offset > log.min_offset or parts.queues.all():
                raise InvalidArgumentError(f"the log cannot begin at {offset}: the store is not empty")
            log.files.drop_all()
            log.begin(offset, log.last_timestamp)
            parts.dispatcher.position = offset
        # Durable first: recovery must know from where on a torn record ends the log.
        self._checkpointer.save()

    def _check_takes_log(self) -> None:
        if self._is_closed:
            raise UnavailableError(f"the store {self._parts.path} is closed")
        if not self.is_replica:
            raise UnavailableError(f"the store {self._parts.path} takes messages of its own: it is no replica")
        health = self._health
        if health.poison is not None:
            raise StoreIOError(
                "append", self._parts.path, OSError(errno.EIO, f"an earlier sync failed: {health.poison}")
            )
        stopping = int.__and__(health.flags, _STOPPING)  # asked for every piece: & of an IntFlag makes a new one
        if stopping:
            number = errno.ENOSPC if stopping & _DISK else errno.EIO
            reason = "; ".join(text for flag, text in health.reasons.items() if flag & stopping)
            raise StoreIOError("append", self._parts.path, OSError(number, reason or os.strerror(number)))

    @property
    def master_flushed_offset(self) -> int:
        return self._parts.master_flushed_offset

    @master_flushed_offset.setter
    def master_flushed_offset(self, offset: int) -> None:
        self._parts.master_flushed_offset = offset

    # Changes

    def become_replica(self) -> None:
        """Take no more messages; from now on the log grows by a master's. An append under way finishes first."""
        with self._log.lock:
            self._log.leave_pool()
            self._health.set(RunningFlag.NOT_WRITABLE, _REPLICA)
            self.is_replica = True
            self._parts.dispatcher.on_new_life = stop_at_new_life

    def become_writable(self) -> None:
        """Take messages: their queue offsets follow those of the whole log, shown in queues or not. Blocks."""
        with self._log.lock:
            if self._is_closed:
                raise UnavailableError(f"the store {self._parts.path} is closed")
            self.is_replica = False
        self._dispatch.run()
        with self._dispatch.lock, self._log.lock:
            self.number_queues()
            self._parts.dispatcher.on_new_life = None
            if not self._is_closed:
                self._health.clear(RunningFlag.NOT_WRITABLE)

    def number_queues(self) -> None:
        """Work out the next offset of every queue. With the locks of dispatch and log, or before anything runs."""
        parts, dispatcher = self._parts, self._parts.dispatcher
        numbers: dict[str, dict[int, int]] = {}
        for queue in parts.queues.all():
            numbers.setdefault(queue.topic, {})[queue.queue_id] = queue.end
        unshown = next_queue_offsets(
            self._log, dispatcher.position, self._log.end_offset, dispatcher.delay_ms, parts.deleted
        )
        for (topic, queue_id), offset in unshown.items():
            numbers.setdefault(topic, {})[queue_id] = offset
        tables = self._writer.queue_offsets
        for topic in tables.keys() | numbers.keys():
            table = tables.setdefault(topic, {})  # changed, not replaced: those who put hold this very table
            table.clear()
            table.update(numbers.get(topic, {}))

    def close(self) -> None:
        """Nothing more is appended, in whatever role; an append under way finishes first."""
        self._health.set(RunningFlag.NOT_WRITABLE, "the store is closed")
        with self._log.lock:
            self._is_closed = True
