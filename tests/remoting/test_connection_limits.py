"""How many connections a server takes: by its options, the descriptors of the process, and before a handshake."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from flaremq.protocol.command import RemotingCommand
from flaremq.remoting import descriptors, tls_acceptor
from flaremq.remoting.budget import SMALL_BYTES, ByteBudget
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.options import RemotingOptions
from flaremq.remoting.server import RemotingServer
from tests.support.broker_lab import until

HERE = Path(__file__).parent
TLS = {
    "tls_mode": "permissive",
    "tls_cert_path": str(HERE / "test-server.pem"),
    "tls_key_path": str(HERE / "test-server.key"),
}
MIB = 1 << 20


def limit_descriptors(monkeypatch: pytest.MonkeyPatch, soft: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft, soft))


def run(scenario: Callable[[RemotingServer], Awaitable[None]], options: RemotingOptions | None = None) -> None:
    async def main() -> None:
        table = HandlerTable()
        table.register(1, lambda _, request: RemotingCommand.response(body=request.body_bytes))
        server = RemotingServer(table, options)
        await server.start("127.0.0.1", 0)
        try:
            await asyncio.wait_for(scenario(server), 60)
        finally:
            await server.stop()

    asyncio.run(main())


async def dial(server: RemotingServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", server.port)


# Descriptors


@pytest.mark.parametrize(
    ("soft", "allowed"), [(1024, 384), (65_536, 32_640), (64, 16), (resource.RLIM_INFINITY, 1 << 30)]
)
def test_connections_get_half_of_the_descriptors_less_a_reserve(
    monkeypatch: pytest.MonkeyPatch, soft: int, allowed: int
) -> None:
    limit_descriptors(monkeypatch, soft)
    assert descriptors.connections_allowed() == allowed
    assert descriptors.backlog() <= min(1024, allowed)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_connections_beyond_the_descriptors_are_refused_and_room_comes_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tls: bool
) -> None:
    limit_descriptors(monkeypatch, 300)  # 22 of them for connections
    monkeypatch.setattr(descriptors, "_told", None)
    before = descriptors._in_use

    async def scenario(server: RemotingServer) -> None:
        assert "at most 22 connections" in caplog.text and "connectionsMax=16384" in caplog.text
        # A byte, so that where TLS may begin each becomes a connection.
        dialled = [await dial(server) for _ in range(22)]
        for _, writer in dialled:
            writer.write(b"\0")
        await until(lambda: len(server.connections) == 22)
        await until(lambda: descriptors._in_use == before + 22)
        reader, writer = await dial(server)
        assert await reader.read() == b""
        writer.close()
        assert len(server.connections) == 22
        for _, writer in dialled[:3]:
            writer.close()
        await until(lambda: len(server.connections) == 19)
        client = RemotingClient()
        reply = await client.request(f"127.0.0.1:{server.port}", RemotingCommand.request(1, None, b"hello"), 10)
        assert reply.body_bytes == b"hello"
        await client.close()
        for _, writer in dialled:
            writer.close()

    with caplog.at_level(logging.WARNING):
        run(scenario, RemotingOptions(**TLS) if tls else RemotingOptions())  # type: ignore[arg-type]
    assert descriptors._in_use == before


def test_refused_connections_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(server: RemotingServer) -> None:
        first = await dial(server)
        await until(lambda: len(server.connections) == 1)
        for _ in range(20):
            reader, writer = await dial(server)
            assert await reader.read() == b""
            writer.close()
        assert server.refused == 20
        assert caplog.text.count("refusing a connection") == 1
        first[1].close()

    with caplog.at_level(logging.WARNING):
        run(scenario, RemotingOptions(connections_max=1))


# Greetings


def test_peers_that_say_nothing_keep_no_tls_client_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_acceptor, "GREETINGS_MAX", 5)
    monkeypatch.setattr(tls_acceptor, "_GREETING_SECONDS", 600.0)  # time gives up none of them

    async def scenario(server: RemotingServer) -> None:
        silent = [await dial(server) for _ in range(5)]
        acceptor = server._acceptor
        assert acceptor is not None
        await until(lambda: acceptor.greetings == 5)
        client = RemotingClient(tls=ssl.create_default_context(cafile=TLS["tls_cert_path"]))
        reply = await client.request(f"127.0.0.1:{server.port}", RemotingCommand.request(1, None, b"hello"), 10)
        assert reply.body_bytes == b"hello"
        assert await asyncio.wait_for(silent[0][0].read(), 10) == b""  # the oldest made room
        assert acceptor.greetings == 4
        await client.close()
        for _, writer in silent:
            writer.close()

    run(scenario, RemotingOptions(**TLS))  # type: ignore[arg-type]


def test_greetings_count_as_connections_of_the_process_and_the_oldest_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit_descriptors(monkeypatch, 300)  # 22 of them for connections
    before = descriptors._in_use

    async def scenario(server: RemotingServer) -> None:
        silent = [await dial(server) for _ in range(30)]
        acceptor = server._acceptor
        assert acceptor is not None
        for reader, _ in silent[:8]:
            assert await asyncio.wait_for(reader.read(), 10) == b""
        assert acceptor.greetings == 22
        assert descriptors._in_use == before + 22
        for _, writer in silent:
            writer.close()
        await until(lambda: descriptors._in_use == before)

    run(scenario, RemotingOptions(**TLS))  # type: ignore[arg-type]


# Frames that are not complete


class Peer:
    """A connection as the budget sees it."""

    def __init__(self, budget: ByteBudget) -> None:
        self.budget = budget
        self.buffered = 0
        self.waits_for_room = False
        self.turns = 0

    def receive(self, size: int) -> None:
        self.buffered += size
        if self.budget.half_received(self, size):  # type: ignore[arg-type]
            self.waits_for_room = True
            self.budget.choked.add(self)  # type: ignore[arg-type]
            self.budget.choose()

    def complete(self) -> None:
        size, self.buffered = self.buffered, 0
        self.budget.half_received(self, -size)  # type: ignore[arg-type]

    def end_rest(self) -> None:
        self.turns += 1

    def look_again(self) -> None:
        self.waits_for_room = False
        self.budget.choked.discard(self)  # type: ignore[arg-type]


def test_one_large_frame_at_a_time_goes_on_while_half_received_ones_take_too_much() -> None:
    budget = ByteBudget(256 * MIB, 16 * MIB)
    peers = [Peer(budget) for _ in range(8)]
    for number, peer in enumerate(peers):
        peer.receive(3 * MIB + number)
    going = [peer for peer in peers if not peer.waits_for_room and peer.buffered > 3 * MIB]
    assert budget.is_overdrawn and budget.going in peers
    first = budget.going
    assert isinstance(first, Peer)
    first.receive(9 * MIB)
    assert not first.waits_for_room, "it is its turn"
    first.complete()
    assert budget.going is not first
    while any(peer.buffered for peer in peers):
        turn = budget.going if isinstance(budget.going, Peer) else next(peer for peer in peers if peer.buffered)
        turn.complete()
    assert budget.half == 0 and not budget.choked and not any(peer.waits_for_room for peer in peers)
    assert going


def test_small_frames_do_not_wait_for_large_ones() -> None:
    budget = ByteBudget(256 * MIB, 16 * MIB)
    large = [Peer(budget) for _ in range(3)]
    for peer in large:
        peer.receive(6 * MIB)
    assert budget.is_overdrawn
    small = Peer(budget)
    small.receive(SMALL_BYTES - 1)
    assert not small.waits_for_room
    small.receive(1)
    assert small.waits_for_room, "it is no longer small"


def test_few_connections_with_large_frames_are_read_from_in_one_turn_of_the_loop() -> None:
    async def scenario() -> None:
        budget = ByteBudget(256 * MIB, 256 * MIB)
        peers = [Peer(budget) for _ in range(12)]
        resting = []
        for peer in peers:
            peer.receive(SMALL_BYTES)
            if budget.rests(peer):  # type: ignore[arg-type]
                resting.append(peer)
        assert len(resting) == 8, "a few need not rest"
        ended = []
        while sum(peer.turns for peer in resting) < 8:
            await asyncio.sleep(0)
            ended.append(sum(peer.turns for peer in resting))
        assert [number for number in ended if number] == [4, 8]
        for peer in peers[:8]:
            peer.complete()
        peers[8].receive(SMALL_BYTES)
        assert not budget.rests(peers[8]), "the others are done"  # type: ignore[arg-type]

    asyncio.run(scenario())


def test_many_large_frames_are_received_whole() -> None:
    async def scenario(server: RemotingServer) -> None:
        clients = [RemotingClient() for _ in range(10)]
        body = bytes(range(256)) * (3 * MIB // 256)
        asked = [
            client.request(f"127.0.0.1:{server.port}", RemotingCommand.request(1, None, body), 30) for client in clients
        ]
        assert all(reply.body_bytes == body for reply in await asyncio.gather(*asked))
        assert server._budget.half == 0 and not server._budget.choked and not server._budget._large
        for client in clients:
            await client.close()

    run(scenario)


def test_closed_connection_passes_its_turn_on() -> None:
    budget = ByteBudget(256 * MIB, 16 * MIB)
    peers = [Peer(budget) for _ in range(6)]
    for peer in peers:
        peer.receive(4 * MIB)
    first = budget.going
    assert isinstance(first, Peer)
    budget.choked.discard(first)  # type: ignore[arg-type]
    budget.forget(first)  # type: ignore[arg-type]
    assert budget.going is not first and budget.going in peers


def test_sockets_are_closed_when_greetings_are_given_up() -> None:
    async def scenario(server: RemotingServer) -> None:
        with socket.create_connection(("127.0.0.1", server.port)) as silent:
            acceptor = server._acceptor
            assert acceptor is not None
            await until(lambda: acceptor.greetings == 1)
            await server.stop_listening()
            silent.settimeout(10)
            assert await asyncio.to_thread(silent.recv, 1) == b""

    run(scenario, RemotingOptions(**TLS))  # type: ignore[arg-type]
