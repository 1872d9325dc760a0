"""A proxy before two brokers, one of which goes away."""

from __future__ import annotations

import asyncio
from pathlib import Path

from flaremq.broker.options import load_options
from flaremq.broker.service import BrokerService
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code
from flaremq.protocol.bodies.topic import TopicConfig
from tests.grpc.door_lab import receive_request, resource
from tests.proxy.test_proxy_calls import ProxyLab, proxy_lab


def _second(name_server: str, path: Path) -> BrokerService:
    settings = {
        "listenPort": "0",
        "namesrvAddr": name_server,
        "brokerName": "broker-b",
        "mappedFileSizeCommitLog": str(16 << 20),
        "mappedFileSizeConsumeQueue": "600000",
        "maxHashSlotNum": "1000",
        "maxIndexNum": "4000",
    }
    return BrokerService(str(path), *load_options(None, settings))


def test_both_serve_and_one_goes_on_alone(tmp_path: Path) -> None:
    asyncio.run(_scenario(tmp_path))


async def _scenario(folder: Path) -> None:
    async with proxy_lab() as lab:
        second = _second(lab.broker.name_server, folder)
        await second.start()
        try:
            second.state.topics.update(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2))
            lab.topic("T", queues=2)
            await lab.until(lambda: _brokers(lab, 2))
            for number in range(8):
                assert (await lab.send("T", b"%d" % number)).status.code == Code.OK
            bodies = {body for broker in ("broker-a", "broker-b") for body in await _settled(lab, broker)}
            assert bodies == {b"%d" % number for number in range(8)}
            assert all(second.state.store_loop.store.max_offset("T", queue_id) == 2 for queue_id in range(2))
        finally:
            await second.stop()
        # What is sent meanwhile may fail, with a code; soon the proxy knows, and nothing does.
        await lab.until(lambda: _brokers(lab, 1))
        assert [(await lab.send("T", b"more")).status.code for _ in range(4)] == [Code.OK] * 4
        assert await _settled(lab, "broker-a") == [b"more"] * 4


async def _brokers(lab: ProxyLab, count: int) -> bool:
    route = await lab.call("QueryRoute", classes.QueryRouteRequest(topic=resource("T")))
    return len({queue.broker.name for queue in route.message_queues}) == count


async def _settled(lab: ProxyLab, broker: str) -> list[bytes]:
    """All messages of a group at one broker, acknowledged."""
    request = receive_request("T", "G")
    request.message_queue.broker.name = broker
    bodies = []
    async with asyncio.timeout(10):
        while len(bodies) < 4:
            frames = await lab.stream("ReceiveMessage", request)
            for given in (frame.message for frame in frames if frame.WhichOneof("content") == "message"):
                assert await lab.ack("T", "G", given) == Code.OK
                bodies.append(given.body)
    return bodies
