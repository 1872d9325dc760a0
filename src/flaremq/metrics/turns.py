"""Turns: long work on the event loop in slices, so that others are served in between."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final

SLICE_SECONDS: Final = 0.003


class Turns:
    """One piece of work's. Call ``take`` every few hundred steps."""

    __slots__ = ("_until", "slice_seconds", "slices")

    def __init__(self, slice_seconds: float = SLICE_SECONDS) -> None:
        self.slice_seconds = slice_seconds
        self.slices = 1
        self._until = monotonic() + slice_seconds

    async def take(self) -> None:
        """Let others go first if our slice is used up."""
        if monotonic() >= self._until:
            self.slices += 1
            await asyncio.sleep(0)
            self._until = monotonic() + self.slice_seconds
