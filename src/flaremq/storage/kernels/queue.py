"""ConsumeQueue kernels: which rows belong to which queue, and 20-byte units for them, both ways.

One unit:

    at  size  field             note
     0     8  physical_offset   start of the record in the log
     8     4  record_size       whole record in bytes
    12     8  tags_code         Java hash of the tags, sign-extended; due time in the schedule topic
"""

from __future__ import annotations

import numpy as np

from flaremq.storage.kernels.compile import (
    I64,
    READ_BYTES,
    READ_INTEGERS,
    TABLE,
    WRITE_BYTES,
    WRITE_INTEGERS,
    Bytes,
    Integers,
    kernel,
    several,
)
from flaremq.storage.kernels.memory import address_of, load_i32, load_i64, same_bytes, store_i32, store_i64
from flaremq.storage.kernels.table import (
    COLUMN_COUNT,
    DELAY_LEVEL,
    MARK_SCHEDULE,
    MARKS,
    PHYSICAL_OFFSET,
    QUEUE_HASH,
    QUEUE_ID,
    SIZE,
    STORE_TIMESTAMP,
    SYS_FLAG,
    TAGS_CODE,
    TOPIC_AT,
    TOPIC_LENGTH,
)

_UNIT = 20
_UNKNOWN_DELAY_MS = 1000  # RocketMQ's choice for a level without an entry


@kernel(several(2, WRITE_INTEGERS), READ_BYTES, TABLE, I64)
def group_queues(log: Bytes, table: Integers, count: int) -> tuple[Integers, Integers]:
    """Group the first ``count`` rows by topic and queue id.

    Returns ``(order, starts)``: group ``g`` is ``order[starts[g]:starts[g+1]]``, row numbers ascending;
    groups come in order of their first row. Prepared and rolled-back transaction records have no place in a
    queue and are left out. Topics are compared byte by byte; the hash only says where to look.
    """
    address = address_of(log)
    rows = min(max(count, 0), table.shape[1]) if table.shape[0] == COLUMN_COUNT else 0
    mask = 15
    while mask < 2 * rows:
        mask = 2 * mask + 1
    slots = np.full(mask + 1, -1, np.int32)
    group_of = np.empty(rows, np.int32)
    first_row = np.empty(rows, np.int32)
    starts = np.zeros(rows + 1, np.int64)  # sizes first, shifted by one
    groups = 0
    for row in range(rows):
        transaction = table[SYS_FLAG, row] & 0xC
        if transaction == 0x4 or transaction == 0xC:
            group_of[row] = -1
            continue
        hashed = table[QUEUE_HASH, row]
        length = table[TOPIC_LENGTH, row]
        topic_at = table[TOPIC_AT, row]
        if topic_at < 0 or length < 0 or length > log.size - topic_at:
            group_of[row] = -1  # a row of some other log: never look outside this one
            continue
        slot = (hashed ^ (hashed >> 29)) & mask
        group = slots[slot]
        while group >= 0:
            other = first_row[group]
            if (
                table[QUEUE_HASH, other] == hashed
                and table[QUEUE_ID, other] == table[QUEUE_ID, row]
                and table[TOPIC_LENGTH, other] == length
                and same_bytes(address + table[TOPIC_AT, other], address + topic_at, length)
            ):
                break
            slot = (slot + 1) & mask
            group = slots[slot]
        if group < 0:
            group = groups
            slots[slot] = group
            first_row[group] = row
            groups += 1
        group_of[row] = group
        starts[group + 1] += 1
    for group in range(groups):
        starts[group + 1] += starts[group]
    order = np.empty(starts[groups], np.int64)
    cursor = starts[:groups].copy()
    for row in range(rows):
        group = group_of[row]
        if group >= 0:
            order[cursor[group]] = row
            cursor[group] += 1
    return order, starts[: groups + 1].copy()


@kernel(I64, TABLE, READ_INTEGERS, READ_INTEGERS, WRITE_BYTES)
def fill_units(table: Integers, order: Integers, delay_ms: Integers, out: Bytes) -> int:
    """Write a unit for each row named in ``order``; returns how many (fewer only if ``out`` is too small).

    ``delay_ms[level]`` is the delay of each level, level 0 unused, a negative value standing for a level that
    is not configured. A row of the schedule topic gets its due time instead of the tag hash.
    """
    address = address_of(out)
    rows = table.shape[1] if table.shape[0] == COLUMN_COUNT else 0
    highest = delay_ms.size - 1
    count = min(order.size, out.size // _UNIT)
    for number in range(count):
        row = order[number]
        if row < 0 or row >= rows:
            return number
        code = table[TAGS_CODE, row]
        if table[MARKS, row] & MARK_SCHEDULE:
            level = min(table[DELAY_LEVEL, row], highest)
            if level > 0:
                delay = delay_ms[level]
                code = table[STORE_TIMESTAMP, row] + (delay if delay >= 0 else _UNKNOWN_DELAY_MS)
        store_i64(address, table[PHYSICAL_OFFSET, row])
        store_i32(address + 8, table[SIZE, row])
        store_i64(address + 12, code)
        address += _UNIT
    return count


@kernel(TABLE, READ_BYTES)
def parse_units(data: Bytes) -> Integers:
    """Physical offsets, record sizes and tags codes, as three rows; a partial last unit is left out."""
    address = address_of(data)
    count = data.size // _UNIT
    units = np.empty((3, count), np.int64)
    for number in range(count):
        units[0, number] = load_i64(address)
        units[1, number] = load_i32(address + 8)
        units[2, number] = load_i64(address + 12)
        address += _UNIT
    return units
