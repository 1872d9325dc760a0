"""IndexFile kernels that read: look up many keys at once, drop hash collisions."""

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
)
from flaremq.storage.kernels.index import ENTRY, HEADER, capacity_of, inside, longer
from flaremq.storage.kernels.memory import address_of, find_byte, load_i32, load_i64, same_bytes
from flaremq.storage.kernels.table import (
    COLUMN_COUNT,
    KEYS_AT,
    KEYS_LENGTH,
    MARK_BAD_TEXT,
    MARKS,
    OK,
    RESULT,
    STORE_TIMESTAMP,
    TOPIC_AT,
    TOPIC_LENGTH,
    UNIQUE_KEY_AT,
    UNIQUE_KEY_LENGTH,
)

_SPACES = U64(0x2020202020202020)
_ROUNDING_MS = 999  # times are kept in whole seconds after begin_timestamp, rounded down

# What match_keys says of a candidate.
NO_MATCH = 0
MATCH = 1
UNDECIDED = 2  # a record with text that is not UTF-8: compare in Python


@kernel(several(2, WRITE_INTEGERS), READ_BYTES, I64, I64, READ_INTEGERS, I64, I64, I64)
def index_lookup_many(
    index: Bytes, slots: int, entries: int, hashes: Integers, begin_ms: int, end_ms: int, max_each: int
) -> tuple[Integers, Integers]:
    """Entries of one file that may belong to the given key hashes: (position in ``hashes``, physical offset).

    Newest first per key, at most ``max_each`` of each. ``begin_ms`` is widened by what rounding may hide, so
    the caller compares times (and texts) on the records. Entry numbers must fall along a chain; a chain that
    does not, because it is damaged, ends there. The header's count is no bound: beside a writer it is older than
    the slots, and a chain whose newest entry lies beyond it holds all the earlier ones too.
    """
    limit = capacity_of(index, slots, entries)
    header = address_of(index)
    count = load_i32(header + 36) if limit > 0 else 0
    base = load_i64(header) if limit > 0 else 0
    chains = header + HEADER
    table = chains + 4 * slots
    begin = max(begin_ms, 0) - _ROUNDING_MS
    numbers = np.empty(hashes.size + 8, np.int64)
    offsets = np.empty(hashes.size + 8, np.int64)
    found = 0
    for number in range(hashes.size if count > 1 else 0):
        hashed = hashes[number]
        if hashed < 0:
            continue
        entry_number = load_i32(chains + 4 * (hashed % slots))
        taken = 0
        while 0 < entry_number < limit and taken < max_each:
            entry = table + ENTRY * entry_number
            seconds = load_i32(entry + 12)
            if seconds < 0:
                break
            # RocketMQ counts the first entry's seconds from the end of the file before; its time is the begin.
            time = base + 1000 * seconds if entry_number > 1 else base
            if load_i32(entry) == hashed and begin <= time <= end_ms:
                if found == numbers.size:
                    numbers, offsets = longer(numbers, found), longer(offsets, found)
                numbers[found] = number
                offsets[found] = load_i64(entry + 4)
                found += 1
                taken += 1
            previous = load_i32(entry + 16)
            if previous >= entry_number or time < begin:
                break
            entry_number = previous
    return numbers[:found], offsets[:found]


@helper
def _has_key(log: Bytes, table: Integers, row: int, key: int, length: int) -> bool:
    """Whether the text at address ``key`` is the row's unique key or a word of its KEYS."""
    unique_at = table[UNIQUE_KEY_AT, row]
    if (
        table[UNIQUE_KEY_LENGTH, row] == length
        and inside(log, unique_at, length)
        and same_bytes(address_of(log) + unique_at, key, length)
    ):
        return True
    if not inside(log, table[KEYS_AT, row], table[KEYS_LENGTH, row]):
        return False
    position = address_of(log) + table[KEYS_AT, row]
    stop = position + table[KEYS_LENGTH, row]
    while position < stop:
        word_end = find_byte(position, stop, _SPACES)
        if word_end - position == length and same_bytes(position, key, length):
            return True
        position = word_end + 1
    return False


@kernel(I64, READ_BYTES, TABLE, READ_INTEGERS, READ_BYTES, READ_BYTES, READ_INTEGERS, I64, I64, WRITE_BYTES)
def match_keys(
    log: Bytes,
    table: Integers,
    key_numbers: Integers,
    topic: Bytes,
    keys: Bytes,
    key_offsets: Integers,
    begin_ms: int,
    end_ms: int,
    verdicts: Bytes,
) -> int:
    """Judge candidate ``i``, parsed into row ``i`` by ``parse_at``; returns how many match.

    A record matches if its topic is ``topic``, its store time lies in ``begin_ms..end_ms`` and key number
    ``key_numbers[i]``, that is ``keys[key_offsets[k]:key_offsets[k+1]]``, is its unique key or a word of its
    KEYS.
    """
    address = address_of(log)
    rows = table.shape[1] if table.shape[0] == COLUMN_COUNT else 0
    matches = 0
    for row in range(min(key_numbers.size, verdicts.size, rows)):
        verdicts[row] = NO_MATCH
        number = key_numbers[row]
        if table[RESULT, row] != OK or number < 0 or number >= key_offsets.size - 1:
            continue
        if not begin_ms <= table[STORE_TIMESTAMP, row] <= end_ms:
            continue
        at = key_offsets[number]
        length = key_offsets[number + 1] - at
        if at < 0 or length <= 0 or length > keys.size - at:
            continue
        if table[MARKS, row] & MARK_BAD_TEXT:
            verdicts[row] = UNDECIDED
        elif (
            table[TOPIC_LENGTH, row] == topic.size
            and inside(log, table[TOPIC_AT, row], topic.size)
            and same_bytes(address + table[TOPIC_AT, row], address_of(topic), topic.size)
            and _has_key(log, table, row, address_of(keys) + at, length)
        ):
            verdicts[row] = MATCH
            matches += 1
    return matches
