"""Traffic over time in steps that fit the range: seconds for a test of a minute, hours for a week, days for years.

A series keeps its number of steps below a limit by going over to the next coarser step when it has to. Steps divide
each other, so the step that a whole ends up with depends on the times alone and not on the order in which parts were
added.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

STEPS_S = (1, 10, 60, 600, 3600, 86400)
CELLS_MAX = 1500
HOUR_S = 3600

Cells = dict[int, dict[str, list[int]]]  # start of the step in seconds → topic → [messages, bytes]


@dataclass(slots=True)
class Series:
    """Messages and bytes by time and topic."""

    step_s: int = STEPS_S[0]
    cells: Cells = field(default_factory=dict)

    def count(
        self,
        topics: list[str],
        codes: npt.NDArray[np.int64],
        seconds: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
    ) -> None:
        """Add messages: which topic (an index), when, how large."""
        if not len(codes):
            return
        starts = seconds // self.step_s
        first = int(starts.min())
        pairs, inverse, counts = np.unique(
            (starts - first) * len(topics) + codes, return_inverse=True, return_counts=True
        )
        sums = np.bincount(inverse, weights=sizes, minlength=len(pairs)).astype(np.int64)
        for pair, count, size in zip(pairs.tolist(), counts.tolist(), sums.tolist(), strict=True):
            at, code = divmod(pair, len(topics))
            self._put((first + at) * self.step_s, topics[code], count, size)
        self._fit()

    def add(self, other: Series) -> None:
        self._coarsen_to(other.step_s)
        for start, by_topic in other.cells.items():
            for topic, (count, size) in by_topic.items():
                self._put(start // self.step_s * self.step_s, topic, count, size)
        self._fit()

    def at_step(self, step_s: int) -> Series:
        """The same in steps of at least this length."""
        copy = Series(self.step_s)
        copy.add(self)
        copy._coarsen_to(max(step_s, self.step_s))
        return copy

    def _put(self, start: int, topic: str, count: int, size: int) -> None:
        cell = self.cells.setdefault(start, {}).setdefault(topic, [0, 0])
        cell[0] += count
        cell[1] += size

    def _fit(self) -> None:
        for step in STEPS_S:
            if len(self.cells) <= CELLS_MAX:
                return
            self._coarsen_to(step)

    def _coarsen_to(self, step_s: int) -> None:
        if step_s <= self.step_s:
            return
        old, self.cells, self.step_s = self.cells, {}, step_s
        for start, by_topic in old.items():
            for topic, (count, size) in by_topic.items():
                self._put(start // step_s * step_s, topic, count, size)
