"""Records of a table scan: taken from places of a window that is no whole log file.

A window is put together from several reads, and a pull reply from several files: a record's place in the buffer says
nothing about its physical offset, so each comes with its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from flaremq.core.arrays import Buffer, Integers

if not cython.compiled:
    from flaremq.core.frame import MAGIC_V1, MAGIC_V2, SMALLEST_RECORD, fill_row, frame_at, queue_hash
    from flaremq.core.memory import (
        load_i32,
        load_i64,
        longs_of,
        table_of,
        view_of,
        writable_longs_of,
    )
    from flaremq.core.record import judge_row
    from flaremq.core.table import COLUMN_COUNT, INVALID_SIZE, OK


def parse_pieces(log: Buffer, at: Integers, physical: Integers, flags: int, table: Buffer | Integers) -> int:
    """As ``parse_at``, for records whose physical offsets are ``physical[i]`` and which start at ``log[at[i]]``."""
    view = view_of(log)
    places = longs_of(at)
    offsets = longs_of(physical)
    rows = table_of(table, COLUMN_COUNT)
    count = min(min(places.size, offsets.size), rows.stride)
    with cython.nogil:
        for row in range(count):
            place = places.data[row]
            code = INVALID_SIZE
            if 0 <= place < view.size:
                frame = frame_at(view, place, view.size, offsets.data[row] - place, flags)
                code = frame.code
                if code == OK:
                    fill_row(view, place, frame, flags, rows, row)
            judge_row(rows, row, code)
    return count


def split_records(log: Buffer, start: int, at: Integers, physical: Integers) -> tuple[int, int]:
    """Places and physical offsets of records that lie back to back from ``start`` on: (records, where it stopped).

    It stops at the end, when the arrays are full, or where no record can start.
    """
    view = view_of(log)
    places = writable_longs_of(at)
    offsets = writable_longs_of(physical)
    room = min(places.size, offsets.size)
    place = max(start, 0)
    count = 0
    while count < room and view.size - place >= SMALLEST_RECORD:
        size = load_i32(view, place)
        magic = load_i32(view, place + 4)
        if size < SMALLEST_RECORD or size > view.size - place or (magic != MAGIC_V1 and magic != MAGIC_V2):
            break
        places.data[count] = place
        offsets.data[count] = load_i64(view, place + 28)
        count += 1
        place += size
    return count, place


def topic_hash(topic: Buffer, queue_id: int) -> int:
    """QUEUE_HASH of the record table for records of this topic and queue."""
    name = view_of(topic)
    return queue_hash(name, 0, name.size, queue_id)
