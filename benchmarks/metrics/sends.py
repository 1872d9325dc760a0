"""Sends to a broker with 64 under way, while another process asks it for its metrics each second."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import urllib.request
from typing import Any

from benchmarks.messages import make_body, send_fields
from benchmarks.process_tree import processor_seconds
from benchmarks.timing import Row

_IN_FLIGHT = 64
_CONNECTIONS = 8
_TOPIC = "told"
_SEND = 310


def measure(*, address: str, pid: int, scraped: int, warm: float, seconds: float) -> Row:
    """``scraped``: the port to ask for metrics, 0 for none."""
    from flaremq.remoting import event_loop

    command = [sys.executable, "-m", "benchmarks.metrics.sends", str(scraped)]
    scraper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) if scraped else None
    try:
        row = event_loop.run(_measure(address, pid, warm, seconds))
    finally:
        times = ""
        if scraper is not None:
            times, _ = scraper.communicate("")
    if times.split():
        row["scrape_ms"] = round(max(map(float, times.split())), 1)
    return row


async def _measure(address: str, pid: int, warm: float, seconds: float) -> Row:
    from flaremq.remoting.client import RemotingClient

    clients = [RemotingClient() for _ in range(_CONNECTIONS)]
    try:
        for client in clients:
            await client.connect(address)
        await _send_for(clients, address, max(warm, 0.5))
        began, used = time.perf_counter(), processor_seconds(pid)
        count = await _send_for(clients, address, seconds)
        elapsed, used = time.perf_counter() - began, processor_seconds(pid) - used
        return {"msg_s": round(count / elapsed), "cpu_us": round(used / count * 1e6, 2)}
    finally:
        for client in clients:
            await client.close()


async def _send_for(clients: list[Any], address: str, seconds: float) -> int:
    from flaremq.protocol.command import RemotingCommand

    body, until, sent = make_body(1024), time.monotonic() + seconds, 0

    async def work(number: int) -> None:
        nonlocal sent
        client = clients[number % len(clients)]
        while time.monotonic() < until:
            sent += 1
            reply = await client.request(address, RemotingCommand.request(_SEND, send_fields(_TOPIC, sent), body), 60)
            if reply.code != 0:
                raise RuntimeError(f"a send was answered {reply.code}: {reply.remark}")

    await asyncio.gather(*map(work, range(_IN_FLIGHT)))
    return sent


def _scrape(port: int) -> None:
    """Each second, until standard input ends; prints how many milliseconds each took."""
    import select

    while not select.select([sys.stdin], [], [], 1.0)[0]:
        began = time.perf_counter()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as reply:
            reply.read()
        print((time.perf_counter() - began) * 1000, flush=True)


if __name__ == "__main__":
    _scrape(int(sys.argv[1]))
