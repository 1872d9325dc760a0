"""Records in bulk: walk a log file, parse records at known places, find the next record after damage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from flaremq.core.table import RecordTable

if TYPE_CHECKING:
    from flaremq.core.arrays import Buffer, Integers

if not cython.compiled:
    from flaremq.core.frame import MAGIC_V1, MAGIC_V2, SMALLEST_RECORD, fill_row, frame_at
    from flaremq.core.memory import (
        Table,
        bytes_view,
        find_byte,
        load_i32,
        load_i64,
        load_u8,
        longs_of,
        same_bytes,
        table_of,
        view_of,
    )
    from flaremq.core.table import (
        CHECK_BODY_CRC,
        CHECK_RECORD_CRC,
        COLUMN_COUNT,
        END,
        FULL,
        INVALID_SIZE,
        OK,
        RESULT,
    )

_ZEROS = bytes(1 << 16)


def walk(log: Buffer, start: int, end: int, base: int, flags: int, table: Buffer | Integers) -> tuple[int, int, int]:
    """Parse consecutive records of one log file from ``start`` into the table's first rows.

    ``log`` is the whole file and ``base`` the physical offset of its byte 0; no byte from ``end`` on is read.
    Returns ``(rows, next file offset, why it stopped)``; the offset is that of the first record not taken.
    """
    view = view_of(log)
    rows = table_of(table, COLUMN_COUNT)
    limit = min(end, view.size)
    at = start
    row = 0
    code = END
    with cython.nogil:
        if at < 0:
            code = INVALID_SIZE
        while at < limit and code == END:
            if row == rows.stride:
                code = FULL
                break
            frame = frame_at(view, at, limit, base, flags)
            if frame.code != OK:
                code = frame.code
                break
            fill_row(view, at, frame, flags, rows, row)
            row += 1
            at += frame.size
    return row, at, code


def parse_at(log: Buffer, offsets: Integers, base: int, flags: int, table: Buffer | Integers) -> int:
    """Parse the records that start at the given file offsets, one row each, in the same order.

    Row ``i`` holds its verdict in ``RESULT``; where that is not ``OK`` all other cells are 0. Returns the
    number of rows filled: all offsets, or as many as the table holds.
    """
    view = view_of(log)
    places = longs_of(offsets)
    rows = table_of(table, COLUMN_COUNT)
    count = min(places.size, rows.stride)
    with cython.nogil:
        for row in range(count):
            at = places.data[row]
            code = INVALID_SIZE
            if 0 <= at < view.size:
                frame = frame_at(view, at, view.size, base, flags)
                code = frame.code
                if code == OK:
                    fill_row(view, at, frame, flags, rows, row)
            judge_row(rows, row, code)
    return count


def judge_row(table: Table, row: int, code: int) -> None:
    """Note the verdict of a row; a refused one is all zero besides."""
    if code != OK:
        for column in range(COLUMN_COUNT):
            table.data[column * table.stride + row] = 0
    table.data[RESULT * table.stride + row] = code


def find_candidate(log: Buffer, start: int, end: int, base: int) -> int:
    """First place from ``start`` on with a magic number that names its own position, or -1."""
    view = view_of(log)
    limit = min(end, view.size)
    found = -1
    if start < 0:
        return -1
    with cython.nogil:
        at = start
        while limit - at >= SMALLEST_RECORD:
            at = find_byte(view, at + 4, limit, 0xDA) - 4
            if limit - at < SMALLEST_RECORD:
                break
            magic = load_i32(view, at + 4)
            if (magic == MAGIC_V1 or magic == MAGIC_V2) and load_i64(view, at + 28) == base + at:
                found = at
                break
            at += 1
    return found


def nonzero_end(log: Buffer, start: int, end: int) -> int:
    """Behind the last byte of [start, end) that is not zero; ``start`` if all are."""
    view = view_of(log)
    zeros = bytes_view(_ZEROS)
    at = max(start, 0)
    end = min(end, view.size)
    with cython.nogil:
        length = min(end - at, zeros.size)
        while length > 0 and same_bytes(view, end - length, zeros, 0, length):
            end -= length
            length = min(end - at, zeros.size)
        while end > at and load_u8(view, end - 1) == 0:
            end -= 1
    return max(end, start)


def resync(log: Buffer, start: int, end: int, base: int) -> int:
    """File offset of the first whole, valid record from ``start`` on and inside ``end``, or -1.

    Valid means that its lengths add up, it names its own position and its checksums match. Candidates are so
    rare (they must hold their own offset) that the loop over them is plain Python.
    """
    table = RecordTable(1)
    while True:
        start = find_candidate(log, start, end, base)
        if start < 0 or walk(log, start, end, base, CHECK_BODY_CRC | CHECK_RECORD_CRC, table.cells)[0]:
            return start
        start += 1
