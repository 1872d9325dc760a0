"""One record written into a log: its head, body, topic and properties, checksums included.

Everything that appends ends here: single puts, batches, what came off the wire. The caller has claimed the place,
checked what may be stored, and publishes it afterwards; nothing here fails.
"""

from __future__ import annotations

from typing import NamedTuple

import cython

if not cython.compiled:
    from flaremq.core.crc import crc32_at
    from flaremq.core.memory import View, copy_bytes, store_i16, store_i32, store_i64, store_u8

    Head = NamedTuple(  # noqa: UP014  # a class statement would be compiled too
        "Head",
        [
            ("magic", int),
            ("topic", View),  # the name behind its length
            ("queue_id", int),
            ("sys_flag", int),  # with the host families
            ("born_timestamp", int),
            ("born_host", View),
            ("store_timestamp", int),
            ("store_host", View),
            ("reconsume_times", int),
            ("prepared_offset", int),
        ],
    )

_CRC_KEY = b"__CRC32#\x01"
_CRC_SIZE = 20


def bare_size(hosts: int, topic: int) -> int:
    """Bytes of a record without body and properties: ``hosts`` of both hosts, ``topic`` of the name and its length."""
    return 74 + hosts + topic


def write_record(
    log: View, at: int, base: int, head: Head, queue_offset: int, flag: int, body: View, text: View
) -> int:
    """Write a record at file offset ``at`` of the file that starts at ``base``; the file offset after it."""
    place = write_head(log, at, base, head, queue_offset, flag, body, 0, body.size, text.size)
    copy_bytes(log, place, text, 0, text.size)
    return place + text.size


# Ten parameters on purpose: what differs from record to record, in registers.
def write_head(
    log: View,
    at: int,
    base: int,
    head: Head,
    queue_offset: int,
    flag: int,
    body: View,
    body_at: int,
    body_length: int,
    text_length: int,
) -> int:
    """All of a record but the properties, which the caller writes at the file offset that this returns."""
    place = at + 56 + head.born_host.size + head.store_host.size + 16
    size = place - at + body_length + head.topic.size + 2 + text_length
    store_i32(log, at, size)
    store_i32(log, at + 4, head.magic)
    store_i32(log, at + 8, crc32_at(body, body_at, body_length) & 0x7FFFFFFF)
    store_i32(log, at + 12, head.queue_id)
    store_i32(log, at + 16, flag)
    store_i64(log, at + 20, queue_offset)
    store_i64(log, at + 28, base + at)
    store_i32(log, at + 36, head.sys_flag)
    store_i64(log, at + 40, head.born_timestamp)
    copy_bytes(log, at + 48, head.born_host, 0, head.born_host.size)
    store_i64(log, at + 48 + head.born_host.size, head.store_timestamp)
    copy_bytes(log, at + 56 + head.born_host.size, head.store_host, 0, head.store_host.size)
    store_i32(log, place - 16, head.reconsume_times)
    store_i64(log, place - 12, head.prepared_offset)
    store_i32(log, place - 4, body_length)
    copy_bytes(log, place, body, body_at, body_length)
    place += body_length
    copy_bytes(log, place, head.topic, 0, head.topic.size)
    place += head.topic.size
    store_i16(log, place, text_length)
    return place + 2


def seal_record(log: View, at: int, end: int) -> None:
    """Write the record checksum into the room that the properties of the record left at their end."""
    checksum = crc32_at(log, at, end - _CRC_SIZE - at) & 0x7FFFFFFF
    place = end - _CRC_SIZE
    for byte in _CRC_KEY:
        store_u8(log, place, byte)
        place += 1
    while place < end - 1:
        store_u8(log, place, 48 + checksum % 10)
        checksum //= 10
        place += 1
    store_u8(log, place, 2)
