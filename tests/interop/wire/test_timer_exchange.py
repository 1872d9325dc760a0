"""Brokers of both kinds serve one store in turn: timers and delayed messages are delivered by one of them, once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from flaremq.message.message_ext import MessageExt
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient
from flaremq.storage.at_rest.reader import StoreReader
from tests.interop.wire import servers
from tests.interop.wire.selection import require
from tests.support.broker_lab import send_header, texts

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("timer exchange")]

_REAL = "rocketmq-5.5.0"
_TOPIC = "later"
_COUNT = 20
_WAIT_S = 120.0


class Sent:
    """What was sent so far: body and the properties that delay it."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def send(self, client: RemotingClient, broker: str, name: str, properties: str) -> None:
        for number in range(_COUNT):
            body = f"{name} {number}".encode()
            header = send_header(_TOPIC, properties=f"UNIQ_KEY\x01{name}{number:04d}\x02{properties}\x02")
            command = RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, header.encode_letters(), body)
            reply = await client.request(broker, command, 10.0)
            assert reply.code == 0, reply.remark
            self.bodies.append(body)


async def _end(client: RemotingClient, broker: str) -> int:
    ext = texts({"topic": _TOPIC, "queueId": 0})
    reply = await client.request(broker, RemotingCommand.request(RequestCode.GET_MAX_OFFSET, ext, b""), 10.0)
    return int(reply.field("offset")) if reply.code == 0 else 0


def _turn(target: str, folder: Path, sent: Sent, sends: dict[str, str], delivered: int) -> None:
    """One broker: sends, waits until so many messages have come in all, and stops in order."""

    async def play(running: servers.Servers) -> None:
        client = RemotingClient()
        try:
            for name, properties in sends.items():
                await sent.send(client, running.broker, name, properties)
            deadline = time.monotonic() + _WAIT_S
            while (there := await _end(client, running.broker)) < delivered:
                assert time.monotonic() < deadline, f"{there} of {delivered} messages came from {target}"
                await asyncio.sleep(0.1)
        finally:
            await client.close()

    with servers.started(target, folder) as running:
        asyncio.run(play(running))
        running.stop()


def _timer(seconds: int) -> str:
    return f"TIMER_DELAY_SEC\x01{seconds}"


def _delivered(folder: Path) -> Counter[bytes]:
    with StoreReader.open(folder / "store") as reader:
        records = (MessageExt(record) for _, record in reader.records())
        return Counter(message.body for message in records if message.topic == _TOPIC)


@pytest.mark.parametrize("first", ["flaremq", _REAL])
def test_timers_and_delays_are_delivered_once_by_whoever_serves_the_store(first: str, tmp_path: Path) -> None:
    require(servers.why_not(_REAL))
    second = _REAL if first == "flaremq" else "flaremq"
    folder, sent = tmp_path / "servers", Sent()
    soon, level = _timer(1), "DELAY\x011"
    # Each leaves something behind that has been delivered, and something that waits.
    _turn(first, folder, sent, {"a": soon, "b": _timer(25), "c": _timer(60), "d": level}, 2 * _COUNT)
    _turn(second, folder, sent, {"e": soon, "f": level, "g": _timer(25)}, 5 * _COUNT)
    _turn(first, folder, sent, {"h": soon, "i": level}, 8 * _COUNT)
    _turn(second, folder, sent, {"j": soon}, 10 * _COUNT)
    # Whoever repeats does so when it starts, before it delivers anything that was sent to it.
    _turn(first, folder, sent, {"k": soon, "l": level}, 12 * _COUNT)
    assert _delivered(folder) == Counter(sent.bodies)
