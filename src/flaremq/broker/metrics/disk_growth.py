"""DiskGrowth: when a disk will be full, if it goes on to fill as it did in the last hours."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

_STEP_SECONDS: Final = 60.0
_SAMPLES: Final = 181  # three hours
_LEAST_SECONDS: Final = 600.0  # less tells nothing
_DAY_SECONDS: Final = 86_400


class DiskGrowth:
    """One sample a minute. Event loop only."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)
        self._size = 0
        self._used = 0

    def note(self, now: float, used: int, size: int) -> None:
        """So many bytes of so many are in use."""
        self._used, self._size = used, size
        if not self._samples or now - self._samples[-1][0] >= _STEP_SECONDS:
            self._samples.append((now, used))

    def days_left(self) -> float:
        """+Inf while it does not grow, or nobody has looked for long enough."""
        if len(self._samples) < 2:
            return math.inf
        (began, before), (ended, after) = self._samples[0], self._samples[-1]
        if ended - began < _LEAST_SECONDS or after <= before:
            return math.inf
        per_second = (after - before) / (ended - began)
        return max(0, self._size - self._used) / per_second / _DAY_SECONDS
