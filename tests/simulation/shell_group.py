"""A master and slaves with the code that drives them: HA ports and clients, the wait for disk and slaves, stores.

``replica_group`` has the machines without input and output; here is what stands around them (``HAServer``,
``HAConnection``, ``HAClient``, ``MasterLink``, ``ReplicaLog``, ``Durability``, ``Dispatching``), unchanged, on a loop
whose time, threads and connections are simulated. A history is a seed: messages while brokers are killed, lose power,
disks become slow, ways are cut in one direction or both. What must hold at every moment:

* a message is answered as stored when as many brokers as the rules say hold it, on disk in SYNC_FLUSH (``S1``);
* consumers of the master see nothing else (``S2``);
* a slave's log is the beginning of its master's, byte for byte, also after the master lost power (``S3``);
* healed, all logs are equal, hold everything that was answered, and messages are taken (``S4``).
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast
from unittest import mock

from flaremq.broker.replication import ha_client, ha_connection, ha_server, listener, master_link
from flaremq.broker.replication.door import Door
from flaremq.broker.replication.ha_client import HAClient
from flaremq.broker.replication.ha_server import HAServer
from flaremq.broker.store_loop import durability
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.clock import ManualClock
from flaremq.errors import UnavailableError
from flaremq.replication.replicas import Replicas
from flaremq.replication.sync_rules import SyncMode, SyncRules
from flaremq.storage.message_store import MessageStore
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.status import PutMessageStatus
from tests.simulation.shell_loop import PLACE, SimLoop, SimThreading
from tests.support.crash_fs import CrashFS
from tests.support.store_lab import SMALL

_BURST = 20
HEAL_S = 60.0  # of simulated time at most until a healed group is whole
_PORT = 10_910  # its last digit is the place
_HOST = bytes([10, 0, 0, 7]) + (40001).to_bytes(4, "big")
_GROUP = "cluster/group"
_OPTIONS = replace(
    SMALL,
    mapped_file_size_commit_log=8192,
    reserve_step_commit_log=4096,
    enabled_append_prop_crc=True,
    ha_send_heartbeat_interval=500,
    ha_housekeeping_interval=2_000,
    slave_timeout=1_000,
)


class ShellViolation(AssertionError):
    """A promise was broken."""


@dataclass(slots=True)
class Tally:
    histories: int = 0
    messages: int = 0
    answered: int = 0
    crashes: int = 0
    turns: int = 0


@dataclass(frozen=True, slots=True)
class Shape:
    mode: SyncMode
    copies: int
    is_sync_flush: bool
    batch_size: int
    duration: float
    brokers: int


def draw_shape(chance: random.Random) -> Shape:
    mode, copies = chance.choice(((SyncMode.ANY_SLAVE, 2), (SyncMode.COPIES, 2), (SyncMode.COPIES, 3)))
    brokers = chance.randint(copies, 3)
    duration = chance.uniform(1.0, 4.0)
    return Shape(mode, copies, chance.random() < 0.7, chance.choice((90, 700, 32768)), duration, brokers)


class ShellDriver:
    """A broker's store driver, on a disk that takes its time, and watched."""

    def __init__(self, node: ShellNode, driver: Any) -> None:
        self._node = node
        self._driver = driver
        self.is_gone = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def sync(self) -> int:
        group = self._node.group
        group.threading.sleep(group.disk_delay(self._node))
        if self.is_gone:
            raise UnavailableError("the process is gone")
        return int(self._driver.sync())

    def flush_step(self) -> float:
        return 1.0 if self.is_gone else float(self._driver.flush_step())

    def append_replica(self, offset: int, data: Any) -> int:
        if self.is_gone:
            raise UnavailableError("the process is gone")
        end = int(self._driver.append_replica(offset, data))
        self._node.group.check_prefix(self._node, offset)
        return end

    def dispatch(self) -> Any:
        return set() if self.is_gone else self._driver.dispatch()


class ShellStore:
    """The store that such a driver belongs to."""

    def __init__(self, store: MessageStore, driver: ShellDriver) -> None:
        self._store = store
        self._driver = driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def driver(self) -> ShellDriver:
        return self._driver


class ShellNode:
    """One broker. Its parts are others after each start."""

    def __init__(self, group: ShellGroup, number: int) -> None:
        self.group = group
        self.number = number
        self.is_master = number == 1
        self.is_up = False
        self.clock = ManualClock()
        self.fs = CrashFS()
        flush = "SYNC_FLUSH" if group.shape.is_sync_flush else "ASYNC_FLUSH"
        self.options = replace(
            _OPTIONS,
            flush_disk_type=flush,
            broker_role="SYNC_MASTER" if self.is_master else "SLAVE",
            ha_transfer_batch_size=group.shape.batch_size,
        )
        self._context = contextvars.copy_context()
        self._context.run(PLACE.set, number)
        self._open()

    def _open(self) -> None:
        self.store = MessageStore.open(
            "/store",
            self.options,
            filesystem=self.fs,
            clock=self.clock,
            threads=False,
            driven=True,
            hold_unconfirmed=self.is_master,
        )
        self.driver = ShellDriver(self, self.store.driver())

    @property
    def end(self) -> int:
        return int(self.driver.appended)

    @property
    def held(self) -> int:
        return int(self.driver.durable if self.group.shape.is_sync_flush else self.driver.appended)

    def read(self, start: int, end: int) -> bytes:
        data = bytearray()
        while start < end and (view := self.driver.transfer_view(start, end, end - start)) is not None:
            data += view
            start += len(view)
        return bytes(data)

    def start(self) -> None:
        self.group.spawn(self._start(), self._context)

    async def _start(self) -> None:
        group = self.group
        self.is_up = True
        store = cast(MessageStore, ShellStore(self.store, self.driver))
        first_thread = len(group.threading.threads)
        self.store_loop = StoreLoop(store)
        self.threads = group.threading.threads[first_thread:]
        self.replicas = Replicas(SyncRules(mode=group.shape.mode, copies=group.shape.copies))
        door = Door(group=_GROUP)
        self.server = HAServer(self.store_loop.driver, self.replicas, self.options, door)
        self.client = HAClient(self.store_loop, self.options, door, self.clock, broker_id=self.number)
        wait = self.store_loop.durability
        wait.on_progress = self._progressed
        if self.is_master:
            self.server.on_acknowledged.append(wait.group_changed)
            wait.wait_for(self.replicas)
        await self.server.start("127.0.0.1", _PORT + self.number)
        await self.client.start()
        if not self.is_master:
            self.client.set_master(f"127.0.0.1:{_PORT + 1}")

    @property
    def is_waiting(self) -> bool:
        return self.is_up and self.store_loop.durability.unacknowledged > 0

    def _progressed(self) -> None:
        self.server.appended()
        self.client.progressed()

    def crash(self, *, power_cut: bool) -> None:
        """The process is gone in this moment; what its objects still do nobody hears, and no disk has it."""
        if not self.is_up:
            return
        group, chance = self.group, self.group.chance
        group.tally.crashes += 1
        self.is_up = False
        group.loop.sever(self.number, tells=not power_cut or chance.random() < 0.5)
        self.driver.is_gone = True
        for thread in self.threads:
            thread.kill()
        group.spawn(self._end(), self._context)
        disk = self.fs.crash(str(chance.random())) if power_cut else self.fs.kill()
        self.store.abandon()
        self.fs = disk
        self._open()
        for node in group.nodes.values():
            group.check_prefix(node)

    async def stop(self) -> None:
        self.is_up = False
        await self._end()
        self.store.close()

    async def _end(self) -> None:
        client, server, store_loop = self.client, self.server, self.store_loop
        await client.stop()
        await server.stop()
        store_loop.durability.wait_for(None)
        await store_loop.close()


class ShellGroup:
    def __init__(self, chance: random.Random, shape: Shape, loop: SimLoop, tally: Tally) -> None:
        self.chance = chance
        self.shape = shape
        self.loop = loop
        self.tally = tally
        self.threading = SimThreading(loop)
        self.slow_disk: set[int] = set()
        self.answered: dict[int, int] = {}  # number of a message: end of its record
        self.numbers = 0
        self.failure: BaseException | None = None
        self._is_healed = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.nodes: dict[int, ShellNode] = {}
        for number in range(1, 1 + shape.brokers):
            self.nodes[number] = ShellNode(self, number)
        self.master = self.nodes[1]

    def spawn(self, work: Any, context: contextvars.Context) -> None:
        task = self.loop.create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.fail_with(task.exception())

    def fail_with(self, error: BaseException | None) -> None:
        self.failure = self.failure or error

    def disk_delay(self, node: ShellNode) -> float:
        if node.number in self.slow_disk:
            return self.chance.random() * 0.5
        return self.chance.choice((0.0002, 0.0005, 0.005)) * self.chance.random()

    # What must hold

    def check_prefix(self, node: ShellNode, start: int = 0) -> None:
        master = self.master
        if node is not master and node.read(start, node.end) != master.read(start, min(node.end, master.end)):
            self._violated(f"S3: slave {node.number} has up to {node.end} what its master has not, up to {master.end}")

    def _held_by_enough(self) -> int:
        return sorted((node.held for node in self.nodes.values()), reverse=True)[self.shape.copies - 1]

    def check_shown(self) -> None:
        shown, held = self.master.store.dispatched_offset, self._held_by_enough()
        if shown > held and shown % self.master.options.mapped_file_size_commit_log:
            self._violated(f"S2: consumers see up to {shown}, {self.shape.copies} brokers hold {held}")

    def _violated(self, text: str) -> None:
        self.fail_with(ShellViolation(text))
        raise ShellViolation(text)

    # A history

    def put(self, size: int | None = None) -> None:
        """A client's message."""
        master = self.master
        if not master.is_up:
            return
        wait = master.store_loop.durability
        number, self.numbers = self.numbers, self.numbers + 1
        master.clock.advance(1)
        body = number.to_bytes(8, "big") + bytes(self.chance.choice((0, 30, 900)) if size is None else size)
        result = master.driver.append("orders", 0, body, b"", 0, 0, master.clock.now_ms(), _HOST, 0)
        if isinstance(result, PutResult):
            raise ShellViolation(f"a master's store refuses a message: {result}")
        self.tally.messages += 1
        end = int(result[2])
        if size is None and self.chance.random() < 0.1:
            wait.appended()  # nobody waits
            return
        driver = master.driver

        def answered(status: PutMessageStatus) -> None:
            if status is PutMessageStatus.PUT_OK and not driver.is_gone:
                if self._held_by_enough() < end or master.held < end:
                    self._violated(f"S1: message {number} was answered before {self.shape.copies} brokers held {end}")
                self.answered[number] = end
                self.tally.answered += 1

        wait.when_durable(end, answered)

    def fail(self) -> None:
        """One random fault, with its end."""
        chance, loop = self.chance, self.loop
        node = chance.choice(list(self.nodes.values()))
        kind = chance.randrange(7)
        until = loop.now + chance.choice((0.05, 0.5, 1.5, 3.0)) * (0.5 + chance.random())
        if kind < 2:
            node.crash(power_cut=self.shape.is_sync_flush and chance.random() < 0.6)
            loop.at(until, self._revive, node)
        elif kind < 5:
            other = chance.choice([number for number in self.nodes if number != node.number])
            ways = [(node.number, other), (other, node.number)]
            for way in ways if chance.random() < 0.5 else [chance.choice(ways)]:
                loop.network.cut.add(way)
                loop.at(until, loop.network.heal, way)
        elif kind == 5:
            self.slow_disk.add(node.number)
            loop.at(until, self.slow_disk.discard, node.number)
        else:  # connections break, perhaps while the disk has still to do
            if chance.random() < 0.5:
                self.slow_disk.add(node.number)
                loop.at(until, self.slow_disk.discard, node.number)
            loop.at(loop.now + chance.random() * 0.2, self._break, node.number)

    def _break(self, place: int) -> None:
        if not self._is_healed:
            self.loop.sever_connections(place)

    def _revive(self, node: ShellNode) -> None:
        if not node.is_up:
            node.start()

    async def run(self) -> None:
        chance, loop = self.chance, self.loop
        for node in self.nodes.values():
            node.start()
        end = loop.now + self.shape.duration
        next_put, next_fault = loop.now + 0.3, loop.now + 0.5
        pace, calm = chance.choice((0.01, 0.03, 0.2)), chance.choice((0.2, 0.5, 2.0))
        while (now := min(next_put, next_fault)) < end:
            await self._until(now)
            if next_put <= next_fault:
                for _ in range(chance.choice((1, 1, 5))):
                    self.put()
                next_put = loop.now + chance.expovariate(1 / pace)
            else:
                self.fail()
                next_fault = loop.now + chance.expovariate(1 / calm)
            self.check_shown()
        await self._heal()
        await self._check_end()
        self.tally.histories += 1
        self.tally.turns += loop.events

    async def _until(self, time: float) -> None:
        await asyncio.sleep(max(time - self.loop.now, 0.0))
        if self.failure is not None:
            raise self.failure

    async def _heal(self) -> None:
        loop = self.loop
        self._is_healed = True
        for way in list(loop.network.cut):
            loop.network.heal(way)
        self.slow_disk.clear()
        for node in self.nodes.values():
            self._revive(node)
        deadline = loop.now + HEAL_S
        answered = len(self.answered)
        while len(self.answered) == answered or len({node.end for node in self.nodes.values()}) > 1:
            if loop.now > deadline:
                ends = {node.number: (node.held, node.end) for node in self.nodes.values()}
                facts = [node.client.facts for node in self.nodes.values()]
                raise ShellViolation(f"S4: not whole {HEAL_S} s after everything healed: {ends} {facts}")
            if len(self.answered) == answered and not self.master.is_waiting:
                self.put(size=9)  # alone: no other one's end wakes who waits for it
            await self._until(loop.now + 0.1)
            self.check_shown()
        answered = len(self.answered)
        for _ in range(_BURST):
            self.put(size=900)
        await self._until(loop.now + 1.5)
        if len(self.answered) < answered + _BURST:
            raise ShellViolation(f"S4: {len(self.answered) - answered} of {_BURST} were answered where all is well")

    async def _check_end(self) -> None:
        for node in self.nodes.values():
            self.check_prefix(node)
        whole = self.master.read(0, self.master.end)
        for number, end in self.answered.items():
            if number.to_bytes(8, "big") not in whole[max(0, end - 1200) : end]:
                raise ShellViolation(f"S4: message {number} was answered as stored at {end} and is gone")
        for node in self.nodes.values():
            await node.stop()
            if node.fs.violations:
                raise ShellViolation(f"disk: {node.fs.violations[0]}")


@contextmanager
def simulated(loop: SimLoop, threads: SimThreading) -> Iterator[None]:
    """The clock, the threads and the listening sockets of the code under test are the loop's."""
    with ExitStack() as stack:
        for module in (ha_client, ha_connection, ha_server, master_link, durability):
            stack.enter_context(mock.patch.object(module, "monotonic", loop.time))
        stack.enter_context(mock.patch.object(durability, "threading", threads))
        stack.enter_context(mock.patch.object(durability, "ALONE_APPENDS", 2))  # faults come sooner than eight messages
        stack.enter_context(mock.patch.object(listener.socket, "create_server", loop.listen))
        stack.enter_context(mock.patch.object(master_link, "LARGE_BYTES", 600))  # threads append what is larger
        yield


def run_history(seed: int, tally: Tally | None = None) -> Tally:
    """One history; raises on the first broken promise."""
    tally = Tally() if tally is None else tally
    chance = random.Random(f"shells {seed}")
    shape = draw_shape(chance)
    loop = SimLoop(chance)
    try:
        group = ShellGroup(chance, shape, loop, tally)
        with simulated(loop, group.threading):
            loop.run_until_complete(group.run())
    except Exception as error:
        raise AssertionError(f"{error}\n{shape}\nrepeat: python -m tests.simulation.replay shells {seed}") from error
    finally:
        loop.run_until_complete(_end_tasks())
        loop.close()
    return tally


async def _end_tasks() -> None:
    """What killed processes left, and a history that failed."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
