"""Index files in the core: bulk insert as RocketMQ does it key by key, repair of the hash slots, and chains.

Layout, with ``slots`` and ``entries`` from the store's options because the file does not hold them:

    at                          size     field
     0                             8     begin_timestamp   of the first entry
     8                             8     end_timestamp     of the last entry
    16                             8     begin_offset      physical, of the first entry
    24                             8     end_offset        physical, of the last entry
    32                             4     slots in use
    36                             4     index_count       next entry number; starts at 1, 0 means none
    40                         4 * slots last entry number of each chain
    40 + 4 * slots          20 * entries key hash i32, physical offset i64, seconds i32, previous entry i32

Keys come from ``index_keys``, three int64 each (hash, physical offset, store time), so what stops at the end of one
file goes on in the next at the same position.

The order of stores within one insert is entry, count, slot: a reader, or a process killed in between, sees a
chain that ends early at worst, never one that leads to an unwritten entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from flaremq.core.arrays import Buffer, Integers

if not cython.compiled:
    from flaremq.core.memory import (
        Longs,
        Table,
        View,
        find_byte,
        load_i32,
        load_i64,
        longs_of,
        prefetch_write,
        release_fence,
        store_i32,
        store_i64,
        table_of,
        view_of,
        writable_longs_of,
        writable_view_of,
        zero_bytes,
    )
    from flaremq.core.table import (
        COLUMN_COUNT,
        KEYS_AT,
        KEYS_LENGTH,
        MARK_BAD_TEXT,
        MARKS,
        PHYSICAL_OFFSET,
        STORE_TIMESTAMP,
        SYS_FLAG,
        TAGS_AT,
        TAGS_LENGTH,
        TOPIC_AT,
        TOPIC_LENGTH,
        UNIQUE_KEY_AT,
        UNIQUE_KEY_LENGTH,
    )
    from flaremq.core.text import hash_text, index_hash

HEADER = 40
ENTRY = 20
_AHEAD = 24  # how many keys before its turn a slot is fetched: some 100 ns of memory latency at 5 ns a key
_SECONDS_MAX = 2**31 - 1

# Why index_put stopped. (A name in C is not seen from Python, hence two.)
PUT_DONE = _DONE = 0
PUT_FULL = _FULL = 1  # no entry number left: go on with the next file
PUT_RESERVE = _RESERVE = 2  # would pass ``reserved``: reserve more space in this file first
PUT_INVALID = _INVALID = 3  # a negative hash, which no key has


def capacity_of(index: View, slots: int, entries: int) -> int:
    """Entries that really lie inside the file; 0 for an impossible geometry."""
    if slots <= 0 or entries <= 0 or slots > (index.size - HEADER) // 4:
        return 0
    return min(entries, (index.size - HEADER - 4 * slots) // ENTRY)


def inside(log: View, at: int, length: int) -> bool:
    """Whether a text of a row lies in this log."""
    return at >= 0 and 0 <= length <= log.size - at


def index_keys(
    log: Buffer, table: Buffer | Integers, first_row: int, end_row: int, skip_below: int, with_tags: bool
) -> bytearray:
    """Every index key of rows ``first_row..end_row-1`` in the order RocketMQ puts them: hash, offset, time of each.

    First the unique key, then each word of KEYS; rolled-back transactions have none. Rows whose physical
    offset is below ``skip_below`` are passed over; RocketMQ uses the file's end offset there. Rows marked
    MARK_BAD_TEXT are passed over too: whoever meets one reads its record by itself. ``with_tags`` adds
    ``topic#T#tags`` after the keys: RocketMQ 5.5 writes that, older versions do not.
    """
    view = view_of(log)
    rows = table_of(table, COLUMN_COUNT)
    row = max(first_row, 0)
    end = min(end_row, rows.stride)
    keys = bytearray(24 * (2 * (end - row) + 2)) if row < end else bytearray()
    count = 0
    while row < end:
        cells = writable_longs_of(keys)
        with cython.nogil:
            while row < end:
                length = rows.data[KEYS_LENGTH * rows.stride + row]
                if cells.size < 3 * (count + length // 2 + 3):  # more words than that do not fit into KEYS
                    break
                if rows.data[PHYSICAL_OFFSET * rows.stride + row] >= skip_below:
                    count = _keys_of(view, rows, row, with_tags, cells, count)
                row += 1
        if row < end:
            # A new one: the old one cannot grow while it is looked at.
            keys = keys + bytes(len(keys) + 24 * (rows.data[KEYS_LENGTH * rows.stride + row] // 2 + 3))
    return keys[: 24 * count]


def _keys_of(log: View, table: Table, row: int, with_tags: bool, keys: Longs, count: int) -> int:
    """Append the keys of one row behind the first ``count``, which have room; how many there are then."""
    cells = table.data
    stride = table.stride
    keys_at = cells[KEYS_AT * stride + row]
    keys_length = cells[KEYS_LENGTH * stride + row]
    unique_at = cells[UNIQUE_KEY_AT * stride + row]
    unique_length = cells[UNIQUE_KEY_LENGTH * stride + row]
    tags_at = cells[TAGS_AT * stride + row]
    tags_length = cells[TAGS_LENGTH * stride + row] if with_tags else 0
    if not (keys_length > 0 or unique_length > 0 or tags_length > 0):
        return count
    if cells[SYS_FLAG * stride + row] & 0xC == 0xC or cells[MARKS * stride + row] & MARK_BAD_TEXT:
        return count
    topic_at = cells[TOPIC_AT * stride + row]
    topic_length = cells[TOPIC_LENGTH * stride + row]
    # A row of some other log: never look outside this one.
    if not (
        inside(log, topic_at, topic_length)
        and inside(log, keys_at, keys_length)
        and inside(log, unique_at, unique_length)
        and inside(log, tags_at, tags_length)
    ):
        return count
    offset = cells[PHYSICAL_OFFSET * stride + row]
    time = cells[STORE_TIMESTAMP * stride + row]
    prefix = hash_text(0, log, topic_at, topic_length) * 31 + 35  # 35 is '#'
    if unique_length > 0:
        count = _add_key(keys, count, hash_text(prefix, log, unique_at, unique_length), offset, time)
    stop = keys_at + keys_length
    while keys_at < stop:
        word_end = find_byte(log, keys_at, stop, 32)
        if word_end > keys_at:
            count = _add_key(keys, count, hash_text(prefix, log, keys_at, word_end - keys_at), offset, time)
        keys_at = word_end + 1
    if tags_length > 0:
        prefix = (prefix * 31 + 84) * 31 + 35  # "T#"
        count = _add_key(keys, count, hash_text(prefix, log, tags_at, tags_length), offset, time)
    return count


def _add_key(keys: Longs, count: int, hashed: int, offset: int, time: int) -> int:
    keys.data[3 * count] = index_hash(hashed)
    keys.data[3 * count + 1] = offset
    keys.data[3 * count + 2] = time
    return count + 1


def index_put(
    index: Buffer, slots: int, entries: int, reserved: int, keys: Buffer | Integers, first: int
) -> tuple[int, int]:
    """Insert keys from position ``first`` on; returns ``(first position not done, why it stopped)``.

    No entry from number ``reserved`` on is written. The header is kept as RocketMQ keeps it, byte for byte.
    """
    view = writable_view_of(index)
    cells = longs_of(keys)
    total = cells.size // 3
    number = max(first, 0)
    limit = capacity_of(view, slots, entries)
    count = max(load_i32(view, 36), 1) if limit > 0 else 1
    code = _DONE
    if total - number > _AHEAD:
        with cython.nogil:
            ahead = number
            while ahead < number + _AHEAD:
                _fetch_slot(view, slots, limit, cells.data[3 * ahead])
                ahead += 1
            while number < total and code == _DONE:
                if number + _AHEAD < total:
                    _fetch_slot(view, slots, limit, cells.data[3 * (number + _AHEAD)])
                code = _put_one(view, slots, limit, reserved, count, cells, number)
                if code == _DONE:
                    count += 1
                    number += 1
    else:
        while number < total and code == _DONE:
            code = _put_one(view, slots, limit, reserved, count, cells, number)
            if code == _DONE:
                count += 1
                number += 1
    return number, code


def _fetch_slot(index: View, slots: int, limit: int, hashed: int) -> None:
    if limit > 0 and hashed >= 0:
        prefetch_write(index, HEADER + 4 * (hashed % slots))


def _put_one(index: View, slots: int, limit: int, reserved: int, count: int, keys: Longs, number: int) -> int:
    """Make key ``number`` entry ``count``; _DONE, or why not."""
    hashed = keys.data[3 * number]
    if hashed < 0:
        return _INVALID
    if count >= limit:
        return _FULL
    if count >= reserved:
        return _RESERVE
    offset = keys.data[3 * number + 1]
    time = keys.data[3 * number + 2]
    chain = HEADER + 4 * (hashed % slots)
    previous = load_i32(index, chain)
    if previous < 0 or previous > count:
        previous = 0
    begin = load_i64(index, 0)
    seconds = 0
    if begin > 0 and time > begin:
        seconds = min((time - begin) // 1000, _SECONDS_MAX)
    entry = HEADER + 4 * slots + ENTRY * count
    store_i32(index, entry, hashed)
    store_i64(index, entry + 4, offset)
    store_i32(index, entry + 12, seconds)
    store_i32(index, entry + 16, previous)
    release_fence()
    if count <= 1:
        store_i64(index, 0, time)
        store_i64(index, 16, offset)
    if previous == 0:
        store_i32(index, 32, load_i32(index, 32) + 1)
    store_i32(index, 36, count + 1)
    store_i64(index, 24, offset)
    store_i64(index, 8, time)
    release_fence()
    store_i32(index, chain, count)
    return _DONE


def index_rebuild_slots(index: Buffer, slots: int, entries: int, count: int) -> int:
    """Rebuild every chain from entries 1..count-1 and set both counters; returns the number of slots in use.

    The entries' hashes are trusted, their links are not. Time and offset bounds in the
    header stay as they are. Links that are right already are not written again. -1 if there are not that many
    entries.
    """
    view = writable_view_of(index)
    limit = capacity_of(view, slots, entries)
    if count < 1 or count > limit:
        return -1
    used = 0
    with cython.nogil:
        zero_bytes(view, HEADER, 4 * slots)
        for number in range(1, count):
            entry = HEADER + 4 * slots + ENTRY * number
            chain = HEADER + 4 * (max(load_i32(view, entry), 0) % slots)
            previous = load_i32(view, chain)
            if previous == 0:
                used += 1
            if load_i32(view, entry + 16) != previous:
                store_i32(view, entry + 16, previous)
            store_i32(view, chain, number)
        store_i32(view, 32, used)
        store_i32(view, 36, count)
    return used
