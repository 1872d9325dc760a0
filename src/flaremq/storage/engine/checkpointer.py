"""Checkpointer: makes queues and index durable as far as they are, then moves the point recovery starts from."""

from __future__ import annotations

import errno
import logging
import os
import threading
from dataclasses import replace

from flaremq.errors import StoreIOError
from flaremq.storage.engine.parts import StoreParts
from flaremq.storage.files.checkpoint import DurableOffsets, pack_hints
from flaremq.storage.files.filesystem import write_atomically
from flaremq.storage.log.commit_log import NO_GATE
from flaremq.storage.log.flush import GroupCommit

_log = logging.getLogger(__name__)


class Checkpointer:
    """The checkpoints of an open store. Any thread."""

    def __init__(self, parts: StoreParts, dispatch_lock: threading.Lock, group_commit: GroupCommit) -> None:
        self._parts = parts
        self._dispatch_lock = dispatch_lock
        self._group_commit = group_commit
        self.lock = threading.Lock()  # one checkpoint at a time, and none while queues are removed
        self.views_failure: StoreIOError | None = None  # queues and index are not what a checkpoint may build on
        self._last_index_state: DurableOffsets | None = None
        self._settle_indexing()

    @property
    def dispatched(self) -> int:
        """Everything before this is durable in all views: recovery starts here."""
        return self._parts.offsets.offsets.dispatched

    def _settle_indexing(self) -> None:
        """Recovery has completed the index; without ``messageIndexEnable`` it rests from here on, and we note where."""
        parts = self._parts
        if parts.options.message_index_enable:
            parts.unindexed_from = None
            return
        if parts.unindexed_from is None:
            parts.unindexed_from = parts.dispatcher.position
        if parts.index is not None:
            parts.index.sync()
            self._last_index_state = self._index_state()
            parts.index.close()
            parts.index = parts.dispatcher.index = None

    def save(self, *, log_end: int = -1) -> None:
        """Make queues and index durable as far as they are now, then say so."""
        parts = self._parts
        log, dispatcher = parts.log, parts.dispatcher
        with self.lock:
            with self._dispatch_lock:
                parts.queues.drain()
                dispatched = dispatcher.position
                state = self._index_state()
                queues = [[queue.topic, queue.queue_id, queue.end] for queue in parts.queues.simple.values()]
                timestamp = dispatcher.last_timestamp
            if log.flushed_offset < dispatched and not self._group_commit.wait(dispatched):
                return
            self._sync_views()
            hints = {"dispatched": dispatched, "logEnd": log_end, "queues": sorted(queues)}
            if parts.unindexed_from is not None:
                hints["unindexedFrom"] = parts.unindexed_from
            self._save_if_room(parts.layout.queue_hints, pack_hints(hints))
            flushed, flushed_timestamp = log.flushed_offset, log.flushed_timestamp
            parts.offsets.save(
                replace(state, log_durable=flushed, dispatched=dispatched, log_end=log_end, session=os.getpid())
            )
            parts.checkpoint = replace(
                parts.checkpoint,
                physic_msg_timestamp=flushed_timestamp,
                logics_msg_timestamp=min(timestamp, flushed_timestamp),
                index_msg_timestamp=state.index_end_timestamp,
                master_flushed_offset=parts.master_flushed_offset,
                confirm_phy_offset=self._confirmed(flushed),
            )
            self._save_if_room(parts.layout.checkpoint, parts.checkpoint.pack())

    def _confirmed(self, flushed: int) -> int:
        """How far copies confirm the log; what was noted last if none are waited for."""
        confirmed = self._parts.log.confirm_offset
        return self._parts.checkpoint.confirm_phy_offset if confirmed == NO_GATE else min(confirmed, flushed)

    def save_quietly(self) -> None:
        try:
            self.save()
        except StoreIOError as error:
            _log.warning("the checkpoint could not be written, recovery would start earlier: %s", error)

    def may_delete_before(self, log_start: int) -> bool:
        """Recovery must never have to start in a file that is gone: the views must be durable up to there first."""
        if self.dispatched < log_start <= self._parts.dispatcher.position:
            self.save_quietly()
        return self.dispatched >= log_start

    def _save_if_room(self, path: str, data: bytes) -> None:
        """Replace a file whose older content is safe: it is recognised as old, or recovery starts earlier.

        On a disk without a free page the store opens nevertheless, and goes on to the offsets, which have their space:
        without those nothing could be deleted to make room.
        """
        try:
            write_atomically(self._parts.filesystem, path, data)
        except StoreIOError as error:
            if error.errno != errno.ENOSPC:
                raise
            _log.warning("%s stays as it was: %s", path, error)

    def _sync_views(self) -> None:
        """Make queues and index durable. After one failure never again in this process.

        The kernel may have dropped the pages and call them clean; a second sync would then succeed over lost units.
        Recovery writes everything after the last good checkpoint anew, so that checkpoint stays the last.
        """
        if self.views_failure is not None:
            raise self.views_failure
        try:
            self._parts.queues.flush()
            if self._parts.index is not None:
                self._parts.index.sync()
        except StoreIOError as error:
            self.views_failure = error
            _log.error("queues or index could not be synced and will be rebuilt at the next start: %s", error)
            raise

    def _index_state(self) -> DurableOffsets:
        index = self._parts.index
        if index is None:
            return self._last_index_state or self._parts.offsets.offsets  # old index files stay as they were
        file = index.last
        if file is None:
            return DurableOffsets()
        header = file.header
        return DurableOffsets(
            index_name=int(file.name),
            index_begin_timestamp=header.begin_timestamp,
            index_end_timestamp=header.end_timestamp,
            index_begin_offset=header.begin_offset,
            index_end_offset=header.end_offset,
            index_slot_count=header.slot_count,
            index_count=file.count,
        )
