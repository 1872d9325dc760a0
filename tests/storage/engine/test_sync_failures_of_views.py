"""A failed sync of a queue or index file: its pages may be gone from disk although a second sync succeeds.

The kernel marks a page clean when writing it back failed; the simulated disk does the same. So a view whose
sync failed once may only be called durable after it was written again.
"""

from __future__ import annotations

import pytest

from flaremq.clock import ManualClock
from flaremq.message.message import Message
from flaremq.storage.message_store import MessageStore
from tests.support.crash_fs import CrashFS, Fault, SubsetChooser
from tests.support.store_lab import SMALL, TOPIC, all_bodies


def open_on(disk: CrashFS) -> MessageStore:
    return MessageStore.open("/store", SMALL, filesystem=disk, clock=ManualClock(), threads=False)


def fail_next_sync_of(disk: CrashFS, part: str) -> None:
    def observe(operation: str, path: str) -> None:
        if operation == "sync" and part in path:
            disk.observer = None
            disk.faults = [Fault(kind="eio", at=disk.calls, operations=frozenset({"sync"}))]

    disk.observer = observe


@pytest.mark.parametrize("part", ["/consumequeue/", "/index/", "/flaremq.offsets", "/checkpoint"])
def test_everything_is_found_after_a_failed_sync_and_a_power_cut(part: str) -> None:
    disk = CrashFS()
    store = open_on(disk)
    for number in range(3):
        assert store.put(Message(TOPIC, b"%d" % number, keys=f"k{number}")).ok
    fail_next_sync_of(disk, part)
    store.tick()
    assert disk.fired == 1
    store.tick()  # the disk is fine again
    reopened = open_on(disk.crash(SubsetChooser(0)))
    assert all_bodies(reopened) == [b"0", b"1", b"2"]
    assert [len(reopened.query(TOPIC, f"k{number}")) for number in range(3)] == [1, 1, 1]
    assert reopened.put(Message(TOPIC, b"3")).queue_offset == 3


@pytest.mark.parametrize("part", ["/consumequeue/", "/index/"])
def test_failed_sync_of_a_view_does_not_move_the_recovery_start(part: str) -> None:
    disk = CrashFS()
    store = open_on(disk)
    store.put(Message(TOPIC, b"x", keys="k"))
    fail_next_sync_of(disk, part)
    store.tick()
    assert store._engine.checkpointer.dispatched == 0


@pytest.mark.parametrize("part", ["/consumequeue/", "/index/"])
def test_store_stays_writable_while_a_view_cannot_be_synced(part: str) -> None:
    disk = CrashFS()
    store = open_on(disk)
    store.put(Message(TOPIC, b"x", keys="k"))
    fail_next_sync_of(disk, part)
    store.tick()
    assert store.put(Message(TOPIC, b"y")).ok
    assert all_bodies(store) == [b"x", b"y"]
