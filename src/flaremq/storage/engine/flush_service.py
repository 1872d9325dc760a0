"""FlushService: makes the log durable, for those who wait and by the clock for those who do not.

A failed sync ends all writing: see ``log/flush``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from flaremq.errors import StoreIOError, UnavailableError
from flaremq.storage.engine.parts import StoreParts
from flaremq.storage.log.flush import FlushTimer, GroupCommit

_log = logging.getLogger(__name__)


class FlushService:
    """The only caller of ``CommitLog.sync`` in an open store. Any thread."""

    def __init__(self, parts: StoreParts, flushed: Callable[[], None]) -> None:
        self._path = parts.path
        self._options = parts.options
        self._clock = parts.clock
        self._health = parts.health
        self._offsets = parts.offsets
        self.log = parts.log
        self._flushed = flushed  # called when ``step`` made more of the log readable
        self.group_commit = GroupCommit(self.sync, parts.log.flushed_offset)
        self.read_options()

    def read_options(self) -> None:
        """What may change while the store is open."""
        options = self._options
        self.sync_mode = options.flush_disk_type == "SYNC_FLUSH"
        self.log.only_durable_readable = self.sync_mode and not options.read_un_committed
        self._timer = FlushTimer(
            least_pages=options.flush_commit_log_least_pages,
            thorough_interval_ms=options.flush_commit_log_thorough_interval,
            now=self._clock.monotonic(),
        )

    def sync(self) -> int:
        """Make everything appended so far durable; the offset reached. A failure ends all writing."""
        if self._health.poison is not None:
            raise StoreIOError("sync", self._path, OSError("an earlier sync failed"))
        try:
            reached = self.log.sync()
        except StoreIOError as error:
            _log.critical("a sync of the commit log failed, writing stops: %s", error)
            self._health.fail_stop(error)
            raise
        try:
            self._offsets.note_log_durable(reached)
        except StoreIOError as error:
            _log.warning("could not note the durable offset: %s", error)  # a lower value is safe
        return reached

    def flush(self) -> int:
        """``sync`` shared with others who wait; the offset reached. Raises StoreIOError on failure."""
        if not self.group_commit.wait(self.log.end_offset):
            raise self.group_commit.failure or UnavailableError("the sync did not finish")
        return self.log.flushed_offset

    def step(self) -> float:
        """One round of the flush thread; the seconds to the next."""
        log, options = self.log, self._options
        if self._health.poison is not None:
            return 1.0
        if self.sync_mode:
            # Waiters sync for themselves; this is for messages that asked not to wait.
            if log.pending_bytes() > 0:
                self.group_commit.wait(log.end_offset)
                self._flushed()
            return 0.5
        if options.transient_store_pool_enable:
            log.commit()
            self._flushed()
        if self._timer.is_due(pending_bytes=log.pending_bytes(), now=self._clock.monotonic()):
            self.group_commit.wait(log.end_offset)
        wait_ms = options.flush_interval_commit_log
        if options.transient_store_pool_enable:
            wait_ms = min(wait_ms, options.commit_interval_commit_log)
        return wait_ms / 1000
