"""Ring: a value at each step of time, for as long as the ring is; and rates of counters."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

NOTHING: Final = math.nan


class Ring:
    """The last values of a quantity, one a step. Steps without a value are gaps."""

    __slots__ = ("_length", "_slot", "_values", "step_ms")

    def __init__(self, step_ms: int, length: int) -> None:
        self.step_ms = step_ms
        self._length = length
        self._values = array("d")
        self._slot = 0  # number of the step of the last value

    def note(self, now_ms: int, value: float | None) -> None:
        """The value at a time; a second one of the same step replaces the first."""
        number = NOTHING if value is None else float(value)
        slot = now_ms // self.step_ms
        values = self._values
        if not values or slot - self._slot >= self._length or slot < self._slot - self._length:
            self._values = array("d", [number])
            self._slot = slot
            return
        if slot <= self._slot:  # the same step, or a clock that was set back a little
            values[-1] = number
            return
        values.extend([NOTHING] * (slot - self._slot - 1))
        values.append(number)
        del values[: max(0, len(values) - self._length)]
        self._slot = slot

    def series(self, minutes: float | None = None) -> dict[str, Any]:
        """What is kept, oldest first: ``step_ms``, ``from_ms``, ``points``."""
        count = len(self._values) if minutes is None else max(1, int(minutes * 60_000 / self.step_ms))
        values = self._values[-count:]
        return {
            "step_ms": self.step_ms,
            "from_ms": (self._slot - len(values) + 1) * self.step_ms,
            "points": [None if math.isnan(value) else round(value, 3) for value in values],
        }

    def recent(self, count: int) -> list[float]:
        """The last values without gaps, for a small picture."""
        return [round(value, 2) for value in self._values[-count:] if not math.isnan(value)]

    def ago(self, now_ms: int, ago_ms: int) -> float | None:
        """The value so long ago, or None if that is not known."""
        index = (now_ms - ago_ms) // self.step_ms - self._slot + len(self._values) - 1
        if not 0 <= index < len(self._values) or math.isnan(self._values[index]):
            return None
        return self._values[index]


def empty_series(step_ms: int = 1000) -> dict[str, Any]:
    """Of what nothing is known yet."""
    return {"step_ms": step_ms, "from_ms": 0, "points": []}


def series_of(rings: Mapping[str, Ring], names: Iterable[str]) -> dict[str, Any]:
    """The series of these names, also where nothing was kept."""
    return {name: rings[name].series() if name in rings else empty_series() for name in names}


class Meter:
    """How fast a counter goes, over a window of time. A counter that goes back begins anew."""

    __slots__ = ("_marks", "_window")

    def __init__(self, window_seconds: float) -> None:
        self._window = window_seconds
        self._marks: deque[tuple[float, float]] = deque()  # seconds, total

    def note(self, seconds: float, total: float) -> None:
        marks = self._marks
        if marks and (total < marks[-1][1] or seconds <= marks[-1][0]):
            marks.clear()
        marks.append((seconds, total))
        while len(marks) > 2 and marks[1][0] <= seconds - self._window:
            marks.popleft()

    def forget(self) -> None:
        self._marks.clear()

    @property
    def per_second(self) -> float | None:
        """None before the second note."""
        marks = self._marks
        if len(marks) < 2:
            return None
        (first, low), (last, high) = marks[0], marks[-1]
        return (high - low) / (last - first)
