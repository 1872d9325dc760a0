"""Copies: scattered pieces of a log into one buffer, as Arrow or a pull answer wants them.

Arrow's variable-length columns are one data buffer and ``n + 1`` offsets of 32 bits, so one call makes at
most 2 GiB of data; batches are far smaller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from flaremq.core.arrays import ArrowOffsets, Buffer, Integers

if not cython.compiled:
    from flaremq.core.memory import (
        Longs,
        View,
        as_u64,
        copy_bytes,
        find_byte,
        load_i32,
        load_i64,
        longs_of,
        new_bytearray,
        prefetch_read,
        same_bytes,
        view_of,
        word_before,
        writable_ints_of,
        writable_view_of,
    )

_LARGEST = 2**31 - 1
_MIX = 0x9E3779B97F4A7C15
_PIECES = 8192  # more than fit into 32,767 bytes of properties at four bytes a piece
_SLOTS = 2 * _PIECES
_FEW = 12  # pieces of a string up to which comparing each with each costs less than a table
_FILLER_SIZE = 2**31 - 1


def gather(log: Buffer, at: Integers, length: Integers, offsets: ArrowOffsets, out: Buffer) -> int:
    """Copy pieces of the log end to end, noting where each begins; returns the bytes.

    Piece ``i`` is ``log[at[i]:at[i]+length[i]]``; ``offsets`` has one element more than ``at``.
    -1, with nothing promised about ``out``, if a piece lies outside the log or an array is too small.
    """
    source = view_of(log)
    target = writable_view_of(out)
    places = longs_of(at)
    lengths = longs_of(length)
    ends = writable_ints_of(offsets)
    room = min(target.size, _LARGEST)
    count = places.size
    done = 0
    if lengths.size < count or ends.size < count + 1:
        return -1
    with cython.nogil:
        ends.data[0] = 0
        for number in range(count):
            place = places.data[number]
            size = lengths.data[number]
            if place < 0 or size < 0 or size > source.size - place or size > room - done:
                done = -1
                break
            copy_bytes(target, done, source, place, size)
            done += size
            ends.data[number + 1] = done
    return done


# Long on purpose: two short passes over units, of which the second compares each with its record.
def copy_units(
    units: Buffer,
    first: int,
    count: int,
    log: Buffer,
    base: int,
    end: int,
    queue_id: int,
    queue_offset: int,
    bytes_max: int,
) -> tuple[bytearray, int, int]:
    """The records of consecutive queue units end to end: (records, how many, units examined).

    Unit ``first`` is that of ``queue_offset``, ``count`` are wanted; ``end`` is the physical offset up to which records
    may be shown. Filler is passed over. It stops, with the unit not examined, at the first unit whose record is not in
    this log file or does not agree with it, and before there are more than ``bytes_max`` bytes.
    """
    unit = view_of(units)
    source = view_of(log)
    number = max(first, 0)
    stop = number
    room = 0
    if count > 0:
        stop = min(number + count, unit.size // 20)
    while number < stop:  # how much it will be, from the units alone
        size = load_i32(unit, 20 * number + 8)
        if size != _FILLER_SIZE:
            if size < 91 or size > bytes_max - room:
                break
            room += size
        number += 1
    stop = number
    out = new_bytearray(room)
    target = writable_view_of(out)
    copied = done = 0
    number = max(first, 0)
    while number < stop:
        offset = load_i64(unit, 20 * number)
        size = load_i32(unit, 20 * number + 8)
        if size != _FILLER_SIZE:
            at = offset - base
            if at < 0 or size > source.size - at or size > end - offset:
                break
            if (
                load_i32(source, at) != size
                or load_i32(source, at + 12) != queue_id
                or load_i64(source, at + 20) != queue_offset + number - first
                or load_i64(source, at + 28) != offset
            ):
                break
            if number + 1 < stop:
                prefetch_read(source, load_i64(unit, 20 * number + 20) - base)
            copy_bytes(target, done, source, at, size)
            done += size
            copied += 1
        number += 1
    if done < room:
        del out[done:]
    return out, copied, number - max(first, 0)


def _key_slot(log: View, start: int, end: int) -> int:
    hashed = as_u64(end - start)
    while start < end:
        hashed = as_u64((hashed ^ word_before(log, start, end)) * _MIX)
        hashed ^= hashed >> 32
        start += 8
    return hashed & (_SLOTS - 1)


def new_scratch() -> bytearray:
    """Room for the pieces of the longest properties string, and for the table of their keys."""
    return bytearray(8 * (3 * _PIECES + _SLOTS))


def split_pieces(text: View, at: int, end: int, pieces: Longs) -> int:
    """Start, 0x01 and end of each ``key 01 value 02`` of a properties string; those without key or value are none."""
    found = 0
    while at < end and found < _PIECES:
        stop = find_byte(text, at, end, 2)
        separator = find_byte(text, at, stop, 1)
        if at < separator < stop - 1:
            pieces.data[3 * found] = at
            pieces.data[3 * found + 1] = separator
            pieces.data[3 * found + 2] = stop
            found += 1
        at = stop + 1
    return found


def drop_repeated(text: View, pieces: Longs, count: int, record: int) -> None:
    """Mark pieces whose key comes again later, by an end at their start: the last of several equal keys wins.

    ``record`` is a number that no other string of this scratch has.
    """
    if count <= _FEW:
        for piece in range(count - 1):
            size = pieces.data[3 * piece + 1] - pieces.data[3 * piece]
            for later in range(piece + 1, count):
                if pieces.data[3 * later + 1] - pieces.data[3 * later] == size and same_bytes(
                    text, pieces.data[3 * piece], text, pieces.data[3 * later], size
                ):
                    pieces.data[3 * piece + 2] = pieces.data[3 * piece]
                    break
        return
    # From the last piece to the first, with a table of the keys met: slots hold record * _PIECES + piece + 1.
    for back in range(count):
        piece = count - 1 - back
        start = pieces.data[3 * piece]
        size = pieces.data[3 * piece + 1] - start
        slot = _key_slot(text, start, start + size)
        while pieces.data[3 * _PIECES + slot] > record * _PIECES:
            other = pieces.data[3 * _PIECES + slot] - record * _PIECES - 1
            if pieces.data[3 * other + 1] - pieces.data[3 * other] == size and same_bytes(
                text, pieces.data[3 * other], text, start, size
            ):
                pieces.data[3 * piece + 2] = start
                break
            slot = (slot + 1) & (_SLOTS - 1)
        if pieces.data[3 * piece + 2] != start:
            pieces.data[3 * _PIECES + slot] = record * _PIECES + piece + 1
