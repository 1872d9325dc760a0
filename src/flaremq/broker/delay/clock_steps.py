"""Noticing that somebody set the wall clock back.

What waits for a time of the wall clock would wait longer by as much. Who keeps such times asks regularly and moves them
by what it is told, so that a wait lasts as long as it was meant to. A small step back, as time synchronisation makes,
is ignored: it makes a wait longer by no more than itself. A step forwards that undoes one back is followed too, or what
waits would come early; any other is not: what is due by the new time is due.
"""

from __future__ import annotations

from typing import Final

from flaremq.clock import Clock

STEP_MS: Final = 500  # a difference between both clocks that means one was set


class ClockSteps:
    """Steps back of one clock."""

    __slots__ = ("_clock", "_distance_ms", "_followed_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._distance_ms = self._distance()
        self._followed_ms = 0  # steps back that were reported and not undone yet

    def back_ms(self) -> int:
        """How far the wall clock was set back since this was asked last; mostly 0. Negative if it was set forwards
        again."""
        distance_ms = self._distance()
        back_ms = self._distance_ms - distance_ms
        if 0 < back_ms <= STEP_MS:
            return 0  # not forgotten: several of them are a step
        self._distance_ms = distance_ms
        if -STEP_MS <= back_ms <= 0:
            return 0
        told_ms = max(back_ms, -self._followed_ms)
        self._followed_ms += told_ms
        return told_ms

    def _distance(self) -> int:
        # The bit more is for seconds such as 9.999, which as a float are a little less.
        return self._clock.now_ms() - int(self._clock.monotonic() * 1000 + 0.001)
