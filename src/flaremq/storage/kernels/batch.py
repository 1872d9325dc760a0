"""Batch kernels: a batch body as it came off the wire becomes records in the mapped log, with nothing in between.

A message of the body is int32 total size, int32 magic, int32 checksum (none of the three is trusted), int32 flag,
int32 body length, body, int16 properties length, properties.
"""

from __future__ import annotations

from flaremq.storage.kernels.compile import (
    I64,
    READ_BYTES,
    WRITE_BYTES,
    WRITE_INTEGERS,
    Bytes,
    Integers,
    helper,
    kernel,
    several,
)
from flaremq.storage.kernels.crc import crc32_at
from flaremq.storage.kernels.memory import address_of, copy_bytes, load_i32, load_u8, store_i32, store_i64, store_u8

_HEAD = 20
# Halves of the reserved name __CRC32#: a name that is one bit off it would be taken for a damaged checksum.
_CRC_HEAD = int.from_bytes(b"__CR", "big")
_CRC_TAIL = int.from_bytes(b"C32#", "big")


@helper
def _load_u16(address: int) -> int:
    return load_u8(address) << 8 | load_u8(address + 1)


@kernel(several(2, I64), READ_BYTES, I64, WRITE_INTEGERS)
def measure_batch(body: Bytes, fixed: int, sizes: Integers) -> tuple[int, int]:
    """(messages, bytes of their records), and each record's size; (-1, place) where the body is malformed.

    ``fixed`` is what a record has besides body and properties. A NUL in properties is malformed too (recovery tells
    a torn record by it), and so is what looks like the name of the record checksum: plain code decides about both.
    """
    start = address_of(body)
    at = count = total = 0
    while at < body.size:
        if count >= sizes.size or body.size - at < _HEAD + 2:
            return -1, at
        length = load_i32(start + at + 16)
        if length < 0 or length > body.size - at - _HEAD - 2:
            return -1, at
        place = at + _HEAD + length
        properties = _load_u16(start + place)
        if properties > 32767 or properties > body.size - place - 2:
            return -1, at
        place += 2
        for byte in range(place, place + properties):
            if body[byte] == 0:
                return -1, at
            if place + properties - byte >= 4:
                word = load_i32(start + byte)
                if word == _CRC_HEAD or word == _CRC_TAIL:
                    return -1, at
        size = fixed + length + properties
        sizes[count] = size
        count += 1
        total += size
        at = place + properties
    return count, total


@kernel(I64, WRITE_BYTES, I64, I64, READ_BYTES, READ_BYTES, I64, READ_BYTES, I64)
def append_batch(
    log: Bytes, at: int, base: int, prefix: Bytes, topic: Bytes, queue_offset: int, body: Bytes, total: int
) -> int:
    """Write the records of a measured body from file offset ``at`` on; the file offset after the last.

    ``prefix`` is everything before a record's body with the shared fields filled in, ``topic`` the length-prefixed
    topic, ``total`` what ``measure_batch`` said for the same body.
    """
    fixed = prefix.size + topic.size + 2
    if at < 0 or total < 0 or total > log.size - at:
        return -1
    source = address_of(body)
    start = address_of(log)
    taken = number = 0
    while taken < body.size:
        flag = load_i32(source + taken + 12)
        length = load_i32(source + taken + 16)
        content = source + taken + _HEAD
        properties = content + length
        properties_length = _load_u16(properties)
        record = start + at
        copy_bytes(record, address_of(prefix), prefix.size)
        store_i32(record, fixed + length + properties_length)
        store_i32(record + 8, crc32_at(content, length) & 0x7FFFFFFF)
        store_i32(record + 16, flag)
        store_i64(record + 20, queue_offset + number)
        store_i64(record + 28, base + at)
        place = record + prefix.size
        store_i32(place - 4, length)
        copy_bytes(place, content, length)
        place += length
        copy_bytes(place, address_of(topic), topic.size)
        place += topic.size
        store_u8(place, properties_length >> 8)
        store_u8(place + 1, properties_length & 0xFF)
        copy_bytes(place + 2, properties + 2, properties_length)
        taken += _HEAD + length + 2 + properties_length
        at += fixed + length + properties_length
        number += 1
    return at
