"""Rate: how many things a second, over the last seconds."""

from __future__ import annotations

from collections import deque
from typing import Final

from flaremq.clock import Clock

_WINDOW_SECONDS: Final = 10


class Rate:
    """A counter by the second. Counting is cheap; the current second is left out of the rate."""

    __slots__ = ("_buckets", "_clock", "total")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: deque[list[int]] = deque(maxlen=_WINDOW_SECONDS + 1)  # [second, count]
        self.total = 0

    def count(self, number: int) -> None:
        if number:
            second = int(self._clock.monotonic())
            self.total += number
            if self._buckets and self._buckets[-1][0] == second:
                self._buckets[-1][1] += number
            else:
                self._buckets.append([second, number])

    def per_second(self) -> float:
        """Things a second over the last ten whole seconds."""
        second = int(self._clock.monotonic())
        counted = sum(count for at, count in self._buckets if second - _WINDOW_SECONDS <= at < second)
        return counted / _WINDOW_SECONDS
