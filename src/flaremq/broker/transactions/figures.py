"""TransactionFigures: transactions by topic, for metrics: committed, rolled back, how long that took, undecided."""

from __future__ import annotations

from typing import Final

from flaremq.broker.statistics.traffic import Count
from flaremq.metrics.bounded_table import SERIES_MAX, BoundedTable
from flaremq.metrics.histogram import Histogram

FINISH_BOUNDS: Final = (5, 60, 600, 3_600, 43_200, 86_400)  # seconds


class TransactionFigures:
    """Counters of one broker. Event loop only."""

    def __init__(self, series_max: int = SERIES_MAX) -> None:
        self.committed: BoundedTable[str, Count] = BoundedTable(Count, series_max)
        self.rolled_back: BoundedTable[str, Count] = BoundedTable(Count, series_max)
        self.open: BoundedTable[str, Count] = BoundedTable(Count, series_max)
        self.finish_seconds: BoundedTable[str, Histogram] = BoundedTable(lambda: Histogram(FINISH_BOUNDS), series_max)

    def began(self, topic: str) -> None:
        """A half message was stored, or found at start."""
        self.open.made(topic).value += 1

    def given_up(self, topic: str) -> None:
        """Nobody will be asked about it any more, or it was committed before a crash."""
        count = self.open.made(topic)
        count.value = max(0, count.value - 1)

    def ended(self, topic: str, *, is_commit: bool, waited_ms: int) -> None:
        """Its producer has decided; ``waited_ms`` since it was made."""
        self.given_up(topic)
        if is_commit:
            self.committed.made(topic).value += 1
            self.finish_seconds.made(topic).observe(max(0, waited_ms) // 1000)
        else:
            self.rolled_back.made(topic).value += 1

    def clear_open(self) -> None:
        """The half topic is done with up to its end."""
        for count in self.open.values():
            count.value = 0
