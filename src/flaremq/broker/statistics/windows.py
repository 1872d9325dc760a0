"""Windows of time over running totals: the last minute, hour and day of a counter.

All items share the moments at which samples are taken; an item holds, per window, a ring of its totals at those times.
What a window answers is the difference between its newest and its oldest sample, as RocketMQ computes it.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

# Interval in milliseconds and number of samples kept: six intervals of a minute and an hour, 24 of a day.
SERIES = ((10_000, 7), (600_000, 7), (3_600_000, 25))
COLUMNS = 3  # count, size, times
_SAMPLE_BYTES = 8 * COLUMNS
COUNT, SIZE, TIMES = range(COLUMNS)  # columns of a sample


@dataclass(frozen=True, slots=True)
class StatsSnapshot:
    """One window of one item."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0  # mean per call


@dataclass(frozen=True, slots=True)
class StatsWindows:
    """All windows of one item, for VIEW_BROKER_STATS_DATA."""

    minute: StatsSnapshot
    hour: StatsSnapshot
    day: StatsSnapshot


class StatsItem:
    """Running totals of one key, and their samples."""

    __slots__ = ("born", "count", "rings", "size", "times")

    def __init__(self, born: tuple[int, ...]) -> None:
        self.count = 0
        self.size = 0
        self.times = 0
        self.born = born  # per series, the sample before this item existed: all its totals were 0 then
        self.rings = tuple(array("q", bytes(_SAMPLE_BYTES * length)) for _, length in SERIES)


class Series:
    """The moments of one kind of sample; all items share them."""

    __slots__ = ("interval_ms", "length", "moments", "number")

    def __init__(self, interval_ms: int, length: int, now_ms: int) -> None:
        self.interval_ms = interval_ms
        self.length = length
        self.number = 0
        self.moments = [now_ms] * length

    def is_due(self, now_ms: int) -> bool:
        since = now_ms - self.moments[self.number % self.length]
        return since >= self.interval_ms or since < 0  # a clock that was set back starts over

    def is_idle(self, ring: array[int], times: int) -> bool:
        """Whether an item with these samples, called so often up to now, was not called for the whole window."""
        return ring[(self.number + 1) % self.length * COLUMNS + TIMES] == times

    def snapshot(self, ring: array[int], born: int, column: int) -> StatsSnapshot:
        """What a window says of an item that was born after sample ``born``."""
        first, last = max(self.number - self.length + 1, born), self.number
        if first >= last:
            return StatsSnapshot()
        first_at, last_at = first % self.length, last % self.length
        total = ring[last_at * COLUMNS + column] - ring[first_at * COLUMNS + column]
        times = ring[last_at * COLUMNS + TIMES] - ring[first_at * COLUMNS + TIMES]
        elapsed_ms = self.moments[last_at] - self.moments[first_at]
        return StatsSnapshot(
            sum=total,
            tps=total * 1000 / elapsed_ms if elapsed_ms > 0 else 0.0,
            avgpt=total / times if times > 0 else 0.0,
        )
