"""When cleaning happens: soon after the disk is full or free again, and never in the way of anything else."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from flaremq.clock import ManualClock
from flaremq.message.message import Message
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.files.handles import HandleCache
from flaremq.storage.files.queue_files import QueueFiles
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from flaremq.storage.queue.batch_consume_queue import BatchUnit
from flaremq.storage.queue.consume_queue import FILLER, UNIT
from flaremq.storage.queue.consume_queue_ext import ConsumeQueueExt
from flaremq.storage.runtime.health import RunningFlag
from flaremq.storage.status import PutMessageStatus
from tests.support.crash_fs import CrashFS
from tests.support.driven_store import BORN_HOST, open_driven
from tests.support.store_lab import LOG_FILE, SMALL, TOPIC, MeasuredFileSystem, StoreLab, eventually

WITHIN_SECONDS = 5


@pytest.fixture
def disk(lab: StoreLab) -> MeasuredFileSystem:
    lab.filesystem = MeasuredFileSystem(0.1)
    return lab.filesystem


def second_passes(store: MessageStore, clock: ManualClock) -> None:
    """What the two threads of upkeep do in a second."""
    clock.advance(1000)
    store._engine.maintenance_step()
    store._engine.cleaner.step()


def seconds_until_writable(store: MessageStore, clock: ManualClock) -> int:
    """With a producer that tries all the time."""
    for seconds in range(100):
        if store.put(Message(TOPIC, b"x" * 500)).ok:
            return seconds
        second_passes(store, clock)
    raise AssertionError("the store never took a message again")


# Back from a full disk


def test_store_started_on_a_full_disk_serves_soon_after_space_is_freed(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    disk.used = 0.97
    store = lab.open()
    assert store.put(Message(TOPIC, b"x")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    disk.used = 0.5
    assert seconds_until_writable(store, lab.clock) <= WITHIN_SECONDS


def test_running_store_serves_soon_after_space_is_freed(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    store = lab.open()
    lab.clock.advance(3_600_000)
    second_passes(store, lab.clock)
    disk.used = 0.97
    second_passes(store, lab.clock)
    assert not store.is_writable
    disk.used = 0.85
    assert seconds_until_writable(store, lab.clock) <= WITHIN_SECONDS


@pytest.mark.parametrize("age_seconds", [0, 3600])
@pytest.mark.parametrize("driven", [False, True])
def test_retention_brings_a_full_disk_back_again_and_again(age_seconds: int, driven: bool) -> None:
    """A disk that only the store fills: puts are refused above 90 % and deletion gets it below 85 %."""
    clock = ManualClock()
    filesystem = CrashFS(capacity=60 * LOG_FILE, now_ms=clock.now_ms)
    options = StoreOptions(
        mapped_file_size_commit_log=LOG_FILE,
        mapped_file_size_consume_queue=20 * 20,
        max_hash_slot_num=16,
        max_index_num=64,
        reserve_step_commit_log=LOG_FILE,
        reserve_step_index=4096,
    )
    store = MessageStore.open("/store", options, filesystem=filesystem, clock=clock, threads=False, driven=driven)
    clock.advance(age_seconds * 1000)
    for _ in range(10):
        refused = None
        for number in range(20_000):
            result = store.put(Message(TOPIC, b"x" * 2000))
            if not result.ok:
                refused = result.status
                break
            store.flush()
            store._dispatch.run()
            if number % 20 == 0:
                store._engine.cleaner.look()  # what a thread does every second
                clock.advance(1000)
        assert refused is not None, "the disk never filled"
        assert seconds_until_writable(store, clock) <= WITHIN_SECONDS
    store.close()
    assert not filesystem.violations


def test_disk_without_any_room_left_gets_the_checkpoint_that_deletion_needs(lab: StoreLab) -> None:
    clock = ManualClock()
    filesystem = CrashFS(now_ms=clock.now_ms)
    store = MessageStore.open("/store", SMALL, filesystem=filesystem, clock=clock, threads=False)
    for _ in range(60):
        assert store.put(Message(TOPIC, b"x" * 2000)).ok
    filesystem.capacity = filesystem.used_bytes()  # somebody else took the rest: not one page is left
    assert store._engine.retention.run_round() > 0
    assert seconds_until_writable(store, clock) <= WITHIN_SECONDS
    store.close()


def test_put_that_met_the_end_of_the_disk_wakes_the_cleaner(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    """The disk was full before the watermark told: expired files go now, not in the hour of deleteWhen."""
    hour = (lab.clock.now_ms() // 3_600_000 + 12) % 24
    store = lab.open(delete_when=f"{hour:02d}")
    lab.fill_files(4)
    lab.clock.advance(73 * 3_600_000)
    store._engine.cleaner.step()
    files = len(lab.log_files())
    store._commit_log.no_space_count += 1
    second_passes(store, lab.clock)
    assert len(lab.log_files()) < files


def test_nothing_is_deleted_in_the_first_minute_unless_somebody_wants_to_write(
    lab: StoreLab, disk: MeasuredFileSystem
) -> None:
    lab.open()
    lab.fill_files(4)
    disk.used = 0.95
    store = lab.reopen()
    for _ in range(50):
        second_passes(store, lab.clock)
    assert len(lab.log_files()) == 5
    store.put(Message(TOPIC, b"x"))
    second_passes(store, lab.clock)
    assert len(lab.log_files()) == 1


def test_refused_messages_are_told_in_one_line_now_and_then(
    lab: StoreLab, disk: MeasuredFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    store = lab.open()
    disk.used = 0.95
    with caplog.at_level(logging.INFO, "flaremq.storage"):
        for _ in range(30):
            for _ in range(1000):
                assert not store.put(Message(TOPIC, b"x")).ok or store.is_writable
            second_passes(store, lab.clock)
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) <= 6, lines
    assert any("messages were refused" in line for line in lines)


def test_disk_without_room_for_the_next_file_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    filesystem = CrashFS()
    store = MessageStore.open("/store", SMALL, filesystem=filesystem, clock=ManualClock(), threads=True)
    assert store.put(Message(TOPIC, b"x" * 9000)).ok
    filesystem.capacity = filesystem.used_bytes()
    for _ in range(50):
        store.put(Message(TOPIC, b"x" * 9000))
    store.abandon()
    assert sum("could not prepare" in record.getMessage() for record in caplog.records) <= 1


def test_queue_error_of_a_driven_store_goes_when_units_can_be_written_again(lab: StoreLab) -> None:
    driver = open_driven(lab)
    store = lab.store
    driver.append(TOPIC, 0, b"x", b"", 0, 0, 1, BORN_HOST, 0)
    driver.sync()
    driver.dispatch()
    store.health_state.set(RunningFlag.LOGIC_QUEUE_ERROR, "as after a drain on a full disk")
    second_passes(store, lab.clock)
    assert store.is_writable


# Not in the way of others


@pytest.mark.slow
def test_checkpoints_and_disk_checks_go_on_during_a_long_deletion(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    store = lab.open(threads=True)
    lab.fill_files(4)
    inside, leave = threading.Event(), threading.Event()

    def pause(seconds: float) -> bool:
        inside.set()
        return not leave.wait(30)

    store._engine.retention._pause = pause
    disk.used = 0.95
    lab.clock.advance(61_000)
    assert inside.wait(30), "the cleaning thread deletes"
    disk.used = 0.2
    lab.clock.advance(2_000)
    eventually(lambda: store.is_writable, "the disk was looked at meanwhile")
    lab.put(b"new")
    lab.clock.advance(120_000)
    eventually(
        lambda: store._engine.checkpointer.dispatched == store.max_physical_offset, "a checkpoint was taken meanwhile"
    )
    leave.set()


@pytest.mark.slow
def test_closing_does_not_wait_for_the_pauses_of_a_long_deletion(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    store = lab.open(threads=True, delete_commit_log_files_interval=3_600_000)
    lab.fill_files(4)
    store.wait_for_dispatch()
    disk.used = 0.95
    lab.clock.advance(61_000)
    eventually(lambda: store.min_physical_offset > 0, "the first file is deleted")
    lab.close()
    disk.used = 0.1


def test_draining_many_queues_looks_at_each_of_them_once(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = open_driven(lab)
    queues = 500
    for _ in range(2):
        for queue_id in range(queues):
            driver.append(TOPIC, queue_id, b"x", b"", 0, 0, 1, BORN_HOST, 0)
    driver.sync()
    driver.dispatch()
    looked: list[int] = []
    queue_type = type(lab.store._queues.simple[(TOPIC, 0)])
    plain = queue_type.has_tail
    monkeypatch.setattr(queue_type, "has_tail", property(lambda self: looked.append(1) or plain.fget(self)))  # type: ignore[attr-defined]
    lab.store._dispatch.drain_queues()
    assert len(looked) <= queues
    assert not lab.store._queues.with_tail()


# Queue files follow


def test_queue_file_that_ends_in_filler_stays_while_units_before_it_live(lab: StoreLab) -> None:
    store = lab.open(mapped_file_size_consume_queue=20 * 4)
    lab.put_many(9)
    lab.broken_on_purpose = True  # a unit becomes filler, as where a record was damaged
    queue = store._queues.simple[(TOPIC, 0)]
    kept = queue.unit(2)
    assert kept is not None
    queue.replace(3, FILLER)
    assert queue.drop_files_before(kept[0]) == 0
    assert queue.drop_files_before(kept[0] + 1) == 1
    assert queue.first_offset == 4


def test_queue_file_whose_last_unit_is_damaged_goes_with_the_units_before_it(lab: StoreLab) -> None:
    store = lab.open(mapped_file_size_consume_queue=20 * 4)
    results = lab.put_many(9)
    lab.broken_on_purpose = True
    queue = store._queues.simple[(TOPIC, 0)]
    queue.replace(3, UNIT.pack(2**60, 100, 0))
    assert queue.drop_files_before(results[2].physical_offset) == 0
    assert queue.drop_files_before(results[4].physical_offset) == 1


def test_files_of_batch_and_ext_queues_follow_the_log_too(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    store = lab.open(mapper_file_size_batch_consume_queue=46 * 2)
    results = lab.fill_files(4)
    lab.broken_on_purpose = True  # units that only this test wrote
    batch = store._queues.get_or_create_batch("batches", 0)
    for number, result in enumerate(results):
        batch.append(BatchUnit(result.physical_offset, result.size, 0, 1, number * 3, 3))
    ext_size = 100
    ext = store._queues.ext[(TOPIC, 0)] = ConsumeQueueExt(
        files_in(lab.root / "consumequeueext" / TOPIC / "0", ext_size)
    )
    queue = store._queues.simple[(TOPIC, 0)]
    for number, result in enumerate(results):
        ext.files.write(number * 20, b"e" * 20)
        queue.replace(number, UNIT.pack(result.physical_offset, result.size, number * 20 - 2**63))
    assert store.delete_expired(force=True) == 4
    low = next(n for n, result in enumerate(results) if result.physical_offset >= store.min_physical_offset)
    assert batch.min_offset == 3 * low
    assert batch.files.begin == min(low // 2, (len(results) - 1) // 2) * 92
    assert ext.files.begin == min(low * 20 // ext_size, (len(results) - 1) * 20 // ext_size) * ext_size


def files_in(folder: Path, size: int) -> QueueFiles:
    filesystem = LocalFileSystem()
    return QueueFiles(filesystem, HandleCache(filesystem), str(folder), size)


def test_forced_deletion_stops_as_soon_as_there_is_room(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    store = lab.open()
    lab.fill_files(6)
    pauses: list[float] = []
    store._engine.retention._pause = lambda seconds: bool(pauses.append(seconds))
    files = len(lab.log_files())
    disk.used_by = lambda: 0.84 if len(lab.log_files()) <= files - 2 else 0.95
    assert store._engine.retention.run_round() == 2
    assert store.is_writable and not pauses


def test_store_opens_on_a_disk_without_a_free_page(lab: StoreLab) -> None:
    clock = ManualClock()
    filesystem = CrashFS(now_ms=clock.now_ms)
    with MessageStore.open("/store", SMALL, filesystem=filesystem, clock=clock, threads=False) as store:
        for _ in range(60):
            assert store.put(Message(TOPIC, b"x" * 2000)).ok
    filesystem.capacity = filesystem.used_bytes()
    store = MessageStore.open("/store", SMALL, filesystem=filesystem, clock=clock, threads=False)
    assert filesystem.exists("/store/abort")
    assert not store.put(Message(TOPIC, b"x" * 2000)).ok
    filesystem.capacity = 1 << 30
    assert seconds_until_writable(store, clock) <= WITHIN_SECONDS
    store.abandon()
    after = MessageStore.open("/store", SMALL, filesystem=filesystem.kill(), clock=clock, threads=False)
    assert after.max_offset(TOPIC, 0) == 61
    after.close()
