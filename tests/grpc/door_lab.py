"""The calls of a broker without a transport: what a client sends goes to the handler, what it gets comes back."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from flaremq.broker.grpc_door.local_backend import LocalBackend
from flaremq.clock import Clock, SystemClock
from flaremq.grpc.call import Call
from flaremq.grpc.calls.service import MessagingService
from flaremq.grpc.framing import MessageReader, prefixed
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import ClientType, Code, FilterType, MessageType
from flaremq.grpc.messages.methods import METHODS, Method
from flaremq.grpc.rules.limits import CallLimits
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.testing import EphemeralBroker, ephemeral_broker

PEER = "10.1.2.3:4567"


def lab_test(scenario: Callable[..., Awaitable[None]]) -> Callable[[], None]:
    """A scenario that is given a door, as a test."""

    def run() -> None:
        async def within() -> None:
            async with open_door() as lab:
                await scenario(lab)

        asyncio.run(within())

    run.__name__ = run.__qualname__ = scenario.__name__
    run.__doc__ = scenario.__doc__
    return run


@contextlib.asynccontextmanager
async def open_door(
    clock: Clock | None = None, limits: CallLimits | None = None, **options: object
) -> AsyncIterator[DoorLab]:
    async with ephemeral_broker(clock=clock or SystemClock(), **options) as broker:
        lab = DoorLab(broker, limits or CallLimits(min_long_polling_ms=50))
        lab.service.start()
        try:
            yield lab
        finally:
            await lab.close()


class FakeStream:
    """Both ends of a Telemetry stream."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[Any] = asyncio.Queue()
        self.sent: asyncio.Queue[Any] = asyncio.Queue()
        self.task: asyncio.Task[None] | None = None

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (message := await self.incoming.get()) is not None:
            yield message

    async def send(self, message: Any) -> None:
        self.sent.put_nowait(_copied(message))

    def push(self, message: Any) -> bool:
        if self.task is None or self.task.done():
            return False
        self.sent.put_nowait(_copied(message))
        return True

    def finish(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def next(self) -> Any:
        async with asyncio.timeout(10):
            return await self.sent.get()

    async def close(self) -> None:
        self.incoming.put_nowait(None)
        if self.task is not None:
            await self.task


def replies_of(method: Method, reply: Any) -> list[Any]:
    """What the wire makes of what a handler sends: a reply, or bytes that are several."""
    data = reply if isinstance(reply, bytes) else prefixed(reply.SerializeToString())
    reader = MessageReader(1 << 30, "")
    found = [method.reply.FromString(message) for message in reader.feed(data)]
    assert not reader.buffered
    return found


def _copied(message: Any) -> Any:
    """What the wire makes of a message."""
    return type(message).FromString(message.SerializeToString())


class DoorLab:
    """A broker, its calls, and clients that make them."""

    def __init__(self, broker: EphemeralBroker, limits: CallLimits) -> None:
        self.broker = broker
        self.state = broker.broker.state
        self.backend = LocalBackend(self.state, broker.broker.handlers.table)
        self.service = MessagingService(self.backend, limits, seal_key=b"k" * 32)
        self._streams: list[FakeStream] = []

    async def close(self) -> None:
        for stream in self._streams:
            if stream.task is not None and not stream.task.done():
                await stream.close()
        await self.service.stop()

    # What there is

    def topic(self, name: str, message_type: str = "", *, queues: int = 4, perm: int = 6) -> str:
        attributes = {"message.type": message_type} if message_type else {}
        self.state.topics.update(
            TopicConfig(
                topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, attributes=attributes
            )
        )
        return name

    def group(self, name: str, **settings: Any) -> str:
        self.state.groups.update(SubscriptionGroupConfig(group_name=name, **settings))
        return name

    # Calls

    def new_call(self, method: str, client: str = "c1", seconds: float | None = 10.0, **metadata: str) -> Call:
        deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
        keys = {"x-mq-client-id": client, "x-mq-language": "PYTHON", "x-mq-client-version": "5.1.2"}
        keys |= {name.replace("_", "-"): value for name, value in metadata.items()}
        return Call(method, keys, peer=PEER, local_address="127.0.0.1:8081", deadline=deadline)

    async def call(self, method: str, request: Any, client: str = "c1", seconds: float | None = 10.0) -> Any:
        handler: Any = self.service.handlers[method]
        outcome = handler(_copied(request), self.new_call(method, client, seconds))
        return _copied(await outcome if inspect.isawaitable(outcome) else outcome)

    async def stream(self, method: str, request: Any, call: Call | None = None, client: str = "c1") -> list[Any]:
        handler: Any = self.service.handlers[method]
        frames: list[Any] = []

        async def send(reply: Any) -> None:
            frames.extend(replies_of(METHODS[method], reply))

        await handler(_copied(request), call or self.new_call(method, client), send)
        return frames

    async def telemetry(self, settings: Any, client: str = "c1") -> FakeStream:
        """A stream that has sent its settings; the answer is the next that comes."""
        stream = FakeStream()
        handler: Any = self.service.handlers["Telemetry"]
        stream.task = asyncio.create_task(handler(stream, self.new_call("Telemetry", client, None)))
        stream.incoming.put_nowait(classes.TelemetryCommand(settings=settings))
        self._streams.append(stream)
        return stream

    # In the words of tests

    async def send(self, topic: str, body: bytes = b"hello", client: str = "p1", **fields: Any) -> Any:
        """The only entry of a send."""
        reply = await self.call(
            "SendMessage", classes.SendMessageRequest(messages=[message(topic, body, **fields)]), client
        )
        assert len(reply.entries) <= 1
        return reply.entries[0] if reply.entries else reply

    async def receive(
        self,
        topic: str,
        group: str,
        *,
        client: str = "c1",
        count: int = 32,
        invisible: int = 30,
        poll: float = 0.1,
        renew: bool = False,
        tag: str = "*",
        sql: str = "",
        attempt: str = "",
    ) -> list[Any]:
        frames = await self.stream(
            "ReceiveMessage",
            receive_request(
                topic,
                group,
                count=count,
                invisible=invisible,
                poll=poll,
                renew=renew,
                tag=tag,
                sql=sql,
                attempt=attempt,
            ),
            client=client,
        )
        assert frames[0].WhichOneof("content") == "status"
        assert frames[-1].WhichOneof("content") == "delivery_timestamp"
        messages = [frame.message for frame in frames[1:-1]]
        expected = Code.OK if messages else Code.MESSAGE_NOT_FOUND
        assert frames[0].status.code == expected, frames[0].status
        return messages

    async def receive_soon(self, topic: str, group: str, **wishes: Any) -> Any:
        """The first message that comes within a few seconds."""
        async with asyncio.timeout(10):
            while True:
                found = await self.receive(topic, group, count=1, **wishes)
                if found:
                    return found[0]

    async def finds_nothing(self, topic: str, group: str, client: str = "c2") -> bool:
        """Whether a poll ends without a message, on a clock that is moved by hand."""
        looking = asyncio.create_task(self.receive(topic, group, client=client))
        while not looking.done():
            await self.broker.advanced(seconds=1)
        return await looking == []

    async def ack(self, topic: str, group: str, given: Any, client: str = "c1") -> int:
        entry = classes.AckMessageEntry(
            message_id=given.system_properties.message_id, receipt_handle=given.system_properties.receipt_handle
        )
        request = classes.AckMessageRequest(group=resource(group), topic=resource(topic), entries=[entry])
        reply = await self.call("AckMessage", request, client)
        if reply.entries:
            assert reply.status.code == reply.entries[0].status.code
        return int(reply.status.code)

    async def change(
        self, topic: str, group: str, given: Any, seconds: float, client: str = "c1", handle: str = ""
    ) -> Any:
        request = classes.ChangeInvisibleDurationRequest(
            group=resource(group),
            topic=resource(topic),
            receipt_handle=handle or given.system_properties.receipt_handle,
            message_id=given.system_properties.message_id,
        )
        request.invisible_duration.seconds = int(seconds)
        request.invisible_duration.nanos = int(seconds % 1 * 1e9)
        return await self.call("ChangeInvisibleDuration", request, client)


def resource(name: str) -> Any:
    return classes.Resource(name=name)


_numbers = iter(range(1_000_000))


def message(
    topic: str, body: bytes = b"hello", *, message_id: str | None = None, properties: Any = (), **system: Any
) -> Any:
    """A message as clients make it; ``system`` are fields of its system properties."""
    result = classes.Message(topic=resource(topic), body=body, user_properties=dict(properties))
    fields = result.system_properties
    fields.message_id = f"01{next(_numbers):032X}" if message_id is None else message_id
    fields.message_type = system.pop("message_type", MessageType.NORMAL)
    fields.body_encoding = 1
    fields.born_timestamp.seconds = 1_700_000_000
    fields.born_host = "client-host"
    for name in ("delivery_timestamp",):
        if name in system:
            milliseconds = system.pop(name)
            getattr(fields, name).seconds, rest = divmod(milliseconds, 1000)
            getattr(fields, name).nanos = rest * 1_000_000
    if "recovery_seconds" in system:
        fields.orphaned_transaction_recovery_duration.seconds = system.pop("recovery_seconds")
    keys = system.pop("keys", ())
    fields.keys.extend(keys)
    for name, value in system.items():
        setattr(fields, name, value)
    return result


def receive_request(
    topic: str,
    group: str,
    *,
    count: int = 32,
    invisible: int = 30,
    poll: float = 0.1,
    renew: bool = False,
    tag: str = "*",
    sql: str = "",
    attempt: str = "",
) -> Any:
    request = classes.ReceiveMessageRequest(group=resource(group), batch_size=count, auto_renew=renew)
    request.message_queue.topic.name = topic
    request.message_queue.id = -1
    request.filter_expression.type = FilterType.SQL if sql else FilterType.TAG
    request.filter_expression.expression = sql or tag
    if not renew:
        request.invisible_duration.seconds = invisible
    request.long_polling_timeout.nanos = int(poll % 1 * 1e9)
    request.long_polling_timeout.seconds = int(poll)
    if attempt:
        request.attempt_id = attempt
    return request


def producer_settings(*topics: str) -> Any:
    settings = classes.Settings(client_type=ClientType.PRODUCER)
    settings.publishing.topics.extend(map(resource, topics))
    settings.publishing.SetInParent()
    return settings


def consumer_settings(group: str, *topics: str, push: bool = True, tag: str = "*") -> Any:
    settings = classes.Settings(client_type=ClientType.PUSH_CONSUMER if push else ClientType.SIMPLE_CONSUMER)
    settings.subscription.group.name = group
    for topic in topics:
        settings.subscription.subscriptions.add(
            topic=resource(topic), expression=classes.FilterExpression(type=FilterType.TAG, expression=tag)
        )
    return settings
