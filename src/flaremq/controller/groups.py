"""What a controller must never forget, as values: the brokers of each name, their master, epochs and SyncStateSet.

A :class:`ReplicaGroup` is one broker name. It is immutable; a change is a new group, which is made durable before
anybody is told of it. Its invariants are checked whenever one is made, so that neither a mistake of ours nor a damaged
file gets past this module:

* the master is a member and in the SyncStateSet; members of the set are members of the group;
* an id was given out before it is used (ids are below ``next_broker_id``), and never twice;
* epochs are not negative; that they only grow is kept by :meth:`ReplicaGroup.check_follows`.

A name that was cleaned away stays as a group without members: its ids and epochs go on where they ended. A broker that
comes back with an old identity must not meet its id in other hands, nor an epoch a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from flaremq.errors import CorruptionError, InvalidArgumentError

VERSION: Final = 1  # of the JSON form

# Far above any real cluster, and low enough that a hostile client cannot fill memory or disk.
GROUPS_MAX: Final = 10_000
MEMBERS_MAX: Final = 64  # of one name
NAME_MAX: Final = 255  # characters of a cluster's or broker's name
TEXT_MAX: Final = 512  # characters of an address or check code
ID_MAX: Final = 2**63 - 1
EPOCH_MAX: Final = 2**31 - 1  # Java ints on the wire
NO_BROKER: Final = -1


@dataclass(frozen=True, slots=True)
class Member:
    """One broker of a name."""

    broker_id: int
    address: str  # empty until it registers
    check_code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaGroup:
    """All that is known of one broker name."""

    cluster: str
    broker_name: str
    next_broker_id: int = 1
    members: Mapping[int, Member] = field(default_factory=dict)
    master_id: int | None = None
    master_epoch: int = 0
    sync_state_set: frozenset[int] = frozenset()
    sync_state_set_epoch: int = 0
    has_elected: bool = False  # since it has members: the first election takes whoever asks, later ones the set

    def __post_init__(self) -> None:
        fault = self._fault()
        if fault:
            raise CorruptionError(f"broker name {self.broker_name[:NAME_MAX]!r} of the controller: {fault}")

    def _fault(self) -> str:
        if not is_name(self.cluster) or not is_name(self.broker_name):
            return "cluster and broker need names"
        if not self.sync_state_set <= self.members.keys():
            return "its SyncStateSet has brokers that are not its members"
        if self.master_id is not None and self.master_id not in self.sync_state_set:
            return "its master is not in the SyncStateSet"
        if not 1 <= self.next_broker_id <= ID_MAX or any(not 0 < key < self.next_broker_id for key in self.members):
            return "an id was not given out by the controller"
        if not 0 <= self.master_epoch <= EPOCH_MAX or not 0 <= self.sync_state_set_epoch <= EPOCH_MAX:
            return "an epoch is out of range"
        if len(self.members) > MEMBERS_MAX:
            return f"it has more than {MEMBERS_MAX} members"
        return ""

    def check_follows(self, previous: ReplicaGroup | None) -> None:
        """CorruptionError unless this can be the next state of a group: numbers never go back, and an epoch has one
        master."""
        if previous is None:
            return
        if (
            self.next_broker_id < previous.next_broker_id
            or self.master_epoch < previous.master_epoch
            or self.sync_state_set_epoch < previous.sync_state_set_epoch
        ):
            raise CorruptionError(f"the numbers of broker name {self.broker_name!r} would go back")
        if self.master_epoch == previous.master_epoch and self.master_id not in (None, previous.master_id):
            raise CorruptionError(f"epoch {self.master_epoch} of {self.broker_name!r} would get a second master")

    @property
    def exists(self) -> bool:
        """Whether there are brokers of this name; of a cleaned one only the numbers are kept."""
        return bool(self.members)

    @property
    def master(self) -> Member | None:
        return None if self.master_id is None else self.members[self.master_id]

    @property
    def addresses(self) -> dict[int, str]:
        return {broker_id: member.address for broker_id, member in sorted(self.members.items())}

    def with_member(self, member: Member) -> ReplicaGroup:
        next_id = max(self.next_broker_id, member.broker_id + 1)
        return replace(self, members={**self.members, member.broker_id: member}, next_broker_id=next_id)

    def with_master(self, broker_id: int) -> ReplicaGroup:
        """After an election: a new epoch, in which only the master is in sync at first."""
        return replace(
            self,
            master_id=broker_id,
            master_epoch=self.master_epoch + 1,
            sync_state_set=frozenset([broker_id]),
            sync_state_set_epoch=self.sync_state_set_epoch + 1,
            has_elected=True,
        )

    def without_master(self) -> ReplicaGroup:
        """The master is gone and nobody can follow it; the set is kept, for the next master must come from it."""
        return replace(self, master_id=None)

    def with_set(self, members: frozenset[int]) -> ReplicaGroup:
        return replace(self, sync_state_set=members, sync_state_set_epoch=self.sync_state_set_epoch + 1)

    def without(self, broker_ids: frozenset[int]) -> ReplicaGroup:
        """Without some members, as administrators want it."""
        members = {key: member for key, member in self.members.items() if key not in broker_ids}
        in_sync = self.sync_state_set - broker_ids
        return replace(
            self,
            members=members,
            master_id=None if self.master_id in broker_ids else self.master_id,
            sync_state_set=in_sync,
            sync_state_set_epoch=self.sync_state_set_epoch + (in_sync != self.sync_state_set),
            has_elected=self.has_elected and bool(members),
        )

    def to_value(self) -> dict[str, Any]:
        """The parsed form of its JSON."""
        return {
            "cluster": self.cluster,
            "brokerName": self.broker_name,
            "nextBrokerId": self.next_broker_id,
            "members": [
                {"brokerId": member.broker_id, "address": member.address, "checkCode": member.check_code}
                for _, member in sorted(self.members.items())
            ],
            "masterBrokerId": self.master_id,
            "masterEpoch": self.master_epoch,
            "syncStateSet": sorted(self.sync_state_set),
            "syncStateSetEpoch": self.sync_state_set_epoch,
            "hasElected": self.has_elected,
        }

    @classmethod
    def from_value(cls, value: Any) -> ReplicaGroup:
        """Read the parsed form; CorruptionError for anything that is not one."""
        try:
            members = [
                Member(_whole(row["brokerId"]), _text(row["address"]), _text(row["checkCode"]))
                for row in value["members"]
            ]
            master = value["masterBrokerId"]
            return cls(
                cluster=_text(value["cluster"]),
                broker_name=_text(value["brokerName"]),
                next_broker_id=_whole(value["nextBrokerId"]),
                members={member.broker_id: member for member in members},
                master_id=None if master is None else _whole(master),
                master_epoch=_whole(value["masterEpoch"]),
                sync_state_set=frozenset(_whole(item) for item in value["syncStateSet"]),
                sync_state_set_epoch=_whole(value["syncStateSetEpoch"]),
                has_elected=bool(value["hasElected"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptionError(f"the controller's state of a broker name cannot be read: {error!r}") from error


def groups_to_value(groups: Iterable[ReplicaGroup]) -> dict[str, Any]:
    """All groups as the parsed form of one document."""
    rows = [group.to_value() for group in sorted(groups, key=lambda group: group.broker_name)]
    return {"version": VERSION, "groups": rows}


def groups_from_value(value: Any) -> dict[str, ReplicaGroup]:
    """The groups of a document by name; CorruptionError if it is none of ours."""
    version, rows = (value.get("version"), value.get("groups")) if isinstance(value, dict) else (None, None)
    if version != VERSION or not isinstance(rows, list):
        raise CorruptionError("the controller's state has another form", expected=VERSION, found=version)
    groups = {group.broker_name: group for group in map(ReplicaGroup.from_value, rows)}
    if len(groups) != len(rows):
        raise CorruptionError("the controller's state has a broker name twice")
    return groups


def groups_to_json(groups: Iterable[ReplicaGroup]) -> bytes:
    """All groups as one document."""
    return orjson.dumps(groups_to_value(groups))


def groups_from_json(data: bytes) -> dict[str, ReplicaGroup]:
    """The groups of a document by name; CorruptionError if it is none of ours."""
    try:
        value = orjson.loads(data)
    except ValueError as error:
        raise CorruptionError(f"the controller's state cannot be read: {error}") from error
    return groups_from_value(value)


def is_name(text: str) -> bool:
    """Whether a cluster or broker may be called so."""
    return 0 < len(text) <= NAME_MAX and text.isprintable()


def check_names(cluster: str, broker_name: str) -> None:
    """InvalidArgumentError for names that are empty, too long or not to be printed."""
    for what, text in (("cluster", cluster), ("broker", broker_name)):
        if not is_name(text):
            raise InvalidArgumentError(f"the name of the {what} must have 1 to {NAME_MAX} printable characters")


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"a number is {value!r}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > TEXT_MAX:
        raise TypeError("a text is none, or too long")
    return value
