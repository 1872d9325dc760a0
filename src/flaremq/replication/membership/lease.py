"""Lease: how long a master may believe that it is one.

A controller elects another master when it has heard nothing of the old one for the heartbeat timeout. A master that
does not know whether that has happened must not take messages any more. What counts is when the *question* was sent
whose answer named us: the answer may have been on its way for any time.
"""

from __future__ import annotations


class Lease:
    """Steady seconds throughout."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = float("-inf")
        self._has_lapsed = True  # and the caller has seen it

    def confirm(self, asked_at: float) -> None:
        """A question of that time was answered with our name and epoch."""
        self._until = max(self._until, asked_at + self._seconds)
        self._has_lapsed = False

    def drop(self) -> None:
        self._until = float("-inf")

    def look(self, now: float) -> None:
        """Time has passed; an end that was seen is not due any more."""
        self._has_lapsed = not self.holds(now)

    @property
    def due(self) -> float:
        """When to look again."""
        return float("inf") if self._has_lapsed else self._until

    def holds(self, now: float) -> bool:
        return now < self._until
