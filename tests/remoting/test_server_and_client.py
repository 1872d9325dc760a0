"""Both ends of the wire over real sockets: matching, order, errors, limits, housekeeping."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
import uvloop

from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.log_lines import LimitedLog
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.frame import encode_frame
from flaremq.remoting import connection as connections
from flaremq.remoting.client import RemotingClient, RequestTimeoutError
from flaremq.remoting.client_connection import ClientConnection
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.options import RemotingOptions
from flaremq.remoting.server import RemotingServer

ECHO, SLOW, FAIL, CRASH, SILENT, PUSH, LARGE = range(1, 8)


def echo(connection: Connection, request: RemotingCommand) -> RemotingCommand:
    return RemotingCommand.response(ext={"seen": request.field("x")}, body=request.body_bytes)


async def slow(connection: Connection, request: RemotingCommand) -> RemotingCommand:
    await asyncio.sleep(request.int_field("ms") / 1000)
    return RemotingCommand.response(ext={"ms": request.field("ms")})


def fail(connection: Connection, request: RemotingCommand) -> RemotingCommand:
    raise RequestError(ResponseCode.TOPIC_NOT_EXIST, "no such thing")


def crash(connection: Connection, request: RemotingCommand) -> RemotingCommand:
    raise ZeroDivisionError("secret detail")


def large(connection: Connection, request: RemotingCommand) -> RemotingCommand:
    return RemotingCommand.response(body=[bytes(1 << 20)] * 4)


def table() -> HandlerTable:
    handlers = HandlerTable()
    for code, handler in ((ECHO, echo), (SLOW, slow), (FAIL, fail), (CRASH, crash), (LARGE, large)):
        handlers.register(code, handler)
    handlers.register(SILENT, lambda connection, request: None)
    return handlers


def run(
    scenario: Callable[[RemotingServer, RemotingClient, str], Awaitable[None]],
    *,
    options: RemotingOptions | None = None,
    handlers: HandlerTable | None = None,
) -> None:
    async def main() -> None:
        server = RemotingServer(handlers or table(), options)
        await server.start("127.0.0.1", 0)
        client = RemotingClient()
        try:
            await asyncio.wait_for(scenario(server, client, f"127.0.0.1:{server.port}"), 30)
        finally:
            await client.close()
            await server.stop()

    asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def test_replies_of_any_size_leave_in_order_while_the_peer_does_not_read() -> None:
    sizes = [
        10,
        30_000,
        40_000,
        300_000,
        5,
        70_000,
    ] * 40  # far more than a socket takes

    def sized(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return RemotingCommand.response(body=[bytes([request.opaque % 251]) * sizes[request.opaque]])

    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 16)
        writer.write(b"".join(encode_frame(RemotingCommand(ECHO, opaque=number)) for number in range(len(sizes))))
        await until(lambda: any(connection.is_stalled for connection in server.connections))
        for number, size in enumerate(sizes):
            (length,) = struct.unpack(">i", await reader.readexactly(4))
            frame = await reader.readexactly(length)
            assert frame[-size:] == bytes([number % 251]) * size
            assert f'"opaque":{number},'.encode() in frame[:-size]
        writer.close()

    handlers = HandlerTable()
    handlers.register(ECHO, sized)
    run(scenario, handlers=handlers)


@pytest.mark.parametrize("serialize_type", [0, 1])
def test_reply_has_the_header_type_of_its_request(serialize_type: int) -> None:
    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        request = RemotingCommand.request(ECHO, {"x": "y"}, b"body")
        request.serialize_type = serialize_type
        reply = await client.request(address, request)
        assert (reply.code, reply.ext, reply.body, reply.serialize_type) == (0, {"seen": "y"}, b"body", serialize_type)

    run(scenario)


def test_concurrent_requests_are_answered_out_of_order_on_one_connection() -> None:
    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        finished: list[str] = []

        async def ask(ms: int) -> None:
            reply = await client.request(address, RemotingCommand.request(SLOW, {"ms": ms}))
            finished.append(reply.field("ms"))

        await asyncio.gather(ask(300), ask(150), ask(1))
        assert finished == ["1", "150", "300"]
        assert len(server.connections) == 1

    run(scenario)


def test_errors_become_codes_and_one_line() -> None:
    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        reply = await client.request(address, RemotingCommand.request(FAIL))
        assert (reply.code, reply.remark) == (17, "no such thing")
        reply = await client.request(address, RemotingCommand.request(CRASH))
        assert reply.code == 1 and reply.remark is not None and "Traceback" not in reply.remark
        reply = await client.request(address, RemotingCommand.request(12345))
        assert (reply.code, reply.remark) == (3, " request type 12345 not supported")
        reply = await client.request(address, RemotingCommand.request(ECHO))
        assert reply.code == 1 and "<x>" in str(reply.remark)

    run(scenario)


def test_oneway_request_gets_no_reply() -> None:
    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        await client.oneway(address, RemotingCommand.request(FAIL, oneway=True))
        reply = await client.request(address, RemotingCommand.request(ECHO, {"x": "after"}))
        assert reply.field("seen") == "after"
        connection = client.connected(address)
        assert connection is not None and connection.calls == 0

    run(scenario)


def test_request_without_reply_times_out_and_the_connection_stays_usable() -> None:
    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        with pytest.raises(RequestTimeoutError):
            await client.request(address, RemotingCommand.request(SILENT), timeout=0.2)
        reply = await client.request(address, RemotingCommand.request(ECHO, {"x": "1"}))
        assert reply.code == 0

    run(scenario)


def test_lost_connection_fails_the_requests_under_way_and_is_made_again() -> None:
    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        waiting = asyncio.ensure_future(client.request(address, RemotingCommand.request(SILENT)))
        await until(lambda: bool(server.connections))
        for connection in list(server.connections):
            connection.abort()
        with pytest.raises(UnavailableError):
            await waiting
        reply = await client.request(address, RemotingCommand.request(ECHO, {"x": "again"}))
        assert reply.field("seen") == "again"

    run(scenario)


def test_unreachable_server_is_unavailable() -> None:
    async def main() -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        client = RemotingClient()
        with pytest.raises(UnavailableError, match="cannot connect"):
            await client.request(address, RemotingCommand.request(ECHO))
        await client.close()

    asyncio.run(main())


def test_server_asks_its_client_on_the_clients_own_connection() -> None:
    async def push(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        reply = await connection.request(RemotingCommand.request(ECHO, {"x": "from the server"}), 5)
        return RemotingCommand.response(ext={"heard": reply.field("seen")})

    handlers = table()
    handlers.register(PUSH, push)

    async def scenario(server: RemotingServer, _: RemotingClient, address: str) -> None:
        client = RemotingClient(table=table())
        reply = await client.request(address, RemotingCommand.request(PUSH))
        assert reply.field("heard") == "from the server"
        await client.close()

    run(scenario, handlers=handlers)


def test_garbage_closes_the_connection_and_no_other() -> None:
    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        await client.request(address, RemotingCommand.request(ECHO, {"x": "1"}))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
        reply = await client.request(address, RemotingCommand.request(ECHO, {"x": "2"}))
        assert reply.code == 0

    run(scenario)


def test_what_came_before_the_garbage_is_still_answered() -> None:
    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(encode_frame(RemotingCommand.request(ECHO, {"x": "1"})) + struct.pack(">iI", 2**30, 0))
        data = await reader.read()
        assert b'"seen":"1"' in data
        writer.close()

    run(scenario)


def test_half_sent_frames_and_silent_connections_are_closed() -> None:
    options = RemotingOptions(first_frame_seconds=1, frame_seconds=1)

    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        for start in (b"", struct.pack(">iI", (16 << 20) - 4, 100) + b"x"):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(start)
            assert await reader.read() == b""
            writer.close()

    run(scenario, options=options)


def test_idle_connection_is_closed_after_its_time() -> None:
    options = RemotingOptions(server_channel_max_idle_time_seconds=1)

    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        await client.request(address, RemotingCommand.request(ECHO, {"x": "1"}))
        await until(lambda: client.connected(address) is None)

    run(scenario, options=options)


@pytest.mark.slow
def test_peer_that_does_not_read_is_not_read_from_and_then_cut_off() -> None:
    options = RemotingOptions(write_stall_seconds=1)

    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        with socket.create_connection(("127.0.0.1", server.port)) as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(64):
                peer.sendall(encode_frame(RemotingCommand.request(LARGE)))
                await asyncio.sleep(0)
            await until(lambda: not server.connections)
        reply = await client.request(address, RemotingCommand.request(ECHO, {"x": "unharmed"}))
        assert reply.code == 0

    run(scenario, options=options)


def test_too_many_connections_are_refused_and_room_comes_back() -> None:
    options = RemotingOptions(connections_max=2)

    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        pairs = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2)]
        await until(lambda: len(server.connections) == 2)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        with pytest.raises((ConnectionError, AssertionError)):
            assert await reader.read() != b""
        writer.close()
        pairs[0][1].close()
        await until(lambda: len(server.connections) == 1)
        reply = await client.request(address, RemotingCommand.request(ECHO, {"x": "1"}))
        assert reply.code == 0
        pairs[1][1].close()

    run(scenario, options=options)


def test_full_lane_answers_busy_instead_of_queueing_without_end() -> None:
    handlers = table()
    lane = handlers.lanes["admin"]
    lane.concurrency, lane.queue_max = 1, 1

    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        replies = await asyncio.gather(
            *(client.request(address, RemotingCommand.request(SLOW, {"ms": 50})) for _ in range(5))
        )
        codes = sorted(reply.code for reply in replies)
        assert codes == [0, 0, 2, 2, 2]
        assert all("[OVERLOAD]" in str(reply.remark) for reply in replies if reply.code == 2)
        assert lane.running == 0 and lane.waiting == 0

    run(scenario, handlers=handlers)


def test_request_that_waited_too_long_in_its_lane_is_refused() -> None:
    handlers = table()
    lane = handlers.lanes["admin"]
    lane.concurrency, lane.wait_seconds = 1, 0.01

    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        first, second = await asyncio.gather(
            client.request(address, RemotingCommand.request(SLOW, {"ms": 100})),
            client.request(address, RemotingCommand.request(SLOW, {"ms": 100})),
        )
        assert first.code == 0
        assert second.code == 2 and "[TIMEOUT_CLEAN_QUEUE]" in str(second.remark)

    run(scenario, handlers=handlers)


def test_reply_larger_than_a_frame_becomes_an_error() -> None:
    handlers = HandlerTable()
    handlers.register(ECHO, lambda connection, request: RemotingCommand.response(body=bytes(16 << 20)))

    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        reply = await client.request(address, RemotingCommand.request(ECHO))
        assert reply.code == 1 and "larger than" in str(reply.remark)

    run(scenario, handlers=handlers)


def test_port_that_is_taken_is_a_clear_error() -> None:
    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        with pytest.raises(UnavailableError, match=rf"^cannot listen on {address}: Address already in use$"):
            await RemotingServer(table()).start("127.0.0.1", server.port)
        await server.stop()
        with pytest.raises(UnavailableError, match=rf"^cannot connect to {address}: Connection refused$"):
            await RemotingClient().connect(address)

    run(scenario)


def test_tls_needs_a_certificate() -> None:
    with pytest.raises(InvalidArgumentError, match="tlsCertPath"):
        RemotingServer(table(), replace(RemotingOptions(), tls_mode="permissive"))


def test_strangers_who_send_nonsense_do_not_fill_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "_closings", LimitedLog(connections._log, seconds=1000, lines_max=20))

    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        for _ in range(60):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"PROXY TCP4 10.1.2.3 127.0.0.1 4711 10911\r\n")
            assert await asyncio.wait_for(reader.read(), 20) == b""
            writer.close()

    run(scenario)
    assert sum("closing the connection" in record.message for record in caplog.records) == 20


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_replies_are_read_into_the_memory_of_the_client(
    new_loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each read is made an object first and then copied."""
    copied: list[int] = []
    monkeypatch.setattr(ClientConnection, "data_received", lambda self, data: copied.append(len(data)))

    async def main() -> None:
        server, client = RemotingServer(table()), RemotingClient()
        await server.start("127.0.0.1", 0)
        try:
            request = RemotingCommand.request(ECHO, {"x": "1"}, b"body")
            reply = await client.request(f"127.0.0.1:{server.port}", request)
            assert reply.body_bytes == b"body" and copied == []
        finally:
            await client.close()
            await server.stop()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def test_a_lone_call_is_written_at_once_and_those_beside_it_together() -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        transport, connection = await asyncio.get_running_loop().create_connection(
            lambda: ClientConnection(HandlerTable(), RemotingOptions()), sock=ours
        )
        commands = [RemotingCommand.request(ECHO, {"x": str(number)}) for number in range(3)]
        frames = [encode_frame(command) for command in commands]
        calls = [connection.call(command, 10) for command in commands]
        assert theirs.recv(1 << 16) == frames[0]
        with pytest.raises(BlockingIOError):
            theirs.recv(1)
        await asyncio.sleep(0)
        await until(lambda: transport.get_write_buffer_size() == 0)
        assert theirs.recv(1 << 16) == frames[1] + frames[2]
        transport.abort()
        theirs.close()
        await asyncio.wait(calls)
        assert all(isinstance(call.exception(), UnavailableError) for call in calls)

    asyncio.run(main())


def test_what_is_written_alone_goes_out_at_once_and_behind_what_waits_already() -> None:
    opened: list[Connection] = []
    sizes: list[int] = []

    def answer(connection: Connection, request: RemotingCommand) -> None:
        opened.append(connection)

    def frame(number: int, size: int = 3) -> bytes:
        return encode_frame(RemotingCommand.response(ext={"n": str(number)}, body=bytes(size)))

    async def scenario(server: RemotingServer, client: RemotingClient, address: str) -> None:
        host, port = address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(encode_frame(RemotingCommand(SILENT)))
        while not opened:
            await asyncio.sleep(0.001)
        (connection,) = opened
        await asyncio.sleep(0)
        connection.write_alone([frame(1)])
        sizes.append(len(connection._out))
        connection.write([frame(2)])
        connection.write_alone([frame(3)])
        sizes.append(len(connection._out))
        await asyncio.sleep(0)
        connection.write_alone([frame(4, 4 << 20)])  # more than a socket takes: the rest follows
        connection.write_alone([frame(5)])
        expected = b"".join((frame(1), frame(2), frame(3), frame(4, 4 << 20), frame(5)))
        assert await reader.readexactly(len(expected)) == expected
        writer.close()

    handlers = HandlerTable()
    handlers.register(SILENT, answer)
    run(scenario, handlers=handlers)
    assert sizes == [0, 2]
