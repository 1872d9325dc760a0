"""PutTimes: from a message's place in the log to its acknowledgement, over the last minute.

The store's own buckets end when a message is in the log. Where puts wait for the disk, or for slaves, that is the
lesser part of what a producer waits for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from flaremq.metrics.histogram import Histogram

_SECONDS: Final = 60


class PutTimes:
    """Reads a histogram that others fill. Event loop thread only."""

    def __init__(self, waits: Histogram) -> None:
        self._waits = waits
        self._before: deque[Sequence[int]] = deque([list(waits.counts)], maxlen=_SECONDS)

    def tick(self) -> None:
        """Call it once a second."""
        self._before.append(list(self._waits.counts))

    def quantile_ms(self, share: float) -> float | None:
        """The time within which this share of puts was acknowledged, as finely as buckets tell; None: nobody waited."""
        bounds = self._waits.bounds
        counts = [now - before for now, before in zip(self._waits.counts, self._before[0], strict=True)]
        wanted, passed = sum(counts) * share, 0
        for index, count in enumerate(counts):
            if count and wanted <= passed + count:
                begin = bounds[index - 1] if index else 0.0
                end = bounds[min(index, len(bounds) - 1)]
                return 1000 * (begin + (end - begin) * (wanted - passed) / count)
            passed += count
        return None
