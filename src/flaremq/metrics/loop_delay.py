"""LoopDelay: how late the event loop is for what was to be done at a time: all clients wait that long, too."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final

from flaremq.metrics.histogram import Histogram

BOUNDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_EVERY_SECONDS: Final = 0.1


class LoopDelay:
    """Looks ten times a second. ``start`` and ``stop`` it on the loop."""

    def __init__(self) -> None:
        self.histogram = Histogram(BOUNDS)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._schedule()

    def _schedule(self) -> None:
        due = monotonic() + _EVERY_SECONDS
        self._timer = asyncio.get_running_loop().call_later(_EVERY_SECONDS, self._look, due)

    def _look(self, due: float) -> None:
        self.histogram.observe(max(0.0, monotonic() - due))
        self._schedule()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
