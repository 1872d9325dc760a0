"""Thousands of clients that stay, and some that mean harm: honest ones are served, and what they took is given back."""

from __future__ import annotations

import asyncio
import contextlib
import resource as process
import sys

import pytest

from flaremq.clock import SystemClock
from flaremq.grpc.framing import prefixed
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.testing import EphemeralBroker, ephemeral_broker
from tests.grpc.door_lab import consumer_settings, message, receive_request
from tests.grpc.raw_client import RawClient, raw_client
from tests.support.grpc_lab import client_of, run

_BYTES_A_CLIENT = 100_000  # registered, with its stream


def resident() -> int:
    """The most memory the process has had, in bytes."""
    return process.getrusage(process.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


async def honest(port: int) -> None:
    async with client_of(port) as client:
        reply = await client.unary("SendMessage", classes.SendMessageRequest(messages=[message("T")]), timeout=30)
        assert reply.status.code == Code.OK
        frames = [
            frame async for frame in client.stream("ReceiveMessage", receive_request("T", "H", poll=5), timeout=30)
        ]
        assert frames[0].status.code == Code.OK


async def until_clients(broker: EphemeralBroker, count: int) -> None:
    door = broker.broker.grpc_door
    assert door is not None and door._door is not None
    async with asyncio.timeout(120):
        while len(door._door.service.sessions) != count:
            await asyncio.sleep(0.05)


def tell_settings(client: RawClient, name: str) -> None:
    settings = classes.TelemetryCommand(settings=consumer_settings(f"G{hash(name) % 50}", "T", tag="a || b"))
    client.data(client.begin("Telemetry", client=name), prefixed(settings.SerializeToString()))


async def crowd(connections: int, each: int) -> None:
    async with contextlib.AsyncExitStack() as stack:
        broker = await stack.enter_async_context(ephemeral_broker(clock=SystemClock(), grpcServerPort=0))
        port = int(broker.grpc_address.rpartition(":")[2])
        broker.broker.state.topics.update(TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1, perm=6))
        await honest(port)
        before = resident()
        clients = []
        for number in range(connections):
            client = await stack.enter_async_context(raw_client(port))
            clients.append(client)
            for stream in range(each):
                tell_settings(client, f"c{number}-{stream}")
            await client.writer.drain()
        await until_clients(broker, connections * each)  # the honest one tells no settings
        for client in clients[: connections // 4]:  # they poll, and read nothing any more
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]
            for stream in range(min(each, 100)):
                client.call("ReceiveMessage", receive_request("T", "slow", poll=20), client=f"slow{stream}")
        await honest(port)
        assert resident() - before < 40_000_000 + connections * each * _BYTES_A_CLIENT
        for client in clients:
            client.writer.transport.abort()
        door = broker.broker.grpc_door
        assert door is not None and door._door is not None
        server = door._door.server
        async with asyncio.timeout(60):
            while server.calls:
                await asyncio.sleep(0.05)
        door._door.service.sessions.expire(asyncio.get_running_loop().time() + 16)
        await until_clients(broker, 0)
        await honest(port)


def test_a_small_crowd_is_served_and_forgotten() -> None:
    run(lambda: crowd(8, 50), 60)


@pytest.mark.soak
def test_a_large_crowd_is_served_and_forgotten() -> None:
    run(lambda: crowd(40, 200), 600)
