"""Offsets, lags and times, as the broker reports them to tools and passes them on between clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flaremq.java_json import write_java_json
from flaremq.protocol.bodies.bean import Bean, Misfit, row
from flaremq.protocol.bodies.bean_rows import (
    bean,
    beans,
    beans_table,
    double,
    flag,
    integer,
    long,
    maybe_bean,
    maybe_text,
    read_long,
    table_reader,
)
from flaremq.protocol.bodies.client import SubscriptionData
from flaremq.protocol.bodies.queue import (
    MessageQueue,
    queue_long_table,
    queue_table,
    queue_table_reader,
    write_queue_table,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffset(Bean):
    """The ends of one queue."""

    min_offset: int = long()
    max_offset: int = long()
    last_update_timestamp: int = long()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatsTable(Bean):
    """GET_TOPIC_STATS_INFO."""

    offset_table: dict[MessageQueue, TopicOffset] = queue_table(TopicOffset)
    topic_put_tps: float = double()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetWrapper(Bean):
    """How far a group is in one queue."""

    broker_offset: int = long()
    consumer_offset: int = long()
    pull_offset: int = long()
    last_timestamp: int = long()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStats(Bean):
    """GET_CONSUME_STATS."""

    offset_table: dict[MessageQueue, OffsetWrapper] = queue_table(OffsetWrapper)
    consume_tps: float = double()


def _read_stats_list(value: Any) -> tuple[dict[str, tuple[ConsumeStats, ...]], ...]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Misfit("a list of objects")
    return tuple([_GroupStats.from_value({"stats": item}).stats for item in value])


def _write_stats_list(value: tuple[Mapping[str, tuple[ConsumeStats, ...]], ...]) -> list[Any]:
    return [{group: [stats.to_value() for stats in items] for group, items in item.items()} for item in value]


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupStats(Bean):
    stats: dict[str, tuple[ConsumeStats, ...]] = beans_table(ConsumeStats)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStatsList(Bean):
    """GET_BROKER_CONSUME_STATS: one entry a group, in it one a topic."""

    consume_stats_list: tuple[dict[str, tuple[ConsumeStats, ...]], ...] = row(
        None, _read_stats_list, _write_stats_list, default=()
    )
    broker_addr: str | None = maybe_text()
    total_diff: int = long()
    total_inflight_diff: int = long()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsetBody(Bean):
    """RESET_CONSUMER_CLIENT_OFFSET and the reply to INVOKE_BROKER_TO_RESET_OFFSET. Both forms are read."""

    offset_table: dict[MessageQueue, int] = queue_long_table()

    @classmethod
    def adapt(cls, value: dict[str, Any]) -> dict[str, Any]:
        """C++ clients get a list of queues with their offsets."""
        table = value.get("offsetTable")
        if not isinstance(table, list) or not all(isinstance(item, dict) for item in table):
            return value
        queues = [(MessageQueue.from_value(item).to_value(), item.get("offset")) for item in table]
        return {"offsetTable": {write_java_json(queue).decode(): offset for queue, offset in queues}}

    def to_list_json(self) -> bytes:
        """The form for requests of language CPP."""
        rows = [{**queue.to_value(), "offset": offset} for queue, offset in self.offset_table.items()]
        return write_java_json({"offsetTable": rows})


def _write_consumer_table(table: Mapping[str, Mapping[MessageQueue, int]]) -> dict[str, Any]:
    return {client: write_queue_table(offsets) for client, offsets in table.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerStatusBody(Bean):
    """A client answers with its own table; the broker with one table a client."""

    message_queue_table: dict[MessageQueue, int] = queue_long_table()
    consumer_table: dict[str, dict[MessageQueue, int]] = row(
        None, table_reader(queue_table_reader(read_long)), _write_consumer_table, make=dict
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTimeSpan(Bean):
    """Times of the messages in one queue. The capital in Java's names is theirs."""

    message_queue: MessageQueue = bean(MessageQueue)
    min_timestamp: int = long("minTimeStamp")
    max_timestamp: int = long("maxTimeStamp")
    consume_timestamp: int = long("consumeTimeStamp")
    delay_time: int = long()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumeTimeSpanBody(Bean):
    """QUERY_CONSUME_TIME_SPAN."""

    consume_time_span_set: tuple[QueueTimeSpan, ...] = beans(QueueTimeSpan)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeQueueData(Bean):
    """One unit of a consume queue."""

    physic_offset: int = long()
    physic_size: int = integer()
    tags_code: int = long()
    extend_data_json: str | None = maybe_text()
    bit_map: str | None = maybe_text()
    eval: bool = flag()
    msg: str | None = maybe_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumeQueueResponseBody(Bean):
    """QUERY_CONSUME_QUEUE."""

    queue_data: tuple[ConsumeQueueData, ...] = beans(ConsumeQueueData)
    subscription_data: SubscriptionData | None = maybe_bean(SubscriptionData)
    filter_data: str | None = maybe_text()
    min_queue_index: int = long()
    max_queue_index: int = long()
