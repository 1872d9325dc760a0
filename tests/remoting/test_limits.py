"""What one connection may take of a server: its share of the loop, of memory, of the lanes."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable

import pytest

from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.frame import FrameDecoder, encode_frame
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.connection import IN_FLIGHT_BYTES_MAX, Connection
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.options import RemotingOptions
from flaremq.remoting.server import RemotingServer
from tests.support.broker_lab import until

BUSY, HELD, ECHO, LARGE, WORDY = range(1, 6)
MIB = 1 << 20


class Bench:
    """A server whose handlers count, and wait where told to."""

    def __init__(self, options: RemotingOptions | None = None) -> None:
        self.handled = 0
        self.begun = 0
        self.gate = asyncio.Event()
        self.table = HandlerTable()
        self.table.register(BUSY, self._busy)
        self.table.register(HELD, self._held, "query")
        self.table.register(ECHO, lambda _, request: RemotingCommand.response(ext={"x": request.field("x")}))
        self.table.register(LARGE, self._large)
        self.table.register(WORDY, lambda _, request: RemotingCommand.response(1, "word\n" * 10_000))
        self.server = RemotingServer(self.table, options)

    def _busy(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Keeps the loop busy for a while."""
        self.handled += 1
        until = time.monotonic() + 0.002
        while time.monotonic() < until:
            pass
        return RemotingCommand.response()

    def _large(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        self.handled += 1
        return RemotingCommand.response(body=bytes(200_000))

    async def _held(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        self.begun += 1
        await self.gate.wait()
        return RemotingCommand.response()


def run(scenario: Callable[[Bench], Awaitable[None]], options: RemotingOptions | None = None) -> None:
    async def main() -> None:
        bench = Bench(options)
        await bench.server.start("127.0.0.1", 0)
        try:
            await asyncio.wait_for(scenario(bench), 60)
        finally:
            bench.gate.set()
            await bench.server.stop()

    asyncio.run(main())


def frames(code: int, count: int, body: bytes = b"") -> bytes:
    return b"".join(encode_frame(RemotingCommand.request(code, {"x": "1"}, body)) for _ in range(count))


async def dial(bench: Bench) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", bench.server.port)


async def replies(reader: asyncio.StreamReader, count: int) -> list[RemotingCommand]:
    decoder = FrameDecoder()
    found: list[RemotingCommand] = []
    while len(found) < count:
        data = await reader.read(1 << 16)
        assert data, f"closed after {len(found)} of {count} replies"
        found += decoder.receive(data)
    return found


async def echo(bench: Bench, client: RemotingClient) -> None:
    reply = await client.request(f"127.0.0.1:{bench.server.port}", RemotingCommand.request(ECHO, {"x": "y"}))
    assert reply.field("x") == "y"


def test_many_requests_in_one_read_do_not_keep_the_others_waiting() -> None:
    async def scenario(bench: Bench) -> None:
        client = RemotingClient()
        await echo(bench, client)
        reader, writer = await dial(bench)
        writer.write(frames(BUSY, 500))
        await until(lambda: bench.handled > 0)
        await echo(bench, client)
        assert bench.handled < 500, "somebody else was served before all of them were"
        opaques = [reply.opaque for reply in await replies(reader, 500)]
        assert opaques == sorted(opaques) and bench.handled == 500, "all are answered, in order"
        writer.close()
        await client.close()

    run(scenario)


def test_garbage_after_many_requests_closes_when_they_are_answered() -> None:
    async def scenario(bench: Bench) -> None:
        reader, writer = await dial(bench)
        writer.write(frames(BUSY, 100) + struct.pack(">iI", 2**30, 0))
        assert len(await replies(reader, 100)) == 100
        assert await reader.read() == b""
        writer.close()

    run(scenario)


def test_requests_of_a_peer_that_does_not_read_are_not_handled() -> None:
    async def scenario(bench: Bench) -> None:
        client = RemotingClient()
        with socket.create_connection(("127.0.0.1", bench.server.port)) as peer:
            await asyncio.to_thread(peer.sendall, frames(LARGE, 1000))
            await until(lambda: bench.handled > 0)
            for _ in range(20):
                await echo(bench, client)
            assert bench.handled < 100, "200 MB of replies are not made for somebody who does not take them"
            peer.settimeout(30)
            received = 0
            while received < 1000 * 200_000:
                received += len(await asyncio.to_thread(peer.recv, MIB))
            await until(lambda: bench.handled == 1000)
        await client.close()

    run(scenario)


def test_request_bytes_in_flight_are_bounded_for_a_connection() -> None:
    async def scenario(bench: Bench) -> None:
        client = RemotingClient()
        reader, writer = await dial(bench)
        writer.write(frames(HELD, 12, bytes(4 * MIB)))
        await until(lambda: bench.begun >= 4)
        for _ in range(20):
            await echo(bench, client)
        assert bench.begun == IN_FLIGHT_BYTES_MAX // (4 * MIB)
        bench.gate.set()
        assert len(await replies(reader, 12)) == 12
        assert bench.server._budget.in_flight == 0
        writer.close()
        await client.close()

    run(scenario)


def test_request_bytes_in_flight_are_bounded_for_all_connections() -> None:
    async def scenario(bench: Bench) -> None:
        client = RemotingClient()
        await echo(bench, client)
        dialled = [await dial(bench) for _ in range(6)]
        for _, writer in dialled:
            writer.write(frames(HELD, 4, bytes(3 * MIB)))
        budget = bench.server._budget
        await until(lambda: budget.is_spent)
        for _ in range(20):
            await echo(bench, client)
        assert bench.begun < 24 and budget.in_flight < 16 * MIB + 6 * 3 * MIB
        bench.gate.set()
        for reader, writer in dialled:
            assert len(await replies(reader, 4)) == 4
            writer.close()
        assert (budget.in_flight, budget.half) == (0, 0)
        await echo(bench, client)
        await client.close()

    run(scenario, RemotingOptions(in_flight_bytes_max=16 * MIB))


def test_large_frames_that_come_all_at_once_take_turns_and_none_is_lost() -> None:
    async def scenario(bench: Bench) -> None:
        bench.gate.set()
        client = RemotingClient()
        await echo(bench, client)
        dialled = [await dial(bench) for _ in range(6)]
        for _, writer in dialled:
            writer.write(frames(HELD, 1, bytes(12 * MIB)))
        budget = bench.server._budget
        most = 0
        waiting = [asyncio.ensure_future(replies(reader, 1)) for reader, _ in dialled]
        while not all(task.done() for task in waiting):
            await echo(bench, client)
            most = max(most, budget.half)
        assert all(reply.code == 0 for (reply,) in await asyncio.gather(*waiting))
        assert most < 16 * MIB + 12 * MIB + 6 * MIB
        for _, writer in dialled:
            writer.close()
        await client.close()

    run(scenario, RemotingOptions(half_received_bytes_max=16 * MIB))


@pytest.mark.slow
def test_frame_that_stands_still_while_others_wait_for_room_is_given_up() -> None:
    async def scenario(bench: Bench) -> None:
        bench.gate.set()
        head = struct.pack(">iI", 16 * MIB - 4, 100)
        stuck_reader, stuck = await dial(bench)
        stuck.write(head + bytes(15 * MIB))
        await until(lambda: bench.server._budget.half > 14 * MIB)
        reader, writer = await dial(bench)
        writer.write(frames(HELD, 1, bytes(14 * MIB)))
        (reply,) = await replies(reader, 1)
        assert reply.code == 0
        assert await stuck_reader.read() == b""
        for each in (stuck, writer):
            each.close()
        await until(lambda: not bench.server.connections)
        assert bench.server._budget.half == 0

    run(scenario, RemotingOptions(half_received_bytes_max=16 * MIB))


def test_requests_that_wait_for_a_lane_count_as_in_flight() -> None:
    async def scenario(bench: Bench) -> None:
        client = RemotingClient()
        reader, writer = await dial(bench)
        writer.write(frames(HELD, 500))
        lane = bench.table.lanes["query"]
        await until(lambda: lane.running == lane.concurrency and lane.waiting > 0)
        for _ in range(20):
            await echo(bench, client)
        assert lane.running + lane.waiting <= 110, "beyond its share nothing is read"
        bench.gate.set()
        assert len(await replies(reader, 500)) == 500
        writer.close()
        await client.close()

    run(scenario, RemotingOptions(in_flight_max=100))


def test_waiting_requests_of_a_closed_connection_are_forgotten() -> None:
    async def scenario(bench: Bench) -> None:
        client = RemotingClient()
        _, writer = await dial(bench)
        writer.write(frames(HELD, 200, bytes(1000)))
        lane = bench.table.lanes["query"]
        await until(lambda: lane.waiting == 200 - lane.concurrency)
        writer.close()
        await until(lambda: not bench.server.connections)
        bench.gate.set()
        await until(lambda: lane.running == 0 and lane.waiting == 0)
        assert bench.begun == lane.concurrency and bench.server._budget.in_flight == 0
        await client.close()

    run(scenario)


def test_waiting_requests_of_a_peer_that_does_not_read_are_refused() -> None:
    async def scenario(bench: Bench) -> None:
        with socket.create_connection(("127.0.0.1", bench.server.port)) as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.sendall(frames(HELD, 50))
            lane = bench.table.lanes["query"]
            await until(lambda: lane.waiting == 50 - lane.concurrency)
            peer.sendall(frames(LARGE, 100))
            (connection,) = bench.server.connections
            await until(lambda: connection.is_stalled)
            bench.gate.set()
            await until(lambda: lane.waiting == 0)
            assert (lane.refused, bench.begun) == (50 - lane.concurrency, lane.concurrency)

    run(scenario)


def test_remark_is_one_line_of_bounded_length() -> None:
    async def scenario(bench: Bench) -> None:
        client = RemotingClient()
        reply = await client.request(f"127.0.0.1:{bench.server.port}", RemotingCommand.request(WORDY))
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert reply.remark is not None and len(reply.remark) <= 4096 and "\n" not in reply.remark
        await client.close()

    run(scenario)
