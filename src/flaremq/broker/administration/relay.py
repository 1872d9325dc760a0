"""Questions that only a client can answer: passed on over the connection it made to us, its answer passed back.

A client that does not answer costs the asking tool its patience and nobody else anything: every relayed request has a
time limit, after which the tool gets CONSUME_MSG_TIMEOUT.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from flaremq.broker.catalog.groups import GroupTable
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.members.client_info import ClientInfo
from flaremq.broker.members.consumers import ConsumerTable
from flaremq.broker.options import BrokerOptions
from flaremq.broker.store_loop.access import StoreAccess
from flaremq.errors import FlareMQError, UnavailableError
from flaremq.message.message_id import decode_message_id
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.protocol.bodies.stats import GetConsumerStatusBody
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import ExtValue, RemotingCommand, RequestError
from flaremq.protocol.headers.admin import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
)
from flaremq.protocol.signing import without_proof
from flaremq.remoting.connection import RequestTimeoutError

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable

_log = logging.getLogger(__name__)
_RELAY_SECONDS: Final = 10.0
_STATUS_SECONDS: Final = 5.0
_STATUS_AT_ONCE: Final = 64
_STATUS_VERSION_MIN: Final = 28  # 3.0.7-SNAPSHOT
_RELAY_VERSION_MIN: Final = 62  # 3.1.8-SNAPSHOT


@dataclass(eq=False, repr=False)
class ClientRelayHandler:
    """GET_CONSUMER_RUNNING_INFO, CONSUME_MESSAGE_DIRECTLY, INVOKE_BROKER_TO_GET_CONSUMER_STATUS."""

    _options: BrokerOptions
    _store_loop: StoreAccess
    _topics: TopicTable
    _groups: GroupTable
    _consumers: ConsumerTable

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.GET_CONSUMER_RUNNING_INFO, self.running_info, "relay")
        table.register(RequestCode.CONSUME_MESSAGE_DIRECTLY, self.consume_directly, "relay")
        table.register(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, self.consumer_status, "relay")

    async def running_info(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """What a consumer tells about itself; its body is not looked into."""
        header = GetConsumerRunningInfoRequestHeader.decode(request.ext)
        return await self._relay(request, header.consumer_group, header.client_id, request.ext or {}, b"")

    async def consume_directly(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Hand one message to one consumer, outside of any queue, and tell what came of it."""
        header = ConsumeMessageDirectlyResultRequestHeader.decode(request.ext)
        _, physical_offset = decode_message_id(header.msg_id or "")
        message = await self._store_loop.run_cold(self._store_loop.store.read, physical_offset)
        if message is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"there is no message with the id {header.msg_id}")
        ext: dict[str, ExtValue] = dict(request.ext or {})
        ext["brokerName"] = self._options.broker_name
        topic = self._topics.find(header.topic) if header.topic else None
        if topic is not None:
            ext["topicSysFlag"] = topic.topic_sys_flag
        group = self._groups.all().get(header.consumer_group)
        if group is not None:
            ext["groupSysFlag"] = group.group_sys_flag
        record = bytes(message.record)
        return await self._relay(request, header.consumer_group, header.client_id or "", ext, record)

    async def _relay(
        self, request: RemotingCommand, group: str, client_id: str, ext: Mapping[str, ExtValue], body: bytes
    ) -> RemotingCommand:
        who = f"<{group[:255]}> <{client_id[:255]}>"
        info = self._find(group, client_id)
        if info is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"The Consumer {who} not online")
        if info.version < _RELAY_VERSION_MIN:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"The Consumer {who} Version <{info.version}> too low")
        try:
            answer = await info.connection.request(
                RemotingCommand.request(request.code, without_proof(ext), body), timeout=_RELAY_SECONDS
            )
        except RequestTimeoutError as error:
            raise RequestError(ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer {who} Timeout: {error}") from None
        except UnavailableError as error:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"invoke consumer {who} Exception: {error}") from None
        return RemotingCommand.response(answer.code, answer.remark, ext=answer.ext, body=answer.body)

    def _find(self, group: str, client_id: str) -> ClientInfo | None:
        connection = self._consumers.find_connection(group, client_id)
        online = self._consumers.find_group(group)
        return None if connection is None or online is None else online.connections.get(connection)

    async def consumer_status(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """How far each client of a group says it is; one that does not answer is left out."""
        header = GetConsumerStatusRequestHeader.decode(request.ext)
        online = self._consumers.find_group(header.group)
        if online is None:
            remark = f"No Any Consumer online in the consumer group: [{header.group[:255]}]"
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        clients = [
            info
            for info in online.connections.values()
            if not header.client_addr or header.client_addr == info.client_id
        ]
        old = [info for info in clients if info.version < _STATUS_VERSION_MIN]
        if old:
            remark = f"the client does not support this feature. version={old[0].version}"
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        ext = GetConsumerStatusRequestHeader(topic=header.topic, group=header.group).encode()
        room = asyncio.Semaphore(_STATUS_AT_ONCE)
        answers = await asyncio.gather(*(_ask_status(info, ext, room) for info in clients))
        table = {info.client_id: answer for info, answer in zip(clients, answers, strict=True) if answer is not None}
        return RemotingCommand.response(body=GetConsumerStatusBody(consumer_table=table).to_json())


async def _ask_status(info: ClientInfo, ext: dict[str, str], room: asyncio.Semaphore) -> dict[MessageQueue, int] | None:
    async with room:
        try:
            answer = await info.connection.request(
                RemotingCommand.request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ext), timeout=_STATUS_SECONDS
            )
            if answer.code != ResponseCode.SUCCESS or not answer.body_bytes:
                return None
            return GetConsumerStatusBody.from_json(answer.body_bytes).message_queue_table
        except FlareMQError as error:
            _log.info("client %s does not tell its status: %s", info.client_id, error)
            return None
