"""Clients come, tell what they are, and go: heartbeats and the questions about who is online.

A heartbeat is answered when what it caused is in force: the client is registered (it asks for the list of consumers
next), its groups are on disk, and so is their retry topic, which the name servers know (it asks for that route next,
and then not again for 30 s).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from flaremq.broker.catalog.groups import GroupTable, check_not_broker_group
from flaremq.broker.catalog.names import check_client_id, check_group
from flaremq.broker.catalog.table_saver import Run, run_inline
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.filter.subscription import build_subscription
from flaremq.broker.long_polling.pull_request import check_filter_allowed
from flaremq.broker.members.client_info import ClientInfo
from flaremq.broker.members.consumers import ConsumerTable
from flaremq.broker.members.producers import ProducerTable, render_producer_table, render_producers
from flaremq.broker.options import BrokerOptions
from flaremq.errors import InvalidArgumentError
from flaremq.message.topics import retry_topic
from flaremq.protocol.bodies.client import CheckClientRequestBody, ConsumerData, HeartbeatData
from flaremq.protocol.bodies.group import GetConsumerListByGroupResponseBody
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.admin import (
    GetConsumerConnectionListRequestHeader,
    GetProducerConnectionListRequestHeader,
)
from flaremq.protocol.headers.consume import (
    GetConsumerListByGroupRequestHeader,
    HeartbeatResponseHeader,
    UnregisterClientRequestHeader,
)

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable, Outcome

_log = logging.getLogger(__name__)

PULL_TYPE = "CONSUME_ACTIVELY"
_LARGE_HEARTBEAT_BYTES: Final = 256 << 10  # reading more than this would keep everybody else waiting


class ClientManageHandler:
    """HEART_BEAT and its relatives."""

    def __init__(
        self,
        options: BrokerOptions,
        topics: TopicTable,
        groups: GroupTable,
        consumers: ConsumerTable,
        producers: ProducerTable,
        check_filter: Callable[[str], object],
        run_long: Run = run_inline,
    ) -> None:
        self._run_long = run_long  # StoreLoop.run_long: renders whole tables
        self._options = options
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._producers = producers
        self._check_filter = check_filter  # raises InvalidArgumentError for an SQL92 expression that does not compile
        self._watched: set[Connection] = set()
        self._fingerprints: dict[str, int] = {}  # by group: what the last heartbeat with a fingerprint had
        consumers.on_gone.append(self._forget_fingerprint)

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.HEART_BEAT, self.heartbeat, "heartbeat")
        table.register(RequestCode.UNREGISTER_CLIENT, self.unregister_client, "client")
        table.register(RequestCode.CHECK_CLIENT_CONFIG, self.check_client_config, "client")
        table.register(RequestCode.GET_CONSUMER_LIST_BY_GROUP, self.consumer_list, "client")
        table.register(RequestCode.GET_CONSUMER_CONNECTION_LIST, self.consumer_connections)
        table.register(RequestCode.GET_PRODUCER_CONNECTION_LIST, self.producer_connections)
        table.register(RequestCode.GET_ALL_PRODUCER_INFO, self.all_producers)

    # Heartbeats

    def heartbeat(self, connection: Connection, request: RemotingCommand) -> Outcome:
        body = request.body_bytes
        if len(body) > _LARGE_HEARTBEAT_BYTES:
            return self._large_heartbeat(connection, request, body)
        return self._heartbeat(connection, request, HeartbeatData.from_json(body), is_checked=False)

    async def _large_heartbeat(
        self, connection: Connection, request: RemotingCommand, body: bytes
    ) -> RemotingCommand | None:
        data = await asyncio.to_thread(self._read_checked, body)
        if not connection.is_open:
            return None  # its close would go unnoticed
        outcome = self._heartbeat(connection, request, data, is_checked=True)
        return outcome if outcome is None or isinstance(outcome, RemotingCommand) else await outcome

    def _read_checked(self, body: bytes) -> HeartbeatData:
        data = HeartbeatData.from_json(body)
        return replace(data, consumer_data_set=tuple(map(self._consumers.checked, data.consumer_data_set)))

    def _heartbeat(
        self, connection: Connection, request: RemotingCommand, data: HeartbeatData, *, is_checked: bool
    ) -> Outcome:
        info = ClientInfo(connection, check_client_id(data.client_id), request.language, request.version)
        for producer in data.producer_data_set:
            check_group(producer.group_name)
        for consumer in data.consumer_data_set:
            check_not_broker_group(check_group(consumer.group_name))
        self._watch(connection)
        has_changed = False
        for consumer in data.consumer_data_set:
            has_changed |= self._register_consumer(info, consumer, data, is_checked=is_checked)
        for producer in data.producer_data_set:
            self._producers.register(producer.group_name, info)
        # Without a fingerprint there is nothing to compare: the client is to send everything again, as it does.
        header = HeartbeatResponseHeader(
            is_support_heart_beat_v2=True, is_sub_change=has_changed or data.heartbeat_fingerprint == 0
        )
        response = RemotingCommand.response(ext=header.encode())
        is_saved = self._topics.is_saved and self._groups.is_saved
        return response if is_saved else self._when_settled(response)

    def _register_consumer(
        self, info: ClientInfo, data: ConsumerData, heartbeat: HeartbeatData, *, is_checked: bool
    ) -> bool:
        """Take one entry; True if the broker does not know the subscriptions its fingerprint stands for."""
        if self._options.reject_pull_consumer_enable and data.consume_type == PULL_TYPE:
            return False
        group = data.group_name
        config = self._groups.find(group)
        if config is None:
            _log.warning("group %s does not exist: the heartbeat of %s is ignored for it", group, info.client_id)
            return False
        known = self._consumers.find_group(group)
        is_unknown = False
        if heartbeat.heartbeat_fingerprint:
            old = self._fingerprints.get(group)
            is_unknown = old is not None and old != heartbeat.heartbeat_fingerprint
            is_unknown |= heartbeat.without_sub and (known is None or not known.subscriptions)
            self._fingerprints[group] = heartbeat.heartbeat_fingerprint
        self._create_retry_topic(data, config.retry_queue_nums, heartbeat.without_sub)
        self._consumers.register(
            info,
            data,
            notify=config.notify_consumer_ids_changed_enable and self._options.notify_consumer_ids_changed_enable,
            keep_subscriptions=heartbeat.without_sub,
            is_checked=is_checked,
        )
        return is_unknown

    def _create_retry_topic(self, data: ConsumerData, queue_nums: int, without_sub: bool) -> None:
        order = None
        if not without_sub:
            found = (self._topics.find(subscription.topic) for subscription in data.subscription_data_set)
            order = any(config.order for config in found if config is not None)
        self._topics.create_on_send_back(
            retry_topic(data.group_name), max(1, queue_nums), order=order, topic_sys_flag=int(data.unit_mode) << 1
        )

    async def _when_settled(self, response: RemotingCommand) -> RemotingCommand:
        await self._topics.save_changes()
        await self._groups.save_changes()
        return response

    def _watch(self, connection: Connection) -> None:
        """A connection that ends means its client is gone: many never say goodbye."""
        if connection not in self._watched:
            self._watched.add(connection)
            connection.on_close.append(self._closed)

    def _closed(self, connection: Connection) -> None:
        self._watched.discard(connection)
        self._producers.connection_closed(connection)
        self._consumers.connection_closed(connection)

    def _forget_fingerprint(self, group: str) -> None:
        self._fingerprints.pop(group, None)

    def unregister_client(self, connection: Connection, request: RemotingCommand) -> Outcome:
        header = UnregisterClientRequestHeader.decode(request.ext)
        if header.producer_group:
            self._producers.unregister(header.producer_group, connection)
        if header.consumer_group:
            config = self._groups.get(header.consumer_group)
            notify = config is None or config.notify_consumer_ids_changed_enable
            notify &= self._options.notify_consumer_ids_changed_enable
            self._consumers.unregister(header.consumer_group, connection, notify=notify)
        return RemotingCommand.response()

    def check_client_config(self, connection: Connection, request: RemotingCommand) -> Outcome:
        if not request.body_bytes:
            return RemotingCommand.response()
        data = CheckClientRequestBody.from_json(request.body_bytes).subscription_data
        bytes_max = self._options.filter_expression_bytes_max
        if data.is_tag_type:
            build_subscription(data.topic, data.sub_string, bytes_max=bytes_max)
            return RemotingCommand.response()
        check_filter_allowed(self._options, data.expression_type)
        build_subscription(data.topic, data.sub_string, data.expression_type, bytes_max=bytes_max)
        try:
            self._check_filter(data.sub_string)
        except InvalidArgumentError as error:
            raise RequestError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from error
        return RemotingCommand.response()

    # Who is online

    def consumer_list(self, connection: Connection, request: RemotingCommand) -> Outcome:
        group = GetConsumerListByGroupRequestHeader.decode(request.ext).consumer_group
        ids = self._consumers.client_ids(group)
        if not ids:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group[:255]}")
        body = GetConsumerListByGroupResponseBody(consumer_id_list=tuple(ids)).to_json()
        return RemotingCommand.response(body=body)

    async def consumer_connections(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        name = GetConsumerConnectionListRequestHeader.decode(request.ext).consumer_group
        group = self._consumers.find_group(name)
        if group is None:
            raise RequestError(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name[:255]}] not online")
        return RemotingCommand.response(body=await self._run_long(group.renderer()))

    async def producer_connections(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        group = GetProducerConnectionListRequestHeader.decode(request.ext).producer_group
        members = self._producers.connections(group)
        if not members:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"the producer group[{group[:255]}] not exist")
        return RemotingCommand.response(body=await self._run_long(render_producers, members))

    async def all_producers(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return RemotingCommand.response(body=await self._run_long(render_producer_table, self._producers.members()))
