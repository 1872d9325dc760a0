"""Headers of controller mode: what brokers and administrators ask of a controller, and what it tells brokers.

``invoke_time`` is the wall clock of whoever asks. It is carried because the original's clients send it; nothing here
is decided by a clock that a stranger sets.
"""

from __future__ import annotations

from dataclasses import dataclass

from flaremq.protocol.headers.custom_header import (
    CustomHeader,
    flag_or,
    integer,
    long,
    long_or,
    maybe_integer,
    maybe_long,
    maybe_text,
    text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMetaDataResponseHeader(CustomHeader):
    """CONTROLLER_GET_METADATA_INFO: who leads. ``peers`` is ``id:address;`` for each controller."""

    group: str | None = maybe_text()
    controller_leader_id: str | None = maybe_text()
    controller_leader_address: str | None = maybe_text()
    is_leader: bool = flag_or(False)
    peers: str | None = maybe_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetNextBrokerIdRequestHeader(CustomHeader):
    """CONTROLLER_GET_NEXT_BROKER_ID."""

    cluster_name: str = text()
    broker_name: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetNextBrokerIdResponseHeader(CustomHeader):
    """An id that nobody has; it is nobody's until it is applied for."""

    cluster_name: str | None = maybe_text()
    broker_name: str | None = maybe_text()
    next_broker_id: int = long()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyBrokerIdRequestHeader(CustomHeader):
    """CONTROLLER_APPLY_BROKER_ID. The check code tells a broker that asks again from another one."""

    cluster_name: str = text()
    broker_name: str = text()
    applied_broker_id: int = long()
    register_check_code: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyBrokerIdResponseHeader(CustomHeader):
    """The id is the broker's."""

    cluster_name: str | None = maybe_text()
    broker_name: str | None = maybe_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerToControllerRequestHeader(CustomHeader):
    """CONTROLLER_REGISTER_BROKER: a broker starts and says where it is."""

    cluster_name: str = text()
    broker_name: str = text()
    broker_id: int = long()
    broker_address: str = text()
    invoke_time: int = long_or(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerToControllerResponseHeader(CustomHeader):
    """The master, if one is alive."""

    cluster_name: str | None = maybe_text()
    broker_name: str | None = maybe_text()
    master_broker_id: int | None = maybe_long()
    master_address: str | None = maybe_text()
    master_epoch: int | None = maybe_integer()
    sync_state_set_epoch: int | None = maybe_integer()


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectMasterRequestHeader(CustomHeader):
    """CONTROLLER_ELECT_MASTER. ``broker_id`` -1: the controller decides; ``designate_elect``: that broker or nobody."""

    cluster_name: str = text()
    broker_name: str = text()
    broker_id: int = long_or(-1)
    designate_elect: bool = flag_or(False)
    invoke_time: int = long_or(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectMasterResponseHeader(CustomHeader):
    """Who is master now."""

    master_broker_id: int | None = maybe_long()
    master_address: str | None = maybe_text()
    master_epoch: int | None = maybe_integer()
    sync_state_set_epoch: int | None = maybe_integer()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetReplicaInfoRequestHeader(CustomHeader):
    """CONTROLLER_GET_REPLICA_INFO."""

    broker_name: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetReplicaInfoResponseHeader(CustomHeader):
    """The master as the controller knows it; id and address are absent while there is none."""

    master_broker_id: int | None = maybe_long()
    master_address: str | None = maybe_text()
    master_epoch: int | None = maybe_integer()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterSyncStateSetRequestHeader(CustomHeader):
    """CONTROLLER_ALTER_SYNC_STATE_SET; the body has the new set and the epoch of the one it replaces."""

    broker_name: str = text()
    master_broker_id: int = long()
    master_epoch: int = integer()
    invoke_time: int = long_or(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterSyncStateSetResponseHeader(CustomHeader):
    """The epoch of the new set."""

    new_sync_state_set_epoch: int = integer()


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanControllerBrokerDataRequestHeader(CustomHeader):
    """CLEAN_BROKER_DATA: forget a broker name, or the ids ``1;2`` of it."""

    cluster_name: str | None = maybe_text()
    broker_name: str = text()
    broker_controller_ids_to_clean: str | None = maybe_text()
    is_clean_living_broker: bool = flag_or(False)
    invoke_time: int = long_or(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyBrokerRoleChangedRequestHeader(CustomHeader):
    """NOTIFY_BROKER_ROLE_CHANGED, from a controller to a broker; a hint, the broker asks its controller."""

    master_address: str | None = maybe_text()
    master_broker_id: int | None = maybe_long()
    master_epoch: int | None = maybe_integer()
    sync_state_set_epoch: int | None = maybe_integer()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetMasterFlushOffsetHeader(CustomHeader):
    """RESET_MASTER_FLUSH_OFFSET, to a slave that acts as master."""

    master_flush_offset: int | None = maybe_long()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeHAInfoHeader(CustomHeader):
    """EXCHANGE_BROKER_HA_INFO, both ways: who the master of a group is; an empty one asks."""

    master_address: str | None = maybe_text()
    master_ha_address: str | None = maybe_text()
    master_flush_offset: int | None = maybe_long()
