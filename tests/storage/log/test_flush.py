"""Group commit and the timed flush: who syncs, who shares it, and what happens when the disk says no."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flaremq.errors import StoreIOError
from flaremq.message.message import Message
from flaremq.storage.log.flush import FlushTimer, GroupCommit
from flaremq.storage.message_store import MessageStore
from flaremq.storage.status import PutMessageStatus
from tests.support.crash_fs import CrashFS, Fault
from tests.support.store_lab import SMALL, TOPIC, StoreLab, all_bodies, eventually

SYNC_FAILURE = StoreIOError("sync", "log", OSError(5, "Input/output error"))


class HeldSync:
    """A sync that stops at a store_loop, so that a test can see who waits behind it."""

    def __init__(self) -> None:
        self.reach = 0
        self.calls = 0
        self.failure: StoreIOError | None = None
        self.started = threading.Semaphore(0)
        self.store_loop = threading.Semaphore(0)

    def __call__(self) -> int:
        self.calls += 1
        reached = self.reach  # what was appended when the sync began
        self.started.release()
        assert self.store_loop.acquire(timeout=20)
        if self.failure is not None:
            raise self.failure
        return reached


class Runner(threading.Thread):
    """A thread that keeps what its function returned."""

    def __init__(self, function: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._function = function
        self.result: object = None
        self.start()

    def run(self) -> None:
        self.result = self._function()

    def value(self) -> object:
        self.join(20)
        assert not self.is_alive(), "the thread is stuck"
        return self.result


def wait_in_thread(commit: GroupCommit, offset: int, timeout: float = -1) -> Runner:
    return Runner(lambda: commit.wait(offset, timeout))


def test_waiting_for_what_is_durable_costs_no_sync() -> None:
    commit = GroupCommit(lambda: pytest.fail("synced"), durable=100)
    assert commit.wait(100)


def test_single_waiter_syncs_in_its_own_thread() -> None:
    threads = []

    def sync() -> int:
        threads.append(threading.current_thread())
        return 50

    commit = GroupCommit(sync, durable=0)
    assert commit.wait(50)
    assert threads == [threading.current_thread()]
    assert commit.durable == 50


def test_waiters_behind_a_running_sync_share_the_next_one() -> None:
    sync = HeldSync()
    commit = GroupCommit(sync, durable=0)
    sync.reach = 10
    first = wait_in_thread(commit, 10)
    assert sync.started.acquire(timeout=20)
    sync.reach = 50  # appended while the first sync was running
    others = [wait_in_thread(commit, offset) for offset in (20, 30, 40, 50)]
    eventually(lambda: len(commit._waiting) == 4, "four waiters in line")
    sync.store_loop.release()
    assert first.value() is True
    assert sync.started.acquire(timeout=20)
    sync.store_loop.release()
    assert [other.value() for other in others] == [True] * 4
    assert sync.calls == 2


def test_waiter_covered_by_the_running_sync_needs_no_other() -> None:
    sync = HeldSync()
    commit = GroupCommit(sync, durable=0)
    sync.reach = 10
    runners = [wait_in_thread(commit, 10)]
    assert sync.started.acquire(timeout=20)
    runners.append(wait_in_thread(commit, 5))
    eventually(lambda: len(commit._waiting) == 1, "one waiter in line")
    sync.store_loop.release()
    assert [runner.value() for runner in runners] == [True, True]
    assert sync.calls == 1


def test_impatient_waiter_gives_up_and_the_sync_goes_on() -> None:
    sync = HeldSync()
    commit = GroupCommit(sync, durable=0)
    sync.reach = 10
    leader = wait_in_thread(commit, 10)
    assert sync.started.acquire(timeout=20)
    assert commit.wait(10, timeout=0.001) is False
    assert commit._waiting == []
    sync.store_loop.release()
    assert leader.value() is True


def test_those_who_give_up_at_any_moment_leave_nobody_waiting() -> None:
    appended = itertools.count(1)
    end = 0

    def sync() -> int:
        reached = end
        threading.Event().wait(0.0002)  # others come, and some of them give up, meanwhile
        return reached

    commit = GroupCommit(sync, durable=0)

    def work(seed: int) -> None:
        nonlocal end
        chance = random.Random(seed)
        for _ in range(100):
            offset = next(appended)
            end = max(end, offset)
            if chance.random() < 0.3:
                commit.wait(offset, chance.random() * 0.001)
            else:
                while not commit.wait(offset):  # one that was appended behind a sync of another's ``end``
                    pass

    runners = [Runner(lambda seed=seed: work(seed)) for seed in range(12)]  # type: ignore[misc]
    assert [runner.value() for runner in runners] == [None] * 12
    assert commit._waiting == []


def gathering(crowd: int, pause: float) -> tuple[GroupCommit, HeldSync]:
    """A commit that expects so many for its next sync."""
    sync = HeldSync()
    sync.store_loop.release()
    commit = GroupCommit(sync, durable=0)
    commit._crowd, commit._pause = crowd, pause
    return commit, sync


def test_those_whom_the_last_sync_served_are_waited_for_and_the_last_one_leads() -> None:
    commit, sync = gathering(3, pause=60)
    runners = []
    for number, offset in enumerate((10, 20)):
        runners.append(wait_in_thread(commit, offset))
        eventually(lambda number=number: len(commit._waiting) == number + 1, "a waiter in line")  # type: ignore[misc]
    assert sync.calls == 0
    sync.reach = 30
    assert commit.wait(30) is True
    assert [runner.value() for runner in runners] == [True, True]
    assert sync.calls == 1


def test_those_who_do_not_come_are_not_waited_for_longer_than_the_pause_nor_by_the_next_syncs() -> None:
    commit, sync = gathering(3, pause=0.001)
    sync.reach = 10
    assert commit.wait(10) is True
    sync.reach = 20
    for _ in range(2):
        assert commit._crowd == 1
        sync.store_loop.release()
        assert commit.wait(sync.reach) is True
        sync.reach += 10


def test_gatherer_whose_time_is_over_before_the_pause_syncs_for_those_who_are_there() -> None:
    commit, sync = gathering(3, pause=60)
    sync.reach = 20
    impatient = wait_in_thread(commit, 10, timeout=1)
    eventually(lambda: len(commit._waiting) == 1, "one waiter in line")
    patient = wait_in_thread(commit, 20)
    assert [impatient.value(), patient.value(), sync.calls] == [True, True, 1]


class InterruptedQueue(list[Any]):
    """A list of waiters; Ctrl-C comes once, just after one was taken out."""

    def remove(self, waiter: Any) -> None:
        super().remove(waiter)
        raise KeyboardInterrupt


class InterruptedMutex:
    """A lock; Ctrl-C comes once, just after it was left."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_over = False

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if not self._is_over:
            self._is_over = True
            raise KeyboardInterrupt


def interrupted(commit: GroupCommit, offset: int) -> bool:
    with pytest.raises(KeyboardInterrupt):
        commit.wait(offset)
    return commit.wait(offset)


def test_ctrl_c_just_after_a_gatherer_left_the_queue_to_lead_leaves_nobody_waiting() -> None:
    commit = GroupCommit(lambda: 10, durable=0)
    commit._crowd, commit._pause, commit._waiting = 3, 0.001, InterruptedQueue()
    assert Runner(lambda: interrupted(commit, 10)).value() is True
    assert (commit._leading, commit._waiting) == (False, [])


@pytest.mark.parametrize("crowd", [1, 3])
def test_ctrl_c_just_after_a_waiter_got_its_place_leaves_nobody_waiting(crowd: int) -> None:
    commit = GroupCommit(lambda: 10, durable=0)
    commit._crowd, commit._pause, commit._mutex = crowd, 0.001, InterruptedMutex()  # type: ignore[assignment]
    assert Runner(lambda: interrupted(commit, 10)).value() is True
    assert (commit._leading, commit._waiting, commit._gatherer) == (False, [], None)


def test_threads_that_do_nothing_but_put_share_most_syncs() -> None:
    appended = itertools.count(1)
    end = calls = 0

    def sync() -> int:
        nonlocal calls
        calls += 1
        reached = end
        threading.Event().wait(0.001)
        return reached

    commit = GroupCommit(sync, durable=0)

    def work() -> None:
        nonlocal end
        for _ in range(50):
            offset = next(appended)
            end = max(end, offset)
            while not commit.wait(offset):
                pass

    runners = [Runner(work) for _ in range(8)]
    assert [runner.value() for runner in runners] == [None] * 8
    assert commit._waiting == []
    assert calls <= 8 * 50 / 2, "a sync for each, or nearly"


def test_failed_sync_answers_everyone_and_is_never_tried_again() -> None:
    sync = HeldSync()
    sync.failure = SYNC_FAILURE
    commit = GroupCommit(sync, durable=7)
    runners = [wait_in_thread(commit, 10)]
    assert sync.started.acquire(timeout=20)
    runners += [wait_in_thread(commit, offset) for offset in (20, 30)]
    eventually(lambda: len(commit._waiting) == 2, "two waiters in line")
    sync.store_loop.release()
    assert [runner.value() for runner in runners] == [False, False, False]
    assert commit.wait(40) is False
    assert commit.wait(7) is True  # what was durable stays so
    assert (sync.calls, commit.durable, commit.failure) == (1, 7, SYNC_FAILURE)


@pytest.mark.parametrize(
    ("pending", "seconds", "due"),
    [(0, 0, False), (4 * 4096 - 1, 0, False), (4 * 4096, 0, True), (1, 9.9, False), (1, 10, True), (0, 10, False)],
)
def test_timed_flush_waits_for_pages_or_for_the_thorough_interval(pending: int, seconds: float, due: bool) -> None:
    timer = FlushTimer(least_pages=4, thorough_interval_ms=10_000, now=100.0)
    assert timer.is_due(pending_bytes=pending, now=100.0 + seconds) is due


def test_timed_flush_without_least_pages_takes_any_byte() -> None:
    timer = FlushTimer(least_pages=0, thorough_interval_ms=10_000, now=0)
    assert timer.is_due(pending_bytes=1, now=1)


# In a store


def open_on(disk: CrashFS, **changes: Any) -> MessageStore:
    return MessageStore.open("/store", replace(SMALL, **changes), filesystem=disk, threads=False)


def fail_log_syncs(disk: CrashFS) -> None:
    def observe(operation: str, path: str) -> None:
        if operation == "sync" and "/commitlog/" in path:
            raise StoreIOError("sync", path, OSError(5, "Input/output error"))

    disk.observer = observe


def test_failed_sync_is_not_answered_ok_and_stops_all_writing() -> None:
    disk = CrashFS()
    store = open_on(disk)
    assert store.put(Message(TOPIC, b"safe")).ok
    durable = store.flushed_offset
    fail_log_syncs(disk)
    unsure = store.put(Message(TOPIC, b"unsure"))
    assert unsure.status is PutMessageStatus.FLUSH_DISK_TIMEOUT
    assert unsure.queue_offset == 1 and "sync" in (unsure.detail or "")
    disk.observer = None  # the disk is fine again: too late, what it dropped cannot be known
    assert store.put(Message(TOPIC, b"more")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert store.put_batch([Message(TOPIC, b"more")]).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert store.flushed_offset == durable
    with pytest.raises(StoreIOError):
        store.flush()


def test_message_of_a_failed_sync_is_never_shown_to_consumers() -> None:
    disk = CrashFS()
    store = open_on(disk)
    store.put(Message(TOPIC, b"safe"))
    fail_log_syncs(disk)
    store.put(Message(TOPIC, b"unsure"))
    store.tick()
    assert all_bodies(store) == [b"safe"]


def test_store_with_a_failed_sync_is_left_for_recovery_and_opens_again() -> None:
    disk = CrashFS()
    store = open_on(disk)
    store.put(Message(TOPIC, b"safe"))
    fail_log_syncs(disk)
    store.put(Message(TOPIC, b"unsure"))
    store.close()
    disk.observer = None
    assert disk.exists("/store/abort")
    after_power_cut = disk.crash(0b0)
    reopened = open_on(after_power_cut)
    assert all_bodies(reopened)[0] == b"safe"
    assert reopened.put(Message(TOPIC, b"again")).ok
    reopened.close()


def test_failed_sync_of_the_flush_thread_stops_async_writing_too() -> None:
    disk = CrashFS()
    store = open_on(disk, flush_disk_type="ASYNC_FLUSH")
    assert store.put(Message(TOPIC, b"x")).ok
    disk.faults = [Fault(kind="eio", at=1, operations=frozenset({"sync"}))]
    store.tick()
    assert not store.is_writable
    assert store.put(Message(TOPIC, b"y")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE


def test_put_that_waits_too_long_for_the_disk_is_answered_flush_disk_timeout(lab: StoreLab) -> None:
    disk = CrashFS()
    store = open_on(disk, sync_flush_timeout=1)
    entered, leave = threading.Event(), threading.Event()

    def hold(operation: str, path: str) -> None:
        if operation == "sync" and "/commitlog/" in path:
            entered.set()
            assert leave.wait(20)

    store.put(Message(TOPIC, b"warm"))
    disk.observer = hold
    slow = Runner(lambda: store.put(Message(TOPIC, b"leader")))
    assert entered.wait(20)
    result = store.put(Message(TOPIC, b"waiter"))
    assert result.status is PutMessageStatus.FLUSH_DISK_TIMEOUT
    assert result.status.stored and result.queue_offset == 2
    leave.set()
    slow.value()
    disk.observer = None
    store.flush()
    store.wait_for_dispatch(0)
    assert all_bodies(store) == [b"warm", b"leader", b"waiter"]
    store.close()


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_many_threads_put_and_nothing_is_lost_or_doubled(lab: StoreLab, flush: str, tmp_path: Path) -> None:
    store = lab.open(threads=True, flush_disk_type=flush, mapped_file_size_consume_queue=20 * 100)

    def work(number: int) -> list[tuple[int, int]]:
        results = [store.put(Message(TOPIC, b"%d-%d" % (number, n)), n % 2) for n in range(40)]
        assert all(result.ok for result in results)
        return [(n % 2, result.queue_offset) for n, result in enumerate(results)]

    runners = [Runner(lambda number=number: work(number)) for number in range(6)]  # type: ignore[misc]
    places = [place for runner in runners for place in runner.value()]  # type: ignore[attr-defined]
    assert sorted(places) == [(queue, offset) for queue in (0, 1) for offset in range(120)]
    assert store.wait_for_dispatch(20)
    found = all_bodies(store, queue_id=0) + all_bodies(store, queue_id=1)
    assert sorted(found) == sorted(b"%d-%d" % (t, n) for t in range(6) for n in range(40))
    for number in range(6):  # a thread's messages stay in its order
        own = [body for body in all_bodies(store) if body.startswith(b"%d-" % number)]
        assert own == [b"%d-%d" % (number, n) for n in range(0, 40, 2)]
