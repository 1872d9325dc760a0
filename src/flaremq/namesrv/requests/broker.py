"""Requests of brokers: register, say goodbye, show signs of life."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import Final
from weakref import WeakValueDictionary

from flaremq.clock import Clock
from flaremq.namesrv.kv_config import ORDER_TOPIC_CONFIG, KVConfig
from flaremq.namesrv.options import NamesrvOptions
from flaremq.namesrv.route_info import BrokerRegistration, RegisterResult, RouteInfo
from flaremq.protocol.bodies.register import RegisterBrokerBody, body_crc32
from flaremq.protocol.bodies.route import GetBrokerMemberGroupResponseBody, TopicRouteData
from flaremq.protocol.bodies.topic import DataVersion, KVTable
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.namesrv import (
    BrokerHeartbeatRequestHeader,
    GetBrokerMemberGroupRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
)
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable, Outcome

_log = logging.getLogger(__name__)

ZONE_NAME = "__ZONE_NAME"  # may accompany any request of a broker or client that knows its zone

# A registration above this is read beside the event loop. A packed one may be a thousand times larger inside.
_LARGE_BYTES: Final = 256 << 10
_LARGE_PACKED_BYTES: Final = 2 << 10


class BrokerHandlers:
    """Keeps the route table up to date with what brokers say."""

    def __init__(self, routes: RouteInfo, kv_config: KVConfig, options: NamesrvOptions, clock: Clock) -> None:
        self._routes = routes
        self._kv_config = kv_config
        self._options = options
        self._clock = clock
        # By broker address, while something large of it is being read: what it says meanwhile waits for its turn. Only
        # the work itself keeps its lock alive, so nothing is left when that ends, or is dropped before it begins.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.REGISTER_BROKER, self.register_broker)
        table.register(RequestCode.UNREGISTER_BROKER, self.unregister_broker)
        table.register(RequestCode.QUERY_DATA_VERSION, self.query_data_version)
        table.register(RequestCode.BROKER_HEARTBEAT, self.heartbeat, lane="heartbeat")
        table.register(RequestCode.GET_BROKER_MEMBER_GROUP, self.get_member_group)
        table.register(RequestCode.REGISTER_TOPIC_IN_NAMESRV, self.register_topic)

    def register_broker(self, connection: Connection, request: RemotingCommand) -> Outcome:
        header = RegisterBrokerRequestHeader.decode(request.ext)
        body = request.body_bytes
        turn = self._turns.get(header.broker_addr)
        if turn is None and _is_large(body):
            turn = self._turns[header.broker_addr] = asyncio.Lock()
        if turn is not None:
            return self._register_in_turn(turn, connection, request, header, body)
        fingerprint = _checked_fingerprint(request, header, body)
        result = self._refresh(header, fingerprint, connection)
        if result is None:
            zone_name = request.optional_field(ZONE_NAME)
            result = self._enter(connection, self._registration(header, body, zone_name, fingerprint))
        return self._registered(result)

    async def _register_in_turn(
        self,
        turn: asyncio.Lock,
        connection: Connection,
        request: RemotingCommand,
        header: RegisterBrokerRequestHeader,
        body: bytes,
    ) -> RemotingCommand | None:
        """The same, with the reading on another thread, after what the broker said before."""
        async with turn:
            fingerprint = await asyncio.to_thread(_checked_fingerprint, request, header, body)
            result = self._refresh(header, fingerprint, connection)
            if result is None:
                zone_name = request.optional_field(ZONE_NAME)
                registration = await asyncio.to_thread(self._registration, header, body, zone_name, fingerprint)
                if not connection.is_open:
                    return None  # its close was handled already: nothing would unregister the broker again
                result = self._enter(connection, registration)
        return self._registered(result)

    def _refresh(
        self, header: RegisterBrokerRequestHeader, fingerprint: bytes, connection: Connection
    ) -> RegisterResult | None:
        cluster, address = header.cluster_name, header.broker_addr
        return self._routes.refresh(cluster, address, fingerprint, connection, self._now_ms())

    def _enter(self, connection: Connection, registration: BrokerRegistration) -> RegisterResult:
        cluster, address = registration.cluster, registration.address
        is_new = self._routes.find_data_version(cluster, address) is None
        delete_missing = self._options.delete_topic_with_broker_registration
        result = self._routes.register(registration, connection, self._now_ms(), delete_missing_topics=delete_missing)
        if self._connection_lost not in connection.on_close:
            connection.on_close.append(self._connection_lost)
        if is_new:
            name, broker_id = registration.broker_name, registration.broker_id
            _log.info("broker %s:%d of %s registered from %s", name, broker_id, cluster, address)
        return result

    def _registration(
        self, header: RegisterBrokerRequestHeader, body: bytes, zone_name: str | None, fingerprint: bytes
    ) -> BrokerRegistration:
        content = RegisterBrokerBody.decode(body)  # packed or not, whatever the header says
        wrapper = content.topic_config_serialize_wrapper
        own_limit = header.heartbeat_timeout_millis or 0
        return BrokerRegistration(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            broker_id=header.broker_id,
            address=header.broker_addr,
            ha_address=header.ha_server_addr,
            timeout_ms=own_limit if own_limit > 0 else self._options.broker_channel_expired_time,
            data_version=wrapper.data_version,
            topics=wrapper.topic_config_table,
            enable_acting_master=header.enable_acting_master,
            zone_name=zone_name,
            filter_servers=content.filter_server_list,
            mappings=wrapper.topic_queue_mapping_info_map,
            fingerprint=fingerprint,
        )

    def _registered(self, result: RegisterResult) -> RemotingCommand:
        header = RegisterBrokerResponseHeader(master_addr=result.master_address, ha_server_addr=result.ha_address)
        order = self._kv_config.find_namespace(ORDER_TOPIC_CONFIG)
        body = b""
        if order is not None and self._options.return_order_topic_config_to_broker:
            body = KVTable(table=dict(order)).to_json()
        return RemotingCommand.response(ext=header.encode(), body=body)

    def unregister_broker(self, _: Connection, request: RemotingCommand) -> Outcome:
        header = UnRegisterBrokerRequestHeader.decode(request.ext)
        turn = self._turns.get(header.broker_addr)
        return self._unregister(header) if turn is None else self._unregister_in_turn(turn, header)

    async def _unregister_in_turn(self, turn: asyncio.Lock, header: UnRegisterBrokerRequestHeader) -> RemotingCommand:
        async with turn:
            return self._unregister(header)

    def _unregister(self, header: UnRegisterBrokerRequestHeader) -> RemotingCommand:
        cluster, name, address = header.cluster_name, header.broker_name, header.broker_addr
        self._routes.unregister(cluster=cluster, broker_name=name, address=address)
        _log.info("broker %s:%d of %s at %s unregistered", name, header.broker_id, cluster, address)
        return RemotingCommand.response()

    def query_data_version(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        """Is there anything new to register? A broker that has nothing new shows that it is alive by asking."""
        header = QueryDataVersionRequestHeader.decode(request.ext)
        body = request.body_bytes
        theirs = DataVersion.from_json(body) if body else DataVersion()
        ours = self._routes.find_data_version(header.cluster_name, header.broker_addr)
        if ours == theirs:
            self._routes.touch(header.cluster_name, header.broker_addr, self._now_ms())
        ext = QueryDataVersionResponseHeader(changed=ours != theirs).encode()
        return RemotingCommand.response(ext=ext, body=b"" if ours is None else ours.to_json())

    def heartbeat(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        header = BrokerHeartbeatRequestHeader.decode(request.ext)
        self._routes.touch(header.cluster_name, header.broker_addr, self._now_ms())
        return RemotingCommand.response()

    def get_member_group(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        header = GetBrokerMemberGroupRequestHeader.decode(request.ext)
        group = self._routes.member_group(header.cluster_name, header.broker_name)
        return RemotingCommand.response(body=GetBrokerMemberGroupResponseBody(broker_member_group=group).to_json())

    def register_topic(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        body = request.body_bytes
        if body:
            self._routes.register_topic(request.field("topic"), TopicRouteData.from_json(body).queue_datas)
        return RemotingCommand.response()

    def _connection_lost(self, connection: Connection) -> None:
        for broker in self._routes.connection_lost(connection):
            _log.warning(
                "broker %s:%d at %s is gone: connection lost", broker.broker_name, broker.broker_id, broker.address
            )

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


def _is_large(body: bytes) -> bool:
    return len(body) > (_LARGE_PACKED_BYTES if body[:1] == b"\x78" else _LARGE_BYTES)


def _checked_fingerprint(request: RemotingCommand, header: RegisterBrokerRequestHeader, body: bytes) -> bytes:
    """Equal for requests that say the same; not to be fooled, since one broker must not pass for another's news."""
    if header.body_crc32 and header.body_crc32 != body_crc32(body):
        raise RequestError(ResponseCode.SYSTEM_ERROR, "crc32 not match")
    digest = hashlib.blake2b(repr(sorted((request.ext or {}).items())).encode(), digest_size=16)
    digest.update(body)
    return digest.digest()
