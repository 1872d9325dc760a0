"""Histograms that add up: percentiles of any number of values within 1/128 of the truth, in a few kilobytes.

Values below 256 have a bucket each; above, every power of two is cut into 128 (the layout of an HDR histogram). Two
histograms of the same layout add bucket by bucket, so tasks count on their own and the order of merging does not
matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

_SUB_BITS = 7
_SUB = 1 << _SUB_BITS
_VALUE_MAX = (1 << 50) - 1  # 35,000 years in milliseconds, a petabyte: more is taken for this
BUCKETS = (50 - _SUB_BITS) * _SUB + _SUB

PERCENTILES = ((50.0, "p50"), (90.0, "p90"), (99.0, "p99"), (99.9, "p999"))


def buckets_of(values: Integers) -> Integers:
    """The bucket of each value; negative ones count as 0."""
    clipped = np.clip(values, 0, _VALUE_MAX)
    # frexp is exact here: the values fit a double.
    exponent = np.maximum(np.frexp(clipped.astype(np.float64))[1].astype(np.int64) - 1 - _SUB_BITS, 0)
    return (exponent << _SUB_BITS) + (clipped >> exponent)


def bucket_range(bucket: int) -> tuple[int, int]:
    """Smallest and largest value of a bucket."""
    if bucket < 2 * _SUB:
        return bucket, bucket
    exponent = (bucket >> _SUB_BITS) - 1
    low = (bucket - (exponent << _SUB_BITS)) << exponent
    return low, low + (1 << exponent) - 1


@dataclass(slots=True)
class Histogram:
    """Counts by bucket with the exact extremes and the exact sum."""

    counts: dict[int, int] = field(default_factory=dict)
    count: int = 0
    total: int = 0
    minimum: int = 0
    maximum: int = 0

    @classmethod
    def of(cls, values: Integers) -> Histogram:
        histogram = cls()
        if len(values):
            buckets, counts = np.unique(buckets_of(values), return_counts=True)
            histogram.counts = dict(zip(buckets.tolist(), counts.tolist(), strict=True))
            histogram.count = len(values)
            histogram.total = int(values.sum())
            histogram.minimum, histogram.maximum = int(values.min()), int(values.max())
        return histogram

    def add(self, other: Histogram) -> None:
        if not other.count:
            return
        if not self.count:
            self.minimum, self.maximum = other.minimum, other.maximum
        self.minimum, self.maximum = min(self.minimum, other.minimum), max(self.maximum, other.maximum)
        self.count += other.count
        self.total += other.total
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count

    def percentile(self, percent: float) -> int:
        """A value that ``percent`` of all do not exceed, from above: never smaller than the true one."""
        if not self.count:
            return 0
        wanted, seen = self.count * percent / 100, 0
        for bucket, count in sorted(self.counts.items()):
            seen += count
            if seen >= wanted:
                return min(bucket_range(bucket)[1], self.maximum)
        return self.maximum

    def powers(self) -> Iterator[tuple[int, int, int]]:
        """(from, to, count) by powers of two, ascending, for a chart; empty ones in between included."""
        by_power: dict[int, int] = {}
        for bucket, count in self.counts.items():
            power = bucket_range(bucket)[0].bit_length()
            by_power[power] = by_power.get(power, 0) + count
        for power in range(min(by_power, default=0), max(by_power, default=-1) + 1):
            yield (1 << power) >> 1, max((1 << power) - 1, 0), by_power.get(power, 0)

    def summary(self) -> dict[str, Any]:
        """What a report says of it."""
        named = {name: self.percentile(percent) for percent, name in PERCENTILES}
        mean = round(self.total / self.count, 1) if self.count else 0
        return {"count": self.count, "min": self.minimum, "mean": mean, **named, "max": self.maximum}
