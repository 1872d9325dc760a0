"""Who consumes what: groups of a topic, topics of a group, the subscription of a group; units of a queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from flaremq.broker.catalog.consumer_offsets import ConsumerOffsets
from flaremq.broker.filter.message_filter import MessageFilter, compile_filter
from flaremq.broker.filter.syntax_error import FilterSyntaxError
from flaremq.broker.members.consumers import ConsumerTable
from flaremq.broker.options import BrokerOptions
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.broker.statistics.windows import StatsSnapshot
from flaremq.broker.store_loop.access import StoreAccess
from flaremq.java_json import write_java_json
from flaremq.protocol.bodies.client import QuerySubscriptionResponseBody, SubscriptionData
from flaremq.protocol.bodies.group import GroupList
from flaremq.protocol.bodies.stats import ConsumeQueueData, QueryConsumeQueueResponseBody
from flaremq.protocol.bodies.topic import BrokerStatsData, BrokerStatsItem, TopicList
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.admin import (
    QueryConsumeQueueRequestHeader,
    QuerySubscriptionByConsumerRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
    QueryTopicsByConsumerRequestHeader,
    ViewBrokerStatsDataRequestHeader,
)
from flaremq.storage.engine.inspection import QueueUnit

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable, Outcome

_UNITS_MAX: Final = 4_096


@dataclass(eq=False, repr=False)
class GroupQueryHandler:
    """Small questions of tools."""

    _options: BrokerOptions
    _store_loop: StoreAccess
    _offsets: ConsumerOffsets
    _consumers: ConsumerTable
    _statistics: BrokerStatistics

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, self.groups_of_topic)
        table.register(RequestCode.QUERY_TOPICS_BY_CONSUMER, self.topics_of_group)
        table.register(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, self.subscription)
        table.register(RequestCode.VIEW_BROKER_STATS_DATA, self.statistics_item)
        table.register(RequestCode.QUERY_CONSUME_QUEUE, self.queue_units)

    def groups_of_topic(self, connection: Connection, request: RemotingCommand) -> Outcome:
        """Those online that subscribe to it, and those with offsets in it."""
        topic = QueryTopicConsumeByWhoRequestHeader.decode(request.ext).topic
        groups = self._consumers.groups_subscribed_to(topic) | self._offsets.groups_of(topic)
        return RemotingCommand.response(body=GroupList(group_list=tuple(sorted(groups))).to_json())

    def topics_of_group(self, connection: Connection, request: RemotingCommand) -> Outcome:
        group = QueryTopicsByConsumerRequestHeader.decode(request.ext).group
        topics = tuple(sorted(self._offsets.topics_of(group)))
        return RemotingCommand.response(body=TopicList(topic_list=topics, broker_addr=self._options.address).to_json())

    def subscription(self, connection: Connection, request: RemotingCommand) -> Outcome:
        header = QuerySubscriptionByConsumerRequestHeader.decode(request.ext)
        found = self._consumers.find_subscription(header.group, header.topic)
        body = QuerySubscriptionResponseBody(group=header.group, topic=header.topic, subscription_data=found)
        return RemotingCommand.response(body=body.to_json())

    def statistics_item(self, connection: Connection, request: RemotingCommand) -> Outcome:
        """One counter over the last minute, hour and day."""
        header = ViewBrokerStatsDataRequestHeader.decode(request.ext)
        found = self._statistics.find(header.stats_name, header.stats_key)
        if found is None:
            what = f"<{header.stats_name[:64]}> <{header.stats_key[:255]}>"
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"The stats {what} not exist")
        body = BrokerStatsData(
            stats_minute=_item(found.minute), stats_hour=_item(found.hour), stats_day=_item(found.day)
        )
        return RemotingCommand.response(body=body.to_json())

    async def queue_units(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Units of a queue as they are, and whether a group's filter would pass them."""
        header = QueryConsumeQueueRequestHeader.decode(request.ext)
        topic, queue_id = header.topic, header.queue_id
        if not self._store_loop.store.inspector.has_queue(topic, queue_id):
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic[:255]} is not exist!")
        subscription, filter_data, chosen = None, None, None
        if header.consumer_group:
            subscription = self._consumers.find_subscription(header.consumer_group, topic)
            filter_data, chosen = _filter_of(header.consumer_group, topic, subscription)
        count = min(max(header.count, 0), _UNITS_MAX)
        units = await self._store_loop.run_cold(
            self._store_loop.store.inspector.units, topic, queue_id, header.index, count
        )
        body = QueryConsumeQueueResponseBody(
            queue_data=tuple(_unit(unit, chosen) for unit in units),
            subscription_data=subscription,
            filter_data=filter_data,
            min_queue_index=self._store_loop.store.min_offset(topic, queue_id),
            max_queue_index=self._store_loop.store.max_offset(topic, queue_id),
        )
        return RemotingCommand.response(body=body.to_json())


def _item(snapshot: StatsSnapshot) -> BrokerStatsItem:
    return BrokerStatsItem(sum=snapshot.sum, tps=snapshot.tps, average_per_call=snapshot.avgpt)


def _filter_of(group: str, topic: str, subscription: SubscriptionData | None) -> tuple[str, MessageFilter | None]:
    """What to say about a group's filter, and the filter itself if there is a usable one."""
    if subscription is None:
        return f"{group}@{topic} is not online!", None
    try:
        chosen = compile_filter(subscription.expression_type, subscription.sub_string)
    except FilterSyntaxError as error:
        return str(error), None
    if not chosen.needs_properties:
        return "null", chosen
    data = {"consumerGroup": group, "expression": subscription.sub_string, "topic": topic}
    return write_java_json(data).decode(), chosen


def _unit(unit: QueueUnit, chosen: MessageFilter | None) -> ConsumeQueueData:
    return ConsumeQueueData(
        physic_offset=unit.physical_offset,
        physic_size=unit.size,
        tags_code=unit.tags_code,
        eval=chosen is not None and chosen.matches_unit(unit.tags_code),
    )
