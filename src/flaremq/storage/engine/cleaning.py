"""When to clean: the rhythm of retention, apart from what it deletes.

Cleaning has a thread of its own: a deletion that takes minutes (a pause after every file, ten thousand queues) delays
neither checkpoints nor the look at the disk. Rounds come every ``cleanResourceInterval``, the first a minute after the
store was opened, so that a store that was opened by mistake is not cleaned. While the disk is full they come every
second, and during the first minute too as soon as somebody could not write: service is back soon after space is.
"""

from __future__ import annotations

import logging

from flaremq.clock import Clock
from flaremq.storage.engine.retention import Retention
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.options import StoreOptions
from flaremq.storage.runtime.health import Health, RunningFlag
from flaremq.storage.runtime.statistics import StoreStatistics

_log = logging.getLogger(__name__)
_FIRST_SECONDS = 60.0
_STEP_SECONDS = 1.0
_FULL = RunningFlag.DISK_FULL | RunningFlag.LOGIC_DISK_FULL
_TELL_SECONDS = 10.0  # at most one line in this time about messages that were refused for want of space


class Cleaner:
    """``look`` belongs to the maintenance thread, ``step`` to the cleaning thread."""

    def __init__(
        self,
        retention: Retention,
        log: CommitLog,
        health: Health,
        statistics: StoreStatistics,
        options: StoreOptions,
        clock: Clock,
    ) -> None:
        self._retention = retention
        self._commit_log = log
        self._health = health
        self._statistics = statistics
        self._options = options
        self._clock = clock
        now = clock.monotonic()
        self._first = self._next = now + _FIRST_SECONDS
        self._next_look = now
        self._refused = statistics.put_failed_count
        self._no_space = log.no_space_count
        self._told = now - _TELL_SECONDS
        self._refused_told = statistics.put_failed_count
        self._no_space_told = log.no_space_count

    def look(self) -> None:
        """See how full the disk is, every second: a flag that is not true any more refuses messages for nothing."""
        now = self._clock.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _STEP_SECONDS
        self._retention.check_disk()
        self._tell(now)

    def step(self) -> float:
        """A round if it is time or space is wanted; the seconds to the next look."""
        now = self._clock.monotonic()
        refused, no_space = self._statistics.put_failed_count, self._commit_log.no_space_count
        met_the_end = no_space != self._no_space or bool(self._health.flags & RunningFlag.LOGIC_QUEUE_ERROR)
        is_full = bool(self._health.flags & _FULL)
        wanted = met_the_end or (is_full and (refused != self._refused or now >= self._first))
        self._refused, self._no_space = refused, no_space
        if wanted or now >= self._next:
            self._next = max(self._next, now + self._options.clean_resource_interval / 1000)
            self._retention.run_round(space_wanted=met_the_end)
        return _STEP_SECONDS

    def _tell(self, now: float) -> None:
        """One line for all messages refused in a while: a full disk must not fill with lines about it."""
        refused, no_space = self._statistics.put_failed_count, self._commit_log.no_space_count
        if not self._health.flags & _FULL and no_space == self._no_space_told:
            self._refused_told = refused
        elif refused != self._refused_told and now >= self._told + _TELL_SECONDS:
            reason = self._health.refusal or "the disk has no room for them"
            _log.warning("%d messages were refused: %s", refused - self._refused_told, reason)
            self._told, self._refused_told, self._no_space_told = now, refused, no_space
