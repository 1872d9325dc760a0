"""Histogram: how many values fell into which bucket. Counting is a search among a few bounds and two additions."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts by bucket, not cumulated; ``counts`` has one more than ``bounds``, for what is above all of them."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = array("q", bytes(8 * (len(bounds) + 1)))
        self.sum = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        """``count`` values of this size; a bound belongs to the bucket below it."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.sum += value * count

    @property
    def count(self) -> int:
        return sum(self.counts)
