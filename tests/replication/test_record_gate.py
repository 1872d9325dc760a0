"""The gate in front of a replica's log: whole records, however the stream is cut."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flaremq.errors import CorruptionError
from flaremq.message.record.layout import BLANK, MAGIC_BLANK
from flaremq.replication.record_gate import RecordGate
from tests.message.records import make_record
from tests.replication.log_lab import MemoryLog

LOG = MemoryLog(file_size=2048)
for _number in range(24):
    LOG.put(bytes([_number]) * (_number * 37 % 600))


@given(st.lists(st.integers(5, 3000), min_size=1), st.integers(0, 20))
def test_whatever_the_cuts_only_whole_records_come_out_in_order(cuts: list[int], first: int) -> None:
    start = at = LOG.record_ends[first]
    gate = RecordGate(start, file_size=2048)
    out = bytearray()
    number = 0
    while at < LOG.own_end:
        size = cuts[number % len(cuts)]
        number += 1
        runs: list[tuple[int, bytes | memoryview]] = []
        gate.take(memoryview(LOG.read(at, size)), runs)
        at = min(at + size, LOG.own_end)
        for offset, run in runs:
            assert offset == start + len(out)
            out += run
        assert gate.offset == start + len(out)
        assert gate.offset in LOG.record_ends
        assert gate.next_offset == at
    assert bytes(out) == LOG.read(start, LOG.own_end - start)


@settings(max_examples=200)
@given(st.randoms(use_true_random=False), st.integers(20, 700))
def test_damage_never_comes_out_and_what_came_out_before_is_good(chance: random.Random, size: int) -> None:
    data = bytearray(LOG.data)
    damaged = chance.choice(COVERED)
    data[damaged] ^= 1 << chance.randrange(8)
    gate = RecordGate(0, file_size=2048)
    out = bytearray()
    try:
        for at in range(0, len(data), size):
            runs: list[tuple[int, bytes | memoryview]] = []
            try:
                gate.take(memoryview(data)[at : at + size], runs)
            finally:
                for _, run in runs:
                    out += run
    except CorruptionError as error:
        assert error.offset == len(out)
    assert bytes(out) == bytes(LOG.data[: len(out)])
    assert len(out) <= damaged


def _is_covered(at: int) -> bool:
    """Magic, size, checksum, place and body of a record; a filler's head: damage there must show."""
    start = max(end for end in LOG.record_ends if end <= at)
    _, magic = BLANK.unpack_from(LOG.data, start)
    if magic == MAGIC_BLANK:
        return at - start < BLANK.size
    inside = at - start
    body = int.from_bytes(LOG.data[start + 84 : start + 88], "big")
    return inside < (12 if body else 8) or 28 <= inside < 36 or (84 <= inside < 88 + body)


COVERED = [at for at in range(LOG.own_end) if _is_covered(at)]


@given(st.binary(max_size=5000), st.lists(st.integers(1, 900), min_size=1))
def test_random_bytes_are_refused_with_little_kept(junk: bytes, cuts: list[int]) -> None:
    gate = RecordGate(0, file_size=1 << 20, record_size_max=4096)
    runs: list[tuple[int, bytes | memoryview]] = []
    at = number = 0
    try:
        while at < len(junk):
            size = cuts[number % len(cuts)]
            number += 1
            gate.take(memoryview(junk)[at : at + size], runs)
            at += size
            assert gate.held_bytes <= 4096 + 8
    except CorruptionError:
        pass
    assert runs == []


@pytest.mark.parametrize("left", range(1, 8))
def test_bytes_without_room_for_a_filler_are_refused(left: int) -> None:
    gate = RecordGate(2048 - left, file_size=2048)
    with pytest.raises(CorruptionError, match="neither record nor filler"):
        gate.take(memoryview(bytes(100)), [])


def test_a_record_may_end_exactly_with_its_file() -> None:
    empty = len(make_record(body=b"", physical_offset=0))
    record = make_record(body=b"x" * (2048 - empty), physical_offset=0)
    runs: list[tuple[int, bytes | memoryview]] = []
    RecordGate(0, file_size=2048).take(memoryview(record + make_record(physical_offset=2048)), runs)
    assert [offset for offset, _ in runs] == [0, 2048]


def test_a_record_across_a_file_end_is_refused() -> None:
    gate = RecordGate(2000, file_size=2048)
    with pytest.raises(CorruptionError, match="impossible size"):
        gate.take(memoryview(make_record(physical_offset=2000)), [])
