"""Requests about topics: where they are, which there are, and the few changes operators make to them here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flaremq.clock import Clock
from flaremq.namesrv.broker_table import MASTER_ID
from flaremq.namesrv.kv_config import ORDER_TOPIC_CONFIG, KVConfig
from flaremq.namesrv.options import NamesrvOptions
from flaremq.namesrv.requests.broker import ZONE_NAME
from flaremq.namesrv.route_info import RouteInfo
from flaremq.protocol.bodies.route import TopicRouteData
from flaremq.protocol.bodies.topic import TopicList
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.namesrv import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetTopicsByClusterRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable


class RouteHandlers:
    """Answers from the route table."""

    def __init__(self, routes: RouteInfo, kv_config: KVConfig, options: NamesrvOptions, clock: Clock) -> None:
        self._routes = routes
        self._kv_config = kv_config
        self._options = options
        self._clock = clock
        self._started = clock.monotonic()

    def register(self, table: HandlerTable) -> None:
        routes = self._routes
        table.register(RequestCode.GET_ROUTEINFO_BY_TOPIC, self.get_route, lane="client")
        table.register(RequestCode.GET_BROKER_CLUSTER_INFO, self.get_cluster_info)
        table.register(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, self.get_all_topics)
        table.register(RequestCode.GET_TOPICS_BY_CLUSTER, self.get_topics_of_cluster)
        table.register(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, self.get_system_topics)
        table.register(RequestCode.GET_UNIT_TOPIC_LIST, self._lister(routes.unit_topics))
        table.register(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, self._lister(routes.unit_sub_topics))
        table.register(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, self._lister(routes.unit_sub_ununit_topics))
        table.register(RequestCode.WIPE_WRITE_PERM_OF_BROKER, self.wipe_write_perm)
        table.register(RequestCode.ADD_WRITE_PERM_OF_BROKER, self.add_write_perm)
        table.register(RequestCode.DELETE_TOPIC_IN_NAMESRV, self.delete_topic)

    def get_route(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        """The route of a topic. A request that names none gets the answer for an unknown one, as in RocketMQ."""
        options = self._options
        if options.need_wait_for_service and self._is_warming_up():
            raise RequestError(ResponseCode.SYSTEM_ERROR, "name server not ready")
        topic = request.optional_field("topic")
        route = self._routes.find_route(topic or "", support_acting_master=options.support_acting_master)
        if topic is None or route is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {topic}"
            )
        if options.order_message_enable:
            route = replace(route, order_topic_conf=self._kv_config.find(ORDER_TOPIC_CONFIG, topic))
        zone = request.optional_field(ZONE_NAME)
        if zone and (request.optional_field("__ZONE_MODE") or "").lower() == "true":
            route = _in_zone(route, zone)
        return RemotingCommand.response(body=route.to_json())

    def _is_warming_up(self) -> bool:
        return self._clock.monotonic() - self._started < self._options.wait_seconds_for_service

    def get_cluster_info(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        return RemotingCommand.response(body=self._routes.cluster_info().to_json())

    def get_all_topics(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        if not self._options.enable_all_topic_list:
            raise RequestError(ResponseCode.SYSTEM_ERROR, "disable: enableAllTopicList=false")
        return _topic_list(self._routes.topics())

    def get_topics_of_cluster(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        self._check_lists_enabled()
        header = GetTopicsByClusterRequestHeader.decode(request.ext)
        return _topic_list(self._routes.topics_of_cluster(header.cluster))

    def get_system_topics(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        self._check_lists_enabled()
        return _topic_list(*self._routes.system_topics())

    def _lister(self, find: Callable[[], list[str]]) -> Callable[[Connection, RemotingCommand], RemotingCommand]:
        def list_topics(_: Connection, request: RemotingCommand) -> RemotingCommand:
            self._check_lists_enabled()
            return _topic_list(find())

        return list_topics

    def _check_lists_enabled(self) -> None:
        if not self._options.enable_topic_list:
            raise RequestError(ResponseCode.SYSTEM_ERROR, "disable: enableTopicList=false")

    def wipe_write_perm(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        header = WipeWritePermOfBrokerRequestHeader.decode(request.ext)
        count = self._routes.wipe_write_perm(header.broker_name)
        return RemotingCommand.response(ext=WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count).encode())

    def add_write_perm(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        header = AddWritePermOfBrokerRequestHeader.decode(request.ext)
        count = self._routes.add_write_perm(header.broker_name)
        return RemotingCommand.response(ext=AddWritePermOfBrokerResponseHeader(add_topic_count=count).encode())

    def delete_topic(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        header = DeleteTopicFromNamesrvRequestHeader.decode(request.ext)
        self._routes.delete_topic(header.topic, header.cluster_name or None)
        return RemotingCommand.response()


def _topic_list(topics: list[str], broker_address: str | None = None) -> RemotingCommand:
    return RemotingCommand.response(body=TopicList(topic_list=tuple(topics), broker_addr=broker_address).to_json())


def _in_zone(route: TopicRouteData, zone: str) -> TopicRouteData:
    """Only the brokers of a zone, and those that have lost their master: their messages must be read from somewhere."""
    kept = tuple(
        data
        for data in route.broker_datas
        if MASTER_ID not in data.broker_addrs or (data.zone_name or "").lower() == zone.lower()
    )
    names = {data.broker_name for data in kept}
    queues = tuple(entry for entry in route.queue_datas if entry.broker_name in names)
    return replace(route, broker_datas=kept, queue_datas=queues)
