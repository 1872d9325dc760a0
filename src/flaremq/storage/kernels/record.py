"""Record kernels: walk a log file, parse records at known places, find the next record after damage."""

from __future__ import annotations

from flaremq.storage.kernels.compile import I64, READ_BYTES, READ_INTEGERS, TABLE, U64, Bytes, Integers, kernel, several
from flaremq.storage.kernels.frame import MAGIC_V1, MAGIC_V2, SMALLEST_RECORD, fill_row, frame_at
from flaremq.storage.kernels.memory import address_of, find_byte, load_i32, load_i64, store_native
from flaremq.storage.kernels.table import (
    CHECK_BODY_CRC,
    CHECK_RECORD_CRC,
    COLUMN_COUNT,
    END,
    FULL,
    INVALID_SIZE,
    OK,
    RESULT,
    RecordTable,
)

_MAGIC_FIRST_BYTE = U64(0xDADADADADADADADA)


@kernel(several(3, I64), READ_BYTES, I64, I64, I64, I64, TABLE)
def walk(log: Bytes, start: int, end: int, base: int, flags: int, table: Integers) -> tuple[int, int, int]:
    """Parse consecutive records of one log file from ``start`` into the table's first rows.

    ``log`` is the whole file and ``base`` the physical offset of its byte 0; no byte from ``end`` on is read.
    Returns ``(rows, next file offset, why it stopped)``; the offset is that of the first record not taken.
    """
    address = address_of(log)
    size_limit = min(end, log.size)
    capacity = table.shape[1] if table.shape[0] == COLUMN_COUNT else 0
    cell = address_of(table)
    stride = capacity * 8
    at = start
    row = 0
    if at < 0:
        return row, at, INVALID_SIZE
    while at < size_limit:
        if row == capacity:
            return row, at, FULL
        frame = frame_at(address, at, size_limit, log.size, base, flags)
        if frame.code != OK:
            return row, at, frame.code
        fill_row(address, at, frame, flags, cell, stride)
        row += 1
        cell += 8
        at += frame.size
    return row, at, END


@kernel(I64, READ_BYTES, READ_INTEGERS, I64, I64, TABLE)
def parse_at(log: Bytes, offsets: Integers, base: int, flags: int, table: Integers) -> int:
    """Parse the records that start at the given file offsets, one row each, in the same order.

    Row ``i`` holds its verdict in ``RESULT``; where that is not ``OK`` all other cells are 0. Returns the
    number of rows filled: all offsets, or as many as the table holds.
    """
    address = address_of(log)
    capacity = table.shape[1] if table.shape[0] == COLUMN_COUNT else 0
    cell = address_of(table)
    stride = capacity * 8
    count = min(offsets.size, capacity)
    for row in range(count):
        at = offsets[row]
        code = INVALID_SIZE
        if 0 <= at < log.size:
            frame = frame_at(address, at, log.size, log.size, base, flags)
            code = frame.code
            if code == OK:
                fill_row(address, at, frame, flags, cell, stride)
        if code != OK:
            for column in range(COLUMN_COUNT):
                store_native(cell + column * stride, 0)
        store_native(cell + RESULT * stride, code)
        cell += 8
    return count


@kernel(I64, READ_BYTES, I64, I64, I64)
def find_candidate(log: Bytes, start: int, end: int, base: int) -> int:
    """First place from ``start`` on with a magic number that names its own position, or -1."""
    address = address_of(log)
    limit = min(end, log.size)
    if start < 0 or limit - start < SMALLEST_RECORD:
        return -1
    stop = address + limit
    position = address + start + 4
    while position < stop:
        position = find_byte(position, stop, _MAGIC_FIRST_BYTE)
        record = position - 4
        if stop - record < SMALLEST_RECORD:
            return -1
        known = load_i32(position) == MAGIC_V1 or load_i32(position) == MAGIC_V2
        if known and load_i64(record + 28) == base + record - address:
            return record - address
        position += 1
    return -1


def resync(log: Bytes, start: int, end: int, base: int) -> int:
    """File offset of the first whole, valid record from ``start`` on and inside ``end``, or -1.

    Valid means that its lengths add up, it names its own position and its checksums match. Candidates are so
    rare (they must hold their own offset) that the loop over them is plain Python.
    """
    table = RecordTable(1)
    while True:
        start = find_candidate(log, start, end, base)
        if start < 0 or walk(log, start, end, base, CHECK_BODY_CRC | CHECK_RECORD_CRC, table.columns)[0]:
            return start
        start += 1
