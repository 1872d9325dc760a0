"""Which of the configured controllers leads. All are asked; who names itself is believed before who names another."""

from __future__ import annotations

from collections.abc import Sequence


class LeaderSearch:
    """The leader as far as known, and when to ask for it next."""

    def __init__(self, controllers: Sequence[str], *, period: float, retry: float, now: float) -> None:
        self.controllers = tuple(dict.fromkeys(controllers))
        self.leader: str | None = None
        self._period = period
        self._retry = retry
        self._began = float("-inf")  # the last round
        self._had_self_named = False  # in that round
        self.due = now

    @property
    def everybody(self) -> tuple[str, ...]:
        """Who gets heartbeats: those configured, and a leader that is not among them."""
        others = () if self.leader is None or self.leader in self.controllers else (self.leader,)
        return self.controllers + others

    def begin(self, now: float) -> tuple[str, ...]:
        """Whom to ask now; empty while it is not due."""
        if now < self.due:
            return ()
        self._began = now
        self._had_self_named = False
        self.due = now + (self._period if self.leader is not None else self._retry)
        return self.controllers

    def answered(self, address: str, leader: str) -> None:
        if not leader or (self._had_self_named and leader != address):
            return
        self._had_self_named |= leader == address
        self.leader = leader
        self.due = max(self.due, self._began + self._period)

    def lost(self, leader: str, now: float) -> None:
        """This one did not answer or does not lead."""
        if leader == self.leader:
            self.leader = None
            # At once, unless the last round is so young that it would name the same one again.
            self.due = min(self.due, max(now, self._began + self._retry))
