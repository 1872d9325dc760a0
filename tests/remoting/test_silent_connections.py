"""A thousand connections that never finish their handshake or their first frame, at a broker that speaks TLS."""

from __future__ import annotations

import asyncio
import os
import re
import selectors
import socket
import ssl
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from tests.support.broker_lab import send_header
from tests.support.ports import free_ports
from tests.support.server_process import SMALL, server

COUNT = 1000
MIB = 1 << 20
ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
HALF_FRAME = (1000).to_bytes(4, "big") + (500).to_bytes(4, "big") + b'{"code":310'
# The record of a ClientHello that announces more than ever comes.
HALF_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40)


def silent(number: int, port: int, context: ssl.SSLContext) -> socket.socket:
    """One that says nothing, half a handshake, half a frame, or half a frame after a handshake."""
    connection = socket.create_connection(("127.0.0.1", port), 60)
    kind = number % 4
    if kind == 1:
        connection.sendall(HALF_HELLO)
    elif kind == 2:
        connection.sendall(HALF_FRAME)
    elif kind == 3:
        connection = context.wrap_socket(connection)
        connection.sendall(HALF_FRAME)
    return connection


def until_cut(connections: list[socket.socket]) -> None:
    """Wait until the server has closed all of them."""
    deadline = time.monotonic() + 120
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ)
        while selector.get_map():
            assert time.monotonic() < deadline, f"{len(selector.get_map())} are still open"
            for key, _ in selector.select(1):
                assert isinstance(key.fileobj, socket.socket)
                try:
                    ended = key.fileobj.recv(65536) == b""
                except (ssl.SSLWantReadError, BlockingIOError):
                    ended = False  # a session ticket, say
                except OSError:
                    ended = True
                if ended:
                    selector.unregister(key.fileobj)


async def sends(address: str, context: ssl.SSLContext | None, count: int) -> list[int]:
    """The codes of the replies to honest sends, each over a connection of its own."""
    codes = []
    for number in range(count):
        client = RemotingClient(tls=context)
        try:
            header = send_header("orders").encode_letters()
            request = RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, header, f"{number}".encode())
            codes.append((await client.request(address, request, 60)).code)
        finally:
            await client.close()
    return codes


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident(pid: int) -> int:
    match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    assert match is not None
    return int(match[1]) * 1024


@pytest.mark.slow
def test_silent_connections_keep_nobody_out_are_bounded_and_are_cut(tmp_path: Path) -> None:
    port = free_ports(2)
    arguments = ["up", "--tls", "--data", tmp_path / "data", "--set", "tlsMode=permissive", "--set", "frameSeconds=5"]
    arguments += ["--listen", f"127.0.0.1:{port}", "--broker-listen", f"127.0.0.1:{port + 10}"]
    with server(*arguments, *SMALL, cwd=tmp_path) as up, ExitStack() as stack:
        _, address = ADDRESS.findall(up.ready())
        context = ssl.create_default_context(cafile=tmp_path / "data" / "flaremq.tls" / "ca.pem")
        context.check_hostname = False
        assert asyncio.run(sends(address, context, 2)) == [0, 0]
        pid = up.process.pid
        before, memory = descriptors(pid), resident(pid)
        quiet = [stack.enter_context(silent(number, port + 10, context)) for number in range(COUNT)]
        for encryption in (context, None):
            assert asyncio.run(sends(address, encryption, 20)) == [0] * 20
        assert descriptors(pid) <= before + COUNT + 16
        assert resident(pid) <= memory + 128 * MIB
        until_cut(quiet)
        while descriptors(pid) > before + 16:  # the last ones are closed on our side first
            time.sleep(0.05)
        assert asyncio.run(sends(address, context, 2)) == [0, 0]
        assert up.stop() == 0
