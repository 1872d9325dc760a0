"""Brokers' stores that replicate on the test's own loop, over real sockets, with a proxy that cuts and delays.

``Node`` is a store with its loop, an HA port and, once told to follow somebody, an HA client. ``Proxy`` stands between
a slave and its master. ``same_stores`` holds two nodes against each other, byte by byte.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from flaremq.broker.replication.door import Door
from flaremq.broker.replication.ha_client import HAClient
from flaremq.broker.replication.ha_server import HAServer
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.clock import SystemClock
from flaremq.message.stored_form import StoredForm
from flaremq.replication.epochs import EpochTable
from flaremq.replication.replicas import Replicas
from flaremq.replication.sync_rules import SyncRules
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from flaremq.storage.put.put_result import PutResult
from tests.support.broker_lab import until
from tests.support.driven_store import BORN_HOST
from tests.support.store_lab import SMALL

GROUP = "DefaultCluster/broker-a"
FILE = 64 << 10
OPTIONS = replace(
    SMALL,
    mapped_file_size_commit_log=FILE,
    reserve_step_commit_log=FILE,
    mapped_file_size_consume_queue=20 * 2000,
    max_hash_slot_num=64,
    max_index_num=2000,
    ha_send_heartbeat_interval=200,
    ha_housekeeping_interval=20_000,
)


def run(scenario: Callable[[], Awaitable[None]], seconds: float = 60.0) -> None:
    """Run a scenario on a loop of its own."""

    async def main() -> None:
        async with asyncio.timeout(seconds):
            await scenario()

    asyncio.run(main())


def form(body: bytes, *, topic: str = "orders", queue_id: int = 0, keys: str = "") -> StoredForm:
    properties = f"KEYS\x01{keys}\x02".encode() if keys else b""
    return StoredForm(topic=topic, queue_id=queue_id, body=body, properties=properties, born_host=BORN_HOST)


class Node:
    """One broker's store, HA port and HA client. Use ``async with``."""

    def __init__(
        self,
        root: Path,
        *,
        is_slave: bool = False,
        door: Door | None = None,
        rules: SyncRules | None = None,
        options: StoreOptions = OPTIONS,
        epochs: Callable[[], EpochTable] | None = None,
        confirm_offset: Callable[[], int] | None = None,
        **changes: Any,
    ) -> None:
        role = "SLAVE" if is_slave else "ASYNC_MASTER"
        self.root = root
        self.options = replace(options, broker_role=role, **changes)
        self.door = door or Door(group=GROUP)
        self.replicas = Replicas(rules or SyncRules())
        self.epochs = epochs
        self._confirm_offset = confirm_offset
        self.store_loop: StoreLoop
        self.server: HAServer
        self.client: HAClient

    async def __aenter__(self) -> Self:
        self.store = await asyncio.to_thread(MessageStore.open, self.root, self.options, driven=True)
        self.store_loop = StoreLoop(self.store)
        self.driver = self.store_loop.driver
        self.server = HAServer(
            self.driver,
            self.replicas,
            self.options,
            self.door,
            epochs=self.epochs,
            confirm_offset=self._confirm_offset,
        )
        self.server.on_acknowledged.append(self.store_loop.durability.group_changed)
        if self.replicas.rules.waits:
            self.store_loop.durability.wait_for(self.replicas)
        self.client = HAClient(self.store_loop, self.options, self.door, SystemClock(), broker_id=1, epochs=self.epochs)
        self.client.pause_max = 0.2
        self.store_loop.durability.on_progress = self._progressed
        await self.server.start("127.0.0.1", 0)
        await self.client.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.client.stop()
        await self.server.stop()
        await self.store_loop.close()
        await asyncio.to_thread(self.store.close)

    def _progressed(self) -> None:
        self.server.appended()
        self.client.progressed()

    @property
    def address(self) -> str:
        """Of its HA port."""
        return f"127.0.0.1:{self.server.port}"

    @property
    def end(self) -> int:
        return self.driver.appended

    def follow(self, master: Node | Proxy | str | None) -> None:
        self.client.set_master(master if master is None or isinstance(master, str) else master.address)

    async def put(self, body: bytes = b"body", **fields: Any) -> PutResult:
        """Put a message and wait as a sender waits."""
        return await self.store_loop.put(form(body, **fields))

    def append(self, count: int, size: int = 200, **fields: Any) -> None:
        """Append messages that nobody waits for."""
        start = self.end
        for number in range(count):
            body = (b"%d %d " % (start, number)).ljust(size, b"x")
            result = self.driver.append_form(form(body, queue_id=number % 4, keys=f"k{start}-{number}", **fields))
            assert result.ok, result
        self.store_loop.durability.appended()

    async def has(self, offset: int) -> None:
        """Wait until the log goes up to an offset and is shown to readers."""
        await until(lambda: self.driver.appended >= offset, f"{self.driver.appended} of {offset} bytes are there")
        await until(lambda: self.driver.durable >= offset or not self.driver.sync_mode, "the log is not durable")
        self.store_loop.dispatching.catch_up()
        await until(lambda: self.store.dispatched_offset >= offset, "the log is not shown")

    def log_bytes(self) -> bytes:
        folder = self.root / "commitlog"
        start, end = self.driver.min_offset, self.driver.appended
        files = [path for path in sorted(folder.iterdir()) if start <= int(path.name) < max(end, start + 1)]
        return b"".join(path.read_bytes() for path in files)[: end - start]

    def queue_bytes(self) -> dict[str, bytes]:
        with self.store._dispatch.lock:
            self.store._queues.drain()
        files = sorted((self.root / "consumequeue").rglob("0*"))
        return {os.path.relpath(path, self.root): path.read_bytes() for path in files if path.is_file()}

    def index_bytes(self) -> list[bytes]:
        return [path.read_bytes() for path in sorted((self.root / "index").glob("[0-9]*"))]


async def same_stores(master: Node, slave: Node) -> None:
    """Wait until the slave has everything, and compare log, queues and index."""
    await slave.has(master.end)
    await master.has(master.end)
    assert slave.driver.appended == master.driver.appended
    assert slave.log_bytes() == master.log_bytes()
    assert slave.queue_bytes() == master.queue_bytes()
    assert slave.index_bytes() == master.index_bytes()


class Proxy:
    """Forwards connections to a master; what passes is counted, held back or cut. Use ``async with``."""

    def __init__(self, target: Node | str) -> None:
        self._target = target
        self.connections = 0
        self.down_bytes = 0  # from the master
        self.cut_after: int | None = None  # bytes from the master on one connection
        self.may_pass = asyncio.Event()
        self.may_pass.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.address = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Break all connections."""
        for task in self._tasks:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        address = self._target if isinstance(self._target, str) else self._target.address
        host, _, port = address.rpartition(":")
        ends: list[asyncio.StreamWriter] = [writer]
        try:
            master_reader, master_writer = await asyncio.open_connection(host, int(port))
            ends.append(master_writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, master_writer, is_down=False))
                group.create_task(self._pass(master_reader, writer, is_down=True))
        except* (OSError, _End):
            pass
        finally:
            self._tasks.discard(task)
            for end in ends:
                end.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_down: bool) -> None:
        passed = 0
        while data := await reader.read(16_384):
            await self.may_pass.wait()
            if is_down and self.cut_after is not None and passed + len(data) > self.cut_after:
                data = data[: max(0, self.cut_after - passed)]
                writer.write(data)
                await writer.drain()
                break
            passed += len(data)
            if is_down:
                self.down_bytes += len(data)
            writer.write(data)
            await writer.drain()
        raise _End


class _End(Exception):
    """One direction is over, and so is the other."""
