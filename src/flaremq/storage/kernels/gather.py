"""Copy kernels: scattered pieces of a log into one buffer, laid out as Arrow wants them.

Arrow's variable-length columns are one data buffer and ``n + 1`` offsets of 32 bits, so one call makes at
most 2 GiB of data; batches are far smaller.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flaremq.storage.kernels.compile import (
    I64,
    READ_BYTES,
    READ_INTEGERS,
    U64,
    WRITE_ARROW_OFFSETS,
    WRITE_BYTES,
    ArrowOffsets,
    Bytes,
    Integers,
    helper,
    kernel,
    several,
)
from flaremq.storage.kernels.memory import (
    address_of,
    copy_bytes,
    find_byte,
    load_i32,
    load_i64,
    same_bytes,
    word_before,
)

_LARGEST = 2**31 - 1
_ONES = U64(0x0101010101010101)
_TWOS = U64(0x0202020202020202)
_MIX = U64(0x9E3779B97F4A7C15)
_PIECES = 8192  # more than fit into 32,767 bytes of properties at four bytes a piece
_SLOTS = 2 * _PIECES


@kernel(I64, READ_BYTES, READ_INTEGERS, READ_INTEGERS, WRITE_ARROW_OFFSETS, WRITE_BYTES)
def gather(log: Bytes, at: Integers, length: Integers, offsets: ArrowOffsets, out: Bytes) -> int:
    """Copy pieces of the log end to end, noting where each begins; returns the bytes.

    Piece ``i`` is ``log[at[i]:at[i]+length[i]]``; ``offsets`` has one element more than ``at``.
    -1, with nothing promised about ``out``, if a piece lies outside the log or an array is too small.
    """
    source = address_of(log)
    target = address_of(out)
    room = min(out.size, _LARGEST)
    count = at.size
    if length.size < count or offsets.size < count + 1:
        return -1
    done = 0
    offsets[0] = 0
    for number in range(count):
        place = at[number]
        size = length[number]
        if place < 0 or size < 0 or size > log.size - place or size > room - done:
            return -1
        copy_bytes(target + done, source + place, size)
        done += size
        offsets[number + 1] = done
    return done


@kernel(I64, READ_BYTES, READ_INTEGERS, READ_INTEGERS, WRITE_BYTES)
def copy_records(log: Bytes, at: Integers, length: Integers, out: Bytes) -> int:
    """Copy pieces end to end, neighbours in the log as one; returns the bytes, or -1 as ``gather``."""
    source = address_of(log)
    target = address_of(out)
    done = 0
    start = 0
    pending = 0
    if length.size < at.size:
        return -1
    for number in range(at.size):
        place = at[number]
        size = length[number]
        if place < 0 or size < 0 or size > log.size - place or size > out.size - done - pending:
            return -1
        if place != start + pending:
            copy_bytes(target + done, source + start, pending)
            done += pending
            start = place
            pending = 0
        pending += size
    copy_bytes(target + done, source + start, pending)
    return done + pending


@kernel(several(3, I64), READ_BYTES, READ_BYTES, I64, I64, I64, I64, I64, WRITE_BYTES)
def copy_units(
    units: Bytes,
    log: Bytes,
    base: int,
    end: int,
    queue_id: int,
    queue_offset: int,
    count_max: int,
    out: Bytes,
) -> tuple[int, int, int]:
    """Copy the records of consecutive queue units end to end into ``out``: (units examined, records, bytes).

    ``units`` start at ``queue_offset``; ``end`` is the physical offset up to which records may be shown. Filler is
    passed over. It stops, with the unit not examined, at the first unit whose record is not in this log file or
    does not agree with it, when ``count_max`` records are copied, or when the next one does not fit into ``out``.
    """
    source = address_of(log)
    target = address_of(out)
    unit = address_of(units)
    copied = done = 0
    total = units.size // 20
    for number in range(total):
        if copied == count_max:
            return number, copied, done
        offset = load_i64(unit)
        size = load_i32(unit + 8)
        unit += 20
        if size == _LARGEST:
            continue
        at = offset - base
        if at < 0 or size < 91 or size > log.size - at or offset + size > end:
            return number, copied, done
        record = source + at
        if (
            load_i32(record) != size
            or load_i32(record + 12) != queue_id
            or load_i64(record + 20) != queue_offset + number
            or load_i64(record + 28) != offset
        ):
            return number, copied, done
        if size > out.size - done:
            return number, copied, done
        copy_bytes(target + done, record, size)
        done += size
        copied += 1
    return total, copied, done


@helper
def _key_slot(start: int, end: int) -> int:
    hashed = U64(end - start)
    while start < end:
        hashed = (hashed ^ U64(word_before(start, end))) * _MIX
        hashed ^= hashed >> U64(32)
        start += 8
    return I64(hashed & U64(_SLOTS - 1))


@kernel(
    several(3, I64),
    READ_BYTES,
    READ_INTEGERS,
    READ_INTEGERS,
    WRITE_ARROW_OFFSETS,
    WRITE_ARROW_OFFSETS,
    WRITE_BYTES,
    WRITE_ARROW_OFFSETS,
    WRITE_BYTES,
)
def _map_columns(
    log: Bytes,
    at: Integers,
    length: Integers,
    map_offsets: ArrowOffsets,
    key_offsets: ArrowOffsets,
    keys: Bytes,
    value_offsets: ArrowOffsets,
    values: Bytes,
) -> tuple[int, int, int]:
    """Entries, key bytes and value bytes of all maps; with arrays of size 0 only counts, else fills them too.

    All -1 if an array is too small.
    """
    log_start = address_of(log)
    filling = map_offsets.size > 0
    entries = key_bytes = value_bytes = 0
    starts = np.empty(_PIECES, np.int64)
    separators = np.empty(_PIECES, np.int64)
    stops = np.empty(_PIECES, np.int64)
    seen = np.full(_SLOTS, -1, np.int64)  # record number * _PIECES + piece number
    if length.size < at.size or (filling and map_offsets.size <= at.size):
        return -1, -1, -1
    for record in range(at.size):
        pieces = 0
        # Texts need the eight bytes before their end; no record has one at the very start of a log.
        if at[record] >= 8 and 0 <= length[record] <= log.size - at[record]:
            position = log_start + at[record]
            end = position + length[record]
            while position < end and pieces < _PIECES:
                stop = find_byte(position, end, _TWOS)
                separator = find_byte(position, stop, _ONES)
                if position < separator < stop - 1:
                    starts[pieces] = position
                    separators[pieces] = separator
                    stops[pieces] = stop
                    pieces += 1
                position = stop + 1
        # From the last piece to the first: a key met before in this record was set again later, so it is
        # dropped.
        for piece in range(pieces - 1, -1, -1):
            size = separators[piece] - starts[piece]
            slot = _key_slot(starts[piece], separators[piece])
            while seen[slot] >= record * _PIECES:
                other = seen[slot] - record * _PIECES
                if separators[other] - starts[other] == size and same_bytes(starts[other], starts[piece], size):
                    break
                slot = (slot + 1) & (_SLOTS - 1)
            if seen[slot] >= record * _PIECES:
                stops[piece] = 0
            else:
                seen[slot] = record * _PIECES + piece
        if filling:
            map_offsets[record] = entries
        for piece in range(pieces):
            if stops[piece] == 0:
                continue
            key_size = separators[piece] - starts[piece]
            value_size = stops[piece] - separators[piece] - 1
            if filling:
                if entries + 1 >= min(key_offsets.size, value_offsets.size):
                    return -1, -1, -1
                if key_size > keys.size - key_bytes or value_size > values.size - value_bytes:
                    return -1, -1, -1
                key_offsets[entries] = key_bytes
                value_offsets[entries] = value_bytes
                copy_bytes(address_of(keys) + key_bytes, starts[piece], key_size)
                copy_bytes(address_of(values) + value_bytes, separators[piece] + 1, value_size)
            entries += 1
            key_bytes += key_size
            value_bytes += value_size
    if filling:
        if entries >= min(key_offsets.size, value_offsets.size):
            return -1, -1, -1
        map_offsets[at.size] = entries
        key_offsets[entries] = key_bytes
        value_offsets[entries] = value_bytes
    return entries, key_bytes, value_bytes


class MapColumns(NamedTuple):
    """Buffers of an Arrow map<string, string> column."""

    offsets: ArrowOffsets
    key_offsets: ArrowOffsets
    keys: Bytes
    value_offsets: ArrowOffsets
    values: Bytes


def properties_columns(log: Bytes, at: Integers, length: Integers) -> MapColumns | None:
    """The properties strings at ``log[at[i]:at[i]+length[i]]`` as one map column, one map a string.

    A key that occurs twice in a string appears once, with its last value. Bytes are copied as they are, so
    rows marked MARK_BAD_TEXT would put invalid UTF-8 into the column: decode batches that contain one in
    Python. None if the texts are too many for 32-bit offsets.
    """
    nothing = np.empty(0, np.int32)
    no_bytes = np.empty(0, np.uint8)
    entries, key_bytes, value_bytes = _map_columns(log, at, length, nothing, nothing, no_bytes, nothing, no_bytes)
    if max(entries, key_bytes, value_bytes) > _LARGEST:
        return None
    columns = MapColumns(
        np.empty(at.size + 1, np.int32),
        np.empty(entries + 1, np.int32),
        np.empty(key_bytes, np.uint8),
        np.empty(entries + 1, np.int32),
        np.empty(value_bytes, np.uint8),
    )
    _map_columns(log, at, length, *columns)
    return columns
