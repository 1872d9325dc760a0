"""StoreLoop: appends on the loop, syncs beside it; acknowledged when durable, shown afterwards, never the reverse."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flaremq.broker.store_loop import durability
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.errors import InvalidArgumentError, StoreIOError, UnavailableError
from flaremq.message.stored_form import StoredForm
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.message_store import MessageStore
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.status import PutMessageStatus
from tests.support.broker_lab import until
from tests.support.driven_store import BORN_HOST, batch_body
from tests.support.store_lab import SMALL, all_bodies

OK = PutMessageStatus.PUT_OK
TOPIC = "orders"


def form(body: bytes = b"body", **changes: Any) -> StoredForm:
    fields: dict[str, Any] = {"topic": TOPIC, "queue_id": 0, "properties": b"", "born_host": BORN_HOST}
    return StoredForm(body=body, **(fields | changes))


class HeldSync:
    """Syncs of the log wait for the test."""

    def __init__(self) -> None:
        self.permits = threading.Semaphore(0)
        self.began = threading.Semaphore(0)
        self.failure: StoreIOError | None = None

    def wait(self) -> None:
        self.began.release()
        assert self.permits.acquire(timeout=60)
        if self.failure is not None:
            raise self.failure


@contextmanager
def held_syncs(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldSync]:
    held = HeldSync()
    usual = CommitLog.sync

    def sync(log: CommitLog) -> int:
        held.wait()
        return usual(log)

    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "sync", sync)
        yield held
        held.failure = None
        held.permits.release(1_000_000)


def run(scenario: Callable[[StoreLoop], Awaitable[None]], folder: Path, **changes: Any) -> None:
    async def main() -> None:
        options = replace(SMALL, **({"mapped_file_size_commit_log": 1 << 20} | changes))
        store = await asyncio.to_thread(MessageStore.open, folder / "store", options, driven=True)
        store_loop = StoreLoop(store)
        try:
            await asyncio.wait_for(scenario(store_loop), 60)
        finally:
            await store_loop.close()
            await asyncio.to_thread(store.close)

    asyncio.run(main())


async def begun(held: HeldSync) -> None:
    await asyncio.to_thread(lambda: held.began.acquire(timeout=30))


# Where syncs run


@contextmanager
def noted_syncs(monkeypatch: pytest.MonkeyPatch, *, short_seconds: float) -> Iterator[list[bool]]:
    """For each sync whether it ran on the thread of the event loop."""
    noted: list[bool] = []
    usual, loop_thread = CommitLog.sync, threading.current_thread()

    def sync(log: CommitLog) -> int:
        noted.append(threading.current_thread() is loop_thread)
        return usual(log)

    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "sync", sync)
        patch.setattr(durability, "_SHORT_SECONDS", short_seconds)
        yield noted


async def put_at_rest(store_loop: StoreLoop, given: StoredForm) -> PutResult:
    """Put once the sync thread has gone to sleep: before that it may take the next sync itself."""
    while not store_loop.durability._is_idle:
        await asyncio.sleep(0)
    return await store_loop.put(given)


def test_loop_syncs_by_itself_after_short_syncs_while_nothing_else_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        reads = store_loop.durability.reads
        with noted_syncs(monkeypatch, short_seconds=60) as noted:
            for _ in range(12):
                reads.value += 1
                result = await put_at_rest(store_loop, form())
                assert result.ok and store_loop.driver.durable >= result.physical_offset + result.size
            assert noted == [False] * 8 + [True] * 4
            reads.value += 2  # the send, and somebody's pull
            assert (await put_at_rest(store_loop, form())).ok
            assert noted[12:] == [False]
            large = form(bytes(durability._SYNC_BYTES_MAX + 1))
            for _ in range(10):
                assert (await put_at_rest(store_loop, large)).ok
            assert noted[13:] == [False] * 10
            assert (await put_at_rest(store_loop, form())).ok
            assert noted[23:] == [True]

    run(scenario, tmp_path, max_message_size=1 << 20, mapped_file_size_commit_log=4 << 20)


def test_loop_leaves_syncs_of_a_slow_disk_to_the_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        with noted_syncs(monkeypatch, short_seconds=-1) as noted:
            for _ in range(20):
                assert (await store_loop.put(form())).ok
            assert noted == [False] * 20

    run(scenario, tmp_path)


def test_failed_sync_on_the_loop_fails_who_waits_and_everybody_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sync(log: CommitLog) -> int:
        raise StoreIOError("sync", "log", OSError(5, "Input/output error"))

    async def scenario(store_loop: StoreLoop) -> None:
        with noted_syncs(monkeypatch, short_seconds=60) as noted:
            for _ in range(10):
                assert (await put_at_rest(store_loop, form())).ok
            assert noted[-1]
            monkeypatch.setattr(CommitLog, "sync", sync)
            results = await asyncio.gather(*(store_loop.put(form()) for _ in range(3)))
            assert {result.status for result in results} == {PutMessageStatus.SERVICE_NOT_AVAILABLE}
            assert not store_loop.store.is_writable and store_loop.durability.unacknowledged == 0
            assert (await store_loop.put(form())).status is PutMessageStatus.SERVICE_NOT_AVAILABLE

    run(scenario, tmp_path)


# Acknowledged when durable


def test_put_returns_when_its_record_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        with held_syncs(monkeypatch) as held:
            putting = asyncio.ensure_future(store_loop.put(form()))
            await begun(held)
            await asyncio.sleep(0.02)
            assert not putting.done() and store_loop.durability.unacknowledged == 1
            assert store_loop.store.max_offset(TOPIC, 0) == 0
            held.permits.release()
            result = await putting
            assert store_loop.durability.put_seconds.sum >= 0.02, "what the disk took is in it"
            assert result.ok and store_loop.driver.durable >= result.physical_offset + result.size

    run(scenario, tmp_path)


def test_one_sync_serves_all_that_was_appended_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        with held_syncs(monkeypatch) as held:
            putting = [asyncio.ensure_future(store_loop.put(form(b"%d" % number))) for number in range(100)]
            await until(lambda: store_loop.durability.unacknowledged == 100)
            await begun(held)
            held.permits.release()
            results = await asyncio.gather(*putting)
            assert [result.queue_offset for result in results] == list(range(100))
            assert store_loop.durability.put_seconds.count == 100 and store_loop.durability.put_seconds.sum > 0
            assert not held.began.acquire(blocking=False), "one sync was enough"

    run(scenario, tmp_path)


def test_message_that_does_not_wait_is_answered_before_the_sync_and_synced_nevertheless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        with held_syncs(monkeypatch) as held:
            result = await store_loop.put(form(wait_store_msg_ok=False))
            assert result.ok and store_loop.driver.durable == 0
            await begun(held)
            held.permits.release()
            await until(lambda: store_loop.driver.durable == store_loop.driver.appended)
            await until(lambda: store_loop.store.max_offset(TOPIC, 0) == 1)

    run(scenario, tmp_path)


def test_batches_wait_for_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        fields: dict[str, Any] = {"born_timestamp": 1, "born_host": BORN_HOST, "sys_flag": 0}
        with held_syncs(monkeypatch) as held:
            body = batch_body((0, b"one", b""), (0, b"two", b""))
            putting = [
                asyncio.ensure_future(store_loop.put_batch_body(TOPIC, 0, body, **fields)),
                asyncio.ensure_future(store_loop.put_batch_body(TOPIC, 0, batch_body((0, b"three", b"")), **fields)),
            ]
            await until(lambda: store_loop.durability.unacknowledged == 2)
            assert not any(task.done() for task in putting)
            held.permits.release(1000)
            assert [(r.ok, r.count) for r in await asyncio.gather(*putting)] == [(True, 2), (True, 1)]

    run(scenario, tmp_path)


def test_refused_put_is_answered_at_once(tmp_path: Path) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        result = await store_loop.put(form(topic="../up"))
        assert result.status is PutMessageStatus.MESSAGE_ILLEGAL and store_loop.durability.unacknowledged == 0

    run(scenario, tmp_path)


def test_put_that_was_given_up_harms_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        with held_syncs(monkeypatch) as held:
            given_up, kept = (asyncio.ensure_future(store_loop.put(form())) for _ in range(2))
            await until(lambda: store_loop.durability.unacknowledged == 2)
            given_up.cancel()
            held.permits.release(1000)
            assert (await kept).ok

    run(scenario, tmp_path)


def test_slow_disk_is_told_and_the_message_becomes_durable_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        with held_syncs(monkeypatch) as held:
            putting = asyncio.ensure_future(store_loop.put(form()))
            await begun(held)
            store_loop.durability.expire()
            assert not putting.done() and store_loop.durability.unacknowledged == 1
            store_loop.durability.timeout_seconds = -1.0
            store_loop.durability.expire()
            assert (await putting).status is PutMessageStatus.FLUSH_DISK_TIMEOUT
            store_loop.durability.timeout_seconds = 5.0
            held.permits.release(1000)
        await until(lambda: store_loop.store.max_offset(TOPIC, 0) == 1)

    run(scenario, tmp_path)


def test_failed_sync_fails_who_waits_and_everybody_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        assert (await store_loop.put(form(b"safe"))).ok
        store_loop.dispatching.catch_up()
        with held_syncs(monkeypatch) as held:
            putting = [asyncio.ensure_future(store_loop.put(form(b"unsure"))) for _ in range(3)]
            await until(lambda: store_loop.durability.unacknowledged == 3)
            held.failure = StoreIOError("sync", "log", OSError(5, "Input/output error"))
            held.permits.release(1000)
            statuses = {(await task).status for task in putting}
            assert statuses == {PutMessageStatus.SERVICE_NOT_AVAILABLE}
        assert (await store_loop.put(form(b"late"))).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        told: list[PutMessageStatus] = []
        store_loop.durability.when_durable(1, told.append)
        assert told == [PutMessageStatus.SERVICE_NOT_AVAILABLE]
        store_loop.dispatching.catch_up()
        assert all_bodies(store_loop.store) == [b"safe"]

    run(scenario, tmp_path)


def test_close_waits_for_the_disk_and_leaves_nobody_without_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        with held_syncs(monkeypatch) as held:
            putting = asyncio.ensure_future(store_loop.put(form()))
            await begun(held)
            closing = asyncio.ensure_future(store_loop.close())
            await asyncio.sleep(0.02)
            assert not closing.done()
            held.permits.release(1000)
            await closing
            assert (await putting).ok
        with pytest.raises(UnavailableError):
            await store_loop.run(lambda: None)

    run(scenario, tmp_path)


def test_close_gives_up_on_a_disk_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        with held_syncs(monkeypatch) as held:
            store_loop.durability.timeout_seconds = 0.05
            putting = asyncio.ensure_future(store_loop.put(form()))
            await begun(held)
            closing = asyncio.ensure_future(store_loop.close())
            await until(lambda: store_loop.durability._is_closed)
            held.permits.release(1000)
            await closing
            assert (await putting).status in (OK, PutMessageStatus.SERVICE_NOT_AVAILABLE)

    run(scenario, tmp_path)


def test_events_of_another_sync_are_noticed(tmp_path: Path) -> None:
    """A checkpoint or a flush by somebody else makes records durable: that counts as well."""

    async def scenario(store_loop: StoreLoop) -> None:
        for _ in range(20):
            results = await asyncio.gather(
                store_loop.put(form()), store_loop.run(store_loop.store.flush), store_loop.put(form())
            )
            assert all(result.ok for result in results if isinstance(result, PutResult))

    run(scenario, tmp_path)


# Shown afterwards


def test_arrivals_are_told_once_with_the_queues_that_grew(tmp_path: Path) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        seen: list[set[tuple[str, int]]] = []
        store_loop.dispatching.on_arrival.append(seen.append)
        await asyncio.gather(*(store_loop.put(form(queue_id=number % 3)) for number in range(9)))
        await until(lambda: store_loop.driver.undispatched == 0 and bool(seen))
        assert set().union(*seen) == {(TOPIC, 0), (TOPIC, 1), (TOPIC, 2)}
        count = len(seen)
        store_loop.dispatching.catch_up()
        assert len(seen) == count

    run(scenario, tmp_path)


def test_one_who_fails_at_an_arrival_does_not_keep_it_from_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        def fail(_: set[tuple[str, int]]) -> None:
            raise ZeroDivisionError("no")

        seen: list[set[tuple[str, int]]] = []
        store_loop.dispatching.on_arrival += [fail, seen.append]
        await store_loop.put(form())
        store_loop.dispatching.catch_up()
        assert seen == [{(TOPIC, 0)}]

    run(scenario, tmp_path)
    assert "while waking those who wait" in caplog.text


def test_message_on_its_way_is_shown_at_once_to_who_begins_to_wait_for_its_topic(tmp_path: Path) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        store_loop.driver.append_form(form())
        store_loop.durability.appended()
        gathering = store_loop.dispatching._handle
        assert gathering is not None
        store_loop.dispatching.await_topic(TOPIC)
        assert gathering.cancelled() and store_loop.dispatching._handle is not gathering
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert store_loop.store.max_offset(TOPIC, 0) == 1
        store_loop.dispatching.forget_topic(TOPIC)
        assert store_loop.dispatching.awaited == {}

    run(scenario, tmp_path, flush_disk_type="ASYNC_FLUSH")


def test_dispatch_follows_a_put_at_once(tmp_path: Path) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        await store_loop.put(form())
        assert store_loop.dispatching._handle is not None
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert store_loop.store.max_offset(TOPIC, 0) == 1

    run(scenario, tmp_path, flush_disk_type="ASYNC_FLUSH")


# The flush type, changed under load


@pytest.mark.parametrize("first", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_flush_type_may_be_changed_under_load_and_nobody_waits_in_vain(tmp_path: Path, first: str) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        stop = False
        results: list[PutResult] = []

        async def load() -> None:
            while not stop:
                results.append(await store_loop.put(form(b"x" * 100)))
                await asyncio.sleep(0)

        shown: list[bytes] = []

        async def watch() -> None:
            while not stop:
                store_loop.dispatching.catch_up()
                end = store_loop.store.max_offset(TOPIC, 0)
                while len(shown) < end:
                    found = store_loop.store.get(TOPIC, 0, len(shown))
                    assert found.messages and found.messages[0].queue_offset == len(shown), "a message was skipped"
                    shown.extend(message.body for message in found.messages)
                await asyncio.sleep(0)

        workers = [asyncio.ensure_future(load()) for _ in range(8)] + [asyncio.ensure_future(watch())]
        kinds = ["ASYNC_FLUSH", "SYNC_FLUSH"] if first == "SYNC_FLUSH" else ["SYNC_FLUSH", "ASYNC_FLUSH"]
        for _ in range(6):
            for kind in kinds:
                await store_loop.change_flush_disk_type(kind)
                assert store_loop.waits_for_sync == (kind == "SYNC_FLUSH") == store_loop.driver.sync_mode
                assert store_loop.store.options.flush_disk_type == kind
                await asyncio.sleep(0.01)
        stop = True
        await asyncio.wait_for(asyncio.gather(*workers), 20)
        assert {result.status for result in results} == {OK}
        await store_loop.run(store_loop.store.flush)
        store_loop.durability._acknowledge()
        store_loop.dispatching.catch_up()
        assert store_loop.store.max_offset(TOPIC, 0) == len(results)
        assert sorted(result.queue_offset for result in results) == list(range(len(results)))

    run(scenario, tmp_path, flush_disk_type=first)


def test_appends_that_wait_are_served_when_syncing_is_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        with held_syncs(monkeypatch) as held:
            waiting = [asyncio.ensure_future(store_loop.put(form())) for _ in range(5)]
            await begun(held)
            changing = asyncio.ensure_future(store_loop.change_flush_disk_type("ASYNC_FLUSH"))
            await until(lambda: not store_loop.waits_for_sync)
            assert (await store_loop.put(form(b"not waiting"))).ok
            assert not any(task.done() for task in waiting)
            held.permits.release(1000)
            await changing
            assert all(result.ok for result in await asyncio.gather(*waiting))

    run(scenario, tmp_path)


def test_unknown_flush_type_is_refused(tmp_path: Path) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        with pytest.raises(InvalidArgumentError):
            await store_loop.change_flush_disk_type("NEVER_FLUSH")
        assert store_loop.waits_for_sync

    run(scenario, tmp_path)


def test_flush_type_is_not_changed_when_the_disk_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        with held_syncs(monkeypatch) as held:
            waiting = asyncio.ensure_future(store_loop.put(form()))
            await begun(held)
            changing = asyncio.ensure_future(store_loop.change_flush_disk_type("ASYNC_FLUSH"))
            await until(lambda: not store_loop.waits_for_sync)
            held.failure = StoreIOError("sync", "log", OSError(5, "Input/output error"))
            held.permits.release(1000)
            with pytest.raises(StoreIOError):
                await changing
            assert (await waiting).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
            assert store_loop.waits_for_sync

    run(scenario, tmp_path)


# Blocking work


def test_blocking_work_does_not_block_the_loop(tmp_path: Path) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        released = threading.Event()
        working = asyncio.ensure_future(store_loop.run(released.wait, 30))
        assert (await store_loop.put(form())).ok
        released.set()
        assert await working is True

    run(scenario, tmp_path)


def test_saving_does_not_wait_behind_a_thousand_cold_reads(tmp_path: Path) -> None:
    async def scenario(store_loop: StoreLoop) -> None:
        released = threading.Event()
        reading = [asyncio.ensure_future(store_loop.run_cold(released.wait, 60)) for _ in range(1000)]
        try:
            assert await asyncio.wait_for(store_loop.run(lambda: "saved"), 30) == "saved"
            assert not any(read.done() for read in reading)
        finally:
            released.set()
        assert all(await asyncio.gather(*reading))

    run(scenario, tmp_path)
