"""Bodies of controller mode: who is in sync, who was elected, which epochs a broker's log has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flaremq.protocol.bodies.bean import CLIENT_BODY_SIZE_MAX, Bean
from flaremq.protocol.bodies.bean_rows import (
    bean_table,
    beans,
    flag,
    integer,
    long,
    long_set,
    maybe_bean,
    maybe_long,
    maybe_text,
    text,
)
from flaremq.protocol.bodies.route import BrokerMemberGroup

OPEN_END = 2**63 - 1  # where the last epoch of a log ends: nowhere yet


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStateSet(Bean):
    """The ids of the brokers that hold all that was confirmed, and how often that set was changed."""

    body_size_max: ClassVar[int] = CLIENT_BODY_SIZE_MAX

    sync_state_set: frozenset[int] = long_set()
    sync_state_set_epoch: int = integer()


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectMasterResponseBody(Bean):
    """CONTROLLER_ELECT_MASTER. Ids are quoted: the mqadmin of 5.5.0 cannot read the bare ones of its own controller."""

    broker_member_group: BrokerMemberGroup | None = maybe_bean(BrokerMemberGroup)
    sync_state_set: frozenset[int] = long_set()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaIdentity(Bean):
    """One broker of a name, as administrators see it."""

    broker_name: str = text()
    broker_id: int = long()
    broker_address: str = text()
    alive: bool = flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicasInfo(Bean):
    """All brokers of a name."""

    master_broker_id: int | None = maybe_long()
    master_address: str | None = maybe_text()
    master_epoch: int = integer()
    sync_state_set_epoch: int = integer()
    in_sync_replicas: tuple[ReplicaIdentity, ...] = beans(ReplicaIdentity)
    not_in_sync_replicas: tuple[ReplicaIdentity, ...] = beans(ReplicaIdentity)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReplicasInfo(Bean):
    """CONTROLLER_GET_SYNC_STATE_DATA, by broker name."""

    replicas_info_table: dict[str, ReplicasInfo] = bean_table(ReplicasInfo)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEntry(Bean):
    """A part of a log that one master wrote."""

    epoch: int = integer()
    start_offset: int = long()
    end_offset: int = long(default=OPEN_END)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEntryCache(Bean):
    """GET_BROKER_EPOCH_CACHE."""

    cluster_name: str = text()
    broker_name: str = text()
    broker_id: int = long()
    epoch_list: tuple[EpochEntry, ...] = beans(EpochEntry)
    max_offset: int = long()
