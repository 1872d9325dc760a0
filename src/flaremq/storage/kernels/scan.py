"""Kernels of the table scan: records taken from places of a window that is no whole log file.

A window is put together from several reads, and a pull reply from several files: a record's place in the buffer says
nothing about its physical offset, so each comes with its own.
"""

from __future__ import annotations

from flaremq.storage.kernels.compile import (
    I64,
    READ_BYTES,
    READ_INTEGERS,
    TABLE,
    U64,
    WRITE_INTEGERS,
    Bytes,
    Integers,
    kernel,
    several,
)
from flaremq.storage.kernels.frame import MAGIC_V1, MAGIC_V2, SMALLEST_RECORD, fill_row, frame_at
from flaremq.storage.kernels.memory import (
    address_of,
    find_byte,
    load_i32,
    load_i64,
    load_u8,
    same_bytes,
    store_native,
    word_before,
)
from flaremq.storage.kernels.table import COLUMN_COUNT, INVALID_SIZE, OK, RESULT

_TWOS = U64(0x0202020202020202)
_MIX = U64(0x9E3779B97F4A7C15)


@kernel(I64, READ_BYTES, READ_INTEGERS, READ_INTEGERS, I64, TABLE)
def parse_pieces(log: Bytes, at: Integers, physical: Integers, flags: int, table: Integers) -> int:
    """As ``parse_at``, for records whose physical offsets are ``physical[i]`` and which start at ``log[at[i]]``."""
    address = address_of(log)
    capacity = table.shape[1] if table.shape[0] == COLUMN_COUNT else 0
    cell = address_of(table)
    stride = capacity * 8
    count = min(at.size, physical.size, capacity)
    for row in range(count):
        place = at[row]
        code = INVALID_SIZE
        if 0 <= place < log.size:
            frame = frame_at(address, place, log.size, log.size, physical[row] - place, flags)
            code = frame.code
            if code == OK:
                fill_row(address, place, frame, flags, cell, stride)
        if code != OK:
            for column in range(COLUMN_COUNT):
                store_native(cell + column * stride, 0)
        store_native(cell + RESULT * stride, code)
        cell += 8
    return count


@kernel(several(2, I64), READ_BYTES, I64, WRITE_INTEGERS, WRITE_INTEGERS)
def split_records(log: Bytes, start: int, at: Integers, physical: Integers) -> tuple[int, int]:
    """Places and physical offsets of records that lie back to back from ``start`` on: (records, where it stopped).

    It stops at the end, when the arrays are full, or where no record can start.
    """
    address = address_of(log)
    room = min(at.size, physical.size)
    place = max(start, 0)
    count = 0
    while count < room and log.size - place >= SMALLEST_RECORD:
        size = load_i32(address + place)
        magic = load_i32(address + place + 4)
        if size < SMALLEST_RECORD or size > log.size - place or (magic != MAGIC_V1 and magic != MAGIC_V2):
            break
        at[count] = place
        physical[count] = load_i64(address + place + 28)
        count += 1
        place += size
    return count, place


@kernel(I64, READ_BYTES, READ_INTEGERS, READ_INTEGERS, READ_BYTES, WRITE_INTEGERS, WRITE_INTEGERS)
def find_values(
    log: Bytes, at: Integers, length: Integers, key: Bytes, value_at: Integers, value_length: Integers
) -> int:
    """Where the value of ``key`` (given with its 0x01) stands in each properties string, length 0 where it is absent.

    Returns how many have it. The last of several wins, as in ``message.properties``.
    """
    address = address_of(log)
    name = address_of(key)
    found = 0
    for row in range(min(at.size, length.size, value_at.size, value_length.size)):
        value_at[row] = 0
        value_length[row] = 0
        # Texts need the eight bytes before their end; no record has one at the very start of a log.
        if at[row] < 8 or length[row] < 0 or length[row] > log.size - at[row]:
            continue
        position = address + at[row]
        end = position + length[row]
        while position < end:
            stop = find_byte(position, end, _TWOS)
            if (
                stop - position > key.size
                and load_u8(position) == load_u8(name)
                and same_bytes(position, name, key.size)
            ):
                value_at[row] = position + key.size - address
                value_length[row] = stop - position - key.size
            position = stop + 1
        if value_length[row] > 0:
            found += 1
    return found


@kernel(I64, READ_BYTES, I64)
def queue_hash(topic: Bytes, queue_id: int) -> int:
    """QUEUE_HASH of the record table for a topic; ``topic`` has eight bytes of padding in front."""
    length = max(topic.size - 8, 0)
    hashed = (U64(length) << U64(32)) ^ U64(queue_id) * _MIX
    position = address_of(topic) + 8
    stop = position + length
    while position < stop:
        word = U64(word_before(position, stop))
        hashed = (hashed ^ word) * _MIX
        hashed ^= hashed >> U64(32)
        position += 8
    return I64(hashed)
