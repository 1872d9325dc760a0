"""Conformance: grpcio's own client, which knows nothing of this server, makes calls of every shape."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from flaremq.errors import UnavailableError
from flaremq.grpc.call import Call, GrpcError, Send, StatusCode, Stream
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code
from tests.support.grpc_lab import ECHO, client_of, grpc_port, run, send_later, sends


def receive(count: int, size: int) -> Any:
    return classes.ReceiveMessageRequest(batch_size=count, attempt_id=str(size))


async def fails(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


@pytest.mark.parametrize("handler", [ECHO["SendMessage"], send_later])
def test_requests_of_any_size_are_answered(handler: Any) -> None:
    async def scenario() -> None:
        async with grpc_port({"SendMessage": handler}) as server, client_of(server.port) as client:
            for size in (0, 1, 16_384, 65_530, 262_139, 262_144, 1_000_000, 4_194_304):
                reply = await client.unary("SendMessage", sends(bytes(size)))
                assert [entry.offset for entry in reply.entries] == [size]
            assert server.calls == 0

    run(scenario)


def test_many_calls_at_once_are_told_apart() -> None:
    async def scenario() -> None:
        async with grpc_port({"SendMessage": send_later}) as server, client_of(server.port) as client:
            calls = [client.unary("SendMessage", sends(bytes(number), message_id=str(number))) for number in range(500)]
            replies = [await call for call in calls]
            assert [reply.entries[0].message_id for reply in replies] == [str(number) for number in range(500)]
            assert [reply.entries[0].offset for reply in replies] == list(range(500))

    run(scenario)


def test_large_requests_at_once_come_by_turns() -> None:
    async def scenario() -> None:
        async with grpc_port() as server, client_of(server.port) as client:
            calls = [client.unary("SendMessage", sends(bytes(4_000_000))) for _ in range(30)]  # more than may be half
            assert {(await call).entries[0].offset for call in calls} == {4_000_000}

    run(scenario)


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_requests_may_be_compressed(compression: Any) -> None:
    async def scenario() -> None:
        async with grpc_port() as server, client_of(server.port) as client:
            for size in (0, 10, 1_000_000):
                reply = await client.unary("SendMessage", sends(bytes(size)), compression=compression)
                assert reply.entries[0].offset == size
            error = await fails(client.unary("SendMessage", sends(bytes(9_000_000)), compression=compression))
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED  # however small it was on its way

    run(scenario)


def test_many_replies_come_in_order_however_large_they_are() -> None:
    async def scenario() -> None:
        async with grpc_port() as server, client_of(server.port, grpc__max_receive_message_length=-1) as client:
            for count, size in ((0, 0), (1000, 0), (300, 20_000), (3, 4_000_000)):
                frames = [frame async for frame in client.stream("ReceiveMessage", receive(count, size))]
                assert frames[0].status.code == Code.OK
                assert [frame.message.system_properties.queue_offset for frame in frames[1:-1]] == list(range(count))
                assert {len(frame.message.body) for frame in frames[1:-1]} <= {size}
                assert frames[-1].WhichOneof("content") == "delivery_timestamp"

    run(scenario)


def test_a_stream_in_both_directions_lives_as_long_as_its_client_wants() -> None:
    async def scenario() -> None:
        async with grpc_port() as server, client_of(server.port) as client:
            call = client.bidi("Telemetry")
            for number in range(100):
                command = classes.TelemetryCommand(thread_stack_trace=classes.ThreadStackTrace(nonce=str(number)))
                await call.write(command)
                assert (await call.read()).thread_stack_trace.nonce == str(number)
            large = classes.TelemetryCommand(thread_stack_trace=classes.ThreadStackTrace(nonce="x" * 1_000_000))
            for _ in range(3):
                await call.write(large)
                assert await call.read() == large
            await call.done_writing()
            assert await call.read() is grpc.aio.EOF
            assert await call.code() is grpc.StatusCode.OK

    run(scenario)


def test_a_stream_that_the_server_finishes_ends_well() -> None:
    async def scenario() -> None:
        streams: list[Stream] = []
        ended = asyncio.Event()

        async def keep(stream: Stream, call: Call) -> None:
            streams.append(stream)
            try:
                async for command in stream:
                    await stream.send(command)
            finally:
                ended.set()

        async with grpc_port({"Telemetry": keep}) as server, client_of(server.port) as client:
            call = client.bidi("Telemetry")
            await call.write(classes.TelemetryCommand())
            await call.read()
            streams[0].finish()
            assert await call.read() is grpc.aio.EOF
            assert await call.code() is grpc.StatusCode.OK
            await ended.wait()
            assert not streams[0].push(classes.TelemetryCommand())
            streams[0].finish()
            assert server.calls == 0

    run(scenario)


def test_what_is_not_served_is_unimplemented() -> None:
    async def scenario() -> None:
        async with grpc_port() as server, client_of(server.port) as client:
            for path in ("/apache.rocketmq.v2.MessagingService/Nothing", "/grpc.health.v1.Health/Check", "/"):
                call: Any = client.channel.unary_unary(path)
                assert (await fails(call(b""))).code() is grpc.StatusCode.UNIMPLEMENTED
            assert (await fails(client.unary("QueryRoute", classes.QueryRouteRequest()))).code() is (
                grpc.StatusCode.UNIMPLEMENTED
            )

    run(scenario)


def test_a_client_without_a_name_is_told_so_in_the_reply() -> None:
    async def scenario() -> None:
        async with grpc_port() as server, client_of(server.port) as client:
            assert (await client.unary("SendMessage", sends(b"x"), ())).status.code == Code.CLIENT_ID_REQUIRED
            frames = [frame async for frame in client.stream("ReceiveMessage", receive(1, 1), ())]
            assert [frame.status.code for frame in frames] == [Code.CLIENT_ID_REQUIRED]
            call = client.bidi("Telemetry", ())
            await call.write(classes.TelemetryCommand())
            assert (await call.read()).status.code == Code.CLIENT_ID_REQUIRED
            assert await call.read() is grpc.aio.EOF

    run(scenario)


def test_a_request_that_is_no_message_is_an_error_of_the_call() -> None:
    async def scenario() -> None:
        async with grpc_port() as server, client_of(server.port) as client:
            path = "/apache.rocketmq.v2.MessagingService/SendMessage"
            call: Any = client.channel.unary_unary(path)
            assert (await fails(call(b"\xff\xff\xff\xff"))).code() is grpc.StatusCode.INTERNAL
            assert (await client.unary("SendMessage", sends(b"x"))).status.code == Code.OK

    run(scenario)


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_handler_raises_is_told_as_what_it_is(is_async: bool) -> None:
    def fail(request: Any, call: Call) -> Any:
        kind = request.messages[0].system_properties.message_id
        if kind == "grpc":
            raise GrpcError(StatusCode.ABORTED, "100 % nicht möglich\n")
        if kind == "ours":
            raise UnavailableError("the store is closing")
        raise ZeroDivisionError("a secret of the server")

    async def fail_later(request: Any, call: Call) -> Any:
        await asyncio.sleep(0)
        return fail(request, call)

    async def scenario() -> None:
        handler = fail_later if is_async else fail
        async with grpc_port({"SendMessage": handler}) as server, client_of(server.port) as client:
            error = await fails(client.unary("SendMessage", sends(b"", message_id="grpc")))
            assert (error.code(), error.details()) == (grpc.StatusCode.ABORTED, "100 % nicht möglich\n")
            for kind, text in (("ours", "the store is closing"), ("other", "its log says why")):
                reply = await client.unary("SendMessage", sends(b"", message_id=kind))
                assert reply.status.code == Code.INTERNAL_SERVER_ERROR
                assert text in reply.status.message
                assert "secret" not in reply.status.message
            assert server.calls == 0

    run(scenario)


class Slow:
    """Handlers that wait until they are cancelled."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.ended: list[str] = []

    async def wait(self, call: Call) -> None:
        call.on_cancel(lambda: self.ended.append("callback"))
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise

    async def unary(self, request: Any, call: Call) -> Any:
        await self.wait(call)

    async def many(self, request: Any, call: Call, send: Send) -> None:
        await send(classes.ReceiveMessageResponse(status=classes.Status(code=20000)))
        await self.wait(call)

    async def both(self, stream: Stream, call: Call) -> None:
        async for _ in stream:
            await self.wait(call)

    @property
    def handlers(self) -> Any:
        return {"SendMessage": self.unary, "ReceiveMessage": self.many, "Telemetry": self.both}

    async def has_ended(self) -> None:
        async with asyncio.timeout(5):
            while len(self.ended) < 2:
                await asyncio.sleep(0.01)
        assert sorted(self.ended) == ["callback", "cancelled"]


@pytest.mark.parametrize("shape", ["unary", "many", "both"])
@pytest.mark.parametrize("way", ["deadline", "cancel", "gone"])
def test_a_call_that_is_over_early_ends_its_handler_once(shape: str, way: str) -> None:
    async def scenario() -> None:
        slow = Slow()
        async with grpc_port(slow.handlers) as server, client_of(server.port) as client:
            timeout = 0.2 if way == "deadline" else 60
            if shape == "unary":
                call = client.unary("SendMessage", sends(b"x"), timeout=timeout)
            elif shape == "many":
                call = client.stream("ReceiveMessage", receive(1, 1), timeout=timeout)
            else:
                call = client.bidi("Telemetry", timeout=timeout)
                await call.write(classes.TelemetryCommand())
            code = asyncio.ensure_future(call.code())
            await slow.began.wait()
            if way == "deadline":
                assert await code is grpc.StatusCode.DEADLINE_EXCEEDED
            elif way == "cancel":
                call.cancel()
                assert await code is grpc.StatusCode.CANCELLED
            else:
                await client.channel.close()
            await slow.has_ended()
            assert server.calls == 0
            code.cancel()

    run(scenario)


def test_a_server_that_stops_ends_polls_and_answers_what_is_under_way() -> None:
    async def scenario() -> None:
        slow, release = Slow(), asyncio.Event()

        async def send_slowly(request: Any, call: Call) -> Any:
            await release.wait()
            return await send_later(request, call)

        handlers = {**slow.handlers, "SendMessage": send_slowly}
        async with grpc_port(handlers) as server, client_of(server.port) as client:
            poll = client.stream("ReceiveMessage", receive(1, 1))
            sending = client.unary("SendMessage", sends(b"kept"))
            assert (await poll.read()).status.code == Code.OK
            await slow.began.wait()
            stopping = asyncio.create_task(server.stop())
            with pytest.raises(grpc.aio.AioRpcError):
                await poll.read()
            assert await poll.code() is grpc.StatusCode.UNAVAILABLE
            assert not stopping.done()
            release.set()
            assert (await sending).entries[0].offset == 4
            await stopping
            assert server.connections == set()
            await slow.has_ended()

    run(scenario)


def test_a_server_that_stops_waits_only_so_long() -> None:
    async def scenario() -> None:
        slow = Slow()
        async with grpc_port(slow.handlers, grpc_shutdown_time_seconds=0) as server, client_of(server.port) as client:
            call = client.unary("SendMessage", sends(b"x"))
            await slow.began.wait()
            await server.stop()
            assert (await fails(call)).code() is grpc.StatusCode.UNAVAILABLE
            await slow.has_ended()

    run(scenario)


def test_the_deadline_of_a_call_is_known_to_its_handler() -> None:
    async def scenario() -> None:
        seen: list[Any] = []

        def handler(request: Any, call: Call) -> Any:
            seen.append(call)
            return classes.SendMessageResponse()

        async with grpc_port({"SendMessage": handler}) as server, client_of(server.port) as client:
            await client.unary("SendMessage", sends(b""), timeout=50)
            await client.unary("SendMessage", sends(b""))
        assert 45 < seen[0].remaining() < 55  # grpcio rounds up
        assert seen[1].remaining() is None
        assert seen[0].client_id == "host@1@0@abc"
        assert seen[0].peer.startswith("127.0.0.1:")
        assert seen[0].local_address == f"127.0.0.1:{server.port}"

    run(scenario)
