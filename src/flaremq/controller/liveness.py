"""Who is alive: the last heartbeat of each broker, kept in memory only.

A broker counts as alive from a heartbeat until its own timeout has passed, or the connection that carried the last one
closes. The heartbeat must come from the address that the broker registered: a copy of a broker that runs elsewhere
with the same id keeps nobody alive.

Times are seconds of a steady clock, handed in. The clocks of brokers (``invokeTime``) decide nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from flaremq.controller.groups import Member, ReplicaGroup
from flaremq.protocol.headers.namesrv import BrokerHeartbeatRequestHeader

ENTRIES_MAX: Final = 65_536
TIMEOUT_MS: Final = 10_000  # where a broker names none
TIMEOUT_MS_MIN: Final = 100
TIMEOUT_MS_MAX: Final = 300_000  # a master that asks for more would never be missed
NO_EPOCH: Final = -1
PRIORITY_NONE: Final = 2**31 - 1

Key = tuple[str, int]  # broker name and id


class Heartbeat(NamedTuple):
    """What a broker said last."""

    address: str
    epoch: int
    max_offset: int
    confirm_offset: int
    election_priority: int
    until: float
    source: Hashable  # the connection that carried it


class Liveness:
    """The last heartbeats."""

    def __init__(self) -> None:
        self._last: dict[Key, Heartbeat] = {}
        self._keys: dict[Hashable, set[Key]] = {}  # what each connection carries

    def note(self, header: BrokerHeartbeatRequestHeader, broker_id: int, now: float, source: Hashable) -> bool:
        """Keep a heartbeat; False if there is no room for one more broker."""
        key = header.broker_name, broker_id
        if key not in self._last and len(self._last) >= ENTRIES_MAX:
            return False
        timeout = header.heartbeat_timeout_millis or TIMEOUT_MS
        self._forget(key)
        self._last[key] = Heartbeat(
            address=header.broker_addr,
            epoch=NO_EPOCH if header.epoch is None else header.epoch,
            max_offset=-1 if header.max_offset is None else header.max_offset,
            confirm_offset=-1 if header.confirm_offset is None else header.confirm_offset,
            election_priority=PRIORITY_NONE if header.election_priority is None else header.election_priority,
            until=now + min(max(timeout, TIMEOUT_MS_MIN), TIMEOUT_MS_MAX) / 1000,
            source=source,
        )
        self._keys.setdefault(source, set()).add(key)
        return True

    def find(self, broker_name: str, member: Member, now: float) -> Heartbeat | None:
        """The last heartbeat of a broker that is alive."""
        last = self._last.get((broker_name, member.broker_id))
        return last if last is not None and now < last.until and last.address == member.address else None

    def is_alive(self, group: ReplicaGroup, broker_id: int, now: float) -> bool:
        member = group.members.get(broker_id)
        return member is not None and self.find(group.broker_name, member, now) is not None

    def living(self, group: ReplicaGroup, now: float) -> dict[int, Heartbeat]:
        """The members of a group that are alive."""
        found = {key: self.find(group.broker_name, member, now) for key, member in group.members.items()}
        return {key: last for key, last in found.items() if last is not None}

    def close(self, source: Hashable) -> set[str]:
        """A connection is gone, and whoever was heard of last by it; the names whose brokers those are."""
        keys = self._keys.pop(source, set())
        for key in keys:
            self._last.pop(key, None)
        return {name for name, _ in keys}

    def forget(self, broker_name: str, broker_id: int) -> None:
        """A broker's former life is over."""
        self._forget((broker_name, broker_id))

    def forgive(self, seconds: float) -> None:
        """The controller itself stood still for so long, and could hear nobody."""
        self._last = {key: last._replace(until=last.until + seconds) for key, last in self._last.items()}

    def expire(self, now: float) -> None:
        """Drop what is too old to matter."""
        for key in [key for key, last in self._last.items() if last.until <= now]:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        last = self._last.pop(key, None)
        if last is not None:
            keys = self._keys[last.source]
            keys.discard(key)
            if not keys:
                del self._keys[last.source]

    def __len__(self) -> int:
        return len(self._last)
