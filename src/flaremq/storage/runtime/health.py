"""Why a store may not take messages: RocketMQ's running flags, and the failed sync that ends all writing.

Flags are re-evaluated, not sticky: a disk that has room again, or a queue write that works again, clears its flag
without a restart. Only a failed sync stays: what it lost cannot be known before the next start reads the disk.
LOG_DAMAGED refuses nothing: records that could not be read were set aside, and everything else is served.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable

from flaremq.errors import FlareMQError


class RunningFlag(enum.IntFlag):
    NOT_READABLE = 1
    NOT_WRITABLE = 2
    LOGIC_QUEUE_ERROR = 4
    INDEX_ERROR = 8
    DISK_FULL = 16
    FENCED = 32
    LOGIC_DISK_FULL = 64
    LOG_DAMAGED = 128  # ours, not RocketMQ's


_REFUSES_NOTHING = RunningFlag.NOT_READABLE | RunningFlag.LOG_DAMAGED


class Health:
    """The flags of one store; ``refusal`` is all the put path looks at."""

    __slots__ = ("_lock", "flags", "on_fail_stop", "poison", "reasons", "refusal")

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the flags
        self.flags = RunningFlag(0)
        self.reasons: dict[RunningFlag, str] = {}
        self.poison: FlareMQError | None = None
        self.refusal: str | None = None  # None: writable
        self.on_fail_stop: Callable[[], None] | None = None

    def set(self, flag: RunningFlag, reason: str) -> None:
        with self._lock:
            self.flags |= flag
            self.reasons[flag] = reason
            self._work_out_refusal()

    def clear(self, flag: RunningFlag) -> None:
        if self.flags & flag:
            with self._lock:
                self.flags &= ~flag
                self.reasons.pop(flag, None)
                self._work_out_refusal()

    def fail_stop(self, error: FlareMQError) -> None:
        """A sync failed: nothing more is written or acknowledged until the store is opened again."""
        with self._lock:
            if self.poison is None:
                self.poison = error
            self._work_out_refusal()
        if self.on_fail_stop is not None:
            self.on_fail_stop()

    def _work_out_refusal(self) -> None:
        if self.poison is not None:
            self.refusal = f"writing stopped after a failed sync: {self.poison}"
        elif self.flags & ~_REFUSES_NOTHING:
            self.refusal = "; ".join(reason for flag, reason in self.reasons.items() if not flag & _REFUSES_NOTHING)
        else:
            self.refusal = None
