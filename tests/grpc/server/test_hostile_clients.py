"""Clients that send half of things, read nothing, or open more than they need: each is bounded, and others go on."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import Any

import pytest

from flaremq.grpc.call import Call, Send, Stream
from flaremq.grpc.framing import prefixed
from flaremq.grpc.http2 import frames
from flaremq.grpc.messages import classes
from flaremq.grpc.server.server import GrpcServer
from flaremq.remoting.options import RemotingOptions
from tests.grpc.http2_lab import frame
from tests.grpc.raw_client import RawClient, raw_client
from tests.support.grpc_lab import ECHO, client_of, grpc_port, run, send_later, sends

LATER = 1000.0  # seconds: whatever may take so long, nothing of it is waited for


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def sweep(server: GrpcServer, seconds: float = LATER) -> None:
    """Time has passed."""
    now = asyncio.get_running_loop().time()
    for connection in list(server.connections):
        connection.sweep(now + seconds)


async def answers(server: GrpcServer) -> bool:
    """Whether an honest client is served."""
    async with client_of(server.port) as client:
        return [entry.offset for entry in (await client.unary("SendMessage", sends(b"honest"))).entries] == [6]


def test_requests_that_never_end_are_given_up() -> None:
    async def scenario() -> None:
        async with grpc_port() as server, raw_client(server.port) as client:
            whole = prefixed(sends(bytes(1000)).SerializeToString())
            nothing = client.begin("SendMessage")
            half = client.begin("SendMessage")
            client.data(half, whole[:500])
            unended = client.begin("SendMessage")  # all of it is here, but not the end of the stream
            client.data(unended, whole)
            telemetry = client.begin("Telemetry")
            client.data(telemetry, whole[:3])
            await until(lambda: server.calls == 4 and server._serving.budget.in_flight)
            assert server._serving.budget.half >= 500
            assert server._serving.budget.in_flight >= 1000
            sweep(server)
            assert await client.statuses(4) == dict.fromkeys((nothing, half, unended, telemetry), "4")
            assert (server.calls, server._serving.budget.half, server._serving.budget.in_flight) == (0, 0, 0)
            assert await answers(server)

    run(scenario)


def test_a_telemetry_stream_that_breaks_off_in_a_message_ends_its_handler() -> None:
    async def scenario() -> None:
        began: list[str] = []
        ended: list[str] = []

        async def handler(stream: Stream, call: Call) -> None:
            try:
                async for _ in stream:
                    began.append(call.client_id)
            finally:
                ended.append(call.client_id)

        handlers = {"Telemetry": handler}
        async with grpc_port(handlers) as server, raw_client(server.port) as client:
            first = prefixed(classes.TelemetryCommand().SerializeToString())
            for name, rest in (
                ("half", b"\0\0"),
                ("wrong flag", b"\x09\0\0\0\0"),
                ("too large", b"\0\xff\xff\xff\xff"),
            ):
                number = client.begin("Telemetry", client=name)
                client.data(number, first)
                await until(lambda name=name: name in began)
                client.data(number, rest)
            await until(lambda: len(ended) == 2)
            sweep(server)
            await until(lambda: len(ended) == 3)
            assert set(ended) == {"half", "wrong flag", "too large"}
            assert server.calls == 0

    run(scenario)


def test_a_call_reset_in_the_segment_that_brought_it_leaves_nothing_that_nobody_awaits() -> None:
    """The suite makes an error of a coroutine that is never awaited."""

    async def scenario() -> None:
        ended: list[str] = []

        async def work(call: Call) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(call.client_id)

        async def shell(inner: Any) -> None:
            await inner

        def handler(request: Any, call: Call) -> Any:
            return shell(work(call))

        async with grpc_port({"Heartbeat": handler}) as server, raw_client(server.port) as client:
            number = client.call("Heartbeat", classes.HeartbeatRequest(), client="reset")
            client.send(frame(frames.RST_STREAM, 0, number, (8).to_bytes(4, "big")))
            await until(lambda: ended)
            assert (ended, server.calls) == (["reset"], 0)
        gc.collect()

    run(scenario)


def test_messages_that_wait_for_a_busy_handler_are_counted() -> None:
    async def scenario() -> None:
        go = asyncio.Event()

        async def handler(stream: Stream, call: Call) -> None:
            async for _ in stream:
                await go.wait()

        async with grpc_port({"Telemetry": handler}) as server, raw_client(server.port) as client:
            one = prefixed(classes.TelemetryCommand(status=classes.Status(message="x" * 10_000)).SerializeToString())
            number = client.begin("Telemetry")
            client.data(number, one * 20)
            budget = server._serving.budget
            await until(lambda: budget.in_flight >= 19 * 10_000)
            go.set()
            await until(lambda: budget.in_flight == 0)
            go.clear()
            client.data(number, one * 3)
            await until(lambda: budget.in_flight > 0)
            client.send(frame(frames.RST_STREAM, 0, number, bytes(4)))
            await until(lambda: budget.in_flight == 0)

    run(scenario)


def test_requests_beyond_what_may_be_held_find_their_connection_held_back() -> None:
    async def scenario() -> None:
        go = asyncio.Event()

        async def slowly(request: Any, call: Call) -> Any:
            await go.wait()
            return await send_later(request, call)

        remoting = RemotingOptions(in_flight_bytes_max=16_777_216)
        async with grpc_port({"SendMessage": slowly}, remoting=remoting) as server:
            async with client_of(server.port) as client:
                calls = [client.unary("SendMessage", sends(bytes(1_000_000))) for _ in range(60)]
                budget = server._serving.budget
                await until(lambda: budget.in_flight > 16_777_216)
                await asyncio.sleep(0.3)
                assert budget.in_flight < 2 * 16_777_216 + 8_388_608
                go.set()
                results = await asyncio.gather(*calls, return_exceptions=True)
                assert sum(not isinstance(result, BaseException) for result in results) >= 16
            await until(lambda: budget.in_flight == 0)
            assert await answers(server)

    run(scenario)


def test_streams_and_calls_have_a_limit() -> None:
    async def never(request: Any, call: Call) -> Any:
        await asyncio.Event().wait()

    async def scenario() -> None:
        options = {"grpc_concurrent_streams_max": 50, "grpc_calls_max": 120, "grpc_shutdown_time_seconds": 0}
        async with grpc_port({"SendMessage": never}, **options) as server, contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(raw_client(server.port)) for _ in range(3)]
            for client in clients:
                for _ in range(60):
                    client.call("SendMessage", sends(b"x"))
            await until(lambda: server.calls == 120)
            for client in clients[:2]:
                while (await client.until(frames.RST_STREAM)).number != frames.ErrorCode.REFUSED_STREAM:
                    pass
            assert server.calls == 120
            number = clients[2].number - 20
            assert await clients[2].status_of(number) == "8"
            assert "too many calls" in clients[2].fields["grpc-message"]
        assert server.calls == 0

    run(scenario)


def test_a_client_that_reads_nothing_is_cut_off_and_its_replies_are_bounded() -> None:
    async def scenario() -> None:
        remoting = RemotingOptions(write_buffer_high_bytes=65_536)
        async with grpc_port(remoting=remoting) as server, raw_client(server.port, hello=False) as client:
            client.hello(INITIAL_WINDOW_SIZE=2**31 - 1)
            client.send(frame(frames.WINDOW_UPDATE, 0, 0, (2**31 - 65_536).to_bytes(4, "big")))
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]
            request = classes.ReceiveMessageRequest(batch_size=2000, attempt_id="50000")
            for _ in range(4):
                client.call("ReceiveMessage", request)
            await until(lambda: any(connection.is_stalled for connection in server.connections))
            (connection,) = server.connections
            assert connection._transport is not None
            assert connection._transport.get_write_buffer_size() < 1_000_000
            assert await answers(server)
            sweep(server)
            await until(lambda: not server.connections)
            assert server.calls == 0

    run(scenario)


def test_a_client_that_gives_its_calls_no_room_loses_them_and_gets_no_more() -> None:
    async def scenario() -> None:
        async with grpc_port() as server, raw_client(server.port, hello=False) as client:
            client.hello(INITIAL_WINDOW_SIZE=0)
            request = classes.ReceiveMessageRequest(batch_size=2000, attempt_id="50000")
            numbers = [client.call("ReceiveMessage", request) for _ in range(60)]
            budget = server._serving.budget
            await until(lambda: budget.replies.bytes > 4 << 20)
            await asyncio.sleep(0.1)
            assert budget.replies.bytes < 8 << 20
            late = client.call("ReceiveMessage", request)
            assert await client.status_of(late) == "8"
            sweep(server, 40)
            await until(lambda: server.calls == 0)
            assert budget.replies.bytes == 0
            assert not set(numbers) & {
                stream.id for each in server.connections for stream in each._http.streams.values()
            }
            client.send(frame(frames.SETTINGS, 0, 0, b"\0\4\0\1\0\0"))
            again = client.call("SendMessage", sends(b"good"))
            assert await client.status_of(again) == "0"

    run(scenario)


def test_replies_that_wait_are_counted_over_all_connections() -> None:
    async def scenario() -> None:
        remoting = RemotingOptions(in_flight_bytes_max=16_777_216)
        async with grpc_port(remoting=remoting) as server, contextlib.AsyncExitStack() as stack:
            request = classes.ReceiveMessageRequest(batch_size=10, attempt_id="1000000")
            for _ in range(6):
                client = await stack.enter_async_context(raw_client(server.port, hello=False))
                client.hello(INITIAL_WINDOW_SIZE=0)
                for _ in range(20):
                    client.call("ReceiveMessage", request)
            budget = server._serving.budget
            await until(lambda: budget.replies.bytes > 16_777_216)
            await asyncio.sleep(0.1)
            assert budget.replies.bytes < 2 * 16_777_216
            async with client_of(server.port) as honest:
                with pytest.raises(Exception, match="too many calls"):
                    await honest.unary("SendMessage", sends(b"x"))
            sweep(server)
            assert budget.replies.bytes == 0
            assert await answers(server)

    run(scenario)


def test_a_client_that_is_silent_is_asked_whether_it_is_there() -> None:
    async def scenario() -> None:
        async with grpc_port() as server, raw_client(server.port) as client:
            client.data(client.begin("Telemetry"), prefixed(classes.TelemetryCommand().SerializeToString()))
            await client.until(frames.DATA)
            sweep(server, 61)
            assert (await client.until(frames.PING)).flags == 0
            client.send(frame(frames.PING, frames.ACK, 0, bytes(8)))
            (connection,) = server.connections
            heard = connection._heard
            await until(lambda: connection._heard > heard)
            sweep(server, 50)
            sweep(server, 61)
            await client.until(frames.PING)
            assert server.calls == 1
            sweep(server, 61 + 31)
            assert await client.is_closed()
            await until(lambda: server.calls == 0)

    run(scenario)


def test_a_connection_without_calls_is_closed_after_a_while() -> None:
    async def scenario() -> None:
        async with grpc_port() as server, raw_client(server.port) as client:
            assert await client.status_of(client.call("SendMessage", sends(b"x"))) == "0"
            sweep(server, 100)
            assert server.connections
            sweep(server, 121)
            assert (await client.until(frames.GOAWAY)).payload[4:8] == bytes(4)
            assert await client.is_closed()

    run(scenario)


@pytest.mark.parametrize("data", [b"", frames.PREFACE[:10], frames.PREFACE, frames.PREFACE + b"\0\0\x40\0"])
def test_a_connection_that_says_half_a_hello_is_closed(data: bytes) -> None:
    async def scenario() -> None:
        async with grpc_port(grpc_tls_mode="disabled") as server, raw_client(server.port, hello=False) as client:
            client.send(data)
            await until(lambda: server._serving.counts.reads or (not data and server.connections))
            sweep(server)
            assert await client.is_closed()

    run(scenario)


def test_a_client_that_breaks_rules_and_reads_nothing_does_not_keep_its_connection() -> None:
    async def scenario() -> None:
        async with grpc_port() as server, raw_client(server.port, hello=False) as client:
            client.hello(INITIAL_WINDOW_SIZE=2**31 - 1)
            client.send(frame(frames.WINDOW_UPDATE, 0, 0, (2**31 - 65_536).to_bytes(4, "big")))
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]
            client.call("ReceiveMessage", classes.ReceiveMessageRequest(batch_size=8, attempt_id="1000000"))
            await until(lambda: server.calls == 0 and server.calls_taken == 1)
            client.send(frame(frames.PING, 0, 1, bytes(8)))
            await until(lambda: all(connection._http.is_over for connection in server.connections))
            sweep(server)
            await until(lambda: not server.connections)

    run(scenario)


def test_headers_that_are_too_large_are_an_answer_and_not_the_end() -> None:
    async def scenario() -> None:
        async with grpc_port() as server, raw_client(server.port) as client:
            more = tuple((f"x-{number}", "v" * 1000) for number in range(20))
            number = client.begin("SendMessage", more=more)
            assert await client.status_of(number) == "8"
            assert await client.status_of(client.call("SendMessage", sends(b"x"))) == "0"
            client.send(frame(frames.HEADERS, 0, client.number + 2, bytes(16_000)))
            for _ in range(4):
                client.send(frame(frames.CONTINUATION, 0, client.number + 2, bytes(16_000)))
            assert (await client.until(frames.GOAWAY)).payload[7] in (
                frames.ErrorCode.ENHANCE_YOUR_CALM,
                frames.ErrorCode.COMPRESSION_ERROR,
            )
            assert await client.is_closed()
            assert await answers(server)

    run(scenario)


def test_what_is_no_grpc_gets_an_answer_of_http() -> None:
    async def scenario() -> None:
        async with grpc_port() as server, raw_client(server.port) as client:
            for fields, status in (
                ([(":method", "GET"), ("content-type", "application/grpc")], "405"),
                ([(":method", "POST"), ("content-type", "text/html")], "415"),
                ([(":method", "POST")], "415"),
            ):
                client.number += 2
                block = client.encoder.encode([(":scheme", "http"), (":path", "/"), *fields])
                flags = frames.END_HEADERS | frames.END_STREAM
                client.send(frame(frames.HEADERS, flags, client.number, block))
                assert await client.status_of(client.number) == status

    run(scenario)


def test_a_time_that_is_none_and_one_that_has_passed_end_the_call() -> None:
    async def scenario() -> None:
        async with grpc_port() as server, raw_client(server.port) as client:
            for text, status in (("0S", "4"), ("1x", "13"), ("123456789S", "13"), ("", "13"), ("99999999H", "0")):
                number = client.begin("SendMessage", more=(("grpc-timeout", text),))
                client.data(number, prefixed(sends(b"x").SerializeToString()), end=True)
                assert await client.status_of(number) == status
            assert server.calls == 0

    run(scenario)


def test_an_encoding_that_is_not_known_is_unimplemented() -> None:
    async def scenario() -> None:
        async with grpc_port() as server, raw_client(server.port) as client:
            number = client.begin("SendMessage", more=(("grpc-encoding", "br"),))
            assert await client.status_of(number) == "12"
            assert client.fields["grpc-accept-encoding"] == "identity,gzip,deflate"
            number = client.begin("SendMessage")
            client.data(number, b"\x01\0\0\0\x01x", end=True)
            assert await client.status_of(number) == "13"

    run(scenario)


async def _many_streams(server: GrpcServer, stack: contextlib.AsyncExitStack, connections: int, each: int) -> None:
    one = prefixed(classes.TelemetryCommand(status=classes.Status(message="x" * 200)).SerializeToString())
    for _ in range(connections):
        client = await stack.enter_async_context(raw_client(server.port))
        for _ in range(each):
            client.data(client.begin("Telemetry"), one)
    await until(lambda: server.calls == connections * each)


def test_thousands_of_open_streams_keep_nobody_out() -> None:
    async def scenario() -> None:
        async with grpc_port() as server, contextlib.AsyncExitStack() as stack:
            await _many_streams(server, stack, 20, 150)
            assert await answers(server)
            budget = server._serving.budget
            await until(lambda: (budget.in_flight, budget.half, budget.replies.bytes) == (0, 0, 0))
        assert server.calls == 0

    run(scenario)


def test_nothing_is_left_of_connections_that_are_gone() -> None:
    async def sends_much(request: Any, call: Call, send: Send) -> None:
        for _ in range(1000):
            await send(classes.ReceiveMessageResponse(message=classes.Message(body=bytes(10_000))))

    async def scenario() -> None:
        handlers = {**ECHO, "ReceiveMessage": sends_much}
        before = len(asyncio.all_tasks())
        async with grpc_port(handlers) as server:
            for _ in range(10):
                async with raw_client(server.port) as client:
                    _leave_much_behind(client)
                    await until(lambda: server.calls >= 3)
                await until(lambda: not server.connections)
            assert server.calls == 0
            budget = server._serving.budget
            assert (budget.in_flight, budget.half, budget.replies.bytes, budget._granted) == (0, 0, 0, 0)
            assert not budget._waiting
            assert not budget._held_back
            assert not server._serving.deadlines._slots
        assert len(asyncio.all_tasks()) == before

    run(scenario)


def _leave_much_behind(client: RawClient) -> None:
    client.call("ReceiveMessage", classes.ReceiveMessageRequest())
    client.data(client.begin("Telemetry"), prefixed(bytes(100)) + b"\0\0")
    large = prefixed(sends(bytes(3_000_000)).SerializeToString())
    client.data(client.begin("SendMessage", more=(("grpc-timeout", "90S"),)), large[:200_000])
    client.data(client.begin("SendMessage"), large[:200_000])
