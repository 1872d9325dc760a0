"""The batch append kernel: records written into the mapped log from columns, no Python object per message."""

from __future__ import annotations

from flaremq.storage.kernels.compile import I64, READ_BYTES, READ_INTEGERS, WRITE_BYTES, Bytes, Integers, kernel
from flaremq.storage.kernels.crc import crc32_at
from flaremq.storage.kernels.memory import address_of, copy_bytes, store_i32, store_i64, store_u8

_PROPERTIES_MAX = 32767


@kernel(
    I64,
    WRITE_BYTES,
    I64,
    I64,
    READ_BYTES,
    READ_BYTES,
    I64,
    READ_BYTES,
    READ_INTEGERS,
    READ_BYTES,
    READ_INTEGERS,
    READ_INTEGERS,
)
def append_records(
    log: Bytes,
    at: int,
    base: int,
    prefix: Bytes,
    topic: Bytes,
    queue_offset: int,
    bodies: Bytes,
    body_ends: Integers,
    properties: Bytes,
    property_ends: Integers,
    flags: Integers,
) -> int:
    """Write one record after the other from file offset ``at`` on; the file offset after the last, -1 for no room.

    ``prefix`` is everything before the body with the fields all records share filled in, ``topic`` the length-prefixed
    topic. Bodies and properties lie end to end; ``..._ends[i]`` is where number ``i`` ends. Nothing is written unless
    all fits.
    """
    count = body_ends.size
    fixed = prefix.size + topic.size + 2
    if count == 0 or property_ends.size < count or flags.size < count or at < 0:
        return -1
    if body_ends[count - 1] > bodies.size or property_ends[count - 1] > properties.size:
        return -1
    if at + fixed * count + body_ends[count - 1] + property_ends[count - 1] > log.size:
        return -1
    body_at = 0
    property_at = 0
    for number in range(count):
        if body_ends[number] < body_at or not 0 <= property_ends[number] - property_at <= _PROPERTIES_MAX:
            return -1
        body_at = body_ends[number]
        property_at = property_ends[number]
    start = address_of(log)
    body_at = 0
    property_at = 0
    for number in range(count):
        body = address_of(bodies) + body_at
        body_length = body_ends[number] - body_at
        property_length = property_ends[number] - property_at
        record = start + at
        copy_bytes(record, address_of(prefix), prefix.size)
        store_i32(record, fixed + body_length + property_length)
        store_i32(record + 8, crc32_at(body, body_length) & 0x7FFFFFFF)
        store_i32(record + 16, flags[number])
        store_i64(record + 20, queue_offset + number)
        store_i64(record + 28, base + at)
        place = record + prefix.size
        store_i32(place - 4, body_length)
        copy_bytes(place, body, body_length)
        place += body_length
        copy_bytes(place, address_of(topic), topic.size)
        place += topic.size
        store_u8(place, property_length >> 8)
        store_u8(place + 1, property_length & 0xFF)
        copy_bytes(place + 2, address_of(properties) + property_at, property_length)
        at += fixed + body_length + property_length
        body_at = body_ends[number]
        property_at = property_ends[number]
    return at
