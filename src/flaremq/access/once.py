"""Once: the numbers by which one account signed its changes, none of which is taken a second time.

Memory is bounded without a gap: what was forgotten was signed no later than a time that is kept, and nothing signed up
to that time is taken any more. Each account has a memory of its own, so whoever sends a lot pushes out nobody's numbers
but its own.
"""

from __future__ import annotations

from typing import Final

SPAN_MS: Final = 600_000  # twice the window: a signed time may be off in both directions
GENERATION_MAX: Final = 2_000


class Once:
    """Two generations of numbers, the older of which is forgotten when the newer one is full or old."""

    __slots__ = ("_floor_ms", "_new", "_new_last_ms", "_old", "_old_last_ms", "_since_ms")

    def __init__(self, floor_ms: int) -> None:
        """Nothing signed up to ``floor_ms`` is taken."""
        self._new: set[str] = set()
        self._old: set[str] = set()
        self._floor_ms = self._new_last_ms = self._old_last_ms = floor_ms
        self._since_ms = 0

    def admits(self, number: str, signed_ms: int, now_ms: int) -> bool:
        """Whether the number is new; it is remembered then."""
        if signed_ms <= self._floor_ms or number in self._new or number in self._old:
            return False
        if len(self._new) >= GENERATION_MAX or now_ms - self._since_ms > SPAN_MS:
            self._floor_ms = self._old_last_ms
            self._old, self._old_last_ms = self._new, self._new_last_ms
            self._new, self._since_ms = set(), now_ms
        self._new.add(number)
        self._new_last_ms = max(self._new_last_ms, signed_ms)
        return True

    def __len__(self) -> int:
        return len(self._new) + len(self._old)
