"""IndexFile kernels that write: bulk insert as RocketMQ does it key by key, and repair of the hash slots.

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

Keys come from ``index_keys`` as three parallel arrays (hash, physical offset, store time), so what stops at
the end of one file goes on in the next at the same position.

The order of stores within one insert is entry, count, slot: a reader, or a process killed in between, sees a
chain that ends early at worst, never one that leads to an unwritten entry.
"""

from __future__ import annotations

import numpy as np

from flaremq.storage.kernels.compile import (
    I64,
    READ_BYTES,
    READ_INTEGERS,
    TABLE,
    U64,
    WRITE_BYTES,
    WRITE_INTEGERS,
    Bytes,
    Integers,
    helper,
    kernel,
    several,
    types,
)
from flaremq.storage.kernels.memory import (
    address_of,
    as_array,
    copy_bytes,
    find_byte,
    load_i32,
    load_i64,
    prefetch_write,
    store_i32,
    store_i64,
)
from flaremq.storage.kernels.table import (
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
from flaremq.storage.kernels.text import hash_text, index_hash

HEADER = 40
ENTRY = 20
_SPACES = U64(0x2020202020202020)
_AHEAD = 24  # how many keys before its turn a slot is fetched: some 100 ns of memory latency at 5 ns a key
_SECONDS_MAX = 2**31 - 1

# Why index_put stopped.
PUT_DONE = 0
PUT_FULL = 1  # no entry number left: go on with the next file
PUT_RESERVE = 2  # would pass ``reserved``: reserve more space in this file first
PUT_PLAIN = 3  # this key is a row index_keys could not hash: do it in Python, go on after it


@helper
def capacity_of(index: Bytes, slots: int, entries: int) -> int:
    """Entries that really lie inside the array; 0 for an impossible geometry."""
    if slots <= 0 or entries <= 0 or slots > (index.size - HEADER) // 4:
        return 0
    return min(entries, (index.size - HEADER - 4 * slots) // ENTRY)


@helper
def inside(log: Bytes, at: int, length: int) -> bool:
    """Whether a text of a row lies in this log, with the eight bytes before its end that word scans need."""
    return at >= 8 and 0 <= length <= log.size - at


@helper
def longer(values: Integers, needed: int) -> Integers:
    """The same values in an array of at least twice the size, with room for more than ``needed``."""
    grown = np.empty(2 * max(values.size, needed), np.int64)
    copy_bytes(address_of(grown), address_of(values), 8 * values.size)
    return grown


@kernel(several(3, WRITE_INTEGERS), READ_BYTES, TABLE, I64, I64, I64, types.boolean)
def index_keys(
    log: Bytes, table: Integers, first_row: int, end_row: int, skip_below: int, with_tags: bool
) -> tuple[Integers, Integers, Integers]:
    """Every index key of rows ``first_row..end_row-1`` in the order RocketMQ puts them: (hash, offset, time).

    First the unique key, then each word of KEYS; rolled-back transactions have none. Rows whose physical
    offset is below ``skip_below`` are passed over; RocketMQ uses the file's end offset there. A row marked
    MARK_BAD_TEXT that has keys appears once, with hash ``-1 - row``. ``with_tags`` adds ``topic#T#tags`` after
    the keys: RocketMQ 5.5 writes that, older versions do not.
    """
    address = address_of(log)
    rows = table.shape[1] if table.shape[0] == COLUMN_COUNT else 0
    first = max(first_row, 0)
    end = min(end_row, rows)
    hashes = np.empty(2 * max(end - first, 0) + 8, np.int64)
    origins = np.empty(hashes.size, np.int64)
    count = 0
    for row in range(first, end):
        keys_at = table[KEYS_AT, row]
        keys_length = table[KEYS_LENGTH, row]
        unique_at = table[UNIQUE_KEY_AT, row]
        unique_length = table[UNIQUE_KEY_LENGTH, row]
        topic_at = table[TOPIC_AT, row]
        topic_length = table[TOPIC_LENGTH, row]
        if table[PHYSICAL_OFFSET, row] < skip_below or table[SYS_FLAG, row] & 0xC == 0xC:
            continue
        tags_at = table[TAGS_AT, row]
        tags_length = table[TAGS_LENGTH, row] if with_tags else 0
        if not (keys_length > 0 or unique_length > 0 or tags_length > 0):
            continue
        # A row of some other log: never look outside this one.
        if not inside(log, topic_at, topic_length):
            continue
        if not (keys_length == 0 or inside(log, keys_at, keys_length)):
            continue
        if not (unique_length == 0 or inside(log, unique_at, unique_length)):
            continue
        if not (tags_length == 0 or inside(log, tags_at, tags_length)):
            continue
        if hashes.size < count + keys_length // 2 + 3:  # more words than that do not fit
            hashes = longer(hashes, count + keys_length)
            origins = longer(origins, count + keys_length)
        if table[MARKS, row] & MARK_BAD_TEXT:
            hashes[count] = -1 - row
            origins[count] = row
            count += 1
            continue
        prefix = hash_text(0, address + topic_at, topic_length) * 31 + 35  # 35 is '#'
        if unique_length > 0:
            hashes[count] = index_hash(hash_text(prefix, address + unique_at, unique_length))
            origins[count] = row
            count += 1
        position = address + keys_at
        stop = position + keys_length
        while position < stop:
            word_end = find_byte(position, stop, _SPACES)
            if word_end > position:
                hashes[count] = index_hash(hash_text(prefix, position, word_end - position))
                origins[count] = row
                count += 1
            position = word_end + 1
        if tags_length > 0:
            prefix = (prefix * 31 + 84) * 31 + 35  # "T#"
            hashes[count] = index_hash(hash_text(prefix, address + tags_at, tags_length))
            origins[count] = row
            count += 1
    offsets = np.empty(count, np.int64)
    times = np.empty(count, np.int64)
    for number in range(count):
        offsets[number] = table[PHYSICAL_OFFSET, origins[number]]
        times[number] = table[STORE_TIMESTAMP, origins[number]]
    return hashes[:count], offsets, times


@kernel(several(2, I64), WRITE_BYTES, I64, I64, I64, READ_INTEGERS, READ_INTEGERS, READ_INTEGERS, I64)
def index_put(
    index: Bytes,
    slots: int,
    entries: int,
    reserved: int,
    hashes: Integers,
    offsets: Integers,
    times: Integers,
    first: int,
) -> tuple[int, int]:
    """Insert keys from position ``first`` on; returns ``(first position not done, why it stopped)``.

    No entry from number ``reserved`` on is written. The header is kept as RocketMQ keeps it, byte for byte.
    """
    total = min(hashes.size, offsets.size, times.size)
    limit = capacity_of(index, slots, entries)
    header = address_of(index)
    chains = header + HEADER
    table = chains + 4 * slots
    count = max(load_i32(header + 36), 1) if limit > 0 else 1
    for number in range(max(first, 0), min(first + _AHEAD, total)):
        if limit > 0 and hashes[number] >= 0:
            prefetch_write(chains + 4 * (hashes[number] % slots))
    number = max(first, 0)
    while number < total:
        hashed = hashes[number]
        if hashed < 0:
            return number, PUT_PLAIN
        if count >= limit:
            return number, PUT_FULL
        if count >= reserved:
            return number, PUT_RESERVE
        if number + _AHEAD < total and hashes[number + _AHEAD] >= 0:
            prefetch_write(chains + 4 * (hashes[number + _AHEAD] % slots))
        chain = chains + 4 * (hashed % slots)
        previous = load_i32(chain)
        if previous < 0 or previous > count:
            previous = 0
        begin = load_i64(header)
        seconds = 0
        if begin > 0 and times[number] > begin:
            seconds = min((times[number] - begin) // 1000, _SECONDS_MAX)
        entry = table + ENTRY * count
        store_i32(entry, hashed)
        store_i64(entry + 4, offsets[number])
        store_i32(entry + 12, seconds)
        store_i32(entry + 16, previous)
        if count <= 1:
            store_i64(header, times[number])
            store_i64(header + 16, offsets[number])
        if previous == 0:
            store_i32(header + 32, load_i32(header + 32) + 1)
        store_i32(header + 36, count + 1)
        store_i64(header + 24, offsets[number])
        store_i64(header + 8, times[number])
        store_i32(chain, count)
        count += 1
        number += 1
    return number, PUT_DONE


@kernel(I64, WRITE_BYTES, I64, I64, I64)
def index_rebuild_slots(index: Bytes, slots: int, entries: int, count: int) -> int:
    """Rebuild every chain from entries 1..count-1 and set both counters; returns the number of slots in use.

    The entries' hashes are trusted, their links are not. Time and offset bounds in the
    header stay as they are. Links that are right already are not written again. -1 if there are not that many
    entries.
    """
    limit = capacity_of(index, slots, entries)
    if count < 1 or count > limit:
        return -1
    header = address_of(index)
    chains = header + HEADER
    table = chains + 4 * slots
    index[HEADER : HEADER + 4 * slots] = 0
    used = 0
    for number in range(1, count):
        entry = table + ENTRY * number
        chain = chains + 4 * (max(load_i32(entry), 0) % slots)
        previous = load_i32(chain)
        if previous == 0:
            used += 1
        if load_i32(entry + 16) != previous:
            store_i32(entry + 16, previous)
        store_i32(chain, number)
    store_i32(header + 32, used)
    store_i32(header + 36, count)
    return used


def rebuild_slots(buffer: bytearray | memoryview, slots: int, entries: int, count: int) -> int:
    """``index_rebuild_slots`` on a mapped index file."""
    return index_rebuild_slots(as_array(buffer), slots, entries, count)
