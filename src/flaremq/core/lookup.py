"""Keys looked up in the core: from hash slot to entries to places in the log, and the records there compared by text.

Entries share a chain with those of other keys and a hash with other texts, so what the index says is a candidate until
its record was read. Beside a writer the header's count is older than the slots: it is no bound, a chain whose newest
entry lies beyond it holds all the earlier ones too. Entry numbers fall along a chain; one that does not, because it is
damaged, ends there.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from flaremq.core.arrays import Buffer, Integers

if not cython.compiled:
    from flaremq.core.frame import fill_row, frame_at
    from flaremq.core.index import ENTRY, HEADER, capacity_of
    from flaremq.core.memory import (
        Longs,
        Table,
        View,
        find_byte,
        load_i32,
        load_i64,
        longs_of,
        prefetch_read,
        same_bytes,
        table_of,
        view_of,
        writable_longs_of,
    )
    from flaremq.core.table import (
        CHECK_BODY_CRC,
        CHECK_RECORD_CRC,
        COLUMN_COUNT,
        KEYS_AT,
        KEYS_LENGTH,
        MARK_BAD_TEXT,
        MARKS,
        OK,
        STORE_TIMESTAMP,
        UNIQUE_KEY_AT,
        UNIQUE_KEY_LENGTH,
    )

_AHEAD = 12  # keys fetched before their turn: slot, entry and record are a miss each, some 100 ns
_END_OF_TIME = 2**63 - 1

# What is said of a candidate, beside the size of a record that matches. (A name in C is not seen from Python.)
NO_MATCH = _NO_MATCH = 0
UNDECIDED = _UNDECIDED = -1  # no sound record, or text that is not UTF-8: for Python to look at


def index_lookup(
    index: Buffer, slots: int, entries: int, hashed: int, begin_ms: int, end_ms: int, max_count: int
) -> list[int]:
    """Physical offsets of one file's entries with this hash, newest first.

    An entry's time is that of its record in whole seconds after the file's begin, rounded down.
    """
    view = view_of(index)
    limit = _readable(view, slots, entries)
    found: list[int] = []
    if limit <= 0 or hashed < 0 or max_count <= 0:
        return found
    base = load_i64(view, 0)
    number = _first_entry(view, slots, limit, hashed)
    while number > 0:
        entry = HEADER + 4 * slots + ENTRY * number
        # RocketMQ counts the first entry's seconds from the end of the file before; its time is the begin.
        time = base + 1000 * load_i32(view, entry + 12) if number > 1 else base
        if load_i32(view, entry) == hashed and begin_ms <= time <= end_ms:
            found.append(load_i64(view, entry + 4))
            if len(found) >= max_count:
                break
        if time < begin_ms:
            break
        number = _next_entry(view, slots, number)
    return found


def index_lookup_many(
    index: Buffer, slots: int, entries: int, hashes: Buffer | Integers, max_each: int
) -> tuple[array[int], array[int]]:
    """``(starts, offsets)``: those of hash ``i``, at most ``max_each``, are ``offsets[starts[i]:starts[i+1]]``."""
    view = view_of(index)
    wanted = longs_of(hashes)
    limit = _readable(view, slots, entries)
    starts = array("q", bytes(8 * (wanted.size + 1)))
    bounds = writable_longs_of(starts)
    if limit > 0:
        with cython.nogil:
            for number in range(wanted.size):
                if number + _AHEAD < wanted.size:
                    _fetch_slot(view, slots, wanted.data[number + _AHEAD])
                bounds.data[number] = _first_entry(view, slots, limit, wanted.data[number])
                prefetch_read(view, HEADER + 4 * slots + ENTRY * bounds.data[number])
            count = 0
            for number in range(wanted.size):
                entry = bounds.data[number]
                bounds.data[number] = count
                count += _count_entries(view, slots, entry, wanted.data[number], max_each)
            bounds.data[wanted.size] = count
    offsets = array("q", bytes(8 * bounds.data[wanted.size]))
    places = writable_longs_of(offsets)
    with cython.nogil:
        for number in range(wanted.size):
            if bounds.data[number] < bounds.data[number + 1]:
                _take_entries(view, slots, limit, wanted.data[number], bounds, number, places)
    return starts, offsets


def _readable(index: View, slots: int, entries: int) -> int:
    """Entry numbers are below this; 0 for a file without entries."""
    limit = capacity_of(index, slots, entries)
    return limit if limit > 0 and load_i32(index, 36) > 1 else 0


def _fetch_slot(index: View, slots: int, hashed: int) -> None:
    if hashed >= 0:
        prefetch_read(index, HEADER + 4 * (hashed % slots))


def _first_entry(index: View, slots: int, limit: int, hashed: int) -> int:
    """The newest entry of the hash's chain, 0 if it has none."""
    if hashed < 0:
        return 0
    number = load_i32(index, HEADER + 4 * (hashed % slots))
    return _usable(index, slots, number if number < limit else 0)


def _next_entry(index: View, slots: int, number: int) -> int:
    previous = load_i32(index, HEADER + 4 * slots + ENTRY * number + 16)
    return _usable(index, slots, previous if previous < number else 0)


def _usable(index: View, slots: int, number: int) -> int:
    if number > 0 and load_i32(index, HEADER + 4 * slots + ENTRY * number + 12) >= 0:
        return number
    return 0


def _count_entries(index: View, slots: int, number: int, hashed: int, max_each: int) -> int:
    count = 0
    while number > 0 and count < max_each:
        if load_i32(index, HEADER + 4 * slots + ENTRY * number) == hashed:
            count += 1
        number = _next_entry(index, slots, number)
    return count


def _take_entries(
    index: View, slots: int, limit: int, hashed: int, bounds: Longs, position: int, places: Longs
) -> None:
    """The offsets that were counted; one that a writer takes meanwhile away becomes -1."""
    at = bounds.data[position]
    end = bounds.data[position + 1]
    number = _first_entry(index, slots, limit, hashed)
    while number > 0 and at < end:
        entry = HEADER + 4 * slots + ENTRY * number
        if load_i32(index, entry) == hashed:
            places.data[at] = load_i64(index, entry + 4)
            at += 1
        number = _next_entry(index, slots, number)
    while at < end:
        places.data[at] = -1
        at += 1


def match_record(
    log: Buffer, at: int, base: int, end: int, topic: Buffer, key: Buffer, begin_ms: int, end_ms: int
) -> int:
    """The size of the record at file offset ``at`` if topic, key and store time are the wanted ones.

    Else NO_MATCH or UNDECIDED. No byte from file offset ``end`` on is read; ``base`` is where the file starts.
    """
    view = view_of(log)
    name = view_of(topic)
    text = view_of(key)
    cells = bytearray(64 * COLUMN_COUNT)
    return _judge(view, at, base, end, name, text, 0, text.size, begin_ms, end_ms, table_of(cells, COLUMN_COUNT))


def match_records(
    log: Buffer,
    base: int,
    end: int,
    topic: Buffer,
    keys: Buffer,
    key_offsets: Buffer | Integers,
    starts: Buffer | Integers,
    offsets: Buffer | Integers,
    verdicts: Buffer | Integers,
) -> int:
    """Judge the candidates of ``index_lookup_many`` that lie in this file before ``end``, as ``match_record`` does.

    Key ``i`` is ``keys[key_offsets[i]:key_offsets[i+1]]``; its candidates are those from ``starts[i]`` on. Verdicts of
    other files' candidates stay as they are. Returns the number of those judged.
    """
    view = view_of(log)
    name = view_of(topic)
    texts = view_of(keys)
    ends = longs_of(key_offsets)
    bounds = longs_of(starts)
    places = longs_of(offsets)
    answers = writable_longs_of(verdicts)
    cells = bytearray(64 * COLUMN_COUNT)
    scratch = table_of(cells, COLUMN_COUNT)
    count = min(ends.size, bounds.size) - 1
    judged = 0
    with cython.nogil:
        for number in range(count):
            key_at = ends.data[number]
            key_length = ends.data[number + 1] - key_at
            if key_at < 0 or key_length < 0 or key_length > texts.size - key_at:
                continue
            stop = min(bounds.data[number + 1], places.size, answers.size)
            for candidate in range(max(bounds.data[number], 0), stop):
                if candidate + _AHEAD < places.size:
                    prefetch_read(view, places.data[candidate + _AHEAD] - base)
                    prefetch_read(view, places.data[candidate + _AHEAD] - base + 64)
                at = places.data[candidate] - base
                if at < 0 or at >= end or at >= view.size:
                    continue
                judged += 1
                answers.data[candidate] = _judge(
                    view, at, base, end, name, texts, key_at, key_length, 0, _END_OF_TIME, scratch
                )
    return judged


def _judge(
    log: View,
    at: int,
    base: int,
    end: int,
    topic: View,
    keys: View,
    key_at: int,
    key_length: int,
    begin_ms: int,
    end_ms: int,
    scratch: Table,
) -> int:
    if at < 0 or at >= end or end > log.size:
        return _UNDECIDED
    frame = frame_at(log, at, end, base, CHECK_BODY_CRC | CHECK_RECORD_CRC)
    if frame.code != OK:
        return _UNDECIDED
    fill_row(log, at, frame, 0, scratch, 0)
    cells = scratch.data
    stride = scratch.stride
    time = cells[STORE_TIMESTAMP * stride]
    if time < begin_ms or time > end_ms:
        return _NO_MATCH
    if cells[MARKS * stride] & MARK_BAD_TEXT:
        return _UNDECIDED
    if frame.topic_length != topic.size or not same_bytes(log, frame.topic_at, topic, 0, topic.size):
        return _NO_MATCH
    if cells[UNIQUE_KEY_LENGTH * stride] == key_length and key_length > 0:
        if same_bytes(log, cells[UNIQUE_KEY_AT * stride], keys, key_at, key_length):
            return frame.size
    word = cells[KEYS_AT * stride]
    stop = word + cells[KEYS_LENGTH * stride]
    while word < stop:
        word_end = find_byte(log, word, stop, 32)
        if word_end - word == key_length and key_length > 0 and same_bytes(log, word, keys, key_at, key_length):
            return frame.size
        word = word_end + 1
    return _NO_MATCH
