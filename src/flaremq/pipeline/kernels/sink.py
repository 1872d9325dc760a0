"""Sink kernels: rows of Arrow columns become batch bodies of a write stream (``message/write_stream.py``).

Bodies and properties come as Arrow lays them out, one run of bytes and the offsets of its pieces; ``rows`` says which
of them, in which order. Hashes and digests are 64 bits, carried as int64.
"""

from __future__ import annotations

from flaremq.storage.kernels.compile import (
    I64,
    READ_BYTES,
    READ_INTEGERS,
    U64,
    WRITE_BYTES,
    WRITE_INTEGERS,
    Bytes,
    Integers,
    helper,
    kernel,
    several,
)
from flaremq.storage.kernels.memory import address_of, copy_bytes, load_u8, load_word, store_i32, store_u8

_HEAD = 20
_PROPERTIES_MAX = 32767
# The end of an item's properties: UNIQ_KEY 0x01 key 0x02 FMQ_CHAIN 0x01 digest 0x02
SUFFIX_SIZE = 69
_KEY_AT = 9
_CHAIN_AT = 52

# The chain's factor is that of write_stream.link; the others are arbitrary odd numbers. Stored messages depend on all.
_FACTOR = U64(0x9E3779B97F4A7C15)
_FIRST = U64(0xC2B2AE3D27D4EB4F)
_SECOND = U64(0x165667B19E3779F9)


@helper
def _mixed(value: int) -> int:
    value = (value ^ (value >> U64(29))) * _FIRST
    value = (value ^ (value >> U64(32))) * _SECOND
    return value ^ (value >> U64(31))


@helper
def _hash_bytes(address: int, length: int, seed: int) -> int:
    """A hash of a run of bytes, eight at a time; not for keeping secrets."""
    value = U64(seed) ^ (U64(length) * _FACTOR)
    at = 0
    while length - at >= 8:
        value = (value ^ (load_word(address + at) * _FIRST)) * _FACTOR
        value = value ^ (value >> U64(32))
        at += 8
    last = U64(0)
    while at < length:
        last = (last << U64(8)) | U64(load_u8(address + at))
        at += 1
    return _mixed(value ^ (last * _SECOND))


@helper
def _fits(offsets: Integers, size: int, row: int) -> bool:
    return 0 <= row < offsets.size - 1 and 0 <= offsets[row] <= offsets[row + 1] <= size


@kernel(I64, READ_BYTES, READ_INTEGERS, READ_BYTES, READ_INTEGERS, READ_INTEGERS, WRITE_INTEGERS)
def hash_rows(
    bodies: Bytes,
    body_offsets: Integers,
    properties: Bytes,
    property_offsets: Integers,
    rows: Integers,
    hashes: Integers,
) -> int:
    """The content hash of each row; -1 if an offset is impossible."""
    if hashes.size < rows.size:
        return -1
    for number in range(rows.size):
        row = rows[number]
        if not _fits(body_offsets, bodies.size, row) or not _fits(property_offsets, properties.size, row):
            return -1
        body = _hash_bytes(address_of(bodies) + body_offsets[row], body_offsets[row + 1] - body_offsets[row], U64(1))
        length = property_offsets[row + 1] - property_offsets[row]
        hashes[number] = I64(_hash_bytes(address_of(properties) + property_offsets[row], length, body))
    return rows.size


@kernel(I64, READ_INTEGERS, I64)
def chain_rows(hashes: Integers, chain: int) -> int:
    """The digest after these messages."""
    value = U64(chain)
    for number in range(hashes.size):
        value = (value + U64(hashes[number])) * _FACTOR + U64(1)
    return I64(value)


@helper
def _store_hex(address: int, value: int, digits: int, ten: int) -> None:
    """A number in hexadecimal; ``ten`` is the letter A, or a, less ten."""
    for place in range(digits):
        digit = I64((value >> U64(4 * (digits - 1 - place))) & U64(15))
        store_u8(address + place, digit + (48 if digit < 10 else ten))


@kernel(
    several(3, I64),
    READ_BYTES,
    READ_INTEGERS,
    READ_BYTES,
    READ_INTEGERS,
    READ_INTEGERS,
    READ_INTEGERS,
    I64,
    I64,
    READ_BYTES,
    I64,
    I64,
    WRITE_BYTES,
)
def encode_items(
    bodies: Bytes,
    body_offsets: Integers,
    properties: Bytes,
    property_offsets: Integers,
    rows: Integers,
    hashes: Integers,
    start: int,
    count_max: int,
    suffix: Bytes,
    number: int,
    chain: int,
    out: Bytes,
) -> tuple[int, int, int]:
    """Write rows from ``rows[start]`` on as batch items until ``out`` is full: (rows, bytes, digest after the last).

    The first becomes message ``number`` of its stream. ``suffix`` is the end of the properties with the stream filled
    in. (-1, 0, 0) if something does not fit its field.
    """
    if suffix.size != SUFFIX_SIZE or hashes.size < rows.size or start < 0:
        return -1, 0, 0
    value = U64(chain)
    base = address_of(out)
    at = done = 0
    while done < count_max and start + done < rows.size:
        row = rows[start + done]
        if not _fits(body_offsets, bodies.size, row) or not _fits(property_offsets, properties.size, row):
            return -1, 0, 0
        length = body_offsets[row + 1] - body_offsets[row]
        own = property_offsets[row + 1] - property_offsets[row]
        if own + SUFFIX_SIZE > _PROPERTIES_MAX:
            return -1, 0, 0
        size = _HEAD + length + 2 + own + SUFFIX_SIZE
        if size > out.size - at:
            break
        place = base + at
        store_i32(place, size)
        store_i32(place + 4, 0)
        store_i32(place + 8, 0)
        store_i32(place + 12, 0)
        store_i32(place + 16, length)
        copy_bytes(place + _HEAD, address_of(bodies) + body_offsets[row], length)
        place += _HEAD + length
        store_u8(place, (own + SUFFIX_SIZE) >> 8)
        store_u8(place + 1, (own + SUFFIX_SIZE) & 0xFF)
        copy_bytes(place + 2, address_of(properties) + property_offsets[row], own)
        place += 2 + own
        copy_bytes(place, address_of(suffix), SUFFIX_SIZE)
        value = (value + U64(hashes[start + done])) * _FACTOR + U64(1)
        order = U64(number + done)
        _store_hex(place + _KEY_AT + 16, order >> U64(16), 4, 55)
        _store_hex(place + _KEY_AT + 28, order & U64(0xFFFF), 4, 55)
        _store_hex(place + _CHAIN_AT, value, 16, 87)
        at += size
        done += 1
    return done, at, I64(value)
