"""Known weak points of RocketMQ's store, by their number in the format page, and that ours does not share them.

Points with a page of their own: W-2 test_flush, W-9 test_get, W-11 test_recovery_damage, W-15 test_lifecycle,
W-16 and W-17 test_put, W-31 test_query.
"""

from __future__ import annotations

import shutil

import pytest

from flaremq.clock import ManualClock
from flaremq.errors import CorruptionError, StoreIOError
from flaremq.message.message import Message
from flaremq.storage.files.checkpoint import StoreCheckpoint
from flaremq.storage.message_store import MessageStore
from flaremq.storage.queue.consume_queue import FILLER
from flaremq.storage.runtime.health import RunningFlag
from flaremq.storage.status import PutMessageStatus
from tests.support.crash_fs import CrashFS, SubsetChooser
from tests.support.raw_store import local_files, read_log, read_queue
from tests.support.store_lab import LOG_FILE, SMALL, TOPIC, StoreLab, all_bodies, bodies


def pause_dispatch(store: MessageStore) -> None:
    store._dispatch.run = lambda: None  # type: ignore[method-assign]


def resume_dispatch(store: MessageStore) -> None:
    del store._dispatch.run


def test_w1_keys_from_before_a_crash_are_still_found(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(5, keys="old")
    lab.reopen()
    lab.put_many(5, keys="new")
    lab.kill_and_open()
    found = [len(lab.store.query(TOPIC, key, 64)) for key in ("old", "new")]
    assert found == [5, 5]


def test_w1_index_survives_a_power_cut_that_loses_everything_unsynced() -> None:
    disk = CrashFS()
    for run in range(3):
        store = MessageStore.open("/store", SMALL, filesystem=disk, clock=ManualClock(), threads=False)
        assert [len(store.query(TOPIC, f"run-{n}", 64)) for n in range(run)] == [30] * run
        for _ in range(30):
            store.put(Message(TOPIC, b"x", keys=f"run-{run}"))
        disk = disk.crash(SubsetChooser(0))


def test_w3_checkpoint_never_claims_what_a_power_cut_can_take() -> None:
    clock, disk = ManualClock(), CrashFS()
    options = SMALL
    store = MessageStore.open("/store", options, filesystem=disk, clock=clock, threads=False)
    for number in range(12):
        clock.advance(10)
        store.put(Message(TOPIC, b"%d" % number, keys="k", wait_store_msg_ok=number % 3 == 0))
        if number % 4 == 1:
            store.tick()
        after = disk.crash(SubsetChooser(0))
        claimed = StoreCheckpoint.load(after, "/store/checkpoint")
        log = read_log(after.files(), "/store")
        units = read_queue(after.files(), "/store", TOPIC, 0)
        stored = [record.store_timestamp for record in log.records]
        assert claimed.physic_msg_timestamp <= max(stored, default=0)
        in_queue = [stored[offset] for offset in units if offset < len(stored)]
        assert claimed.logics_msg_timestamp <= max(in_queue, default=0)


def test_w4_message_is_invisible_until_it_is_on_disk(lab: StoreLab) -> None:
    store = lab.open()
    result = lab.put(b"not yet", wait_store_msg_ok=False, keys="k")
    assert store.max_offset(TOPIC, 0) == 0
    assert store.read(result.physical_offset) is None
    assert store.query(TOPIC, "k") == []
    store.flush()
    store.wait_for_dispatch(0)
    assert all_bodies(store) == [b"not yet"]


def test_w5_unreadable_bytes_in_a_running_store_cost_one_message(lab: StoreLab) -> None:
    store = lab.open()
    lab.put(b"fine")
    pause_dispatch(store)
    result = lab.put(b"changed in memory")
    lab.put(b"behind it")
    buffer = store._commit_log.files.files[0].buffer
    buffer[result.physical_offset + 4] ^= 0xFF
    resume_dispatch(store)
    store._dispatch.run()
    assert all_bodies(store) == [b"fine", b"behind it"]
    assert lab.put(b"and on").queue_offset == 3
    buffer[result.physical_offset + 4] ^= 0xFF
    del buffer
    lab.broken_on_purpose = True  # the filler stays until somebody rebuilds the queues
    lab.reopen()
    assert all_bodies(lab.store) == [b"fine", b"behind it", b"and on"]


def test_w6_units_keep_their_place_behind_a_gap(lab: StoreLab) -> None:
    store = lab.open()
    lab.put(b"zero")
    store._writer.queue_offsets[TOPIC][0] = 5  # a record in between never came to be
    lab.put(b"five")
    units = read_queue(local_files(str(lab.root)), str(lab.root), TOPIC, 0)
    assert [units[offset] == FILLER for offset in range(6)] == [False, True, True, True, True, False]
    assert [message.queue_offset for message in store.get(TOPIC, 0, 0).messages] == [0, 5]
    assert store.get(TOPIC, 0, 2, 1).messages[0].body == b"five"
    lab.broken_on_purpose = True


@pytest.mark.parametrize("killed", [False, True])
def test_w7_filler_is_recognised_after_a_restart(lab: StoreLab, killed: bool) -> None:
    store = lab.open()
    store._writer.queue_offsets.setdefault(TOPIC, {})[0] = 33  # a replica that joined late
    lab.put_many(3)
    lab.broken_on_purpose = True
    lab.kill_and_open() if killed else lab.reopen()
    store = lab.store
    assert (store.min_offset(TOPIC, 0), store.max_offset(TOPIC, 0)) == (33, 36)
    assert store._queues.max_physical_offset == store.max_physical_offset
    assert lab.put(b"body 003").queue_offset == 36
    assert all_bodies(store) == [b"body %03d" % n for n in range(4)]


def test_w8_cut_log_is_zero_on_disk_whatever_a_power_cut_takes() -> None:
    disk = CrashFS()
    store = MessageStore.open("/store", SMALL, filesystem=disk, clock=ManualClock(), threads=False)
    results = [store.put(Message(TOPIC, b"%d" % n, wait_store_msg_ok=False)) for n in range(6)]
    disk = disk.kill()
    path = "/store/commitlog/" + "0" * 20
    content = bytearray(disk.files()[path])
    content[results[2].physical_offset + 88] ^= 0xFF
    disk.overwrite(path, bytes(content))
    MessageStore.open("/store", SMALL, filesystem=disk, clock=ManualClock(), threads=False).abandon()
    for seed in range(5):
        log = read_log(disk.crash(seed).files(), "/store")
        assert (len(log.records), log.stale) == (2, [])


@pytest.mark.parametrize("abort", [False, True])
def test_w10_store_with_queues_but_no_log_is_refused_untouched(lab: StoreLab, abort: bool) -> None:
    lab.open()
    lab.put_many(3)
    lab.kill() if abort else lab.close()
    shutil.move(lab.root / "commitlog", lab.root.parent / "elsewhere")
    before = lab.queue_bytes()
    with pytest.raises(CorruptionError, match="no commit log"):
        lab.open()
    assert lab.queue_bytes() == before
    shutil.rmtree(lab.root / "commitlog")
    shutil.move(lab.root.parent / "elsewhere", lab.root / "commitlog")
    assert len(all_bodies(lab.open())) == 3


def test_w12_queue_error_passes_when_the_disk_is_fine_again() -> None:
    disk = CrashFS()
    store = MessageStore.open("/store", SMALL, filesystem=disk, clock=ManualClock(), threads=False)
    store.put(Message(TOPIC, b"0"))

    def broken(operation: str, path: str) -> None:
        if operation == "write" and "/consumequeue/" in path:
            raise StoreIOError("write", path, OSError(5, "Input/output error"))

    disk.observer = broken
    assert store.put(Message(TOPIC, b"1")).ok  # in the log, durable; only its unit is late
    assert store.health & RunningFlag.LOGIC_QUEUE_ERROR
    assert store.put(Message(TOPIC, b"2")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    disk.observer = None
    store.tick()
    assert not store.health & RunningFlag.LOGIC_QUEUE_ERROR
    assert store.put(Message(TOPIC, b"2")).ok
    assert all_bodies(store) == [b"0", b"1", b"2"]
    store.close()


def test_w14_message_stays_valid_while_its_file_is_deleted_and_the_store_closed(lab: StoreLab) -> None:
    store = lab.open()
    lab.fill_files(3)
    message = store.get(TOPIC, 0, 0, 1).messages[0]
    store.delete_expired(force=True)
    store.tick()
    lab.close()
    assert message.body == b"x" * 2000


@pytest.mark.parametrize("name", [f"{LOG_FILE:020d}", "notes.txt", "12345"])
def test_w22_empty_or_foreign_log_file_does_not_stop_the_store(lab: StoreLab, name: str) -> None:
    lab.open()
    lab.put_many(3)
    lab.kill()
    (lab.root / "commitlog" / name).write_bytes(b"")
    lab.broken_on_purpose = True
    assert len(all_bodies(lab.open())) == 3
    lab.fill_files(2)


@pytest.mark.parametrize("length", [0, 7, 380])
def test_w22_short_last_queue_file_is_repaired(lab: StoreLab, length: int) -> None:
    lab.open()
    lab.put_many(25)
    lab.kill()
    path = lab.queue_files()[-1]
    path.write_bytes(path.read_bytes()[:length])
    assert len(all_bodies(lab.open())) == 25


def test_w22_short_last_index_file_is_repaired(lab: StoreLab) -> None:
    lab.open()
    lab.put_many(5, keys="k")
    lab.kill()
    path = next((lab.root / "index").iterdir())
    path.write_bytes(b"")
    assert len(lab.open().query(TOPIC, "k", 64)) == 5


@pytest.mark.parametrize("killed", [False, True])
def test_w25_queue_with_an_empty_last_file_opens(lab: StoreLab, killed: bool) -> None:
    lab.open()
    lab.put_many(20)  # exactly one file of 20 units
    lab.kill() if killed else lab.close()
    first = lab.queue_files()[0]
    first.with_name(f"{400:020d}").write_bytes(bytes(400))
    store = lab.open()
    assert store.max_offset(TOPIC, 0) == 20
    assert lab.put().queue_offset == 20


@pytest.mark.parametrize("killed", [False, True])
def test_w25_queue_folder_without_a_file_opens(lab: StoreLab, killed: bool) -> None:
    lab.open()
    lab.put_many(3)
    lab.kill() if killed else lab.close()
    (lab.root / "consumequeue" / "empty" / "0").mkdir(parents=True)
    store = lab.open()
    assert (store.min_offset("empty", 0), store.max_offset("empty", 0)) == (0, 0)
    assert lab.put(topic="empty").queue_offset == 0
    assert bodies(store.get("empty", 0, 0).messages) == [b"body"]


def test_w25_queue_cut_to_nothing_has_a_sound_range(lab: StoreLab) -> None:
    lab.open(flush_disk_type="ASYNC_FLUSH")
    first = lab.put(topic="keeps")
    gone = lab.put(topic="loses")
    lab.kill()
    lab.damage_log(gone.physical_offset + 4)
    store = lab.open()
    assert store.max_physical_offset == first.size
    assert (store.min_offset("loses", 0), store.max_offset("loses", 0)) == (0, 0)
    assert lab.put(topic="loses").queue_offset == 0


def test_w32_closing_a_store_that_is_behind_drains_it_and_is_clean(lab: StoreLab) -> None:
    store = lab.open()
    pause_dispatch(store)
    lab.put_many(50, keys="k")
    assert store.dispatch_lag_bytes > 0
    resume_dispatch(store)
    lab.close()
    assert not lab.abort.exists()
    report = lab.open().recovery
    assert report.closed_cleanly and report.started_at == lab.store.max_physical_offset
    assert len(all_bodies(lab.store)) == 50
