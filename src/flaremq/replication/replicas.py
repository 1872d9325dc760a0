"""All slaves of a master, as the wait for copies sees them.

A slave counts once, however many connections it has. Its name is the broker id it told, else its address. Of several
connections with one name the newest counts. Two slaves without ids on one machine have one name: an older connection
counts as well once it acknowledges bytes that were sent on it after the newest was accepted. A slave that reconnected
had left the old connection before, so it never can.

Acknowledgements belong to a connection and go with it. What was confirmed once stays so: it has been told.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from flaremq.replication.sync_rules import PutRefusal, SyncMode, SyncRules
from flaremq.replication.sync_state import SyncState

JOIN_LAG_S = 1.0  # a slave that has all the log had this long ago is near enough to join
JOIN_HOLD_S = 0.5  # what is confirmed waits for it this long
JOIN_AGAIN_S = 5.0  # and this long after, once more


@dataclass(frozen=True, slots=True)
class ReplicaLine:
    """One connection, for people and request 907."""

    address: str
    broker_id: int | None
    acknowledged: int
    behind: int
    is_in_sync: bool
    sent: int
    counts: bool
    is_learner: bool


class _Link:
    """One connection."""

    __slots__ = (
        "acknowledged",
        "address",
        "broker_id",
        "caught_up_at",
        "goal",
        "goal_at",
        "is_learner",
        "name",
        "sent",
        "since",
        "to_pass",
    )

    def __init__(self, address: str, broker_id: int | None, is_learner: bool, now: float) -> None:
        self.address = address
        self.broker_id = broker_id
        self.name: Hashable = address.rpartition(":")[0] or address if broker_id is None else broker_id
        self.is_learner = is_learner
        self.acknowledged = -1
        self.sent = -1
        self.to_pass: int | None = None  # an older connection counts above this; None: the newest of its name
        self.since = now  # of its first report, or of the connection
        self.caught_up_at = -math.inf  # it has everything that the log had then
        self.goal = -1  # the log's end at goal_at; reached, that was the time it is caught up to
        self.goal_at = now

    @property
    def counts(self) -> bool:
        return self.to_pass is None or (self.broker_id is None and self.acknowledged > self.to_pass)

    def look(self, own_end: int, now: float) -> None:
        """Note up to when it has everything."""
        if self.acknowledged < 0:
            return
        if self.acknowledged >= own_end:
            self.caught_up_at = now
        elif 0 <= self.goal <= self.acknowledged:
            self.caught_up_at = max(self.caught_up_at, self.goal_at)
        if self.acknowledged >= self.goal:
            self.goal, self.goal_at = own_end, now


class Replicas:
    """Connections and what they hold. ``key`` is whatever the shell names a connection with.

    In controller mode ``sync_state`` says who must hold what; there is none while this broker is no master, and then
    nothing is confirmed or taken.
    """

    def __init__(self, rules: SyncRules, *, sync_state: SyncState | None = None) -> None:
        self.rules = rules
        self.sync_state = sync_state
        self._links: dict[Hashable, _Link] = {}  # the newest last
        self._confirmed = -1
        self._away_since: dict[int, float] = {}  # members without a connection
        self._candidates: dict[int, float] = {}  # nearly caught up: since when what is confirmed waits for them
        self._looked_at = 0.0

    def __len__(self) -> int:
        return len(self._links)

    def begin_term(self, sync_state: SyncState | None) -> None:
        """This broker became master (or, with None, is none any more). Connections of before are over."""
        self.sync_state = sync_state
        self._links.clear()
        self._away_since.clear()
        self._candidates.clear()
        self._confirmed = -1

    def connected(
        self, key: Hashable, *, address: str, broker_id: int | None = None, is_learner: bool = False, now: float
    ) -> None:
        """A connection was accepted; in controller mode: has told its broker id."""
        link = _Link(address, broker_id, is_learner, now)
        for older in self._links.values():
            if older.name == link.name:
                older.to_pass = max(older.sent, older.acknowledged)
        self._links[key] = link

    def disconnected(self, key: Hashable) -> None:
        gone = self._links.pop(key, None)
        if gone is None or gone.to_pass is not None:
            return
        if gone.broker_id is not None:
            self._candidates.pop(gone.broker_id, None)
        # The newest that is left of this name is the newest again. It never counts by what it acknowledged before.
        for link in reversed(self._links.values()):
            if link.name == gone.name:
                if link.broker_id is None and link.to_pass is not None and link.acknowledged > link.to_pass:
                    link.to_pass = None
                break

    def sent(self, key: Hashable, offset: int) -> None:
        """Everything below ``offset`` was given to this connection; one of before this term counts for nothing."""
        link = self._links.get(key)
        if link is not None:
            link.sent = offset

    def acknowledged(self, key: Hashable, offset: int, now: float) -> None:
        """A report that its source believed."""
        link = self._links.get(key)
        if link is None:
            return
        if link.acknowledged < 0:
            link.since = now
        link.acknowledged = offset

    def confirmed(self, own: int) -> int:
        """What enough copies hold; ``own`` is the end that counts here (durable, with SYNC_FLUSH)."""
        found = min(own, self._held_by_others(own))
        if found > self._confirmed:
            self._confirmed = found
        return min(self._confirmed, own)

    def in_sync(self, own_end: int) -> int:
        """Copies that are not too far behind, the master's included."""
        if self.sync_state is not None:
            return self.sync_state.smallest
        return 1 + sum(self._is_in_sync(link, own_end) for link in self._counting())

    def refusal(self, own_end: int) -> PutRefusal | None:
        """Asked before an append."""
        rules = self.rules
        if rules.mode not in (SyncMode.COPIES, SyncMode.SET):
            return None
        if rules.mode is SyncMode.SET and self.sync_state is None:
            return PutRefusal.IN_SYNC_REPLICAS_NOT_ENOUGH
        if rules.copies_min > 1 and self.in_sync(own_end) < rules.copies_min:
            return PutRefusal.IN_SYNC_REPLICAS_NOT_ENOUGH
        return None

    def is_unavailable(self, record_end: int) -> bool:
        """4.9's rule: no slave, or all of them far behind; waiting for one would be in vain."""
        if self.rules.mode is not SyncMode.ANY_SLAVE:
            return False
        if not self._links:
            return True
        best = 0
        for link in self._links.values():
            if link.acknowledged > best and link.counts:
                best = link.acknowledged
        return record_end - best >= self.rules.gap_max

    def lines(self, own_end: int) -> list[ReplicaLine]:
        return [
            ReplicaLine(
                link.address,
                link.broker_id,
                link.acknowledged,
                own_end - max(link.acknowledged, 0),
                self._is_in_sync(link, own_end),
                link.sent,
                link.counts,
                link.is_learner,
            )
            for link in self._links.values()
        ]

    def proposal(self, now: float, *, own_end: int, epoch_start: int = 0) -> frozenset[int] | None:
        """The SyncStateSet that should be, if it is not the one that is; counts as proposed at once.

        Asked when a slave reported, came or went, and every second. One change at a time: nothing while one is
        open, until ``sync_state`` accepted or refused it.
        """
        state = self.sync_state
        if state is None or state.is_changing:
            return None
        wanted = self._wanted(now, own_end, epoch_start)
        if wanted == state.members:
            return None
        self._candidates.clear()  # nobody looks at how long they are waited for until this change is settled
        return state.propose(wanted)

    def _wanted(self, now: float, own_end: int, epoch_start: int) -> frozenset[int]:
        state = self.sync_state
        assert state is not None
        by_id = {link.broker_id: link for link in self._counting() if link.broker_id is not None}
        self._looked_at = now
        for link in by_id.values():
            link.look(own_end, now)
        wanted = {state.own_id}
        for member in state.members - wanted:
            if self._stays(member, by_id.get(member), now):
                wanted.add(member)
        for broker_id, link in by_id.items():
            if (
                broker_id not in state.members
                and not link.is_learner
                and self._joins(broker_id, link, now, epoch_start)
            ):
                wanted.add(broker_id)
        return frozenset(wanted)

    def _stays(self, member: int, link: _Link | None, now: float) -> bool:
        if link is None:
            # One that was connected goes at once; one that never was gets the time to come.
            since = self._away_since.setdefault(member, now)
        else:
            self._away_since[member] = -math.inf
            since = max(link.caught_up_at, link.since)
        return now - since <= self.rules.not_caught_up_max_s

    def _joins(self, broker_id: int, link: _Link, now: float, epoch_start: int) -> bool:
        """It has what is confirmed. While more is confirmed all the time it would never be there: then that waits."""
        held_since = self._candidates.get(broker_id, -math.inf)
        if link.acknowledged < epoch_start or now - link.caught_up_at > JOIN_LAG_S:
            self._candidates.pop(broker_id, None)
            return False
        if link.acknowledged >= self._confirmed:
            self._candidates.pop(broker_id, None)
            return True
        if now - held_since > JOIN_AGAIN_S:
            self._candidates[broker_id] = now
        return False

    def _waits_for(self) -> frozenset[int]:
        """Whose acknowledgement a message needs, besides the number of copies."""
        state = self.sync_state
        assert state is not None
        joining = {name for name, since in self._candidates.items() if self._looked_at - since <= JOIN_HOLD_S}
        return (state.union | joining) - {state.own_id}

    def _counting(self) -> Iterator[_Link]:
        return (link for link in self._links.values() if link.counts)

    def _is_in_sync(self, link: _Link, own_end: int) -> bool:
        if self.sync_state is not None:
            return link.broker_id in self.sync_state.members
        return link.acknowledged >= 0 and own_end - link.acknowledged < self.rules.gap_max

    def _held_by_others(self, own: int) -> int:
        """The highest offset that as many others hold as are needed; ``own`` if none are."""
        state = self.sync_state
        if state is None and self.rules.mode is SyncMode.SET:
            return -1
        if state is None:
            needed = self.rules.copies_needed(self.in_sync(own) if self.rules.is_auto else 0)
            held = sorted(
                [link.acknowledged for link in self._links.values() if link.counts and not link.is_learner],
                reverse=True,
            )
            return self._nth(held, needed - 1, own)
        acknowledged = {link.broker_id: link.acknowledged for link in self._counting()}
        members = [acknowledged.get(member, -1) for member in self._waits_for()]
        certain = sorted((acknowledged.get(member, -1) for member in state.members - {state.own_id}), reverse=True)
        return min(min(members, default=own), self._nth(certain, self.rules.copies_needed(0) - 1, own))

    @staticmethod
    def _nth(held: list[int], others: int, own: int) -> int:
        if others <= 0:
            return own
        return held[others - 1] if len(held) >= others else -1
