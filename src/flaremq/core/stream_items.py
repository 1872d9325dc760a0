"""Rows of a sink: Arrow columns become batch bodies of a write stream (``message/write_stream.py``).

Bodies and properties come as Arrow lays them out, one run of bytes and the offsets of its pieces; ``rows`` says which
of them, in which order. Hashes and digests are 64 bits, carried as int64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from flaremq.core.arrays import Buffer, Integers

if not cython.compiled:
    from flaremq.core.memory import (
        Longs,
        View,
        as_i64,
        as_u64,
        copy_bytes,
        load_u8,
        load_word,
        longs_of,
        store_i16,
        store_i32,
        store_u8,
        view_of,
        writable_longs_of,
        writable_view_of,
    )

_HEAD = 20
_PROPERTIES_MAX = 32767
SUFFIX_SIZE = 69  # the end of an item's properties: UNIQ_KEY 0x01 key 0x02 FMQ_CHAIN 0x01 digest 0x02
_SUFFIX = SUFFIX_SIZE  # the same as a C number
_KEY_AT = 9
_CHAIN_AT = 52

# The chain's factor is that of write_stream.link; the others are arbitrary odd numbers. Stored messages depend on all.
_FACTOR = 0x9E3779B97F4A7C15
_FIRST = 0xC2B2AE3D27D4EB4F
_SECOND = 0x165667B19E3779F9


def _mixed(value: int) -> int:
    value = as_u64((value ^ (value >> 29)) * _FIRST)
    value = as_u64((value ^ (value >> 32)) * _SECOND)
    return value ^ (value >> 31)


def _hash_bytes(content: View, at: int, length: int, seed: int) -> int:
    """A hash of a run of bytes, eight at a time; not for keeping secrets."""
    value = as_u64(seed) ^ as_u64(as_u64(length) * _FACTOR)
    end = at + length
    while end - at >= 8:
        value = as_u64((value ^ as_u64(load_word(content, at) * _FIRST)) * _FACTOR)
        value = value ^ (value >> 32)
        at += 8
    last = as_u64(0)
    while at < end:
        last = as_u64(last << 8) | as_u64(load_u8(content, at))
        at += 1
    return _mixed(value ^ as_u64(last * _SECOND))


def _fits(offsets: Longs, size: int, row: int) -> bool:
    if row < 0 or row >= offsets.size - 1:
        return False
    return offsets.data[row] >= 0 and offsets.data[row] <= offsets.data[row + 1] and offsets.data[row + 1] <= size


def hash_rows(
    bodies: Buffer,
    body_offsets: Integers,
    properties: Buffer,
    property_offsets: Integers,
    rows: Integers,
    hashes: Integers,
) -> int:
    """The content hash of each row; -1 if an offset is impossible."""
    body = view_of(bodies)
    text = view_of(properties)
    body_ends = longs_of(body_offsets)
    text_ends = longs_of(property_offsets)
    chosen = longs_of(rows)
    found = writable_longs_of(hashes)
    done = 0
    if found.size < chosen.size:
        return -1
    with cython.nogil:
        while done < chosen.size:
            row = chosen.data[done]
            if not _fits(body_ends, body.size, row) or not _fits(text_ends, text.size, row):
                break
            at = body_ends.data[row]
            value = _hash_bytes(body, at, body_ends.data[row + 1] - at, 1)
            at = text_ends.data[row]
            found.data[done] = as_i64(_hash_bytes(text, at, text_ends.data[row + 1] - at, value))
            done += 1
    return done if done == chosen.size else -1


def chain_rows(hashes: Integers, chain: int) -> int:
    """The digest after these messages."""
    hashed = longs_of(hashes)
    value = as_u64(chain)
    for number in range(hashed.size):
        value = as_u64(as_u64(value + as_u64(hashed.data[number])) * _FACTOR + 1)
    return as_i64(value)


def _store_hex(target: View, at: int, value: int, digits: int, ten: int) -> None:
    """A number in hexadecimal; ``ten`` is the letter A, or a, less ten."""
    for place in range(digits):
        digit = (value >> (4 * (digits - 1 - place))) & 15
        store_u8(target, at + place, digit + (48 if digit < 10 else ten))


# Long on purpose: an item is its head, body, properties and suffix, written one after the other.
def encode_items(
    bodies: Buffer,
    body_offsets: Integers,
    properties: Buffer,
    property_offsets: Integers,
    rows: Integers,
    hashes: Integers,
    start: int,
    count_max: int,
    suffix: Buffer,
    number: int,
    chain: int,
    out: Buffer,
) -> tuple[int, int, int]:
    """Write rows from ``rows[start]`` on as batch items until ``out`` is full: (rows, bytes, digest after the last).

    The first becomes message ``number`` of its stream. ``suffix`` is the end of the properties with the stream filled
    in. (-1, 0, 0) if something does not fit its field.
    """
    body = view_of(bodies)
    text = view_of(properties)
    end_text = view_of(suffix)
    target = writable_view_of(out)
    body_ends = longs_of(body_offsets)
    text_ends = longs_of(property_offsets)
    chosen = longs_of(rows)
    hashed = longs_of(hashes)
    value = as_u64(chain)
    at = done = 0
    if end_text.size != _SUFFIX or hashed.size < chosen.size or start < 0:
        return -1, 0, 0
    with cython.nogil:
        while done < count_max and start + done < chosen.size:
            row = chosen.data[start + done]
            if not _fits(body_ends, body.size, row) or not _fits(text_ends, text.size, row):
                done = -1
                break
            length = body_ends.data[row + 1] - body_ends.data[row]
            own = text_ends.data[row + 1] - text_ends.data[row]
            if own + _SUFFIX > _PROPERTIES_MAX:
                done = -1
                break
            size = _HEAD + length + 2 + own + _SUFFIX
            if size > target.size - at:
                break
            store_i32(target, at, size)
            store_i32(target, at + 4, 0)
            store_i32(target, at + 8, 0)
            store_i32(target, at + 12, 0)
            store_i32(target, at + 16, length)
            copy_bytes(target, at + _HEAD, body, body_ends.data[row], length)
            place = at + _HEAD + length
            store_i16(target, place, own + _SUFFIX)
            copy_bytes(target, place + 2, text, text_ends.data[row], own)
            place += 2 + own
            copy_bytes(target, place, end_text, 0, _SUFFIX)
            value = as_u64(as_u64(value + as_u64(hashed.data[start + done])) * _FACTOR + 1)
            order = as_u64(number + done)
            _store_hex(target, place + _KEY_AT + 16, order >> 16, 4, 55)
            _store_hex(target, place + _KEY_AT + 28, order & 0xFFFF, 4, 55)
            _store_hex(target, place + _CHAIN_AT, value, 16, 87)
            at += size
            done += 1
    if done < 0:
        return -1, 0, 0
    return done, at, as_i64(value)
