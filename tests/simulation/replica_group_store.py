"""The brokers of a simulated group on real stores: MessageStore on the simulated disk, which can crash at any call.

Slower by far than logs in memory, so fewer histories; what they add is the store's part: appends of a replica, roles at
run time, the confirm gate, cuts, recovery after a power cut in the middle of any of these, and queues that go on where
another master left them.
"""

from __future__ import annotations

import random
from dataclasses import replace

from flaremq.clock import ManualClock
from flaremq.storage.engine.driver import StoreDriver
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from flaremq.storage.put.put_result import PutResult
from tests.simulation.replica_group import Group, GroupViolation, Tally, draw_shape
from tests.support.crash_choices import SubsetChooser
from tests.support.crash_fs import CrashFS, Fault
from tests.support.store_lab import SMALL, all_bodies

TOPIC = "orders"
_HOST = bytes([10, 0, 0, 7]) + (40001).to_bytes(4, "big")
_OPTIONS = replace(
    SMALL,
    mapped_file_size_commit_log=8192,
    reserve_step_commit_log=4096,
    enabled_append_prop_crc=True,  # a record that a crash garbled is then always told from a good one
    broker_role="SLAVE",
)


class StoreGroupLog:
    """One broker's store. A crash recovers it at once: what the disk has is known while the broker is down."""

    def __init__(self, *, is_sync_flush: bool, holds_unconfirmed: bool) -> None:
        self.sends_durable_only = False
        self.options: StoreOptions = replace(_OPTIONS, flush_disk_type="SYNC_FLUSH" if is_sync_flush else "ASYNC_FLUSH")
        self._holds = holds_unconfirmed
        self._shown = 0  # the most that was ever confirmed here
        self.clock = ManualClock()
        self.fs = CrashFS()
        self.store: MessageStore
        self.driver: StoreDriver
        self._open()

    def _open(self, cut_at: int | None = None) -> None:
        self.store = MessageStore.open(
            "/store",
            self.options,
            filesystem=self.fs,
            clock=self.clock,
            threads=False,
            driven=True,
            hold_unconfirmed=self._holds,
            cut_at=cut_at,
        )
        self.driver = self.store.driver()
        if not self.driver.is_replica:
            raise GroupViolation("a store that opens takes messages before it is told to")

    @property
    def min_offset(self) -> int:
        return self.driver.min_offset

    @property
    def own_end(self) -> int:
        return self.driver.appended

    @property
    def end_offset(self) -> int:
        return self.driver.durable if self.sends_durable_only else self.driver.appended

    @property
    def file_size(self) -> int:
        return self.driver.file_size

    @property
    def durable(self) -> int:
        return self.driver.durable

    def read(self, start: int, end: int) -> bytes:
        data = bytearray()
        while start < end and (view := self.driver.transfer_view(start, end, end - start)) is not None:
            data += view
            start += len(view)
        return bytes(data)

    def put(self, number: int) -> int:
        self.clock.advance(1)
        body = number.to_bytes(8, "big") + bytes((0, 0, 30, 900)[number % 4])
        result = self.driver.append(TOPIC, 0, body, b"", 0, 0, self.clock.now_ms(), _HOST, 0)
        if isinstance(result, PutResult):
            raise GroupViolation(f"a master's store refuses a message: {result}")
        return int(result[2])

    def append_replica(self, offset: int, data: bytes | memoryview) -> None:
        self.driver.append_replica(offset, data)

    def sync(self) -> None:
        self.driver.sync()
        self.driver.dispatch()
        self._check_shown()

    def cut(self, offset: int) -> None:
        self.store.close()
        self._open(cut_at=offset)
        if self.own_end != offset:
            raise GroupViolation(f"cut at {offset}, the log ends at {self.own_end}")

    def kill(self) -> None:
        self._crash(self.fs.kill())

    def power_cut(self, chance: random.Random) -> None:
        self._crash(self.fs.crash(SubsetChooser(0) if chance.random() < 0.3 else str(chance.random())))

    def _crash(self, disk: CrashFS) -> None:
        self.store.abandon()
        self.fs = disk
        self._open()

    def show(self, confirmed: int) -> None:
        self._shown = max(self._shown, confirmed)
        if self._holds:
            self.driver.confirm(confirmed)
        self.driver.dispatch()
        self._check_shown()

    def lead(self) -> None:
        self.driver.become_writable()

    def follow(self) -> None:
        if not self.driver.is_replica:
            self.driver.become_replica()

    def _check_shown(self) -> None:
        reached = self.store.dispatched_offset
        if self._holds and reached > self._shown and reached % self.file_size:
            raise GroupViolation(f"a store shows {reached}, confirmed was {self._shown}")

    def numbers(self) -> list[int]:
        """The messages that consumers get, in their order."""
        self.driver.confirm(None)
        self.driver.sync()
        self.driver.dispatch()
        return [int.from_bytes(body[:8], "big") for body in all_bodies(self.store, TOPIC)]


class StoreGroup(Group):
    """A group on stores: crashes come at calls of the disk, too, and queues are looked at in the end."""

    def fail(self) -> None:
        broker = self.chance.choice(list(self.brokers.values()))
        if self.chance.random() < 0.25 and broker.is_up and self.may_lose_power(broker):
            fs = broker.log.fs  # type: ignore[attr-defined]
            fs.faults = [Fault(kind="crash", at=fs.calls + self.chance.randint(1, 30))]
            self.loop.at(self.loop.now + 2.0, self.revive, broker)
        else:
            super().fail()

    def _heal(self) -> None:
        for broker in self.brokers.values():
            broker.log.fs.faults = []  # type: ignore[attr-defined]
        super()._heal()

    def _check_end(self) -> None:
        super()._check_end()
        if self._is_refused():
            return
        logs = [broker.log for broker in self.brokers.values()]
        shown = [log.numbers() for log in logs]  # type: ignore[attr-defined]
        if shown[0] != shown[1] or shown[1] != shown[2]:
            raise GroupViolation(f"queues differ: {list(map(len, shown))} messages")
        missing = self.answered.keys() - set(shown[0])
        if missing and not self.is_lossy:
            raise GroupViolation(f"messages {sorted(missing)[:5]} were answered and are in no queue")
        for log in logs:
            log.store.close()  # type: ignore[attr-defined]
            if log.fs.violations:  # type: ignore[attr-defined]
                raise GroupViolation(f"disk: {log.fs.violations[0]}")  # type: ignore[attr-defined]


def run_store_history(seed: int, tally: Tally | None = None) -> Tally:
    """One history on real stores; raises on the first broken promise."""
    tally = Tally() if tally is None else tally
    chance = random.Random(f"store group {seed}")
    shape = draw_shape(chance)
    is_controlled = shape.mode.value == "set"

    def make_log(number: int) -> StoreGroupLog:
        return StoreGroupLog(is_sync_flush=shape.is_sync_flush, holds_unconfirmed=is_controlled or number == 1)

    try:
        StoreGroup(chance, shape, make_log, tally).run()
    except Exception as error:
        raise AssertionError(
            f"{error}\n{shape}\nrepeat: python -m tests.simulation.replay store-group {seed}"
        ) from error
    return tally
