"""Time as a collaborator: what cannot be set from outside cannot be tested.

``now_ms`` is the wall clock that ends up in records; ``monotonic`` measures intervals and never goes back.
Nothing in the store is ordered or recovered by the wall clock.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """What the store asks of time."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never decreases."""


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that moves when told to; both readings advance together, the wall clock can also jump."""

    __slots__ = ("_lock", "_monotonic", "_now_ms")

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic = 0.0
        self._lock = threading.Lock()  # guards both readings

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        if milliseconds < 0:
            raise ValueError(f"time passes forwards, not by {milliseconds} ms; use jump()")
        with self._lock:
            self._now_ms += milliseconds
            self._monotonic += milliseconds / 1000

    def jump(self, milliseconds: int) -> None:
        """Set the wall clock forwards or back, as an operator or NTP does."""
        with self._lock:
            self._now_ms += milliseconds
