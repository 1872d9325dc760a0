"""One size of a broker in a process of its own: groups that are online with their progress, open connections."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from benchmarks.growth.store_point import anonymous_mb
from benchmarks.messages import QUEUES, make_body, send_fields
from benchmarks.process_tree import processor_seconds
from benchmarks.timing import Row
from tests.interop.wire import servers

_TOPIC = "grown"
_AT_ONCE = 64  # requests under way
_PULLS = 4_000
_SEND, _PULL, _OFFSET, _HEARTBEAT = 310, 11, 15, 34


def measure(*, folder: str, messages: int, groups: int, connections: int) -> Row:
    """``folder`` gets the store in ``store``, which stays."""
    from flaremq.remoting import event_loop

    with servers.started("flaremq", Path(folder), options={"flushDiskType": "ASYNC_FLUSH"}) as server:
        row = event_loop.run(_measure(server.broker, server.broker_pid, messages, groups, connections))
        began = time.perf_counter()
        server.kill_and_restart()
        row["recovery_s"] = round(time.perf_counter() - began, 3)
        return row


async def _measure(address: str, pid: int, messages: int, groups: int, connections: int) -> Row:
    from flaremq.remoting.client import RemotingClient

    clients = [RemotingClient() for _ in range(connections)]
    try:
        for client in clients:
            await client.connect(address)
        await _groups(clients[0], address, groups)
        # The first ones make the topic and load what is loaded late; they do not count.
        warm = 5_000
        await _sends(clients, address, 0, warm)
        await asyncio.sleep(1)
        began = processor_seconds(pid)
        await _sends(clients, address, warm, messages * 2)
        middle = processor_seconds(pid)
        await _pulls(clients, address, groups, (messages * 2 + warm) // QUEUES)
        end = processor_seconds(pid)
        return {
            "put_us": round((middle - began) / (messages * 2) * 1e6, 2),
            "pull_us": round((end - middle) / _PULLS * 1e6, 2),
            "memory_MB": anonymous_mb(pid),
        }
    finally:
        for client in clients:
            await client.close()


async def _groups(client: Any, address: str, groups: int) -> None:
    """All of them online, each with progress in every queue."""
    names = [f"group-{number}" for number in range(groups)]
    for start in range(0, groups, 100):
        consumers = [
            {
                "groupName": name,
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                "unitMode": False,
                "subscriptionDataSet": [
                    {"topic": _TOPIC, "subString": "*", "tagsSet": [], "codeSet": [], "subVersion": 0}
                ],
            }
            for name in names[start : start + 100]
        ]
        body = {"clientID": "growth", "producerDataSet": [], "consumerDataSet": consumers}
        await _ask(client, address, _HEARTBEAT, {}, json.dumps(body).encode())
    await _sends([client], address, 0, QUEUES)
    for start in range(0, groups, 50):
        fields = [
            {"consumerGroup": name, "topic": _TOPIC, "queueId": str(queue), "commitOffset": "0"}
            for name in names[start : start + 50]
            for queue in range(QUEUES)
        ]
        await asyncio.gather(*(_ask(client, address, _OFFSET, one) for one in fields))


async def _sends(clients: list[Any], address: str, first: int, count: int) -> None:
    body = make_body(1024)

    async def send(number: int) -> None:
        await _ask(clients[number % len(clients)], address, _SEND, send_fields(_TOPIC, number, group="growth"), body)

    for start in range(first, first + count, _AT_ONCE):
        await asyncio.gather(*(send(number) for number in range(start, min(start + _AT_ONCE, first + count))))


async def _pulls(clients: list[Any], address: str, groups: int, in_queue: int) -> None:
    async def pull(number: int) -> None:
        ext = {"consumerGroup": f"group-{number % groups}", "topic": _TOPIC, "queueId": str(number % QUEUES)}
        ext |= {"queueOffset": str(number * 32 % max(1, in_queue - 32)), "maxMsgNums": "32", "sysFlag": "4"}
        ext |= {"commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*"}
        await _ask(clients[number % len(clients)], address, _PULL, ext)

    for start in range(0, _PULLS, _AT_ONCE):
        await asyncio.gather(*(pull(number) for number in range(start, min(start + _AT_ONCE, _PULLS))))


async def _ask(client: Any, address: str, code: int, ext: dict[str, str], body: bytes = b"") -> None:
    from flaremq.protocol.command import RemotingCommand

    reply = await client.request(address, RemotingCommand.request(code, ext, body), 60)
    if reply.code != 0:
        raise RuntimeError(f"request {code} was answered {reply.code}: {reply.remark}")
