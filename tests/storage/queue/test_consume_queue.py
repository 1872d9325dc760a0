"""Consume queues and the files below them: places, gaps, minima, ends, truncation, deletion."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from flaremq.errors import CorruptionError, StoreIOError
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.files.handles import HandleCache
from flaremq.storage.files.queue_files import QueueFiles
from flaremq.storage.queue.consume_queue import FILLER, UNIT, ConsumeQueue
from tests.support.crash_fs import CrashFS, Fault

UNITS_A_FILE = 10
FILE_SIZE = 20 * UNITS_A_FILE
RECORD = 100  # every record of these queues has this size


def files_in(folder: Path, file_size: int = FILE_SIZE) -> QueueFiles:
    filesystem = LocalFileSystem()
    files = QueueFiles(filesystem, HandleCache(filesystem, limit=256), str(folder), file_size)
    files.load()
    return files


def queue_in(folder: Path) -> ConsumeQueue:
    return ConsumeQueue("T", 0, files_in(folder))


def unit(number: int, physical: int | None = None) -> bytes:
    return UNIT.pack(number * RECORD if physical is None else physical, RECORD, number + 7)


def append(queue: ConsumeQueue, *numbers: int) -> None:
    for number in numbers:
        queue.append(number, unit(number), max_physical_offset=(number + 1) * RECORD)


def reloaded(folder: Path) -> ConsumeQueue:
    queue = queue_in(folder)
    queue.end = queue.scan_end()
    return queue


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "T" / "0"


def test_unit_of_queue_offset_q_stands_at_byte_20_q(folder: Path) -> None:
    append(queue_in(folder), *range(25))
    data = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
    assert data == b"".join(unit(n) for n in range(25)) + bytes(5 * 20)
    assert [int(path.name) for path in sorted(folder.iterdir())] == [0, FILE_SIZE, 2 * FILE_SIZE]


def test_units_are_read_back_to_the_end_of_their_file(folder: Path) -> None:
    queue = queue_in(folder)
    append(queue, *range(25))
    assert queue.unit(3) == (300, RECORD, 10)
    assert queue.read_units(8, 100) == unit(8) + unit(9)
    assert queue.read_units(20, 100) == b"".join(unit(n) for n in range(20, 25))
    assert queue.read_units(25, 1) == queue.read_units(-1, 1) == b""


def test_known_units_are_skipped_and_the_rest_of_a_run_is_added(folder: Path) -> None:
    queue = queue_in(folder)
    append(queue, 0, 1, 2)
    other = UNIT.pack(99_999, RECORD, 0)
    queue.append(1, other + other, max_physical_offset=0)
    assert queue.end == 3 and queue.unit(1) == (100, RECORD, 8)
    queue.append(2, other + unit(3), max_physical_offset=400)
    assert queue.end == 4 and queue.unit(2) == (200, RECORD, 9) and queue.unit(3) == (300, RECORD, 10)


def test_gap_becomes_filler_and_later_units_keep_their_place(folder: Path) -> None:
    queue = queue_in(folder)
    append(queue, 0, 1)
    append(queue, 14)
    assert queue.end == 15
    assert queue.read_units(2, 1) == FILLER and queue.unit(2) is None and queue.unit(13) is None
    assert queue.unit(14) == (1400, RECORD, 21)
    assert queue.read_units(10, 4) == FILLER * 4


def test_queue_that_starts_late_is_filled_from_its_file_start_only(folder: Path) -> None:
    queue = queue_in(folder)
    append(queue, 37)
    assert [path.name for path in folder.iterdir()] == [f"{3 * FILE_SIZE:020d}"]
    assert (queue.min_offset, queue.end, queue.first_offset) == (37, 38, 30)
    assert queue.read_units(30, 7) == FILLER * 7


def test_minimum_is_the_first_real_unit_also_when_the_log_starts_at_zero(folder: Path) -> None:
    append(queue_in(folder), 37, 38)
    queue = reloaded(folder)
    queue.correct_min_offset(0)
    assert queue.min_offset == 37


@pytest.mark.parametrize(
    ("log_min", "expected"), [(0, 0), (1, 1), (100, 1), (1150, 12), (2300, 23), (2400, 24), (2500, 25)]
)
def test_minimum_follows_the_log(folder: Path, log_min: int, expected: int) -> None:
    append(queue_in(folder), *range(25))
    queue = reloaded(folder)
    queue.correct_min_offset(log_min)
    assert queue.min_offset == expected


@pytest.mark.parametrize("gap", range(2, 11))
def test_minimum_never_passes_a_retained_unit_before_a_gap(folder: Path, gap: int) -> None:
    queue = queue_in(folder)
    append(queue, *(number for number in range(12) if number != gap))
    queue.correct_min_offset(1 * RECORD)
    assert queue.min_offset == 1


def test_queue_whose_records_are_all_gone_keeps_counting(folder: Path) -> None:
    queue = queue_in(folder)
    append(queue, *range(12))
    queue.correct_min_offset(10_000)
    assert (queue.min_offset, queue.end) == (12, 12)
    append(queue, 12)
    queue.correct_min_offset(1200)
    assert (queue.min_offset, queue.end) == (12, 13)


@pytest.mark.parametrize("count", [1, 9, 10, 11, 19, 20, 21])
def test_end_is_found_by_search_and_by_scan(folder: Path, count: int) -> None:
    append(queue_in(folder), *range(count))
    queue = queue_in(folder)
    assert queue.guess_end() == queue.scan_end() == count


def test_end_of_a_queue_whose_last_file_is_empty_lies_in_the_file_before(folder: Path) -> None:
    append(queue_in(folder), *range(10))
    (folder / f"{FILE_SIZE:020d}").write_bytes(bytes(FILE_SIZE))
    queue = queue_in(folder)
    assert queue.guess_end() == queue.scan_end() == 10


def test_end_of_a_queue_without_units_is_its_first_offset(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / f"{2 * FILE_SIZE:020d}").write_bytes(bytes(FILE_SIZE))
    queue = queue_in(folder)
    assert queue.guess_end() == queue.scan_end() == 20


@pytest.mark.parametrize("end", [0, 5, 10, 11, 24, 25])
def test_truncation_leaves_zeros_behind_the_end_and_no_later_file(folder: Path, end: int) -> None:
    queue = queue_in(folder)
    append(queue, *range(25))
    queue.truncate(end)
    data = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
    assert data.rstrip(b"\0") == b"".join(unit(n) for n in range(end)).rstrip(b"\0")
    assert len(list(folder.iterdir())) == max(1, -(-end // UNITS_A_FILE))
    assert (queue.end, queue.max_physical_offset) == (end, end * RECORD)
    append(queue, end)
    assert queue.unit(end) == (end * RECORD, RECORD, end + 7)


def test_truncation_to_filler_does_not_take_filler_for_a_record(folder: Path) -> None:
    queue = queue_in(folder)
    append(queue, 0, 5)
    queue.truncate(3)
    assert queue.max_physical_offset == RECORD


def test_leading_files_go_when_their_records_are_gone_but_never_the_last(folder: Path) -> None:
    queue = queue_in(folder)
    append(queue, *range(25))
    assert queue.drop_files_before(1000) == 1
    assert queue.min_offset == 10
    assert queue.drop_files_before(1900) == 0  # record 19 starts there and is kept
    assert queue.drop_files_before(1_000_000) == 1
    assert queue.files.starts == (2 * FILE_SIZE,)


def test_repaired_unit_replaces_the_wrong_one_in_place(folder: Path) -> None:
    queue = queue_in(folder)
    append(queue, 0, 1, 2)
    queue.replace(1, UNIT.pack(7, 8, 9))
    assert (queue.unit(1), queue.end) == ((7, 8, 9), 3)


# The files themselves


def test_short_last_file_is_completed_with_zeros(folder: Path) -> None:
    append(queue_in(folder), *range(12))
    os.truncate(folder / f"{FILE_SIZE:020d}", 20)
    assert reloaded(folder).end == 11
    assert (folder / f"{FILE_SIZE:020d}").read_bytes() == unit(10) + bytes(FILE_SIZE - 20)


@pytest.mark.parametrize(("name", "length"), [(0, FILE_SIZE - 1), (FILE_SIZE, FILE_SIZE + 20)])
def test_file_of_another_length_is_refused(folder: Path, name: int, length: int) -> None:
    append(queue_in(folder), *range(12))
    os.truncate(folder / f"{name:020d}", length)
    with pytest.raises(CorruptionError, match="mappedFileSizeConsumeQueue"):
        queue_in(folder)


def test_missing_queue_file_is_refused(folder: Path) -> None:
    append(queue_in(folder), *range(25))
    (folder / f"{FILE_SIZE:020d}").unlink()
    files = files_in(folder)
    for durable_end in (None, 25 * 20):
        with pytest.raises(CorruptionError, match="missing"):
            files.drop_behind_gap(durable_end)
    assert len(list(folder.iterdir())) == 2


def test_files_behind_a_lost_name_are_dropped_if_nothing_in_them_was_durable(folder: Path) -> None:
    append(queue_in(folder), *range(25))
    (folder / f"{FILE_SIZE:020d}").unlink()
    files = files_in(folder)
    files.drop_behind_gap(FILE_SIZE)
    assert files.starts == (0,)
    assert [path.name for path in folder.iterdir()] == [f"{0:020d}"]


def test_foreign_names_are_left_alone(folder: Path) -> None:
    append(queue_in(folder), 0)
    (folder / "notes.txt").write_text("mine")
    assert files_in(folder).starts == (0,)
    assert (folder / "notes.txt").read_text() == "mine"


def test_flush_forgets_nothing_when_a_sync_fails() -> None:
    disk = CrashFS()
    files = QueueFiles(disk, HandleCache(disk), "/q", FILE_SIZE)
    files.write(0, b"x" * 20)
    disk.faults = [Fault(kind="eio", at=1, operations=frozenset({"sync"}))]
    with pytest.raises(StoreIOError):
        files.flush()
    assert files.is_dirty
    files.flush()
    files.sync_names(set())
    assert not files.is_dirty


def test_queue_needs_no_more_open_files_than_the_cache_holds(tmp_path: Path) -> None:
    files = files_in(tmp_path / "q", 20)
    for number in range(400):
        files.write(number * 20, unit(number))
    open_files = [name for name in os.listdir("/proc/self/fd") if _target(name).startswith(str(tmp_path))]
    assert len(open_files) <= 256
    assert [files.read(number * 20, 20) for number in (0, 399)] == [unit(0), unit(399)]


def _target(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        return ""


def test_units_that_wait_in_memory_are_read_like_written_ones(tmp_path: Path) -> None:
    queue = ConsumeQueue("T", 0, files_in(tmp_path / "q"), tail_bytes=100)
    plain = queue_in(tmp_path / "plain")
    rng = random.Random(7)
    for number in range(60):
        for target in (queue, plain):
            target.append(number, unit(number), max_physical_offset=number + 1)
        if rng.random() < 0.1:
            queue.drain()
        for _ in range(5):
            start, count = rng.randrange(62), rng.randrange(1, 12)
            expected = plain.read_units(start, count)
            got = queue.read_units(start, count)
            shorter = min(len(got), len(expected))  # a read ends where memory begins, as it does at a file's end
            assert got[:shorter] == expected[:shorter]
            assert bool(got) == bool(expected)
    queue.replace(59, unit(1000))
    assert queue.unit(59) == UNIT.unpack(unit(1000))
    queue.drain()
    assert queue.unit(59) == UNIT.unpack(unit(1000)) and not queue.has_tail


def test_gap_after_units_in_memory_becomes_filler(tmp_path: Path) -> None:
    queue = ConsumeQueue("T", 0, files_in(tmp_path / "q"), tail_bytes=1000)
    for number in (0, 1, 2, 5):
        queue.append(number, unit(number), max_physical_offset=number + 1)
    queue.drain()
    assert [queue.unit(number) is None for number in range(6)] == [False, False, False, True, True, False]


def test_truncation_takes_units_in_memory_along(tmp_path: Path) -> None:
    queue = ConsumeQueue("T", 0, files_in(tmp_path / "q"), tail_bytes=1000)
    for number in range(10):
        queue.append(number, unit(number), max_physical_offset=number + 1)
    queue.truncate(4)
    assert (queue.end, queue.unit(3) is not None, queue.unit(4)) == (4, True, None)


def test_units_whose_draining_failed_are_not_appended_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = ConsumeQueue("T", 0, files_in(folder), tail_bytes=60)
    append(queue, 0, 1, 2)

    def full(*_: object) -> None:
        raise StoreIOError("write", "queue", OSError("no space"))

    with monkeypatch.context() as patch:
        patch.setattr(QueueFiles, "write", full)
        for _ in range(3):  # dispatch tries the same record again
            with pytest.raises(StoreIOError):
                append(queue, 3)
    append(queue, 3, 4)
    queue.drain()
    assert queue.end == 5
    assert queue.files.read(0, FILE_SIZE) == b"".join(map(unit, range(5))) + bytes(5 * 20)
