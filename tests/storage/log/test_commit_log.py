"""The log as the store writes it: framing, fillers at file ends, rolling, durability, store times."""

from __future__ import annotations

import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from flaremq.message.message import Message
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.files.mapped_file import PAGE
from flaremq.storage.files.mapped_file_queue import MappedFileQueue
from tests.support.raw_store import MAGIC_BLANK, local_files, read_log
from tests.support.store_lab import LOG_FILE, SMALL, TOPIC, StoreLab, all_bodies, eventually

OVERHEAD = 91 + len(TOPIC)


def exact_body(record_size: int) -> bytes:
    return b"x" * (record_size - OVERHEAD)


def blank_at(lab: StoreLab, offset: int) -> tuple[int, int]:
    size, magic = struct.unpack_from(">iI", lab.log_bytes(), offset)
    return size, magic


def test_records_follow_each_other_without_a_gap(lab: StoreLab) -> None:
    lab.open()
    results = [lab.put(b"x" * n) for n in (0, 1, 500)]
    assert [result.size for result in results] == [OVERHEAD, OVERHEAD + 1, OVERHEAD + 500]
    assert [result.physical_offset for result in results] == [0, OVERHEAD, 2 * OVERHEAD + 1]
    assert lab.store.max_physical_offset == 3 * OVERHEAD + 501


def test_record_that_leaves_exactly_eight_bytes_still_fits(lab: StoreLab) -> None:
    lab.open()
    lab.put(exact_body(LOG_FILE - 8))
    assert len(lab.log_files()) == 1
    following = lab.put(b"next")
    assert following.physical_offset == LOG_FILE
    assert blank_at(lab, LOG_FILE - 8) == (8, MAGIC_BLANK)


@pytest.mark.parametrize("spare", [0, 1, 7])
def test_record_that_would_leave_fewer_than_eight_bytes_moves_to_the_next_file(lab: StoreLab, spare: int) -> None:
    lab.open()
    first = lab.put(exact_body(1000))
    moved = lab.put(exact_body(LOG_FILE - 1000 - spare))
    assert (first.physical_offset, moved.physical_offset) == (0, LOG_FILE)
    assert blank_at(lab, 1000) == (LOG_FILE - 1000, MAGIC_BLANK)


def test_blocks_behind_the_end_of_a_log_that_is_synced_all_the_time_are_written_ahead(tmp_path: Path) -> None:
    lab = StoreLab(tmp_path, replace(SMALL, mapped_file_size_commit_log=1 << 20, reserve_step_commit_log=1 << 20))
    lab.open(threads=True, flush_disk_type="SYNC_FLUSH")
    end = lab.put(b"first").size
    file = LocalFileSystem().open(str(lab.log_files()[0]), read_only=True)
    # Reserved blocks that nothing was written to are a hole to the file system.
    eventually(lambda: file.data_end() >= 64 * PAGE, "zeros written ahead")
    assert not any(file.read_at(end, 1 << 20))
    lab.close()
    lab.open()
    assert all_bodies(lab.store) == [b"first"]


def test_every_record_is_read_back_by_an_independent_parser(lab: StoreLab) -> None:
    lab.open()
    results = [lab.put(b"b%d" % n * 50, tags="A", keys=f"k{n}", queue_id=n % 3) for n in range(200)]
    lab.close()
    log = read_log(local_files(str(lab.root)), str(lab.root))
    assert log.problems == []
    assert [record.physical_offset for record in log.records] == [r.physical_offset for r in results]
    assert [record.body for record in log.records] == [b"b%d" % n * 50 for n in range(200)]
    assert len(lab.log_files()) > 2


def test_batch_is_never_split_over_two_files(lab: StoreLab) -> None:
    lab.open()
    lab.put(exact_body(LOG_FILE - 1000))
    result = lab.store.put_batch([Message(TOPIC, exact_body(400)) for _ in range(3)])
    assert result.physical_offset == LOG_FILE
    assert blank_at(lab, LOG_FILE - 1000) == (1000, MAGIC_BLANK)
    assert lab.store.get(TOPIC, 0, 1).messages[-1].physical_offset == LOG_FILE + 800


def test_store_time_does_not_go_back_with_a_small_step_of_the_clock(lab: StoreLab) -> None:
    store = lab.open()
    first = lab.put()
    lab.clock.jump(-5_000)
    assert store.put(Message(TOPIC, b"x")).store_timestamp == first.store_timestamp
    assert store.put_batch([Message(TOPIC, b"y")]).store_timestamp == first.store_timestamp


def test_clock_that_was_hours_ahead_is_believed_when_corrected(lab: StoreLab) -> None:
    store = lab.open()
    lab.put()
    lab.clock.jump(-3_600_000)
    assert store.put(Message(TOPIC, b"x")).store_timestamp == lab.clock.now_ms()


def test_log_continues_after_reopening_in_the_middle_of_a_file(lab: StoreLab) -> None:
    lab.open()
    before = lab.put_many(3)
    lab.reopen()
    after = lab.put(b"after")
    assert after.physical_offset == before[-1].physical_offset + before[-1].size
    assert after.queue_offset == 3


def test_log_continues_after_reopening_with_the_last_file_full(lab: StoreLab) -> None:
    lab.open()
    lab.put(exact_body(LOG_FILE - 8))
    lab.reopen()
    assert lab.put(b"after").physical_offset == LOG_FILE
    assert len(all_bodies(lab.store)) == 2


def test_sync_flush_makes_each_put_durable(lab: StoreLab) -> None:
    store = lab.open()
    lab.put()
    assert store.flushed_offset == store.max_physical_offset


def test_async_flush_makes_puts_durable_at_flush(lab: StoreLab) -> None:
    store = lab.open(flush_disk_type="ASYNC_FLUSH")
    lab.put_many(3)
    assert store.flushed_offset == 0
    assert store.flush() == store.max_physical_offset == store.flushed_offset


def test_flush_covers_a_range_of_several_files(lab: StoreLab) -> None:
    store = lab.open(flush_disk_type="ASYNC_FLUSH")
    lab.fill_files(3)
    store.flush()
    assert store.flushed_offset == store.max_physical_offset > 3 * LOG_FILE


@pytest.mark.parametrize("pool", [False, True])
def test_dispatch_in_the_middle_of_a_roll_finds_no_error(
    lab: StoreLab, monkeypatch: pytest.MonkeyPatch, pool: bool
) -> None:
    store = lab.open(flush_disk_type="ASYNC_FLUSH", transient_store_pool_enable=pool)
    append = MappedFileQueue.append

    def dispatch_then_append(self: MappedFileQueue, file: object) -> None:
        store._dispatch.run()  # what the dispatch thread may do while another thread rolls the log
        append(self, file)  # type: ignore[arg-type]

    monkeypatch.setattr(MappedFileQueue, "append", dispatch_then_append)
    lab.fill_files(2)
    assert store.is_writable
    store.flush()
    store.wait_for_dispatch(0)
    assert store.dispatch_lag_bytes == 0


def pages_brought_in_singly(path: str) -> list[tuple[int, int]]:
    """The parts of a mapped file, as offsets in it, that the kernel was told not to read ahead."""
    found, part = [], None
    with open("/proc/self/smaps") as lines:
        for line in lines:
            words = line.split()
            if len(words) >= 5 and "-" in words[0]:
                first, end = (int(word, 16) for word in words[0].split("-"))
                start = int(words[2], 16)
                part = (start, start + end - first) if words[-1] == path else None
            elif part is not None and words[0] == "VmFlags:" and "rr" in words:
                found.append(part)
    return found


def test_log_that_is_synced_all_the_time_gets_its_pages_singly_where_nothing_is_written_yet(lab: StoreLab) -> None:
    lab.open(reserve_step_commit_log=2 * PAGE)
    lab.put(b"x")
    first, second = (str(lab.root / "commitlog" / f"{start:020d}") for start in (0, LOG_FILE))
    assert pages_brought_in_singly(first) == [(0, LOG_FILE)]
    for _ in range(3):  # the second step begins where the first one is nearly full
        lab.put(bytes(3000))
    assert pages_brought_in_singly(first) == [(PAGE, LOG_FILE)]
    while not os.path.exists(second):
        lab.put(bytes(3000))
    assert pages_brought_in_singly(first) == []  # full: who reads it is read ahead for
    assert pages_brought_in_singly(second) == [(0, LOG_FILE)]


def test_log_that_is_flushed_by_the_clock_gets_its_pages_as_the_kernel_likes(lab: StoreLab) -> None:
    lab.open(flush_disk_type="ASYNC_FLUSH")
    lab.put(b"x")
    assert pages_brought_in_singly(str(lab.root / "commitlog" / f"{0:020d}")) == []
