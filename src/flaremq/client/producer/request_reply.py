"""Request-reply: a message that waits for the message some consumer sends in answer.

The answer does not travel through a topic: the broker pushes it on the connection of the client named in the request.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping

from flaremq.client.instance import ClientInstance
from flaremq.client.options import ProducerOptions
from flaremq.client.producer.outgoing import prepare
from flaremq.client.producer.send_result import SendResult
from flaremq.client.producer.sender import Sender
from flaremq.errors import InvalidArgumentError, NotFoundError, UnavailableError
from flaremq.message.compression import inflate
from flaremq.message.message import Message
from flaremq.message.properties import CLUSTER, CORRELATION_ID, MESSAGE_TYPE, REPLY_TO_CLIENT, TTL, parse_properties
from flaremq.message.sys_flag import COMPRESSED, compression_type
from flaremq.message.topics import reply_topic
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.connection import Connection, RequestTimeoutError


class RequestReply:
    """The requests of one producer that wait for their answers. Event loop thread only."""

    def __init__(self, instance: ClientInstance, sender: Sender, options: ProducerOptions) -> None:
        self._instance = instance
        self._sender = sender
        self._options = options
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        instance.handlers.register(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self._handle_reply, "reply")

    async def request(self, message: Message, timeout: float) -> Message:
        """Send a message and wait for the answer to it."""
        if timeout <= 0:
            raise InvalidArgumentError(f"a timeout of {timeout} seconds leaves no time for an answer")
        instance = self._instance
        correlation_id = str(uuid.uuid4())
        marks = {
            CORRELATION_ID: correlation_id,
            REPLY_TO_CLIENT: instance.client_id,
            TTL: str(max(1, int(timeout * 1000))),
        }
        outgoing = prepare(message, instance.make_unique_key(), self._options, marks)
        waiting: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = waiting
        try:
            async with asyncio.timeout(timeout):
                await self._be_reachable(message.topic)
                await self._sender.transmit([outgoing], timeout=min(timeout, self._options.send_timeout))
                return await waiting
        except TimeoutError:
            raise RequestTimeoutError(
                f"no answer to the request to topic {message.topic!r} within {timeout} seconds"
            ) from None
        finally:
            del self._waiting[correlation_id]

    async def reply(self, request: Mapping[str, str], body: bytes) -> SendResult:
        """Answer the request that has these properties."""
        missing = [name for name in (CLUSTER, CORRELATION_ID, REPLY_TO_CLIENT) if not request.get(name)]
        if missing:
            raise InvalidArgumentError(f"this message is no request: it has no property {', '.join(missing)}")
        marks = {name: request[name] for name in (CORRELATION_ID, REPLY_TO_CLIENT, TTL) if name in request}
        marks[MESSAGE_TYPE] = "reply"
        instance = self._instance
        key = instance.make_unique_key()
        outgoing = prepare(Message(reply_topic(request[CLUSTER]), body), key, self._options, marks)
        return (await self._sender.transmit([outgoing], code=RequestCode.SEND_REPLY_MESSAGE_V2))[0]

    async def _be_reachable(self, topic: str) -> None:
        """Be known to every broker that an answer may go to."""
        route = await self._sender.route(topic)
        addresses = dict(route.addresses)
        for cluster in {broker.cluster for broker in route.data.broker_datas}:
            try:
                addresses |= (await self._instance.routes.find(reply_topic(cluster))).addresses
            except NotFoundError:
                continue  # then answers go to the brokers of the topic, as with old brokers
        for by_id in addresses.values():
            if 0 in by_id:
                await self._instance.heartbeats.ensure(by_id[0])

    def _handle_reply(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        properties = parse_properties(request.field("properties").encode())
        body = request.body_bytes
        sys_flag = request.int_field("sysFlag")
        if sys_flag & COMPRESSED:
            body = inflate(body, compression_type(sys_flag))
        waiting = self._waiting.get(properties.get(CORRELATION_ID, ""))
        if waiting is not None and not waiting.done():
            flag = int(str((request.ext or {}).get("flag", "0")) or 0)
            waiting.set_result(Message.from_properties(request.field("topic"), body, properties, flag=flag))
        return RemotingCommand.response()

    def abandon(self) -> None:
        """Fail what still waits for a reply."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(UnavailableError("the producer was closed before an answer came"))
