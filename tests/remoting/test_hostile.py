"""Hostile peers against a running broker and name server: memory stays bounded, honest clients are served, and whatever
is wrong gets a typed reply or a closed connection."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from flaremq.errors import LocalProtocolError
from flaremq.java_json import parse_java_json
from flaremq.message.batch import encode_batch_item
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.frame import FrameDecoder, encode_frame
from flaremq.protocol.headers.custom_header import ext_fields
from flaremq.remoting.client import RemotingClient
from tests.support.broker_lab import UNIQUE, bodies, pull_fields, send_header, texts
from tests.support.golden_frames import sample_frames
from tests.support.header_table import REQUEST_HEADERS
from tests.support.hostile_names import requests_with_names
from tests.support.ports import free_ports
from tests.support.server_process import SMALL, Server, server

ANNOUNCED = struct.pack(">iI", (16 << 20) - 4, 1 << 16) + b"{"  # 16 MiB to come, one byte of them
PATIENCE = 30.0  # seconds in which a server on a busy machine answers an honest client
MIB = 1 << 20
LEGAL = re.compile(r"[%|A-Za-z0-9_-]+")


class Target:
    """Name server and broker in one process of their own."""

    def __init__(self, process: Server, folder: Path) -> None:
        self.process = process
        self.folder = folder
        line = process.ready()
        words = [word.strip(",") for word in line.split() if word.startswith("127.0.0.1:")]
        self.name_server, self.broker = words
        self.addresses = (self.name_server, self.broker)

    @property
    def resident(self) -> int:
        """Bytes of memory the process has that are its own: what is mapped from files can be dropped any time."""
        fields: dict[str, int] = {}
        for line in Path(f"/proc/{self.process.process.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("RssAnon", "RssShmem"):
                fields[name] = int(value.split()[0]) * 1024
        return sum(fields.values())

    def check_log(self) -> None:
        """Nothing that a peer sent was a surprise to the server."""
        assert "Traceback" not in self.process.errors, self.process.errors[-4000:]


@contextmanager
def up(folder: Path, **options: object) -> Iterator[Target]:
    settings = [part for name, value in options.items() for part in ("--set", f"{name}={value}")]
    arguments = ["up", "--data", folder / "data", "--listen", f"127.0.0.1:{free_ports(1)}"]
    arguments += ["--broker-listen", "127.0.0.1:0", *SMALL, *settings]
    with server(*arguments, cwd=folder) as process:
        target = Target(process, folder)
        yield target
        target.check_log()
        assert process.stop() == 0, process.errors[-4000:]
        target.check_log()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """One for all tests that leave it as it was."""
    options = {
        "firstFrameSeconds": 2,
        "frameSeconds": 2,
        "enablePropertyFilter": "true",
        "writeStallSeconds": 5,
        "halfReceivedBytesMax": 32 * MIB,
    }
    with up(tmp_path_factory.mktemp("hostile"), **options) as running:
        yield running


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def dial(address: str) -> socket.socket:
    peer = socket.create_connection(("127.0.0.1", port_of(address)))
    peer.settimeout(PATIENCE)
    return peer


def drain(peer: socket.socket, wanted: int | None = None) -> tuple[list[RemotingCommand], bool]:
    """(replies, whether the server closed the connection), once there are as many replies as wanted."""
    decoder = FrameDecoder()
    replies: list[RemotingCommand] = []
    while wanted is None or len(replies) < wanted:
        try:
            data = peer.recv(1 << 16)
        except ConnectionResetError:
            return replies, True
        if not data:
            return replies, True
        replies += decoder.receive(data)
        assert decoder.failure is None, "what a server sends can be read"
    return replies, False


async def ask(client: RemotingClient, address: str, code: int, ext: Any = None, body: bytes = b"") -> RemotingCommand:
    return await client.request(address, RemotingCommand.request(code, texts(ext), body), PATIENCE)


async def honest(target: Target, client: RemotingClient) -> None:
    """Somebody who means well sends a message, gets it back, and asks the way."""
    header = send_header("honest")
    sent = await ask(client, target.broker, RequestCode.SEND_MESSAGE_V2, header.encode_letters(), b"well meant")
    assert sent.code in (0, 10), sent.remark  # 10: the disk of a busy machine
    place = int(sent.field("queueOffset"))
    ext = pull_fields("honest", place, group="honest", queue_id=0, sysFlag=6, suspendTimeoutMillis=20_000)
    pulled = await ask(client, target.broker, RequestCode.PULL_MESSAGE, ext)
    assert bodies(pulled)[:1] == [b"well meant"], pulled.remark
    route = await ask(client, target.name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "honest"})
    # 17: among broken frames may be a whole one that unregisters the broker, which then registers anew.
    assert route.code in (0, 17), route.remark


def while_served(target: Target, attack: Callable[[], Awaitable[None]]) -> float:
    """Run an attack while an honest client goes on; the longest it had to wait for a reply."""

    async def main() -> float:
        client = RemotingClient()
        worst = 0.0
        try:
            await honest(target, client)
            attacking = asyncio.ensure_future(attack())
            while True:
                done = attacking.done()
                began = time.monotonic()
                await honest(target, client)
                worst = max(worst, time.monotonic() - began)
                if done:
                    break
            await attacking
        finally:
            await client.close()
        return worst

    return asyncio.run(main())


def resident_with_kernels(target: Target) -> int:
    """Its memory before an attack. Kernels come with the first MiB of messages; that must not happen meanwhile."""

    async def fill() -> None:
        client = RemotingClient()
        try:
            for _ in range(130):
                header = send_header("honest").encode_letters()
                await ask(client, target.broker, RequestCode.SEND_MESSAGE_V2, header, bytes(10_000))
        finally:
            await client.close()

    asyncio.run(fill())
    seen, deadline = -1, time.monotonic() + PATIENCE
    while (now := target.resident) != seen and time.monotonic() < deadline:
        seen = now
        time.sleep(0.7)
    return seen


# Every request code with nothing, and with nonsense


VALUES = (
    "", "x", "0", "-1", "2147483648", "9" * 30, "9" * 5000, "../../../tmp/evil", "a/b", "\0", "\x01\x02", "é" * 200,
    "%RETRY%", "%DLQ%" + "x" * 300, "NaN", "1e5", " 1 ", "true", "null", "[]", "{}", "x" * 60_000,
)  # fmt: skip
BODIES = (
    b"", b"{", b"{}", b"[]", b"null", b"0", b'""', b"\xff\xfe\x00", b"[" * 100_000, b'{"a":' * 50_000, b"9" * 100_000,
    b'{"a":' + b"9" * 10_000 + b"}", b"[1e400,-1e400,NaN]", b'{"clientID":{}}', os.urandom(2000),
    b'{"clientID":null,"consumerDataSet":[null],"producerDataSet":[[]]}',
    b'{"clientID":"c","consumerDataSet":[{"groupName":"../g","subscriptionDataSet":[{"topic":"../t","subString":null}]}]}',
    b'{"topicConfigList":[{"topicName":"../../evil","readQueueNums":-1}]}',
    b'{"consumerGroup":"g","clientId":"c","mqSet":[{"topic":"t","brokerName":1,"queueId":"x"},null,[]]}',
    b'{"groupName":"../../evil","retryQueueNums":99999999}',
)  # fmt: skip


def names_of(code: int) -> list[str]:
    header = REQUEST_HEADERS.get(code)  # type: ignore[call-overload]  # an IntEnum is its number
    names = [] if header is None else [field.name for field in ext_fields(header)]
    return names + (list("abcdefghijklmn") if code in (310, 320, 325) else [])


def nonsense(code: int, chance: random.Random, count: int) -> list[RemotingCommand]:
    """Requests of a code that mean nothing."""
    commands = [RemotingCommand.request(code), RemotingCommand.request(code, {}, b"{}")]
    names = names_of(code)
    for number in range(count):
        ext = {name: chance.choice(VALUES) for name in names if chance.random() < 0.9}
        if number % 3 == 0 and names:  # all but one are fine
            ext = dict.fromkeys(names, "1") | {chance.choice(names): chance.choice(VALUES)}
        commands.append(RemotingCommand.request(code, ext, chance.choice(BODIES)))
    for command in commands:
        command.serialize_type = chance.randrange(2)
        command.version = chance.choice((0, 100, 401, 513, 32767))
        command.language = chance.choice(("JAVA", "GO", "PYTHON"))
    return commands


def attack_with_nonsense(address: str, code: int, seed: int, count: int) -> None:
    chance = random.Random(seed * 1_000_003 + code)
    with dial(address) as peer:
        sent: dict[int, RemotingCommand] = {}
        for command in nonsense(code, chance, count):
            if command.ext and ("suspendTimeoutMillis" in command.ext or "pollTime" in command.ext):
                continue  # these wait if they are asked to
            try:
                peer.sendall(encode_frame(command))
            except (LocalProtocolError, BrokenPipeError, ConnectionResetError):
                continue
            sent[command.opaque] = command
        try:
            replies, closed = drain(peer, len(sent))
        except TimeoutError:
            raise AssertionError(f"code {code}: a request was not answered") from None
        if not closed:
            assert {reply.opaque for reply in replies} == set(sent)
        for reply in replies:
            command = sent[reply.opaque]
            remark = str(reply.remark or "")
            context = (code, command.ext, command.body_bytes[:100], reply.code, remark)
            assert reply.is_response, context
            assert "Traceback" not in remark and "\n" not in remark and len(remark) < 5000, context


def known_codes() -> list[int]:
    # A transaction that ends with "unknown" gets no reply: that is how it is.
    return sorted(int(code) for code in RequestCode if code != RequestCode.END_TRANSACTION)


def nonsense_for_all(address: str, seed: int, count: int) -> Callable[[], Awaitable[None]]:
    async def attack() -> None:
        for code in (*known_codes(), -1, 0, 7, 99_999, 2**31 - 1):
            await asyncio.to_thread(attack_with_nonsense, address, code, seed, count)

    return attack


@pytest.mark.parametrize("which", ["name server", "broker"])
def test_any_request_with_nothing_or_nonsense_gets_a_typed_reply(target: Target, which: str) -> None:
    address = target.name_server if which == "name server" else target.broker
    while_served(target, nonsense_for_all(address, 1, 5))
    target.check_log()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 22))
def test_much_nonsense_gets_typed_replies(target: Target, seed: int) -> None:
    for address in target.addresses:
        while_served(target, nonsense_for_all(address, seed, 40))
    target.check_log()


# Frames that are none


def broken_frames(chance: random.Random, count: int) -> Iterator[bytes]:
    """Recorded frames with bytes changed, cut, doubled and put together wrongly; and plain noise."""
    good = [frame.data for frame in sample_frames() if frame.towards and len(frame.data) < 20_000]
    for _ in range(count):
        kind = chance.randrange(7)
        data = bytearray(chance.choice(good))
        if kind == 0:
            data = bytearray(chance.randbytes(chance.randrange(1, 200)))
        elif kind == 1:
            for _ in range(chance.randrange(1, 10)):
                data[chance.randrange(len(data))] = chance.randrange(256)
        elif kind == 2:
            del data[chance.randrange(len(data)) :]
        elif kind == 3:
            data[:4] = struct.pack(">I", chance.choice((0, 3, 4, 2**31 - 1, 2**32 - 1, (16 << 20) - 3, len(data))))
        elif kind == 4:
            data[4:8] = struct.pack(">I", chance.choice((0, 2**24 - 1, 1 << 24, 2 << 24, 255 << 24, len(data) - 8)))
        elif kind == 5:
            header = chance.choice(
                (b"", b"{", b"[]", b"null", b"{}", b'{"code":null}', b'{"code":' + b"9" * 400 + b"}")
            )
            data = bytearray(struct.pack(">II", 4 + len(header), len(header)) + header)
        else:
            header = b'{"code":34,"flag":0,"opaque":1,"extFields":' + b"[" * chance.randrange(1, 5000)
            data = bytearray(struct.pack(">II", 4 + len(header), len(header)) + header)
        yield bytes(data)


def attack_with_frames(address: str, seed: int, count: int) -> None:
    chance = random.Random(seed)
    for number, data in enumerate(broken_frames(chance, count)):
        with dial(address) as peer:
            try:
                if number % 4 == 0:  # byte by byte
                    for at in range(0, min(len(data), 300)):
                        peer.sendall(data[at : at + 1])
                    peer.sendall(data[300:])
                else:
                    peer.sendall(data)
                peer.shutdown(socket.SHUT_WR)
                replies, _ = drain(peer)
            except (BrokenPipeError, ConnectionResetError):
                continue
            except OSError as error:
                if error.errno == errno.ENOTCONN:
                    continue
                raise
            assert all(reply.is_response or reply.is_oneway for reply in replies)
            assert not any("Traceback" in str(reply.remark) for reply in replies)


@pytest.mark.parametrize("which", ["name server", "broker"])
def test_broken_frames_close_their_connection_and_nothing_else(target: Target, which: str) -> None:
    address = target.name_server if which == "name server" else target.broker
    while_served(target, lambda: asyncio.to_thread(attack_with_frames, address, 1, 150))
    target.check_log()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_broken_frames_close_their_connections_and_nothing_else(target: Target, seed: int) -> None:
    for address in target.addresses:
        while_served(target, lambda address=address: asyncio.to_thread(attack_with_frames, address, seed, 2000))  # type: ignore[misc]
    target.check_log()


# Connections that never finish what they begin


def attack_with_half_open_connections(target: Target, count: int) -> None:
    """All of them announce 16 MiB, send one byte, and are closed by the server."""
    peers = []
    try:
        for number in range(count):
            peer = dial(target.addresses[number % 2])
            peer.sendall(ANNOUNCED)
            peers.append(peer)
        for peer in peers:
            assert drain(peer) == ([], True)
    finally:
        for peer in peers:
            peer.close()


def check_half_open(target: Target, count: int) -> None:
    before = resident_with_kernels(target)
    while_served(target, lambda: asyncio.to_thread(attack_with_half_open_connections, target, count))
    assert target.resident - before < 64 * MIB


@pytest.mark.slow
def test_half_open_connections_cost_little_and_are_closed(target: Target) -> None:
    check_half_open(target, 200)


@pytest.mark.soak
def test_a_thousand_half_open_connections_cost_little_and_are_closed(target: Target) -> None:
    check_half_open(target, 1000)


def attack_with_large_frames(target: Target, count: int, size: int) -> int:
    """Connections send nearly all of a large frame and then nothing; the most memory the server had meanwhile."""
    peers = []
    most = 0
    try:
        for _ in range(count):
            peer = dial(target.broker)
            peers.append(peer)
            peer.setblocking(False)
            left = memoryview(ANNOUNCED + bytes(size))
            deadline = time.monotonic() + 0.5
            while left and time.monotonic() < deadline:
                try:
                    left = left[peer.send(left) :]
                except BlockingIOError:
                    time.sleep(0.01)  # not read from: that is the point
                except (BrokenPipeError, ConnectionResetError):
                    break
                most = max(most, target.resident)
            peer.settimeout(PATIENCE)
        for peer in peers:
            assert drain(peer) == ([], True)
    finally:
        for peer in peers:
            peer.close()
    return most


@pytest.mark.slow
def test_half_received_frames_are_bounded_over_all_connections(target: Target) -> None:
    before = resident_with_kernels(target)
    most = []

    async def attack() -> None:
        most.append(await asyncio.to_thread(attack_with_large_frames, target, 6, 15 * MIB))

    while_served(target, attack)
    # 32 MiB are allowed (halfReceivedBytesMax), and one frame may always go on.
    assert most[0] - before < 64 * MIB, f"{(most[0] - before) // MIB} MiB for 90 MiB of half-received frames"


# Peers that are slow


@pytest.mark.slow
def test_slow_writer_is_cut_off_and_a_slow_but_steady_one_is_served(target: Target) -> None:
    data = encode_frame(RemotingCommand.request(RequestCode.GET_BROKER_RUNTIME_INFO))

    def attack() -> None:
        with dial(target.broker) as steady, dial(target.broker) as stuck:
            stuck.sendall(data[:10])
            for at in range(len(data)):
                steady.sendall(data[at : at + 1])
                time.sleep(0.5 / len(data))
            replies, closed = drain(steady, 1)
            assert not closed and replies[0].code == 0
            assert drain(stuck) == ([], True)

    while_served(target, lambda: asyncio.to_thread(attack))


@pytest.mark.slow
def test_peer_that_asks_for_much_and_reads_nothing_fills_no_memory_and_is_cut_off(target: Target) -> None:
    requests = b"".join(encode_frame(RemotingCommand.request(code)) for code in (21, 26, 201, 43) * 5000)
    most = []

    def attack() -> None:
        before = target.resident
        with dial(target.broker) as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.settimeout(0.2)
            grown, sent = 0, 0
            deadline = time.monotonic() + PATIENCE
            while time.monotonic() < deadline:
                try:
                    sent += peer.send(requests[sent : sent + 65536] or requests[:65536])
                except TimeoutError:
                    pass
                except OSError:
                    break
                grown = max(grown, target.resident - before)
            else:
                raise AssertionError("it was never cut off")
        most.append(grown)

    while_served(target, lambda: asyncio.to_thread(attack))
    assert most[0] < 80 * MIB, f"{most[0] // MIB} MiB for replies that nobody reads"


@pytest.mark.slow
def test_consumer_that_does_not_read_its_messages_fills_no_memory(target: Target) -> None:
    async def fill() -> None:
        client = RemotingClient()
        for _ in range(20):
            header = send_header("large")
            reply = await ask(
                client, target.broker, RequestCode.SEND_MESSAGE_V2, header.encode_letters(), bytes(200_000)
            )
            assert reply.code == 0, reply.remark
        await client.close()

    asyncio.run(fill())
    most = []

    def attack() -> None:
        before = target.resident
        ext = texts(pull_fields("large", 0, group="slow", queue_id=0))
        with dial(target.broker) as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.settimeout(5)
            for _ in range(3000):
                try:
                    peer.sendall(encode_frame(RemotingCommand.request(RequestCode.PULL_MESSAGE, ext)))
                except OSError:
                    break
            grown = 0
            deadline = time.monotonic() + 2
            while time.monotonic() < deadline:
                grown = max(grown, target.resident - before)
                time.sleep(0.05)
            most.append(grown)

    while_served(target, lambda: asyncio.to_thread(attack))
    assert most[0] < 64 * MIB, f"{most[0] // MIB} MiB for 600 MB of pulls that nobody reads"


# Bombs


@cache
def zeros_compressed(size: int) -> bytes:
    compressor = zlib.compressobj(9)
    return b"".join([compressor.compress(bytes(MIB)) for _ in range(size // MIB)]) + compressor.flush()


def sends() -> Iterator[tuple[str, RemotingCommand]]:
    """Bombs in messages."""

    def send(code: int, body: bytes, **fields: Any) -> RemotingCommand:
        return RemotingCommand.request(code, send_header("bomb", **fields).encode_letters(), body)

    item = encode_batch_item(0, b"", b"")
    many = {f"k{number}": "v" for number in range(20_000)}
    yield "compressed message", send(310, zeros_compressed(128 * MIB), sys_flag=1)
    yield "many properties", send(310, b"", properties="a\x01b\x02" * 8000)
    yield "separators only", send(310, b"", properties="\x01\x02" * 16_000)
    yield "many ext fields", RemotingCommand.request(310, send_header("bomb").encode_letters() | many, b"x")
    yield "largest batch", send(320, item * (4 * MIB // len(item)), batch=True)
    yield "largest batch that is taken", send(320, item * 8_000, batch=True)
    yield "batch above the limit", send(320, item * (15 * MIB // len(item)), batch=True)


def documents() -> Iterator[tuple[str, RemotingCommand]]:
    """Bombs in JSON and other texts."""

    def request(code: int, value: Any) -> RemotingCommand:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return RemotingCommand.request(code, {}, body)

    producers = [{"groupName": f"g{number}"} for number in range(100_000)]
    subscriptions = [{"topic": f"t{number}", "subString": "*", "expressionType": "TAG"} for number in range(50_000)]
    consumer = {"groupName": "bomb", "subscriptionDataSet": subscriptions}
    queues = [{"topic": f"t{number}", "brokerName": "b", "queueId": number} for number in range(100_000)]
    topics = [{"topicName": f"t{number}"} for number in range(100_000)]
    yield "many producers", request(34, {"clientID": "bomb", "producerDataSet": producers, "consumerDataSet": []})
    yield "many subscriptions", request(34, {"clientID": "bomb", "consumerDataSet": [consumer]})
    yield "many locks", request(41, {"consumerGroup": "g", "clientId": "c", "mqSet": queues})
    yield "many topics", request(18, {"topicConfigList": topics})
    yield "deep JSON", request(34, b'{"clientID":' + b"[" * 7 * MIB)
    yield "long number", request(34, b'{"clientID":' + b"1" * 7 * MIB + b"}")
    yield "long text", request(34, b'{"clientID":"' + b"a" * 15 * MIB + b'"}')
    yield "many options", request(25, b"a=b\n" * 3_000_000)


def filters() -> Iterator[tuple[str, RemotingCommand]]:
    """Bombs in expressions."""
    texts_of_filters = [
        "a = 1 OR " * 20_000 + "b = 2",
        "NOT " * 50_000 + "TRUE",
        "(" * 100_000 + "1" + ")" * 100_000,
        "a IN (" + ",".join("'x'" for _ in range(60_000)) + ")",
        "'" + "x" * 200_000 + "'",
        "1" * 100_000 + " = a",
        "a BETWEEN 1 AND 2 AND " * 10_000 + "TRUE",
        "-" * 100_000 + "1 = a",
        "/*" * 100_000,
        "a" * 200_000,
    ]
    for number, expression in enumerate(texts_of_filters):
        fields = pull_fields("honest", 0, group="b", queue_id=0, subscription=expression, expressionType="SQL92")
        yield f"filter {number}", RemotingCommand.request(11, texts(fields))
    tags = "||".join(map(str, range(60_000)))
    yield (
        "many tags",
        RemotingCommand.request(11, texts(pull_fields("honest", 0, group="b", queue_id=0, subscription=tags))),
    )


def registrations() -> Iterator[tuple[str, RemotingCommand]]:
    """Bombs for the name server."""
    ext = {
        "brokerName": "b",
        "brokerAddr": "1.2.3.4:5",
        "clusterName": "c",
        "haServerAddr": "1.2.3.4:6",
        "brokerId": "0",
    }
    yield "compressed", RemotingCommand.request(103, ext | {"compressed": "true"}, zeros_compressed(128 * MIB))
    yield "deep", RemotingCommand.request(103, ext | {"compressed": "false"}, b'{"a":' * 3 * MIB)


def bombs() -> Iterator[tuple[str, str, RemotingCommand]]:
    """(name, whom it is for, request)."""
    for name, request in (*sends(), *documents(), *filters()):
        yield name, "broker", request
    for name, request in registrations():
        yield name, "name server", request


def test_bombs_are_answered_or_refused_at_a_small_price(target: Target) -> None:
    before = target.resident
    grown: dict[str, int] = {}

    def attack() -> None:
        for name, which, request in bombs():
            address = target.name_server if which == "name server" else target.broker
            for serialize_type in (0, 1):
                request.serialize_type = serialize_type
                try:
                    data = encode_frame(request)
                except LocalProtocolError:
                    continue
                with dial(address) as peer:
                    try:
                        peer.sendall(data)
                        replies, _ = drain(peer, 1)
                    except (BrokenPipeError, ConnectionResetError):
                        continue
                    assert all("Traceback" not in str(reply.remark) for reply in replies), name
                grown[name] = max(grown.get(name, 0), target.resident - before)

    worst = while_served(target, lambda: asyncio.to_thread(attack))
    assert worst < PATIENCE
    assert max(grown.values()) < 128 * MIB, {name: size // MIB for name, size in grown.items()}
    target.check_log()


# Names


def attack_with_names(target: Target) -> None:
    with dial(target.broker) as broker, dial(target.name_server) as name_server:
        peers = {"broker": broker, "name server": name_server}
        waiting = {"broker": 0, "name server": 0}
        for which, request in requests_with_names():
            if request.code == RequestCode.END_TRANSACTION:
                request.flag |= 2
            else:
                waiting[which] += 1
            peers[which].sendall(encode_frame(request))
        for which, peer in peers.items():
            replies, closed = drain(peer, waiting[which])
            assert not closed
            assert not any("Traceback" in str(reply.remark) for reply in replies)


@pytest.mark.slow
def test_no_name_from_anywhere_leaves_the_folder_of_the_store(tmp_path: Path) -> None:
    folder = tmp_path / "one" / "two"
    folder.mkdir(parents=True)
    with up(folder, enablePropertyFilter="true", messageDelayLevel="1s") as target:
        while_served(target, lambda: asyncio.to_thread(attack_with_names, target))
        asyncio.run(check_names(target))
    # A second start on what they left behind.
    with up(folder) as target:
        while_served(target, lambda: asyncio.sleep(0))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one"]
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["two"]
    assert sorted(path.name for path in folder.iterdir()) == ["data"]
    ours = {"commitlog", "consumequeue", "index", "config", "checkpoint", "lock", "timerlog", "timerwheel"}
    assert {path.name for path in (folder / "data").iterdir() if not path.name.startswith("flaremq.")} == ours
    for path in (folder / "data" / "consumequeue").iterdir():
        assert LEGAL.fullmatch(path.name) and all(queue.name.isdigit() for queue in path.iterdir()), path


async def check_names(target: Target) -> None:
    """What was delayed has come due, wherever its properties said it should go; all topics have legal names."""
    client = RemotingClient()
    last = send_header("probe", properties=f"DELAY\x011\x02{UNIQUE}").encode_letters()
    assert (await ask(client, target.broker, RequestCode.SEND_MESSAGE_V2, last, b"after all others")).code == 0
    ext = pull_fields("probe", 0, group="probe", queue_id=0, sysFlag=6, suspendTimeoutMillis=20_000)
    assert bodies(await ask(client, target.broker, RequestCode.PULL_MESSAGE, ext)) == [b"after all others"]
    await honest(target, client)
    topics = await ask(client, target.broker, RequestCode.GET_ALL_TOPIC_CONFIG)
    assert all(LEGAL.fullmatch(name) for name in parse_java_json(topics.body_bytes)["topicConfigTable"])
    await client.close()


# Configuration


DANGEROUS = (
    "rocketmqHome", "filterServerNums", "configStorePath", "kvConfigPath", "storePathRootDir", "storePathCommitLog",
    "brokerConfigPath", "namesrvAddr", "brokerIP1", "bindAddress", "tlsCertPath", "tlsKeyPath", "listenPort",
    "aclEnable", "messageStorePlugIn", "transactionCheckListener", "insecureBindEnable", "noSuchOption",
)  # fmt: skip
VALUES_NEVER_LEGAL = (
    "/etc/passwd", "../../evil", "$(touch /evil)", "; touch /evil", "java.lang.Runtime", "file:///evil", "9" * 30,
    "http://127.0.0.1/", "true\nrocketmqHome=/evil",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("which", ["name server", "broker"])
def test_configuration_takes_no_path_class_command_or_address(target: Target, which: str) -> None:
    get, update, address = (
        (RequestCode.GET_NAMESRV_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG, target.name_server)
        if which == "name server"
        else (RequestCode.GET_BROKER_CONFIG, RequestCode.UPDATE_BROKER_CONFIG, target.broker)
    )

    async def scenario() -> None:
        client = RemotingClient()
        before = (await ask(client, address, get)).body_bytes
        keys = [line.partition(b"=")[0].decode() for line in before.splitlines()]
        assert len(keys) > 10
        for key in {*keys, *DANGEROUS}:
            attempts = [ask(client, address, update, {}, f"{key}={value}\n".encode()) for value in VALUES_NEVER_LEGAL]
            for value, reply in zip(VALUES_NEVER_LEGAL, await asyncio.gather(*attempts), strict=True):
                assert reply.code != 0, f"{key}={value} was taken"
        # One bad line spoils the request: what is fine in it is not changed either.
        mixed = b"traceOn=false\nenableAllTopicList=false\nrocketmqHome=/evil\n"
        assert (await ask(client, address, update, {}, mixed)).code != 0
        assert (await ask(client, address, get)).body_bytes == before
        await client.close()

    asyncio.run(scenario())


# Effects


@pytest.mark.slow
def test_audited_broker_starts_nothing_runs_nothing_and_stays_in_its_folder(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), *sys.path]), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.audited_broker", str(tmp_path / "root")],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    *violations, summary = done.stdout.splitlines()
    assert violations == []
    opens = re.search(r"(\d+) opens", summary)
    assert opens is not None and int(opens[1]) > 20, f"the audit saw nothing: {summary}"
