"""Consume queues in the core: which rows belong to which queue, and 20-byte units for them, both ways.

One unit:

    at  size  field             note
     0     8  physical_offset   start of the record in the log
     8     4  record_size       whole record in bytes
    12     8  tags_code         Java hash of the tags, sign-extended; due time in the schedule topic
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from flaremq.core.arrays import Buffer, Integers

if not cython.compiled:
    from flaremq.core.memory import (
        Longs,
        Table,
        View,
        as_i64,
        bytes_at,
        load_i32,
        load_i64,
        longs_of,
        same_bytes,
        store_i32,
        store_i64,
        table_of,
        view_of,
        writable_longs_of,
        writable_view_of,
    )
    from flaremq.core.table import (
        COLUMN_COUNT,
        DELAY_LEVEL,
        MARK_SCHEDULE,
        MARKS,
        PHYSICAL_OFFSET,
        QUEUE_HASH,
        QUEUE_ID,
        QUEUE_OFFSET,
        SIZE,
        STORE_TIMESTAMP,
        SYS_FLAG,
        TAGS_CODE,
        TOPIC_AT,
        TOPIC_LENGTH,
    )

_UNIT = 20
_UNKNOWN_DELAY_MS = 1000  # RocketMQ's choice for a level without an entry


def find_marked(table: Buffer | Integers, first: int, end: int, marks: int) -> int:
    """The first of rows ``first..end-1`` with one of these marks, or ``end``."""
    rows = table_of(table, COLUMN_COUNT)
    row = max(first, 0)
    stop = min(end, rows.stride)
    while row < stop:
        if rows.data[MARKS * rows.stride + row] & marks:
            return row
        row += 1
    return end


def queue_runs(
    log: Buffer, table: Buffer | Integers, first: int, end: int, delay_ms: Buffer | Integers
) -> tuple[bytearray, list[tuple[str, int, int, int, int, int]]]:
    """The units of rows ``first..end-1``, queue by queue, and the runs of consecutive queue offsets among them.

    A run is (topic, queue id, first queue offset, its first byte in the units, the byte behind it, where its last
    record ends). Queues come in order of their first row. Rows without a place in a queue are left out; their text
    must be UTF-8 (no MARK_BAD_TEXT). ``delay_ms`` is that of ``fill_units``.
    """
    view = view_of(log)
    rows = table_of(table, COLUMN_COUNT)
    delays = longs_of(delay_ms)
    first = max(first, 0)
    end = min(end, rows.stride)
    runs: list[tuple[str, int, int, int, int, int]] = []
    if end - first == 1:  # a broker that dispatches what just came in
        if not _has_place(view, rows, first):
            return bytearray(), runs
        units = bytearray(_UNIT)
        _store_unit(writable_view_of(units), 0, rows, first, delays)
        runs.append(_run_of(view, rows, first, first, 0, 1))
        return units, runs
    order, starts = group_queues(log, table, end, first)
    members = longs_of(order)
    bounds = longs_of(starts)
    units = bytearray(_UNIT * members.size)
    target = writable_view_of(units)
    with cython.nogil:
        for number in range(members.size):
            _store_unit(target, _UNIT * number, rows, members.data[number], delays)
    offsets_at = QUEUE_OFFSET * rows.stride
    for group in range(bounds.size - 1):
        begin = bounds.data[group]
        stop = bounds.data[group + 1]
        while begin < stop:
            after = begin + 1
            while (
                after < stop
                and rows.data[offsets_at + members.data[after]] == rows.data[offsets_at + members.data[after - 1]] + 1
            ):
                after += 1
            runs.append(_run_of(view, rows, members.data[begin], members.data[after - 1], begin, after))
            begin = after
    return units, runs


def _run_of(
    log: View, table: Table, first_row: int, last_row: int, first: int, end: int
) -> tuple[str, int, int, int, int, int]:
    cells = table.data
    stride = table.stride
    topic = bytes_at(log, cells[TOPIC_AT * stride + first_row], cells[TOPIC_LENGTH * stride + first_row])
    return (
        topic.decode("utf-8"),
        cells[QUEUE_ID * stride + first_row],
        cells[QUEUE_OFFSET * stride + first_row],
        _UNIT * first,
        _UNIT * end,
        cells[PHYSICAL_OFFSET * stride + last_row] + cells[SIZE * stride + last_row],
    )


def _has_place(log: View, table: Table, row: int) -> bool:
    """Whether the record belongs to a queue, and its topic to this log: nothing outside it is ever looked at."""
    transaction = table.data[SYS_FLAG * table.stride + row] & 0xC
    if transaction == 0x4 or transaction == 0xC:
        return False
    at = table.data[TOPIC_AT * table.stride + row]
    length = table.data[TOPIC_LENGTH * table.stride + row]
    return at >= 0 and 0 <= length <= log.size - at


def group_queues(log: Buffer, table: Buffer | Integers, count: int, first: int = 0) -> tuple[array[int], array[int]]:
    """Group rows ``first..count-1`` by topic and queue id.

    Returns ``(order, starts)``: group ``g`` is ``order[starts[g]:starts[g+1]]``, row numbers ascending;
    groups come in order of their first row. Prepared and rolled-back transaction records have no place in a
    queue and are left out. Topics are compared byte by byte; the hash only says where to look.
    """
    view = view_of(log)
    rows = table_of(table, COLUMN_COUNT)
    first = max(first, 0)
    count = max(min(count, rows.stride) - first, 0)
    mask = 15
    while mask < 2 * count:
        mask = 2 * mask + 1
    scratch = bytearray(8 * (mask + 1)), bytearray(8 * count), bytearray(8 * count), bytearray(8 * (count + 1))
    slots = writable_longs_of(scratch[0])  # group + 1; 0 is free
    group_of = writable_longs_of(scratch[1])
    heads = writable_longs_of(scratch[2])
    ends = writable_longs_of(scratch[3])
    groups = 0
    with cython.nogil:
        groups = _assign(view, rows, first, count, slots, group_of, heads, ends)
        for group in range(groups):
            ends.data[group + 1] += ends.data[group]
    order = array("q", bytes(8 * ends.data[groups]))
    starts = array("q", bytes(8 * (groups + 1)))
    members = writable_longs_of(order)
    bounds = writable_longs_of(starts)
    with cython.nogil:
        for group in range(groups):
            bounds.data[group + 1] = ends.data[group + 1]
        for number in range(count):
            group = group_of.data[number] - 1
            if group >= 0:
                members.data[heads.data[group]] = first + number
                heads.data[group] += 1
    return order, starts


def _assign(
    log: View, table: Table, first: int, count: int, slots: Longs, group_of: Longs, heads: Longs, ends: Longs
) -> int:
    """Number the queue of each row from 1 on (0: none); sizes of groups, shifted by one, into ``ends``.

    ``heads`` holds the first row of each group meanwhile, and where the group starts in the end.
    """
    cells = table.data
    stride = table.stride
    mask = slots.size - 1
    groups = 0
    for number in range(count):
        row = first + number
        if not _has_place(log, table, row):
            continue
        hashed = cells[QUEUE_HASH * stride + row]
        slot = (hashed ^ (hashed >> 29)) & mask
        group = slots.data[slot] - 1
        while group >= 0 and not _same_queue(log, table, heads.data[group], row):
            slot = (slot + 1) & mask
            group = slots.data[slot] - 1
        if group < 0:
            group = groups
            groups += 1
            slots.data[slot] = groups
            heads.data[group] = row
        group_of.data[number] = group + 1
        ends.data[group + 1] += 1
    start = 0
    for group in range(groups):
        heads.data[group] = start
        start += ends.data[group + 1]
    return groups


def _same_queue(log: View, table: Table, one: int, other: int) -> bool:
    cells = table.data
    stride = table.stride
    length = cells[TOPIC_LENGTH * stride + one]
    return (
        cells[QUEUE_HASH * stride + one] == cells[QUEUE_HASH * stride + other]
        and cells[QUEUE_ID * stride + one] == cells[QUEUE_ID * stride + other]
        and length == cells[TOPIC_LENGTH * stride + other]
        and same_bytes(log, cells[TOPIC_AT * stride + one], log, cells[TOPIC_AT * stride + other], length)
    )


def fill_units(table: Buffer | Integers, order: Buffer | Integers, delay_ms: Buffer | Integers, out: Buffer) -> int:
    """Write a unit for each row named in ``order``; returns how many (fewer only if ``out`` is too small).

    ``delay_ms[level]`` is the delay of each level, level 0 unused, a negative value standing for a level that
    is not configured. A row of the schedule topic gets its due time instead of the tag hash.
    """
    rows = table_of(table, COLUMN_COUNT)
    members = longs_of(order)
    delays = longs_of(delay_ms)
    target = writable_view_of(out)
    count = min(members.size, target.size // _UNIT)
    done = 0
    with cython.nogil:
        while done < count and 0 <= members.data[done] < rows.stride:
            _store_unit(target, _UNIT * done, rows, members.data[done], delays)
            done += 1
    return done


def _store_unit(target: View, at: int, table: Table, row: int, delays: Longs) -> None:
    cells = table.data
    stride = table.stride
    code = cells[TAGS_CODE * stride + row]
    if cells[MARKS * stride + row] & MARK_SCHEDULE:
        level = min(cells[DELAY_LEVEL * stride + row], delays.size - 1)
        if level > 0:
            delay = delays.data[level]
            # Wraps as Java adds, should the store time be damaged.
            code = as_i64(cells[STORE_TIMESTAMP * stride + row] + (delay if delay >= 0 else _UNKNOWN_DELAY_MS))
    store_i64(target, at, cells[PHYSICAL_OFFSET * stride + row])
    store_i32(target, at + 8, cells[SIZE * stride + row])
    store_i64(target, at + 12, code)


def parse_units(data: Buffer, out: Buffer | Integers) -> int:
    """Physical offsets, record sizes and tags codes into the three columns of ``out``; the number of units.

    A partial last unit is left out, and so is what has no place in ``out``.
    """
    view = view_of(data)
    columns = table_of(out, 3)
    count = min(view.size // _UNIT, columns.stride)
    with cython.nogil:
        for number in range(count):
            at = _UNIT * number
            columns.data[number] = load_i64(view, at)
            columns.data[columns.stride + number] = load_i32(view, at + 8)
            columns.data[2 * columns.stride + number] = load_i64(view, at + 12)
    return count
