"""PopFigures: what POP writes to its log, reads from it and gives again, for metrics."""

from __future__ import annotations

from typing import Final

from flaremq.broker.statistics.traffic import Count
from flaremq.metrics.bounded_table import SERIES_MAX, BoundedTable
from flaremq.metrics.histogram import Histogram

SCAN_BOUNDS: Final = (1, 10, 100, 1000, 2000, 3000)  # milliseconds
CHECK_POINT: Final = "CK"
ACK: Final = "ACK"


class PopFigures:
    """Counters of one broker. Event loop only."""

    def __init__(self, series_max: int = SERIES_MAX) -> None:
        # Group, topic, kind of record, status of the put.
        self.written: BoundedTable[tuple[str, str, str, str], Count] = BoundedTable(Count, series_max)
        # Group, topic, queue of the revive topic, kind of record.
        self.read: BoundedTable[tuple[str, str, int, str], Count] = BoundedTable(Count, series_max)
        # Group, topic, status of the put.
        self.given_again: BoundedTable[tuple[str, str, str], Count] = BoundedTable(Count, series_max)
        self.scan_ms = Histogram(SCAN_BOUNDS)
