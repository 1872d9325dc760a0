"""Headers of broker administration."""

from __future__ import annotations

from dataclasses import dataclass

from flaremq.protocol.headers.custom_header import (
    CustomHeader,
    flag,
    flag_or,
    integer,
    integer_or,
    long,
    long_or,
    maybe_flag,
    maybe_integer,
    maybe_long,
    maybe_text,
    text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicRequestHeader(CustomHeader):
    """UPDATE_AND_CREATE_TOPIC. Attributes as ``+name=value,-name``; ``force`` lets system topics through."""

    topic: str = text()
    default_topic: str = text()
    read_queue_nums: int = integer()
    write_queue_nums: int = integer()
    perm: int = integer()
    topic_filter_type: str = text()
    topic_sys_flag: int | None = maybe_integer()
    order: bool = flag_or(False)
    attributes: str | None = maybe_text()
    force: bool | None = maybe_flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicRequestHeader(CustomHeader):
    """DELETE_TOPIC_IN_BROKER."""

    topic: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicConfigRequestHeader(CustomHeader):
    """GET_TOPIC_CONFIG. ``lo`` asks for the logical view of a static topic."""

    topic: str = text()
    lo: bool | None = maybe_flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetSubscriptionGroupConfigRequestHeader(CustomHeader):
    """GET_SUBSCRIPTIONGROUP_CONFIG."""

    group: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSubscriptionGroupRequestHeader(CustomHeader):
    """DELETE_SUBSCRIPTIONGROUP. 5.x and 4.9 name the same wish differently."""

    group_name: str = text()
    clean_offset: bool | None = maybe_flag()
    remove_offset: bool | None = maybe_flag()

    @property
    def with_offsets(self) -> bool:
        return bool(self.clean_offset or self.remove_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerConfigResponseHeader(CustomHeader):
    """The DataVersion of the configuration, as JSON."""

    version: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicStatsInfoRequestHeader(CustomHeader):
    """GET_TOPIC_STATS_INFO."""

    topic: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerConnectionListRequestHeader(CustomHeader):
    """GET_CONSUMER_CONNECTION_LIST."""

    consumer_group: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetProducerConnectionListRequestHeader(CustomHeader):
    """GET_PRODUCER_CONNECTION_LIST."""

    producer_group: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumeStatsRequestHeader(CustomHeader):
    """GET_CONSUME_STATS of one topic, of a ``;``-joined list, or of all topics of the group."""

    consumer_group: str = text()
    topic: str | None = maybe_text()
    topic_list: str | None = maybe_text()

    @property
    def topics(self) -> list[str]:
        names = [self.topic or "", *(self.topic_list or "").split(";")]
        return [name for name in names if name]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTopicConsumeByWhoRequestHeader(CustomHeader):
    """QUERY_TOPIC_CONSUME_BY_WHO."""

    topic: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTopicsByConsumerRequestHeader(CustomHeader):
    """QUERY_TOPICS_BY_CONSUMER."""

    group: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySubscriptionByConsumerRequestHeader(CustomHeader):
    """QUERY_SUBSCRIPTION_BY_CONSUMER."""

    group: str = text()
    topic: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumeTimeSpanRequestHeader(CustomHeader):
    """QUERY_CONSUME_TIME_SPAN."""

    topic: str = text()
    group: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsetRequestHeader(CustomHeader):
    """INVOKE_BROKER_TO_RESET_OFFSET and, to clients, RESET_CONSUMER_CLIENT_OFFSET.

    Timestamp -1 is the end. 5.x may name one queue and an offset; -1 is none.
    """

    topic: str = text()
    group: str = text()
    timestamp: int = long()
    is_force: bool = flag()
    queue_id: int | None = maybe_integer()
    offset: int | None = maybe_long()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerStatusRequestHeader(CustomHeader):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS and, to clients, GET_CONSUMER_STATUS_FROM_CLIENT."""

    topic: str = text()
    group: str = text()
    client_addr: str | None = maybe_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerRunningInfoRequestHeader(CustomHeader):
    """GET_CONSUMER_RUNNING_INFO."""

    consumer_group: str = text()
    client_id: str = text()
    jstack_enable: bool = flag_or(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeMessageDirectlyResultRequestHeader(CustomHeader):
    """CONSUME_MESSAGE_DIRECTLY; ``msg_id`` is an offset id."""

    consumer_group: str = text()
    client_id: str | None = maybe_text()
    msg_id: str | None = maybe_text()
    broker_name: str | None = maybe_text()
    topic: str | None = maybe_text()
    topic_sys_flag: int | None = maybe_integer()
    group_sys_flag: int | None = maybe_integer()


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneGroupOffsetRequestHeader(CustomHeader):
    """CLONE_GROUP_OFFSET."""

    src_group: str = text()
    dest_group: str = text()
    topic: str | None = maybe_text()
    offline: bool = flag_or(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewBrokerStatsDataRequestHeader(CustomHeader):
    """VIEW_BROKER_STATS_DATA."""

    stats_name: str = text()
    stats_key: str = text()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumeStatsInBrokerHeader(CustomHeader):
    """GET_BROKER_CONSUME_STATS."""

    is_order: bool = flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumeQueueRequestHeader(CustomHeader):
    """QUERY_CONSUME_QUEUE."""

    topic: str = text()
    queue_id: int = integer()
    index: int = long_or(0)
    count: int = integer_or(10)
    consumer_group: str | None = maybe_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeCheckHalfMessageRequestHeader(CustomHeader):
    """RESUME_CHECK_HALF_MESSAGE; ``msg_id`` is an offset id."""

    msg_id: str | None = maybe_text()
    topic: str | None = maybe_text()
