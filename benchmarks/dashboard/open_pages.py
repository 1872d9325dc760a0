"""Streams of the dashboard that are read as browsers read them, and what the servers use meanwhile."""

from __future__ import annotations

import asyncio
import time

from benchmarks.process_tree import processor_seconds
from benchmarks.timing import Row

_SENDS_A_SECOND = 50
_KINDS = ("overview", "topics", "groups", "brokers", "clients")
_QUERIES = ("", "&limit=50", "&limit=100", "&q=1")


def measure(*, port: int, name_server: str, pids: dict[str, int], pages: int, warm: float, seconds: float) -> Row:
    return asyncio.run(_measure(port, name_server, pids, pages, warm, seconds))


async def _measure(port: int, name_server: str, pids: dict[str, int], pages: int, warm: float, seconds: float) -> Row:
    readers = [Reader(port, number) for number in range(pages)]
    tasks = [asyncio.create_task(reader.run()) for reader in readers]
    tasks.append(asyncio.create_task(_send(name_server)))
    try:
        await asyncio.sleep(warm)
        began = time.perf_counter()
        used = {name: processor_seconds(pid) for name, pid in pids.items()}
        events = sum(reader.events for reader in readers)
        await asyncio.sleep(seconds)
        elapsed = time.perf_counter() - began
        row: Row = {name: round(100 * (processor_seconds(pid) - used[name]) / elapsed, 2) for name, pid in pids.items()}
        row["events_s"] = round((sum(reader.events for reader in readers) - events) / elapsed, 1)
        for task in tasks:
            if task.done():
                task.result()
                raise RuntimeError("a stream ended")
        return row
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Reader:
    """One open page."""

    def __init__(self, port: int, number: int) -> None:
        self._port = port
        self._path = f"/api/live?page={_KINDS[number % len(_KINDS)]}{_QUERIES[number // len(_KINDS) % len(_QUERIES)]}"
        self.events = 0

    async def run(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(f"GET {self._path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head.split(b"\r\n", 1)[0]:
                raise RuntimeError(f"{self._path}: {head[:200]!r}")
            while data := await reader.read(65536):
                self.events += data.count(b"\nevent: ")
        finally:
            writer.close()


async def _send(name_server: str) -> None:
    from flaremq import Message, Producer

    async with Producer(name_server, group="watched") as producer:
        sent = 0
        while True:
            await producer.send(Message(f"topic-{sent % 20:04}", b"x" * 200))
            sent += 1
            await asyncio.sleep(1 / _SENDS_A_SECOND)
