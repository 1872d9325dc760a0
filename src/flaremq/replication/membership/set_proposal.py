"""SetProposal: a change of the SyncStateSet that was proposed to the controller and whose outcome may be unknown.

A request that got no answer may have been applied, may be applied later, or be lost. If it made a replica a member,
that replica may be elected; a master that went on confirming without it would lose messages. So a proposal stays open
until its outcome is certain, and the caller counts the union of the old and the new set meanwhile. Certain is:

- an answer: applied, or refused while no earlier copy of the request is still under way;
- the set's epoch has grown: the controller applies a proposal only to the epoch it names, so no copy can follow;
- the epoch is still the same ``settle_seconds`` after the last copy was given up. Its connection is closed by then,
  and no controller holds a request that long while it answers others.

The same proposal is sent again until then: at most one copy can be applied.
"""

from __future__ import annotations


class SetProposal:
    """At most one at a time."""

    def __init__(self, settle_seconds: float) -> None:
        self._settle_seconds = settle_seconds
        self.members: frozenset[int] | None = None
        self._unanswered_at: float | None = None  # the last copy was given up without an answer

    @property
    def is_open(self) -> bool:
        return self.members is not None

    def open(self, members: frozenset[int]) -> None:
        assert self.members is None
        self.members = members
        self._unanswered_at = None

    def close(self) -> None:
        self.members = None
        self._unanswered_at = None

    def unanswered(self, now: float) -> None:
        """A copy was sent, and what became of it is not known."""
        self._unanswered_at = now

    @property
    def is_refused_for_good(self) -> bool:
        """Whether a refusal of the newest copy settles it: no other copy is under way."""
        return self._unanswered_at is None

    def is_settled_by_silence(self, asked_at: float) -> bool:
        """Whether a question of that time, answered with the old epoch, proves that no copy will be applied."""
        return self._unanswered_at is not None and asked_at >= self._unanswered_at + self._settle_seconds
