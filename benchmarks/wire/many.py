"""10,000 topics of 8 queues and 1,000 idle long polls: what they cost. ``python -m benchmarks.wire.many``.

A broker in a process of its own; memory is its resident set, latency that of one send at a time, before and after.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time

from benchmarks.messages import send_fields
from flaremq.cli.servers.child import free_ports
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.client import RemotingClient

_TOPICS, _QUEUES, _POLLS, _SENDS = 10_000, 8, 1_000, 3_000


def _resident_mb(pid: int) -> float:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        values = dict(line.split(":", 1) for line in file if ":" in line)
    return round(int(values["RssAnon"].split()[0]) / 1024, 1)


async def _latency(client: RemotingClient, address: str) -> dict[str, float]:
    ext = send_fields("many", 0, queues=1)
    took = []
    for _ in range(_SENDS):
        began = time.perf_counter()
        reply = await client.request(address, RemotingCommand.request(310, ext, bytes(1024)), 30)
        assert reply.code == 0, reply
        took.append((time.perf_counter() - began) * 1e6)
    took.sort()
    return {"p50": round(took[len(took) // 2], 1), "p99": round(took[int(len(took) * 0.99)], 1)}


async def _measure(address: str, pid: int) -> dict[str, object]:
    client = RemotingClient()
    await _latency(client, address)
    result: dict[str, object] = {
        "anonymous MB before": _resident_mb(pid),
        "send us before": await _latency(client, address),
    }
    began = time.perf_counter()
    for start in range(0, _TOPICS, 500):
        topics = [
            {"topicName": f"topic-{number}", "readQueueNums": _QUEUES, "writeQueueNums": _QUEUES, "perm": 6}
            for number in range(start, start + 500)
        ]
        body = json.dumps({"topicConfigList": topics}).encode()
        reply = await client.request(address, RemotingCommand.request(18, {}, body), 120)
        assert reply.code == 0, reply
    result["seconds to create topics"] = round(time.perf_counter() - began, 2)
    result["anonymous MB with topics"] = _resident_mb(pid)
    clients = [RemotingClient() for _ in range(_POLLS)]
    polls = []
    for number, one in enumerate(clients):
        ext = {"consumerGroup": "g", "topic": f"topic-{number}", "queueId": 0, "queueOffset": 0, "maxMsgNums": 32}
        ext |= {"sysFlag": 6, "commitOffset": 0, "suspendTimeoutMillis": 60_000, "subVersion": 0, "subscription": "*"}
        connection = await one.connect(address)
        polls.append(connection.call(RemotingCommand.request(11, ext), 120))
    await asyncio.sleep(1)
    assert not any(poll.done() for poll in polls)
    result["anonymous MB with polls"] = _resident_mb(pid)
    result["send us with both"] = await _latency(client, address)
    for one in [client, *clients]:
        await one.close()
    await asyncio.gather(*polls, return_exceptions=True)
    return result


def main() -> None:
    from flaremq.remoting import event_loop

    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    name_port, port = free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        line = [sys.executable, "-m", "flaremq", "up", "--data", folder, "--listen", f"127.0.0.1:{name_port}"]
        line += ["--broker-listen", f"127.0.0.1:{port}", "--set", "flushDiskType=ASYNC_FLUSH"]
        server = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None and "ready" in server.stdout.readline()
            print(json.dumps(event_loop.run(_measure(f"127.0.0.1:{port}", server.pid)), indent=2))
        finally:
            server.terminate()
            server.communicate()


if __name__ == "__main__":
    main()
