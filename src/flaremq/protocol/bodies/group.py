"""Consumer groups as the broker keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from flaremq.protocol.bodies.bean import CLIENT_BODY_SIZE_MAX, Bean, Misfit, row
from flaremq.protocol.bodies.bean_rows import (
    anything,
    bean,
    bean_table,
    flag,
    integer,
    long,
    read_anything,
    text,
    text_table,
    texts,
)
from flaremq.protocol.bodies.topic import DataVersion


def _default_retry_policy() -> dict[str, Any]:
    return {"type": "CUSTOMIZED"}


def _read_retry_policy(value: Any) -> Any:
    if not isinstance(value, dict):
        raise Misfit("an object")
    return read_anything(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionGroupConfig(Bean):
    """One group. 4.9 knows half of the properties and ignores the rest."""

    body_size_max: ClassVar[int] = CLIENT_BODY_SIZE_MAX

    group_name: str = text()
    consume_enable: bool = flag(default=True)
    consume_from_min_enable: bool = flag(default=True)
    consume_broadcast_enable: bool = flag(default=True)
    consume_message_orderly: bool = flag()
    retry_queue_nums: int = integer(default=1)
    retry_max_times: int = integer(default=16)
    group_retry_policy: dict[str, Any] = row(None, _read_retry_policy, make=_default_retry_policy)
    broker_id: int = long()
    which_broker_when_consume_slowly: int = long(default=1)
    notify_consumer_ids_changed_enable: bool = flag(default=True)
    group_sys_flag: int = integer()
    consume_timeout_minute: int = integer(default=15)
    subscription_data_set: list[Any] | None = anything()
    attributes: dict[str, str] = text_table()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionGroupWrapper(Bean):
    """All groups of a broker: subscriptionGroup.json and GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""

    data_version: DataVersion = bean(DataVersion)
    subscription_group_table: dict[str, SubscriptionGroupConfig] = bean_table(SubscriptionGroupConfig)
    forbidden_table: dict[str, Any] | None = anything()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupList(Bean):
    """QUERY_TOPIC_CONSUME_BY_WHO."""

    group_list: tuple[str, ...] = texts()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerListByGroupResponseBody(Bean):
    """The client ids of a group."""

    consumer_id_list: tuple[str, ...] = texts()
