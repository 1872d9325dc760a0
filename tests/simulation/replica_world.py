"""A replica on the simulated disk: it is fed a master's log in pieces, crashes, recovers, and is fed the rest.

What must hold after every crash, and did the replica have to promise it:

* its log is the master's, byte for byte, and ends where a record ends (``R1``);
* it holds everything that was durable, which is what it reported (``R2``);
* queues and keys show exactly the records of that log, or, with a confirm gate, none behind what was ever confirmed
  (``R3``);
* the rest of the master's log can be appended, and then log, queues and keys are the master's (``R4``).
"""

from __future__ import annotations

import functools
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from flaremq.clock import ManualClock
from flaremq.errors import StoreIOError, UnavailableError
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.storage.engine.driver import StoreDriver
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from tests.support.crash_choices import SubsetChooser
from tests.support.crash_fs import CrashFS, Fault, SimulatedCrash
from tests.support.replica_lab import Log, log_of
from tests.support.store_lab import SMALL, all_bodies

ROOT = "/replica"
TOPICS = ("orders", "payments")
# Whole-record checksums: a record that a crash garbled is then always told from a good one.
MASTER = replace(SMALL, mapped_file_size_commit_log=8192, reserve_step_commit_log=4096, enabled_append_prop_crc=True)
OPERATIONS = ("few", "few", "many", "sync", "sync", "dispatch", "tick", "reopen", "confirm")


class ReplicaViolation(AssertionError):
    """A promise was broken."""


class Shown(NamedTuple):
    """A record as consumers know it."""

    end: int
    topic: str
    queue_id: int
    body: bytes
    key: str


@functools.lru_cache(maxsize=8)
def master_log(seed: int, count: int) -> tuple[Log, list[Shown]]:
    """The log of a master with several files, from its second file on for odd seeds, and what it shows."""
    chance, clock = random.Random(seed), ManualClock()
    store = MessageStore.open("/m", MASTER, filesystem=CrashFS(), clock=clock, threads=False, driven=True)
    for number in range(count):
        clock.advance(3)
        size = chance.choice((10, 200, 200, 700, 3000))
        message = Message(chance.choice(TOPICS), b"<%d>" % number + chance.randbytes(size), keys=[f"k{number}"])
        assert store.put(message, chance.randrange(2)).ok
    log = log_of(store.driver())
    if seed % 2:
        start = MASTER.mapped_file_size_commit_log
        log = Log(start, log.piece(start, log.end), log.file_size)
    shown, at = [], log.start
    for end in log.ends():
        if end % log.file_size:
            message_ext = MessageExt(memoryview(log.piece(at, end)))
            key = message_ext.keys[0]
            shown.append(Shown(end, message_ext.topic, message_ext.queue_id, message_ext.body, key))
        at = end
    store.abandon()
    return log, shown


class ReplicaWorld:
    """One replica, its disk and what it promised."""

    def __init__(self, seed: int, *, flush: str, hold: bool, filesystem: CrashFS | None = None) -> None:
        self.chance = random.Random(f"replica {seed}")
        self.log, self.shown = master_log(seed, 60)
        self.ends = self.log.ends()
        self.options: StoreOptions = replace(MASTER, broker_role="SLAVE", flush_disk_type=flush)
        self.hold = hold
        self.clock = ManualClock()
        self.fs = filesystem or CrashFS()
        self.promised = 0  # durable, so it may have been reported
        self.confirmed = 0  # the most that was ever confirmed
        self.store: MessageStore | None = None

    @property
    def driver(self) -> StoreDriver:
        assert self.store is not None
        return self.store.driver()

    def open(self) -> None:
        self.store = MessageStore.open(
            ROOT,
            self.options,
            filesystem=self.fs,
            clock=self.clock,
            threads=False,
            driven=True,
            hold_unconfirmed=self.hold,
        )
        if self.driver.is_empty:
            self.driver.begin_at(self.log.start)

    def fork(self, filesystem: CrashFS, seed: int, flush: str) -> ReplicaWorld:
        """The same promises on the disk that a crash left."""
        twin = ReplicaWorld(seed, flush=flush, hold=self.hold, filesystem=filesystem)
        twin.promised, twin.confirmed = self.promised, self.confirmed
        return twin

    # Operations

    def run(self, name: str) -> None:
        self.clock.advance(7)
        try:
            OPERATION[name](self)
        finally:
            if self.store is not None:
                self.promised = max(self.promised, self.driver.durable)
        if not self.fs.fired:  # a dispatch that failed has written some queues and not others, until it is repeated
            self._check_visible()

    def append(self, records: int) -> None:
        end = self.driver.appended
        left = [place for place in self.ends if place > end]
        if left:
            target = left[: self.chance.randint(1, records)][-1]
            self.driver.append_replica(end, self.log.piece(end, target))

    def confirm(self) -> None:
        if self.hold:
            offset = self.chance.randint(self.log.start, max(self.driver.appended, self.log.start))
            self.confirmed = max(self.confirmed, offset)
            self.driver.confirm(offset)

    def reopen(self) -> None:
        assert self.store is not None
        store, self.store = self.store, None
        store.close()
        self.promised = max(self.promised, store.flushed_offset)
        self.open()

    # What must hold

    def check(self) -> None:
        """After a crash, with the store open again."""
        driver = self.driver
        end = driver.appended
        if end != self.log.start and end not in self.ends:
            raise ReplicaViolation(f"R1: the log ends at {end}, inside a record")
        if end < self.promised:
            raise ReplicaViolation(f"R2: the log ends at {end}, {self.promised} was durable")
        if end > self.log.start and log_of(driver).data != self.log.piece(self.log.start, end):
            raise ReplicaViolation("R1: the log is not the master's")
        driver.dispatch()
        if not self.hold and self.store is not None and self.store.dispatched_offset < end:
            raise ReplicaViolation("R3: part of the log is in no queue")
        self._check_visible()

    def _check_visible(self) -> None:
        assert self.store is not None
        reached = self.store.dispatched_offset
        if self.hold and reached > max(self.confirmed, self.log.start):
            crossed = [end for end in self.ends if max(self.confirmed, self.log.start) < end <= reached]
            if any(end % self.log.file_size for end in crossed):
                raise ReplicaViolation(f"R3: shown up to {reached}, confirmed was {self.confirmed}")
        expected: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        for shown in self.shown:
            if shown.end <= reached:
                expected[shown.topic, shown.queue_id].append(shown.body)
        for topic in TOPICS:
            for queue_id in range(2):
                found = all_bodies(self.store, topic, queue_id)
                if found != expected[topic, queue_id]:
                    raise ReplicaViolation(f"R3: {topic} {queue_id} shows {len(found)} messages, not as in the log")

    def finish(self) -> None:
        """Feed the rest; then everything is the master's."""
        self.append_rest()
        self.driver.confirm(None)
        self.confirmed = self.log.end
        self.driver.sync()
        self.driver.dispatch()
        self._check_visible()
        assert self.store is not None
        if log_of(self.driver).data != self.log.data:
            raise ReplicaViolation("R4: the log is not the master's")
        for shown in self.shown:
            if [message.body for message in self.store.query(shown.topic, shown.key)] != [shown.body]:
                raise ReplicaViolation(f"R4: key {shown.key} does not lead to its message")
        self.store.close()
        if self.fs.violations:
            raise ReplicaViolation(f"disk: {self.fs.violations[0]}")

    def append_rest(self) -> None:
        end = self.driver.appended
        if end < self.log.end:
            self.driver.append_replica(end, self.log.piece(end, self.log.end))


OPERATION: dict[str, Callable[[ReplicaWorld], object]] = {
    "few": lambda world: world.append(3),
    "many": lambda world: world.append(20),
    "sync": lambda world: world.driver.sync(),
    "dispatch": lambda world: world.driver.dispatch(),
    "tick": lambda world: world.store.tick() if world.store is not None else None,
    "reopen": lambda world: world.reopen(),
    "confirm": lambda world: world.confirm(),
}


def history(seed: int, length: int) -> list[str]:
    chance = random.Random(f"history {seed}")
    return [chance.choice(OPERATIONS) for _ in range(length)]


def check_history(seed: int, *, flush: str, hold: bool, length: int, step: int) -> int:
    """Crash one history at every ``step``-th call of the disk; the number of crash images that were looked at."""
    images = call = 0
    while True:
        call += 1 + (seed + call) % step
        world = ReplicaWorld(seed, flush=flush, hold=hold)
        world.fs.faults = [Fault(kind="crash", at=call)]
        try:
            world.open()
            for name in history(seed, length):
                world.run(name)
        except SimulatedCrash:
            pass
        else:
            world.fs.faults = []
            world.finish()
            return images
        for disk in (world.fs.kill(), world.fs.crash(SubsetChooser(0)), world.fs.crash(f"{seed} {call}")):
            images += 1
            after = world.fork(disk, seed, flush)
            after.open()
            after.check()
            after.finish()


def check_errors(seed: int, *, flush: str, kind: str, length: int, step: int) -> int:
    """Let one call after the other fail; the number of runs. What was promised holds after a restart."""
    runs = call = 0
    while True:
        call += 1 + (seed + call) % step
        world = ReplicaWorld(seed, flush=flush, hold=False)
        world.fs.faults = [Fault(kind=kind, at=call)]  # type: ignore[arg-type]
        try:
            world.open()
            for name in history(seed, length):
                if name == "reopen":
                    continue
                try:
                    world.run(name)
                except (StoreIOError, UnavailableError):
                    continue
        except (StoreIOError, UnavailableError):
            pass
        if world.fs.calls < call:
            return runs
        runs += 1
        world.fs.faults = []
        for disk in (world.fs.kill(), world.fs.crash(SubsetChooser(0))):
            after = world.fork(disk, seed, flush)
            after.open()
            after.check()
            after.finish()
