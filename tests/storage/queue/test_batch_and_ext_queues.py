"""Batch consume queues (one unit, several messages) and the ext files that hold what a unit has no room for."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.message.message import Message
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.files.handles import HandleCache
from flaremq.storage.files.queue_files import QueueFiles
from flaremq.storage.queue.batch_consume_queue import BATCH_UNIT_SIZE, BatchConsumeQueue, BatchUnit
from flaremq.storage.queue.consume_queue import UNIT
from flaremq.storage.queue.consume_queue_ext import EXT_HEAD, ConsumeQueueExt, ExtUnit, is_ext_address
from flaremq.storage.status import GetMessageStatus
from tests.support.store_lab import StoreLab

FILE_SIZE = 5 * BATCH_UNIT_SIZE
COUNTS = [3, 1, 4, 1, 5, 9, 2, 6]
BASES = [sum(COUNTS[:n]) for n in range(len(COUNTS))]


def files_in(folder: Path, size: int = FILE_SIZE) -> QueueFiles:
    filesystem = LocalFileSystem()
    files = QueueFiles(filesystem, HandleCache(filesystem), str(folder), size)
    files.load()
    return files


def batch_unit(number: int) -> BatchUnit:
    return BatchUnit(number * 100, 100, number, 1_000 + number, BASES[number], COUNTS[number])


@pytest.fixture
def queue(tmp_path: Path) -> BatchConsumeQueue:
    queue = BatchConsumeQueue("T", 0, files_in(tmp_path / "q"))
    for number in range(len(COUNTS)):
        queue.append(batch_unit(number))
    return queue


def test_batch_queue_counts_messages_and_units_apart(queue: BatchConsumeQueue) -> None:
    assert (queue.unit_end, queue.end, queue.max_physical_offset) == (len(COUNTS), sum(COUNTS), 800)
    assert queue.unit(2) == batch_unit(2)
    assert queue.unit(len(COUNTS)) is None


def test_unit_that_covers_an_offset_is_found(queue: BatchConsumeQueue) -> None:
    covering = [n for n, count in enumerate(COUNTS) for _ in range(count)]
    assert [queue.find(offset) for offset in range(sum(COUNTS))] == covering
    assert queue.find(sum(COUNTS)) == len(COUNTS)


def test_record_that_is_already_there_is_not_added_again(queue: BatchConsumeQueue) -> None:
    queue.append(batch_unit(7))
    queue.append(batch_unit(3))
    assert (queue.unit_end, queue.end) == (len(COUNTS), sum(COUNTS))


@pytest.mark.parametrize(("log_end", "kept"), [(800, 8), (799, 7), (450, 4), (50, 0)])
def test_recovery_keeps_units_of_whole_records_before_the_log_end(
    queue: BatchConsumeQueue, log_end: int, kept: int
) -> None:
    again = BatchConsumeQueue("T", 0, queue.files)
    again.recover(log_end)
    assert (again.unit_end, again.end) == (kept, sum(COUNTS[:kept]))
    assert again.unit(kept) is None  # what was cut is gone from the file too


@pytest.mark.parametrize(("log_min", "expected"), [(0, 0), (100, 3), (101, 4), (700, 25), (900, 31)])
def test_minimum_of_a_batch_queue_is_the_first_retained_base(
    queue: BatchConsumeQueue, log_min: int, expected: int
) -> None:
    queue.correct_min_offset(log_min)
    assert queue.min_offset == expected


# Ext


def ext_with(folder: Path, data: bytes) -> ConsumeQueueExt:
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").write_bytes(data.ljust(1000, b"\0"))
    return ConsumeQueueExt(files_in(folder, 1000))


def test_ext_unit_is_resolved_by_its_address(tmp_path: Path) -> None:
    first = EXT_HEAD.pack(20, 111, 222, 0)
    second = EXT_HEAD.pack(34, -5, 444, 14) + bytes(range(14))
    ext = ext_with(tmp_path / "x", first + second)
    assert ext.read(0 - 2**63) == ExtUnit(111, 222, b"")
    assert ext.read(20 - 2**63) == ExtUnit(-5, 444, bytes(range(14)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        EXT_HEAD.pack(-1, 0, 0, 0),
        EXT_HEAD.pack(19, 1, 2, 0),
        EXT_HEAD.pack(30, 1, 2, 11),
        EXT_HEAD.pack(10, 1, 2, -10),
    ],
)
def test_ext_address_that_cannot_be_resolved_gives_nothing(tmp_path: Path, data: bytes) -> None:
    assert ext_with(tmp_path / "x", data).read(0 - 2**63) is None


def test_ext_address_outside_every_file_gives_nothing(tmp_path: Path) -> None:
    assert ext_with(tmp_path / "x", b"").read(5000 - 2**63) is None


@pytest.mark.parametrize(("code", "address"), [(0, False), (-(2**31), False), (-(2**31) - 1, True), (-(2**63), True)])
def test_codes_below_every_hash_are_ext_addresses(code: int, address: bool) -> None:
    assert is_ext_address(code) is address


def test_unresolved_ext_address_lets_the_record_decide_about_its_tag(lab: StoreLab) -> None:
    store = lab.open()
    for tag in ("A", "B", "A"):
        lab.put(tag.encode(), tags=tag)
    lab.broken_on_purpose = True  # units with ext addresses of a file that is not there
    queue = store._queues.simple[("orders", 0)]
    for offset in range(3):
        physical, size, _ = queue.unit(offset) or (0, 0, 0)
        queue.replace(offset, _unit(physical, size, offset * 20 - 2**63))
    result = store.get("orders", 0, 0, tags="A")
    assert (result.status, [m.body for m in result.messages]) == (GetMessageStatus.FOUND, [b"A", b"A"])


def test_inner_batch_is_refused_for_a_plain_topic(lab: StoreLab) -> None:
    store = lab.open()
    result = store.put(Message("orders", b"x", properties={"INNER_NUM": "2"}), sys_flag=0xC0)
    assert result.status.name == "MESSAGE_ILLEGAL"


def _unit(physical: int, size: int, code: int) -> bytes:
    return UNIT.pack(physical, size, code)
