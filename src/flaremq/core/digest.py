"""Digests of rows that do not depend on their order, so that two places that hold the same rows give the same sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from flaremq.core.arrays import ArrowOffsets, Buffer, Integers

if not cython.compiled:
    from flaremq.core.crc import crc32_at
    from flaremq.core.memory import as_i64, as_u64, ints_of, longs_of, view_of, writable_longs_of

# The finalizer of splitmix64. Archives hold digests made with these numbers.
_A = 0xBF58476D1CE4E5B9
_B = 0x94D049BB133111EB
_STEP = 0x9E3779B97F4A7C15
_OTHER_LANE = 0xD6E8FEB86659FD93


def _mix(value: int) -> int:
    value = as_u64((value ^ (value >> 30)) * _A)
    value = as_u64((value ^ (value >> 27)) * _B)
    return value ^ (value >> 31)


def crc_slices(data: Buffer, offsets: ArrowOffsets, out: Integers) -> None:
    """``out[i]`` = CRC-32 of ``data[offsets[i]:offsets[i+1]]``, sign bit cleared as in a record; -1 if out of range."""
    content = view_of(data)
    bounds = ints_of(offsets)
    found = writable_longs_of(out)
    with cython.nogil:
        for row in range(found.size):
            found.data[row] = -1
            if row + 1 < bounds.size:
                at = bounds.data[row]
                end = bounds.data[row + 1]
                if at >= 0 and at <= end and end <= content.size:
                    found.data[row] = crc32_at(content, at, end - at) & 0x7FFFFFFF


def hash_entries(offsets: ArrowOffsets, keys: Integers, values: Integers, out: Integers) -> None:
    """``out[i]`` = sum over the entries of map ``i`` of a mix of their two CRCs: their order does not count."""
    bounds = ints_of(offsets)
    names = longs_of(keys)
    texts = longs_of(values)
    found = writable_longs_of(out)
    count = min(names.size, texts.size)
    with cython.nogil:
        for row in range(found.size):
            total = as_u64(0)
            at = end = 0
            if row + 1 < bounds.size:
                at = bounds.data[row]
                end = bounds.data[row + 1]
            if at >= 0 and at <= end and end <= count:
                for entry in range(at, end):
                    mixed = _mix(as_u64(as_u64(names.data[entry]) << 32) ^ as_u64(texts.data[entry]) ^ _STEP)
                    total = as_u64(total + mixed)
            found.data[row] = as_i64(total)


def digest_fields(fields: Integers, count: int) -> tuple[int, int]:
    """Two sums, modulo 2^64, over the hashes of all rows of a table of ``count`` columns, one after the other."""
    cells = longs_of(fields)
    low = as_u64(0)
    high = as_u64(0)
    if count > 0:
        rows = cells.size // count
        with cython.nogil:
            for row in range(rows):
                value = as_u64(_STEP)
                for field in range(count):
                    step = as_u64(as_u64(cells.data[field * rows + row]) * _STEP)
                    value = _mix(as_u64(value + step + field))
                low = as_u64(low + value)
                high = as_u64(high + _mix(value ^ _OTHER_LANE))
    return low, high
