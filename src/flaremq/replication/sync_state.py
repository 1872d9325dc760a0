"""The SyncStateSet as its master sees it: members, and changes that are under way at the controller.

A change is a request that names the set's epoch, so of several that are under way the controller takes one at most.
Until it is known which, whoever is in the set or in any of them must hold what is confirmed: the union counts.
A request without an answer may still be taken later; its members count until a newer set is known.
"""

from __future__ import annotations

from collections.abc import Iterable


class SyncState:
    """Members by broker id; the master is always one."""

    __slots__ = ("_open", "epoch", "members", "own_id")

    def __init__(self, own_id: int, members: Iterable[int] = (), epoch: int = 0) -> None:
        self.own_id = own_id
        self.members = frozenset(members) | {own_id}
        self.epoch = epoch
        self._open: list[frozenset[int]] = []

    @property
    def union(self) -> frozenset[int]:
        """Everybody who may be elected, whatever became of the open changes."""
        return self.members.union(*self._open)

    @property
    def smallest(self) -> int:
        """Members of the smallest set that may be in force."""
        return min(map(len, (self.members, *self._open)))

    @property
    def is_changing(self) -> bool:
        return bool(self._open)

    @property
    def last_proposed(self) -> frozenset[int] | None:
        """The newest change that is under way."""
        return self._open[-1] if self._open else None

    def propose(self, members: Iterable[int]) -> frozenset[int]:
        """Note a change before it is asked for."""
        proposed = frozenset(members) | {self.own_id}
        if proposed not in self._open:
            self._open.append(proposed)
        return proposed

    def accept(self, members: Iterable[int], epoch: int) -> bool:
        """A set the controller told, in an answer or otherwise; False if it is older than what is known."""
        if epoch < self.epoch:
            return False
        if epoch > self.epoch:
            # Whatever was under way named an older epoch: it was this one, or will be refused.
            self._open.clear()
            self.epoch = epoch
            self.members = frozenset(members) | {self.own_id}
        return True

    def refuse(self, proposed: Iterable[int]) -> None:
        """The controller answered that this change was not and will not be made."""
        members = frozenset(proposed) | {self.own_id}
        if members in self._open:
            self._open.remove(members)
