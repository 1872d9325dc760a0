"""Groups: which there are, how far they have come, who is in them; making, moving and deleting them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from flaremq.client.admin.base import java_flag
from flaremq.client.admin.offsets import OffsetAdmin
from flaremq.client.arguments import check_group, check_text
from flaremq.errors import FlareMQError, InvalidArgumentError, NotFoundError, ReplyError
from flaremq.message.topics import dlq_topic, retry_topic
from flaremq.protocol.bodies.client import (
    ClientConnection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
    QuerySubscriptionResponseBody,
    SubscriptionData,
)
from flaremq.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from flaremq.protocol.bodies.queue import MessageQueue, SetMessageRequestModeRequestBody
from flaremq.protocol.bodies.running import ConsumerRunningInfo
from flaremq.protocol.bodies.stats import (
    ConsumeStatsList,
    GetConsumerStatusBody,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
)
from flaremq.protocol.bodies.topic import TopicList
from flaremq.protocol.codes import RequestCode, ResponseCode


class GroupAdmin(OffsetAdmin):
    """Orders about consumer and producer groups."""

    async def list_groups(self, *, cluster: str | None = None) -> list[str]:
        """Names of all consumer groups that brokers keep settings of."""
        addresses = (await self.masters(cluster=cluster)).values()
        code, what = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "the list of groups"
        wrappers = await self._ask_each(SubscriptionGroupWrapper, addresses, code, what=what)
        return sorted({group for wrapper in wrappers for group in wrapper.subscription_group_table})

    async def group_configs(self, broker: str) -> dict[str, SubscriptionGroupConfig]:
        """The settings of all groups of one broker (name or address)."""
        return (await self._all_groups(broker)).subscription_group_table

    async def _all_groups(self, broker: str) -> SubscriptionGroupWrapper:
        code, what = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "the list of groups"
        return await self._ask(SubscriptionGroupWrapper, broker, code, what=what)

    async def group_config(self, group: str, broker: str) -> SubscriptionGroupConfig:
        """The settings of a group on one broker (name or address)."""
        config = (await self.group_configs(broker)).get(group)
        if config is None:
            raise NotFoundError(f"group {group!r} does not exist on {broker}")
        return config

    async def create_group(
        self,
        group: str,
        *,
        config: SubscriptionGroupConfig | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> list[str]:
        """Make a group, or change its settings, on one broker, a cluster's or all; their names."""
        check_group(group)
        body = dataclasses.replace(config or SubscriptionGroupConfig(), group_name=group).to_json()
        masters = await self.masters(cluster=cluster, broker=broker)
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        await self._call_each(masters.values(), code, body=body, what=f"creating group {group!r}")
        return list(masters)

    async def delete_group(
        self, group: str, *, cluster: str | None = None, broker: str | None = None, remove_offset: bool = True
    ) -> None:
        """Delete a group with its retry and dead-letter topics."""
        check_text(group, "a group")
        addresses = (await self.masters(cluster=cluster, broker=broker)).values()
        await self._delete_group(addresses, group, remove_offset)
        for topic in (retry_topic(group), dlq_topic(group)):
            await self._call_each(addresses, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
            if broker is None:
                await self._tell_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})

    async def _delete_group(self, addresses: Iterable[str], group: str, remove_offset: bool) -> None:
        flag = java_flag(remove_offset)  # 5.x and 4.9 read it under different names
        ext = {"groupName": group, "cleanOffset": flag, "removeOffset": flag}
        await self._call_each(addresses, RequestCode.DELETE_SUBSCRIPTIONGROUP, ext, what=f"deleting group {group!r}")

    async def _connections_at(self, broker: str, group: str) -> ConsumerConnection:
        code, ext = RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group}
        return await self._ask(ConsumerConnection, broker, code, ext, what=f"the consumers of group {group!r}")

    async def group_connections(self, group: str) -> ConsumerConnection:
        """The consumers of a group that are connected, and what they subscribe to."""
        found: ConsumerConnection | None = None
        failure: ReplyError | None = None
        for address in (await self._brokers_of_group(group, None)).values():
            try:
                here = await self._connections_at(address, group)
            except ReplyError as error:
                if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    raise
                failure = error
                continue
            if found is not None:
                known = {connection.client_id: connection for connection in found.connection_set}
                merged = {connection.client_id: connection for connection in here.connection_set} | known
                here = dataclasses.replace(found, connection_set=tuple(merged.values()))
            found = here
        if found is None:
            raise failure or NotFoundError(f"group {group!r} has no consumer")
        return found

    async def producer_connections(self, group: str, topic: str) -> ProducerConnection:
        """The producers of a group that are connected to the brokers of a topic."""
        connections: dict[str, ClientConnection] = {}
        addresses = (await self._brokers_of(topic)).values()
        code, what = RequestCode.GET_PRODUCER_CONNECTION_LIST, f"the producers of group {group!r}"
        for found in await self._ask_each(ProducerConnection, addresses, code, {"producerGroup": group}, what=what):
            connections |= {connection.client_id: connection for connection in found.connection_set}
        return ProducerConnection(connection_set=tuple(connections.values()))

    async def all_producers(self, broker: str) -> dict[str, tuple[ProducerInfo, ...]]:
        """All producers of a broker (name or address), by group (5.x)."""
        return (await self._ask(ProducerTableInfo, broker, RequestCode.GET_ALL_PRODUCER_INFO)).data

    async def consumer_running_info(self, group: str, client_id: str, *, stacks: bool = False) -> ConsumerRunningInfo:
        """What one consumer tells about itself."""
        ext = {"consumerGroup": group, "clientId": client_id, "jstackEnable": java_flag(stacks)}
        code, what = RequestCode.GET_CONSUMER_RUNNING_INFO, f"the state of consumer {client_id!r}"
        failure: FlareMQError | None = None
        for address in (await self._brokers_of_group(group, None)).values():
            try:
                return await self._ask(ConsumerRunningInfo, address, code, ext, timeout=15.0, what=what)
            except ReplyError as error:
                failure = error
        raise failure or NotFoundError(f"group {group!r} has no consumer {client_id!r}")

    async def consumer_positions(self, group: str, topic: str) -> dict[str, dict[MessageQueue, int]]:
        """The offsets each connected consumer of a group has reached, by client id."""
        table: dict[str, dict[MessageQueue, int]] = {}
        for reply in await self._call_each(
            (await self._brokers_of(topic)).values(),
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            {"topic": topic, "group": group, "clientAddr": ""},
            timeout=15.0,
            what=f"the positions of group {group!r}",
        ):
            if reply.body:
                table |= GetConsumerStatusBody.from_json(reply.body_bytes).consumer_table
        return table

    async def consume_time_span(self, group: str, topic: str) -> list[QueueTimeSpan]:
        """Times of the first, last and next message of each queue."""
        addresses = (await self._brokers_of(topic)).values()
        code, ext = RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": topic, "group": group}
        bodies = await self._ask_each(QueryConsumeTimeSpanBody, addresses, code, ext)
        return [span for body in bodies for span in body.consume_time_span_set]

    async def group_topics(self, group: str) -> list[str]:
        """The topics a group consumes (5.x)."""
        addresses = (await self._brokers_of_group(group, None)).values()
        lists = await self._ask_each(TopicList, addresses, RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": group})
        return sorted({topic for found in lists for topic in found.topic_list})

    async def group_subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """What a group wants of a topic (5.x)."""
        for address in (await self._brokers_of(topic)).values():
            reply = await self._call(
                address, RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": group, "topic": topic}
            )
            if reply.body:
                return QuerySubscriptionResponseBody.from_json(reply.body_bytes).subscription_data
        return None

    async def broker_consume_stats(self, broker: str, *, orderly: bool = False) -> ConsumeStatsList:
        """How far all groups of one broker (name or address) are behind."""
        ext = {"isOrder": java_flag(orderly)}
        return await self._ask(ConsumeStatsList, broker, RequestCode.GET_BROKER_CONSUME_STATS, ext)

    async def set_consume_mode(
        self,
        group: str,
        topic: str,
        mode: str,
        *,
        pop_share_queues: int = 0,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> list[str]:
        """Let a group read a topic by PULL or POP (5.x); the brokers' names."""
        if mode not in ("PULL", "POP"):
            raise InvalidArgumentError(f"mode {mode!r} is neither PULL nor POP")
        body = SetMessageRequestModeRequestBody(
            topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=pop_share_queues
        ).to_json()
        masters = await self.masters(cluster=cluster, broker=broker)
        what = f"setting the mode of {group!r}"
        await self._call_each(masters.values(), RequestCode.SET_MESSAGE_REQUEST_MODE, body=body, what=what)
        return list(masters)
