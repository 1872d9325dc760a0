"""How far groups are: offsets of topics and queues, lags, times. What topicStatus and consumerProgress print.

Tables of the broker are read on the event loop, a bounded number of queues at a time; the times of messages come from
the log and are read on a worker thread, and answers are rendered there too. One such question is worked on at a time,
so that those about everything hold up nobody but each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from flaremq.broker.catalog.catalog import Catalog
from flaremq.broker.members.consumers import ConsumerTable
from flaremq.broker.options import BrokerOptions
from flaremq.broker.pace import PacedTable, paced
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.broker.store_loop.access import StoreAccess
from flaremq.clock import Clock
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
    TopicOffset,
    TopicStatsTable,
)
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.admin import (
    GetConsumeStatsInBrokerHeader,
    GetConsumeStatsRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
)

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable

_QUEUES_MAX: Final = 100_000  # in one answer: about what a frame carries
_QUEUES_AT_ONCE: Final = 1_024

QueueProgress = tuple[str, int, int, int]  # topic, queue, committed and pulled offset, each -1 for none
PulledOffset = Callable[[str, str, int], int]


class ConsumeStatsHandler:
    """Progress of topics and groups."""

    def __init__(
        self,
        options: BrokerOptions,
        clock: Clock,
        store_loop: StoreAccess,
        catalog: Catalog,
        consumers: ConsumerTable,
        statistics: BrokerStatistics,
        pulled: PulledOffset = lambda group, topic, queue_id: -1,
    ) -> None:
        self._options = options
        self._store_loop = store_loop
        self._topics = catalog.topics
        self._groups = catalog.groups
        self._offsets = catalog.offsets
        self._consumers = consumers
        self._statistics = statistics
        self._clock = clock
        self._pulled = pulled  # (group, topic, queue): next offset a POP group gets, ahead of what it has acknowledged

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.GET_TOPIC_STATS_INFO, self.topic_stats)
        table.register(RequestCode.GET_CONSUME_STATS, self.consume_stats)
        table.register(RequestCode.GET_BROKER_CONSUME_STATS, self.broker_consume_stats)
        table.register(RequestCode.QUERY_CONSUME_TIME_SPAN, self.time_span)

    # Topics

    async def topic_stats(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = GetTopicStatsInfoRequestHeader.decode(request.ext)
        config = self._topic(header.topic)
        count = _bounded(max(config.read_queue_nums, config.write_queue_nums))
        tps = self._statistics.topic_put_tps(header.topic)
        return RemotingCommand.response(body=await self._store_loop.run_long(self._ends_body, header.topic, count, tps))

    def _ends_body(self, topic: str, count: int, tps: float) -> bytes:
        table: dict[MessageQueue, TopicOffset] = PacedTable()
        for queue_id in paced(range(count)):
            table[self._queue(topic, queue_id)] = self._read_end(topic, queue_id)
        return TopicStatsTable(offset_table=table, topic_put_tps=tps).to_json()

    def _read_end(self, topic: str, queue_id: int) -> TopicOffset:
        store = self._store_loop.store
        low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        time = self._store_loop.store.inspector.store_time(topic, queue_id, high - 1) if high > 0 else None
        return TopicOffset(min_offset=low, max_offset=high, last_update_timestamp=time or 0)

    async def time_span(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """First, last and consumed message of each queue, in time."""
        header = QueryConsumeTimeSpanRequestHeader.decode(request.ext)
        config = self._topic(header.topic)
        spans: list[QueueTimeSpan] = []
        now_ms = self._clock.now_ms()
        for places in self._slices(header.group, header.topic, _bounded(config.write_queue_nums)):
            spans += await self._store_loop.run_long(self._read_spans, places, now_ms)
        return RemotingCommand.response(body=await self._store_loop.run_long(_spans_body, spans))

    def _read_spans(self, places: list[QueueProgress], now_ms: int) -> list[QueueTimeSpan]:
        return [self._read_span(topic, queue_id, consumed, now_ms) for topic, queue_id, consumed, _ in paced(places)]

    def _read_span(self, topic: str, queue_id: int, consumed: int, now_ms: int) -> QueueTimeSpan:
        store, store_time = self._store_loop.store, self._store_loop.store.inspector.store_time
        low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        first = store_time(topic, queue_id, low)
        consumed_time = store_time(topic, queue_id, consumed - 1) if consumed > 0 else first
        waiting = store_time(topic, queue_id, max(consumed, low))
        return QueueTimeSpan(
            message_queue=self._queue(topic, queue_id),
            min_timestamp=_or_none(first),
            max_timestamp=_or_none(store_time(topic, queue_id, high - 1)),
            consume_timestamp=_or_none(consumed_time),
            delay_time=0 if waiting is None else max(0, now_ms - waiting),
        )

    # Groups

    async def consume_stats(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Of named topics, or of all topics in which the group has offsets and which it still subscribes to."""
        header = GetConsumeStatsRequestHeader.decode(request.ext)
        group = header.consumer_group
        if header.topic_list:
            topics = header.topics  # asked for by name: whatever the group subscribes to
        else:
            topics = self._subscribed(group, header.topics or sorted(self._offsets.topics_of(group)))
        table: dict[MessageQueue, OffsetWrapper] = PacedTable()
        tps = 0.0
        for topic in dict.fromkeys(topics):
            config = self._topics.find(topic)
            if config is not None:
                await self._add_progress(table, group, topic, _bounded(config.read_queue_nums, len(table)))
                tps += self._statistics.group_get_tps(group, topic)
        body = ConsumeStats(offset_table=table, consume_tps=tps)
        return RemotingCommand.response(body=await self._store_loop.run_long(body.to_json))

    async def broker_consume_stats(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Of every group, topic by topic."""
        header = GetConsumeStatsInBrokerHeader.decode(request.ext)
        groups: list[dict[str, tuple[ConsumeStats, ...]]] = []
        total = behind = in_flight = 0
        for group in self._groups.all():
            stats = []
            for topic in self._subscribed(group, sorted(self._offsets.topics_of(group))):
                config = self._topics.find(topic)
                if config is None or (header.is_order and not config.order):
                    continue
                table: dict[MessageQueue, OffsetWrapper] = PacedTable()
                await self._add_progress(table, group, topic, _bounded(config.write_queue_nums, total))
                total += len(table)
                behind += sum(queue.broker_offset - queue.consumer_offset for queue in table.values())
                in_flight += sum(queue.pull_offset - queue.consumer_offset for queue in table.values())
                stats.append(ConsumeStats(offset_table=table, consume_tps=self._statistics.group_get_tps(group, topic)))
            groups.append({group: tuple(stats)})
        body = ConsumeStatsList(
            consume_stats_list=tuple(groups),
            broker_addr=self._options.address,
            total_diff=behind,
            total_inflight_diff=in_flight,
        )
        return RemotingCommand.response(body=await self._store_loop.run_long(body.to_json))

    def _subscribed(self, group: str, topics: Iterable[str]) -> list[str]:
        """While a group is online, only what it subscribes to counts; offsets of the past stay out."""
        online = self._consumers.find_group(group)
        if online is None or not online.subscriptions:
            return list(topics)
        return [topic for topic in topics if topic in online.subscriptions]

    def _slices(self, group: str, topic: str, count: int) -> Iterator[list[QueueProgress]]:
        """Where a group stands, so many queues at a time."""
        find, pulled = self._offsets.find, self._pulled
        for start in range(0, count, _QUEUES_AT_ONCE):
            yield [
                (topic, queue_id, find(group, topic, queue_id), pulled(group, topic, queue_id))
                for queue_id in range(start, min(start + _QUEUES_AT_ONCE, count))
            ]

    async def _add_progress(self, table: dict[MessageQueue, OffsetWrapper], group: str, topic: str, count: int) -> None:
        for places in self._slices(group, topic, count):
            table.update(await self._store_loop.run_long(self._read_progress, places))

    def _read_progress(self, places: list[QueueProgress]) -> dict[MessageQueue, OffsetWrapper]:
        store, store_time = self._store_loop.store, self._store_loop.store.inspector.store_time
        table = {}
        for topic, queue_id, committed, pulled in paced(places):
            consumed = max(0, committed)
            time = store_time(topic, queue_id, consumed - 1) if consumed else None
            table[self._queue(topic, queue_id)] = OffsetWrapper(
                broker_offset=store.max_offset(topic, queue_id),
                consumer_offset=consumed,
                pull_offset=max(consumed, pulled),
                last_timestamp=time or 0,
            )
        return table

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic=topic, broker_name=self._options.broker_name, queue_id=queue_id)

    def _topic(self, topic: str) -> TopicConfig:
        config = self._topics.find(topic)
        if config is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic[:255]}] not exist")
        return config


def _bounded(queues: int, before: int = 0) -> int:
    """A number of queues that still fits the answer."""
    if queues + before > _QUEUES_MAX:
        raise RequestError(ResponseCode.SYSTEM_ERROR, f"{queues + before} queues do not fit one answer")
    return queues


def _spans_body(spans: list[QueueTimeSpan]) -> bytes:
    return QueryConsumeTimeSpanBody(consume_time_span_set=tuple(spans)).to_json()


def _or_none(time: int | None) -> int:
    return -1 if time is None else time
