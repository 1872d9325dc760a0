"""TimerFigures: timed messages by topic, for metrics: read in, taken out, waiting, and how long they were to wait.

What waits is counted, not looked up: the index knows times and places, no topics. It is saved with the timer's notes;
of a store whose notes lack it, what waited before is not told by topic until it is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flaremq.broker.delay import message_rules as rules_of
from flaremq.broker.statistics.traffic import Count
from flaremq.message import properties as names
from flaremq.message.message_ext import MessageExt
from flaremq.metrics.bounded_table import SERIES_MAX, BoundedTable
from flaremq.metrics.histogram import Histogram

DELAY_BOUNDS: Final = (60, 600, 3_600, 43_200, 86_400, 259_200)  # seconds


class TimerFigures:
    """Counters of one timer. Event loop only."""

    def __init__(self, series_max: int = SERIES_MAX) -> None:
        self.enqueued: BoundedTable[str, Count] = BoundedTable(Count, series_max)
        self.dequeued: BoundedTable[str, Count] = BoundedTable(Count, series_max)
        self.waiting: BoundedTable[str, Count] = BoundedTable(Count, series_max)
        self.delays: BoundedTable[str, Histogram] = BoundedTable(lambda: Histogram(DELAY_BOUNDS), series_max)

    def note_in(self, record: MessageExt, now_ms: int) -> None:
        """A message begins to wait; what cancels another one is none."""
        if names.TIMER_DELETE_KEY in record.properties:
            return
        topic = record.properties.get(names.REAL_TOPIC, "")
        delay_ms = (rules_of.out_ms(record) or 0) - now_ms
        self.enqueued.made(topic).value += 1
        self.waiting.made(topic).value += 1
        self.delays.made(topic).observe(max(0, delay_ms) // 1000)

    def note_out(self, record: MessageExt, *, is_rolled: bool) -> None:
        """It waits no longer, or begins to wait anew."""
        if names.TIMER_DELETE_KEY in record.properties:
            return
        topic = record.properties.get(names.REAL_TOPIC, "")
        waiting = self.waiting.made(topic)
        waiting.value = max(0, waiting.value - 1)
        if not is_rolled:
            self.dequeued.made(topic).value += 1

    def clear(self) -> None:
        """Nothing waits."""
        for count in self.waiting.values():
            count.value = 0

    def to_notes(self) -> dict[str, int]:
        return {topic: count.value for topic, count in self.waiting.items() if count.value}

    def load(self, notes: Mapping[str, Any]) -> None:
        for topic, value in notes.items():
            if type(value) is int and value > 0:
                self.waiting.made(topic).value = value
