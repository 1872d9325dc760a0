"""Log files made ahead of need, and the pool of memory that may take appends first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flaremq.errors import StoreIOError
from flaremq.message.message import Message
from flaremq.storage.files.allocation import AllocateMappedFileService, TransientStorePool
from flaremq.storage.files.filesystem import LocalFileSystem, LocalMapping
from flaremq.storage.files.mapped_file_queue import MappedFileQueue
from flaremq.storage.log.commit_log import CommitLog
from tests.support.crash_fs import CrashFS, Fault
from tests.support.store_lab import TOPIC, StoreLab, all_bodies, eventually

SIZE = 8192


def service_on(folder: Path, **options: int | bool) -> AllocateMappedFileService:
    filesystem = LocalFileSystem()
    queue = MappedFileQueue(filesystem, [str(folder)], SIZE)
    return AllocateMappedFileService(filesystem, queue, reserve_step=4096, **options)  # type: ignore[arg-type]


def names(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.iterdir())


def test_without_a_thread_a_file_is_made_when_it_is_taken(tmp_path: Path) -> None:
    service = service_on(tmp_path)
    service.request(0)
    assert names(tmp_path) == []
    assert service.take(0).start == 0
    assert names(tmp_path) == [0]


def test_the_next_file_and_the_one_after_it_are_made_ahead(tmp_path: Path) -> None:
    service = service_on(tmp_path)
    service.start()
    service.request(0)
    eventually(lambda: names(tmp_path) == [0, SIZE], "two files made")
    assert service.take(0).start == 0
    service.stop()


def test_pages_of_a_file_are_made_ready_by_the_thread(tmp_path: Path) -> None:
    service = service_on(tmp_path)
    assert not service.populate(service.take(0), 0, 4096)  # nobody there to do it
    service.start()
    file = service.take(SIZE)
    assert service.populate(file, 4096, SIZE)
    eventually(lambda: file.mapping().resident(4096, 4096) == b"\1", "the page is in memory")
    service.stop()


def test_stopping_deletes_files_that_were_not_used(tmp_path: Path) -> None:
    service = service_on(tmp_path)
    service.start()
    service.take(0)
    service.stop()
    assert names(tmp_path) == [0]


def test_taking_after_stop_is_an_error_not_a_wait(tmp_path: Path) -> None:
    service = service_on(tmp_path)
    service.start()
    service.stop()
    with pytest.raises(StoreIOError, match="closing"):
        service.take(0)


@pytest.mark.parametrize("threads", [False, True])
def test_failure_to_make_a_file_reaches_the_taker_and_passes(threads: bool) -> None:
    disk = CrashFS(faults=[Fault(kind="enospc", at=1, operations=frozenset({"reserve"}))])
    disk.make_directories("/log")
    service = AllocateMappedFileService(disk, MappedFileQueue(disk, ["/log"], SIZE), reserve_step=4096)
    if threads:
        service.start()
    with pytest.raises(StoreIOError):
        service.take(0)
    assert disk.list_directory("/log") == []  # no half-made file
    assert service.take(0).start == 0
    service.stop()


def test_warmed_file_is_all_zeros_and_usable(tmp_path: Path) -> None:
    file = service_on(tmp_path, warm_up=True, warm_sync_pages=1).take(0)
    assert bytes(file.buffer) == bytes(SIZE)
    assert file.wrote == 0


class LockedMappings:
    """Notes what is locked in memory; the system says yes or no as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, allowed: bool = True) -> None:
        self.locked: list[tuple[int, int]] = []
        self.unlocked = 0
        monkeypatch.setattr(LocalMapping, "lock", lambda _, at, length: self.locked.append((at, length)) or allowed)
        monkeypatch.setattr(LocalMapping, "unlock", lambda _: self._unlock())

    def _unlock(self) -> None:
        self.unlocked += 1


def test_warm_up_takes_and_touches_and_locks_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mappings = LockedMappings(monkeypatch)
    file = service_on(tmp_path, warm_up=True).take(0)
    assert file.reserved == SIZE
    assert file.mapping().resident(0, SIZE) == b"\x01" * (SIZE // 4096)
    assert mappings.locked == [(0, SIZE)]
    assert os.stat(file.path).st_blocks * 512 >= SIZE


def test_file_is_unlocked_when_it_is_full_and_durable(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    mappings = LockedMappings(monkeypatch)
    lab.open(warm_maped_file_enable=True)
    lab.put(b"x")
    assert mappings.unlocked == 0
    lab.fill_files(1)
    assert mappings.unlocked == 1


def test_memory_that_cannot_be_locked_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    LockedMappings(monkeypatch, allowed=False)
    service = service_on(tmp_path, warm_up=True)
    service.take(0)
    service.take(SIZE)
    assert caplog.text.count("could not be locked in memory") == 1


def test_memory_of_the_pool_is_locked(caplog: pytest.LogCaptureFixture) -> None:
    locked: list[int] = []
    TransientStorePool(4096, 2, lock=lambda buffer: bool(locked.append(buffer.nbytes)) or True)
    assert locked == [4096, 4096] and not caplog.text
    TransientStorePool(4096, 2, lock=lambda buffer: False)
    assert caplog.text.count("could not be locked in memory") == 1


def test_files_are_made_ahead_from_the_first_append_after_opening(lab: StoreLab) -> None:
    lab.open()
    lab.put(b"x")
    lab.reopen(threads=True)
    assert len(lab.log_files()) == 1  # who only reads needs none
    lab.put(b"y")
    eventually(lambda: len(lab.log_files()) == 3, "two files prepared before the first roll")


def test_clean_stop_of_a_store_leaves_no_unused_file(lab: StoreLab) -> None:
    lab.open(threads=True)
    lab.put()
    eventually(lambda: len(lab.log_files()) == 3, "two files prepared")
    lab.close()
    assert len(lab.log_files()) == 1


def test_prepared_files_left_by_a_crash_are_tolerated(lab: StoreLab) -> None:
    lab.open(threads=True)
    lab.put(b"first")
    eventually(lambda: len(lab.log_files()) == 3, "two files prepared")
    lab.kill_and_open()
    assert all_bodies(lab.store) == [b"first"]
    assert lab.put(b"second").queue_offset == 1


# The transient pool


def test_pool_lends_each_buffer_once() -> None:
    pool = TransientStorePool(4096, 2)
    first, second = pool.borrow(), pool.borrow()
    assert first is not None and second is not None and pool.borrow() is None
    pool.give_back(first)
    assert pool.available_count == 1
    assert pool.borrow() is first


def test_pooled_message_is_invisible_until_committed(lab: StoreLab) -> None:
    store = lab.open(flush_disk_type="ASYNC_FLUSH", transient_store_pool_enable=True)
    result = lab.put(b"pooled")
    assert store.max_offset(TOPIC, 0) == 0
    assert store.read(result.physical_offset) is None
    store.flush()
    store.wait_for_dispatch(0)
    assert all_bodies(store) == [b"pooled"]


def test_pool_writes_the_same_log_as_the_mapping(lab: StoreLab, tmp_path: Path) -> None:
    other = StoreLab(tmp_path / "pooled")
    for bench, pool in ((lab, False), (other, True)):
        bench.open(flush_disk_type="ASYNC_FLUSH", transient_store_pool_enable=pool)
        for number in range(60):
            bench.put(b"b%d" % number * 100, queue_id=number % 2, keys=f"k{number}")
        bench.reopen()
        bench.put_many(5)
        bench.close()
    assert lab.log_bytes() == other.log_bytes()
    assert lab.queue_bytes() == other.queue_bytes()
    other.finish()


def test_pool_survives_more_files_than_it_has_buffers(lab: StoreLab) -> None:
    store = lab.open(flush_disk_type="ASYNC_FLUSH", transient_store_pool_enable=True, transient_store_pool_size=1)
    results = lab.fill_files(4)
    store.flush()
    store.wait_for_dispatch(0)
    assert len(all_bodies(store)) == len(results)


def test_killed_process_loses_only_what_the_pool_had_not_committed(lab: StoreLab) -> None:
    store = lab.open(flush_disk_type="ASYNC_FLUSH", transient_store_pool_enable=True)
    lab.put(b"committed")
    store.flush()
    lab.put(b"only in memory")
    lab.kill_and_open()
    assert all_bodies(lab.store) == [b"committed"]


def test_sync_flush_with_the_pool_acknowledges_only_what_is_in_the_file(lab: StoreLab) -> None:
    lab.open(transient_store_pool_enable=True)
    lab.put(b"acknowledged")
    lab.kill_and_open()
    assert all_bodies(lab.store) == [b"acknowledged"]


def test_append_between_commit_and_sync_does_not_count_as_durable(
    lab: StoreLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = lab.open(flush_disk_type="ASYNC_FLUSH", transient_store_pool_enable=True)
    lab.put(b"before")
    commit = CommitLog.commit

    def commit_then_append(self: CommitLog) -> None:
        commit(self)
        monkeypatch.undo()
        store.put(Message(TOPIC, b"too late for this sync"))  # as another thread may do at this moment

    monkeypatch.setattr(CommitLog, "commit", commit_then_append)
    store.flush()
    assert store.flushed_offset <= store._commit_log.committed_offset
