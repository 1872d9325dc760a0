"""The seam between a controller and where its state is kept.

A store says when this controller begins to lead, with the state as it then is, and when that is over. While it leads,
it may save groups. What ``save`` returned for is durable, and was saved while nobody else led. A ``save`` that raised
may have happened or not: the store then ends this term of leadership by itself, unless it knows better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from flaremq.controller.groups import ReplicaGroup


@dataclass(frozen=True, slots=True)
class Peer:
    """One of the controllers that share a state."""

    peer_id: str
    address: str


Lead = Callable[[Iterable[ReplicaGroup]], None]  # this controller leads from now on
Follow = Callable[[], None]  # it does not any more


class StateStore(Protocol):
    """Keeps the groups. Event loop only."""

    async def start(self, me: Peer, lead: Lead, follow: Follow) -> None:
        """Begin; ``lead`` may be called before this returns. Raises if the state cannot be read."""

    @property
    def is_leading(self) -> bool:
        """Whether this controller leads at this moment; asked before each answer, so it costs nothing."""

    @property
    def leader(self) -> Peer | None:
        """Who leads, as far as known."""

    @property
    def peers(self) -> tuple[Peer, ...]:
        """All controllers that share the state, as far as known."""

    async def save(self, group: ReplicaGroup) -> None:
        """Make one group durable; UnavailableError if this controller does not lead (any more)."""

    async def stop(self) -> None:
        """Give up leadership and let go of everything."""
