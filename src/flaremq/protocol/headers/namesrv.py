"""Headers of the name server."""

from __future__ import annotations

from dataclasses import dataclass

from flaremq.protocol.headers.custom_header import (
    CustomHeader,
    flag,
    flag_or,
    integer,
    integer_or,
    long,
    maybe_flag,
    maybe_integer,
    maybe_long,
    maybe_text,
    text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRequestHeader(CustomHeader):
    """REGISTER_BROKER. A ``body_crc32`` of 0 is not checked; brokers from 5.0 on lie about ``compressed``."""

    broker_name: str = text()
    broker_addr: str = text()
    cluster_name: str = text()
    ha_server_addr: str = text()
    broker_id: int = long()
    compressed: bool = flag_or(False)
    body_crc32: int = integer_or(0)
    heartbeat_timeout_millis: int | None = maybe_long()
    enable_acting_master: bool | None = maybe_flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerResponseHeader(CustomHeader):
    """For slaves: where their master is."""

    ha_server_addr: str | None = maybe_text()
    master_addr: str | None = maybe_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnRegisterBrokerRequestHeader(CustomHeader):
    """UNREGISTER_BROKER."""

    broker_name: str = text()
    broker_addr: str = text()
    cluster_name: str = text()
    broker_id: int = long()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryDataVersionRequestHeader(CustomHeader):
    """QUERY_DATA_VERSION."""

    broker_name: str = text()
    broker_addr: str = text()
    cluster_name: str = text()
    broker_id: int = long()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryDataVersionResponseHeader(CustomHeader):
    """Whether the broker should register again."""

    changed: bool = flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatRequestHeader(CustomHeader):
    """BROKER_HEARTBEAT; the fields after the names matter to controllers only."""

    cluster_name: str = text()
    broker_addr: str = text()
    broker_name: str = text()
    broker_id: int | None = maybe_long()
    epoch: int | None = maybe_integer()
    max_offset: int | None = maybe_long()
    confirm_offset: int | None = maybe_long()
    heartbeat_timeout_millis: int | None = maybe_long("heartbeatTimeoutMills")
    election_priority: int | None = maybe_integer()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerMemberGroupRequestHeader(CustomHeader):
    """GET_BROKER_MEMBER_GROUP."""

    cluster_name: str = text()
    broker_name: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class WipeWritePermOfBrokerRequestHeader(CustomHeader):
    """WIPE_WRITE_PERM_OF_BROKER."""

    broker_name: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class WipeWritePermOfBrokerResponseHeader(CustomHeader):
    """How many topics lost the permission."""

    wipe_topic_count: int = integer()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddWritePermOfBrokerRequestHeader(CustomHeader):
    """ADD_WRITE_PERM_OF_BROKER."""

    broker_name: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddWritePermOfBrokerResponseHeader(CustomHeader):
    """How many topics got the permission back."""

    add_topic_count: int = integer()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicsByClusterRequestHeader(CustomHeader):
    """GET_TOPICS_BY_CLUSTER."""

    cluster: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicFromNamesrvRequestHeader(CustomHeader):
    """DELETE_TOPIC_IN_NAMESRV, in one cluster or everywhere."""

    topic: str = text()
    cluster_name: str | None = maybe_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class PutKVConfigRequestHeader(CustomHeader):
    """PUT_KV_CONFIG."""

    namespace: str = text()
    key: str = text()
    value: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetKVConfigRequestHeader(CustomHeader):
    """GET_KV_CONFIG."""

    namespace: str = text()
    key: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetKVConfigResponseHeader(CustomHeader):
    """The value."""

    value: str | None = maybe_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteKVConfigRequestHeader(CustomHeader):
    """DELETE_KV_CONFIG."""

    namespace: str = text()
    key: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetKVListByNamespaceRequestHeader(CustomHeader):
    """GET_KVLIST_BY_NAMESPACE."""

    namespace: str = text()
