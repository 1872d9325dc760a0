"""A port of gRPC with handlers of a test, and grpcio's client before it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from flaremq.grpc.call import Call, Handlers, Send, Stream
from flaremq.grpc.listener import listen
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.methods import METHODS
from flaremq.grpc.options import GrpcOptions
from flaremq.grpc.server.server import GrpcServer
from flaremq.remoting.options import RemotingOptions

METADATA = (("x-mq-client-id", "host@1@0@abc"), ("x-mq-language", "PYTHON"))


def send_echo(request: Any, call: Call) -> Any:
    """SendMessage: one entry for each message, named by its body's length and digest-less text."""
    reply = classes.SendMessageResponse()
    reply.status.code = 20000
    for message in request.messages:
        entry = reply.entries.add()
        entry.message_id = message.system_properties.message_id
        entry.offset = len(message.body)
    return reply


async def send_later(request: Any, call: Call) -> Any:
    await asyncio.sleep(0)
    return send_echo(request, call)


async def receive_bodies(request: Any, call: Call, send: Send) -> None:
    """ReceiveMessage: a status, `batch_size` messages with bodies of `attempt_id` bytes, a time."""
    await send(classes.ReceiveMessageResponse(status=classes.Status(code=20000)))
    body = bytes(int(request.attempt_id or 0))
    for number in range(request.batch_size):
        message = classes.ReceiveMessageResponse()
        message.message.system_properties.queue_offset = number
        message.message.body = body
        await send(message)
    await send(classes.ReceiveMessageResponse(delivery_timestamp=classes.Timestamp(seconds=1)))


async def telemetry_echo(stream: Stream, call: Call) -> None:
    async for command in stream:
        await stream.send(command)


ECHO: Handlers = {"SendMessage": send_echo, "ReceiveMessage": receive_bodies, "Telemetry": telemetry_echo}


@contextlib.asynccontextmanager
async def grpc_port(
    handlers: Handlers = ECHO,
    *,
    guard: Any = None,
    remoting: RemotingOptions | None = None,
    **options: Any,
) -> AsyncIterator[GrpcServer]:
    server = GrpcServer(handlers, GrpcOptions(**options), remoting, guard=guard)
    await server.serve(listen("127.0.0.1", 0))
    try:
        yield server
    finally:
        await server.stop()


class Client:
    """grpcio's client with our messages, which it does not know."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel

    def _callable(self, kind: str, name: str) -> Callable[..., Any]:
        method = METHODS[name]
        make: Callable[..., Any] = getattr(self.channel, kind)
        return make(  # type: ignore[no-any-return]
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.reply.FromString,
        )

    def unary(self, name: str, request: Any, metadata: Any = METADATA, **settings: Any) -> Any:
        return self._callable("unary_unary", name)(request, metadata=metadata, **settings)

    def stream(self, name: str, request: Any, metadata: Any = METADATA, **settings: Any) -> Any:
        return self._callable("unary_stream", name)(request, metadata=metadata, **settings)

    def bidi(self, name: str, metadata: Any = METADATA, **settings: Any) -> Any:
        return self._callable("stream_stream", name)(metadata=metadata, **settings)


@contextlib.asynccontextmanager
async def client_of(port: int, credentials: Any = None, **options: Any) -> AsyncIterator[Client]:
    settings = [(name.replace("__", "."), value) for name, value in options.items()]
    address = f"127.0.0.1:{port}"
    if credentials is None:
        channel = grpc.aio.insecure_channel(address, options=settings)
    else:
        channel = grpc.aio.secure_channel(address, credentials, options=settings)
    async with channel:
        yield Client(channel)


def sends(*bodies: bytes, message_id: str = "id") -> Any:
    request = classes.SendMessageRequest()
    for body in bodies:
        message = request.messages.add(body=body)
        message.system_properties.message_id = message_id
    return request


def run(work: Callable[[], Awaitable[None]], seconds: float = 30.0) -> None:
    async def limited() -> None:
        async with asyncio.timeout(seconds):
            await work()

    asyncio.run(limited())
