"""The pull kernel alone: against plain code, on garbage, and at the very edge of readable memory."""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.core.arrays import Bytes
from flaremq.message.record.check import check_record
from flaremq.storage.get.select import select_units
from tests.message.records import make_record

UNIT = struct.Struct(">qiq")
FILLER = UNIT.pack(0, 2**31 - 1, 0)


@contextmanager
def at_the_edge(data: bytes) -> Iterator[Bytes]:
    """The bytes in memory whose next page may not be touched: reading on ends the process."""
    page = mmap.PAGESIZE
    room = (len(data) + page - 1) // page * page or page
    memory = mmap.mmap(-1, room + page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    assert protect(address + room, page, 0) == 0
    memory[room - len(data) : room] = data
    try:
        yield np.frombuffer(memory, np.uint8)[room - len(data) : room]
    finally:
        assert protect(address + room, page, mmap.PROT_READ | mmap.PROT_WRITE) == 0


class Queue:
    """Records of one queue in a log file that begins at ``base``, and their units."""

    def __init__(self, base: int = 4096, queue_offset: int = 10) -> None:
        self.base, self.first = base, queue_offset
        self.log = b""
        self.units: list[bytes] = []

    def add(self, body: bytes = b"body", code: int = 7, **fields: Any) -> None:
        record = make_record(
            body=body,
            queue_id=2,
            queue_offset=self.first + len(self.units),
            physical_offset=self.base + len(self.log),
            **fields,
        )
        self.units.append(UNIT.pack(self.base + len(self.log), len(record), code))
        self.log += record

    def select(
        self,
        count_max: int = 32,
        bytes_max: int = 1 << 20,
        codes: tuple[int, ...] = (),
        *,
        end: int | None = None,
        units: bytes | None = None,
        log: bytes | None = None,
        places: int | None = None,
    ) -> tuple[int, int, int, list[tuple[int, int]]]:
        """(examined, records, bytes, ranges)."""
        data = self.log if log is None else log
        ranges = np.full(2 * count_max if places is None else places, -1, np.int64)
        with (
            at_the_edge(data) as log_array,
            at_the_edge(b"".join(self.units) if units is None else units) as unit_array,
        ):
            examined, found, size, runs = select_units(
                unit_array,
                log_array,
                self.base,
                self.base + len(data) if end is None else end,
                2,
                self.first,
                count_max,
                bytes_max,
                np.array(codes, np.int64),
                ranges,
            )
        flat = ranges[: 2 * runs].tolist()
        return examined, found, size, list(zip(flat[::2], flat[1::2], strict=True))


@pytest.fixture
def queue() -> Queue:
    filled = Queue()
    for number in range(10):
        filled.add(b"x" * (10 * number), code=number % 3)
    return filled


def test_adjoining_records_are_one_range(queue: Queue) -> None:
    assert queue.select() == (10, 10, len(queue.log), [(0, len(queue.log))])


def test_records_of_wanted_tags_are_ranges_of_their_own(queue: Queue) -> None:
    examined, found, size, ranges = queue.select(codes=(1,))
    assert (examined, found, len(ranges)) == (10, 3, 3)
    assert size == sum(end - begin for begin, end in ranges)
    assert [int.from_bytes(queue.log[begin + 20 : begin + 28], "big") for begin, _ in ranges] == [11, 14, 17]
    assert queue.select(codes=(0, 1, 2))[3] == [(0, len(queue.log))]
    assert queue.select(codes=(99, -1)) == (10, 0, 0, [])


def test_count_and_bytes_limit_what_is_found_but_never_the_first(queue: Queue) -> None:
    sizes = [UNIT.unpack(unit)[1] for unit in queue.units]
    assert queue.select(count_max=4)[:3] == (4, 4, sum(sizes[:4]))
    assert queue.select(bytes_max=sum(sizes[:3]))[:3] == (3, 3, sum(sizes[:3]))
    assert queue.select(bytes_max=sum(sizes[:3]) - 1)[:2] == (2, 2)
    assert queue.select(bytes_max=0)[:3] == (1, 1, sizes[0])


def test_what_lies_past_the_readable_end_is_not_touched(queue: Queue) -> None:
    assert queue.select(end=queue.base + len(queue.log) - 1)[0] == 9
    assert queue.select(end=queue.base) == (0, 0, 0, [])


def test_filler_units_are_stepped_over(queue: Queue) -> None:
    queue.units[4] = FILLER
    examined, found, _, ranges = queue.select()
    assert (examined, found, len(ranges)) == (10, 9, 2)


def test_unit_of_another_file_ends_the_pull(queue: Queue) -> None:
    queue.units[6] = UNIT.pack(queue.base + len(queue.log) + 5000, 120, 0)
    assert queue.select()[:2] == (6, 6)
    queue.units[0] = UNIT.pack(queue.base - 200, 120, 0)
    assert queue.select() == (0, 0, 0, [])


def test_extension_address_is_left_to_plain_code_when_a_tag_is_wanted(queue: Queue) -> None:
    offset, size, _ = UNIT.unpack(queue.units[3])
    queue.units[3] = UNIT.pack(offset, size, -(2**62))
    assert queue.select(codes=(0, 1, 2))[:2] == (3, 3)
    assert queue.select()[:2] == (10, 10)


def test_too_few_places_for_the_ranges_find_nothing(queue: Queue) -> None:
    assert queue.select(count_max=8, places=15) == (0, 0, 0, [])


@pytest.mark.parametrize("family", [0, 0x10, 0x20, 0x30])
def test_hosts_of_both_families_are_understood(family: int) -> None:
    filled = Queue()
    hosts: dict[str, Any] = {
        "born_host": bytes(20 if family & 0x10 else 8),
        "store_host": bytes(20 if family & 0x20 else 8),
        "sys_flag": family,
    }
    for _ in range(3):
        filled.add(b"body", **hosts)
    assert filled.select()[:2] == (3, 3)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_changed_byte_never_lets_a_damaged_body_or_foreign_record_through(at: int, bits: int) -> None:
    filled = Queue()
    for number in range(4):
        filled.add(b"body %d" % number, properties=b"K\x01v\x02")
    at %= len(filled.log)
    log = filled.log[:at] + bytes([filled.log[at] ^ bits]) + filled.log[at + 1 :]
    _, _, _, ranges = filled.select(log=log)
    for begin, end in ranges:
        place = begin
        while place < end:
            verdict = check_record(log, place, physical_offset=filled.base + place)
            assert verdict.ok
            place += verdict.size
        assert place == end


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1) | st.integers(4000, 6000),
            st.integers(-(2**31), 2**31 - 1) | st.integers(80, 200),
            st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3),
        ),
        max_size=20,
    ),
    st.binary(max_size=400),
    st.integers(-(2**62), 2**62) | st.integers(4000, 6000),
    st.booleans(),
)
def test_random_units_over_random_bytes_select_nothing_outside_the_file(
    units: list[tuple[int, int, int]], log: bytes, end: int, tagged: bool
) -> None:
    data = b"".join(UNIT.pack(*unit) for unit in units)
    examined, found, size, ranges = Queue().select(units=data, log=log, end=end, codes=(1, 2) if tagged else ())
    assert 0 <= examined <= len(units) and found <= examined
    assert all(0 <= begin < stop <= len(log) for begin, stop in ranges)
    assert size == sum(stop - begin for begin, stop in ranges)
