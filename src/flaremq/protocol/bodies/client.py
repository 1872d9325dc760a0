"""What clients say about themselves, and what the broker tells about them.

Real clients differ from Java's form: Go sends tag hashes as text and versions in nanoseconds, ali-ons leaves the
expression type out. All of that reads as the same values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from flaremq.protocol.bodies.bean import CLIENT_BODY_SIZE_MAX, Bean, row
from flaremq.protocol.bodies.bean_rows import (
    bean,
    bean_table,
    beans,
    beans_table,
    flag,
    integer,
    integer_set,
    long,
    maybe_bean,
    maybe_text,
    read_text,
    text,
    text_set,
)


def _read_expression_type(value: Any) -> str:
    return read_text(value) or "TAG"


def _read_upper(value: Any) -> str:
    return read_text(value).upper()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionData(Bean):
    """What a group wants of a topic. ``code_set`` holds the hashes of the tags, as the sender computed them."""

    topic: str = text()
    sub_string: str = text(default="*")
    expression_type: str = row(None, _read_expression_type, default="TAG")
    tags_set: frozenset[str] = text_set()
    code_set: frozenset[int] = integer_set()
    sub_version: int = long()
    class_filter_mode: bool = flag()

    @property
    def is_tag_type(self) -> bool:
        return self.expression_type == "TAG"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerData(Bean):
    """A producer group that lives in the client."""

    group_name: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerData(Bean):
    """A consumer group that lives in the client."""

    group_name: str = text()
    consume_type: str = text(default="CONSUME_PASSIVELY")
    message_model: str = row(None, _read_upper, default="CLUSTERING")
    consume_from_where: str = text(default="CONSUME_FROM_LAST_OFFSET")
    subscription_data_set: tuple[SubscriptionData, ...] = beans(SubscriptionData)
    unit_mode: bool = flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatData(Bean):
    """HEART_BEAT. Only 5.x sends fingerprints; with ``without_sub`` the subscriptions are those of that print."""

    body_size_max: ClassVar[int] = CLIENT_BODY_SIZE_MAX

    client_id: str = text("clientID")
    producer_data_set: tuple[ProducerData, ...] = beans(ProducerData)
    consumer_data_set: tuple[ConsumerData, ...] = beans(ConsumerData)
    heartbeat_fingerprint: int = integer()
    without_sub: bool = flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckClientRequestBody(Bean):
    """CHECK_CLIENT_CONFIG: will the broker take this subscription?"""

    body_size_max: ClassVar[int] = CLIENT_BODY_SIZE_MAX

    client_id: str = text()
    group: str = text()
    namespace: str | None = maybe_text()
    subscription_data: SubscriptionData = bean(SubscriptionData)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConnection(Bean):
    """One connected client; Java's name is Connection."""

    client_id: str = text()
    client_addr: str = text()
    language: str = text(default="JAVA")
    version: int = integer()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConnection(Bean):
    """GET_CONSUMER_CONNECTION_LIST."""

    connection_set: tuple[ClientConnection, ...] = beans(ClientConnection)
    subscription_table: dict[str, SubscriptionData] = bean_table(SubscriptionData)
    consume_type: str | None = maybe_text()
    message_model: str | None = maybe_text()
    consume_from_where: str | None = maybe_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConnection(Bean):
    """GET_PRODUCER_CONNECTION_LIST."""

    connection_set: tuple[ClientConnection, ...] = beans(ClientConnection)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerInfo(Bean):
    """One producer instance."""

    client_id: str = text()
    remote_ip: str = text("remoteIP")
    language: str = text(default="JAVA")
    version: int = integer()
    last_update_timestamp: int = long()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerTableInfo(Bean):
    """GET_ALL_PRODUCER_INFO: instances by group."""

    data: dict[str, tuple[ProducerInfo, ...]] = beans_table(ProducerInfo)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySubscriptionResponseBody(Bean):
    """QUERY_SUBSCRIPTION_BY_CONSUMER."""

    group: str = text()
    topic: str = text()
    subscription_data: SubscriptionData | None = maybe_bean(SubscriptionData)
