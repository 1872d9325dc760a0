"""A broker's store on the simulated disk, with a clock that stands still, for what waits in it.

Nothing runs on its own: a put is durable (or not, in ASYNC_FLUSH) when it returns, and services move when a test calls
their steps. ``crash`` gives the world after a power cut, ``restart`` the one after a clean stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

from flaremq.broker.catalog.consumer_offsets import ConsumerOffsets
from flaremq.broker.catalog.groups import GroupTable
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.delay.levels import ScheduleService
from flaremq.broker.delay.message_rules import TimerRules, prepare
from flaremq.broker.delay.timer import TimerService
from flaremq.broker.options import BrokerOptions
from flaremq.broker.store_loop.access import StoreAccess
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.clock import ManualClock
from flaremq.message.delay import DEFAULT_DELAY_LEVELS, DelayLevels, parse_delay_levels
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import encode_properties
from flaremq.message.stored_form import StoredForm
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.connection import Connection
from flaremq.storage.config.config_file import ConfigFile
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.status import PutMessageStatus
from tests.support.crash_fs import CrashFS

ROOT = "/store"
LEVELS = parse_delay_levels(DEFAULT_DELAY_LEVELS)
HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])

_T = TypeVar("_T")

OPTIONS = StoreOptions(
    mapped_file_size_commit_log=256 * 1024,
    mapped_file_size_consume_queue=20 * 200,
    max_hash_slot_num=64,
    max_index_num=256,
    max_message_size=16 * 1024,
    enabled_append_prop_crc=True,
)


class InlineStoreLoop:
    """StoreLoop without threads. ``refuse`` makes the store refuse puts to a topic."""

    def __init__(self, store: MessageStore) -> None:
        self.store = store
        self.refuse: dict[str, PutMessageStatus] = {}
        self.pause: asyncio.Event | None = None  # puts wait for it, to let others run in between

    @property
    def waits_for_sync(self) -> bool:
        return self.store.options.flush_disk_type == "SYNC_FLUSH"

    async def put(self, form: StoredForm) -> PutResult:
        status = self.refuse.get(form.topic)
        if status is not None:
            return PutResult(status, -1, -1, 0, 0, b"", "the test says so")
        result = self.store.put_form(form)
        if self.pause is not None:
            await self.pause.wait()
        return result

    async def run(self, function: Callable[..., _T], *arguments: Any) -> _T:
        return function(*arguments)

    run_cold = run
    run_long = run


class FakeConnection:
    """The peer as handlers see it: keeps what it is told, answers requests as the test says."""

    def __init__(self, peer: str = "127.0.0.1:40000") -> None:
        self.peer = peer
        self.peer_host = bytes([127, 0, 0, 1]) + int(peer.rpartition(":")[2]).to_bytes(4, "big")
        self.is_open = True
        self.calls = 0
        self.notified: list[RemotingCommand] = []
        self.requested: list[RemotingCommand] = []
        self.answer: RemotingCommand | Exception = RemotingCommand.response()

    @property
    def connection(self) -> Connection:
        return cast(Connection, self)

    def notify(self, command: RemotingCommand) -> None:
        self.notified.append(command)

    async def request(self, command: RemotingCommand, timeout: float = 3.0) -> RemotingCommand:
        self.requested.append(command)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class WaitingLab:
    """One life of a store. ``crash`` and ``restart`` give the next one."""

    def __init__(
        self, options: StoreOptions = OPTIONS, *, disk: CrashFS | None = None, clock: ManualClock | None = None
    ) -> None:
        self.options = options
        self.clock = clock or ManualClock()
        self.disk = disk or CrashFS()
        self.disk.now_ms = self.clock.now_ms
        self.store = MessageStore.open(ROOT, options, filesystem=self.disk, clock=self.clock, threads=False)
        self.store_loop = InlineStoreLoop(self.store)
        self.declared: list[str] = []

    @property
    def access(self) -> StoreAccess:
        return self.store_loop

    def declare(self, topic: str) -> None:
        self.declared.append(topic)

    # The broker's tables, on the same disk

    def topics(self, options: BrokerOptions) -> TopicTable:
        table = TopicTable(options, self._config("topics"), self.clock)
        table.load()
        return table

    def groups(self, options: BrokerOptions) -> GroupTable:
        table = GroupTable(options, self._config("subscriptionGroup"), self.clock)
        table.load()
        return table

    def offsets(self, options: BrokerOptions) -> ConsumerOffsets:
        table = ConsumerOffsets(options, self._config("consumerOffset"), self.clock)
        table.load()
        return table

    def _config(self, name: str) -> ConfigFile:
        return ConfigFile(self.disk, f"{ROOT}/config/{name}.json")

    # Lives

    def restart(self) -> WaitingLab:
        self.store.close()
        return WaitingLab(self.options, disk=self.disk, clock=self.clock)

    def kill(self) -> WaitingLab:
        """The process dies and nothing else; what was not synced is still there."""
        return WaitingLab(self.options, disk=self.disk.kill(), clock=ManualClock(self.clock.now_ms()))

    def crash(self, seed: int | str) -> WaitingLab:
        """The power fails; this life goes on only in the memory of the test."""
        clock = ManualClock(self.clock.now_ms())
        return WaitingLab(self.options, disk=self.disk.crash(seed), clock=clock)

    # Messages

    def form(self, body: bytes, topic: str = "orders", queue_id: int = 0, **properties: str) -> StoredForm:
        properties.setdefault("UNIQ_KEY", body.decode())
        return StoredForm(
            topic=topic,
            queue_id=queue_id,
            body=body,
            properties=encode_properties(properties),
            born_timestamp=self.clock.now_ms(),
            born_host=HOST,
        )

    def send(self, body: bytes, topic: str = "orders", queue_id: int = 0, **properties: str) -> PutResult:
        """What the broker does with a message that a client sends."""
        form = self.form(body, topic, queue_id, **properties)
        result = self.store.put_form(prepare(form, now_ms=self.clock.now_ms(), timer=TimerRules())[1])
        assert result.ok, result
        return result

    def messages(self, topic: str = "orders", queue_id: int = 0) -> list[MessageExt]:
        """Everything a consumer of the queue would get."""
        self.store.wait_for_dispatch(0)
        found: list[MessageExt] = []
        offset = self.store.min_offset(topic, queue_id)
        while batch := self.store.get(topic, queue_id, offset, 1000, max_bytes=1 << 30).messages:
            found += batch
            offset = batch[-1].queue_offset + 1
        return found

    def bodies(self, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
        return [message.body for message in self.messages(topic, queue_id)]

    @contextmanager
    def refusing(self, topic: str, status: PutMessageStatus = PutMessageStatus.SERVICE_NOT_AVAILABLE) -> Iterator[None]:
        self.store_loop.refuse[topic] = status
        try:
            yield
        finally:
            del self.store_loop.refuse[topic]


@asynccontextmanager
async def running_store_loop(path: Path, clock: ManualClock) -> AsyncIterator[StoreLoop]:
    """A real store_loop over a real store, with its threads."""
    store = MessageStore.open(path, StoreOptions(mapped_file_size_commit_log=1 << 20), clock=clock, driven=True)
    try:
        store_loop = StoreLoop(store)
        try:
            yield store_loop
        finally:
            await store_loop.close()
    finally:
        store.close()


def schedule(lab: WaitingLab, levels: DelayLevels = LEVELS) -> ScheduleService:
    """The delay levels of a lab, loaded."""
    file = ConfigFile(lab.disk, f"{ROOT}/config/delayOffset.json")
    service = ScheduleService(lab.access, lab.clock, levels, file, lab.disk, lab.declare)
    service.load()
    return service


def timer(lab: WaitingLab, **settings: int) -> TimerService:
    """The timer of a lab, loaded."""
    service = TimerService(lab.access, lab.clock, TimerRules(), lab.disk, lab.declare, **settings)
    service.load()
    return service


def run(awaitable: Awaitable[_T]) -> _T:
    async def wait() -> _T:
        return await awaitable

    return asyncio.run(wait())
