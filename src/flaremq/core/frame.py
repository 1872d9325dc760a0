"""One record in the core: is it one, where are its parts, and its row in the table.

``frame_at`` accepts a record only if its parts add up exactly to its size, it ends inside the given range and
it names its own position. Everything after that may trust the lengths.
"""

from __future__ import annotations

from typing import NamedTuple

import cython

if not cython.compiled:
    from flaremq.core.crc import crc32_at
    from flaremq.core.memory import (
        Table,
        View,
        as_i64,
        as_u64,
        load_i8,
        load_i16,
        load_i32,
        load_i64,
        load_u8,
        load_word,
        prefetch_read,
        word_before,
    )
    from flaremq.core.properties import (
        RECORD_CRC_SIZE,
        has_record_crc,
        properties_plausible,
        read_properties,
        stored_record_crc,
    )
    from flaremq.core.table import (
        BLANK,
        BODY_AT,
        BODY_CRC,
        BODY_LENGTH,
        BORN_TIMESTAMP,
        CHECK_BODY_CRC,
        CHECK_RECORD_CRC,
        EMPTY,
        FILE_OFFSET,
        FLAG,
        HEADERS_ONLY,
        IMPLAUSIBLE,
        INVALID_BODY_CRC,
        INVALID_LENGTHS,
        INVALID_MAGIC,
        INVALID_OFFSET,
        INVALID_RECORD_CRC,
        INVALID_SIZE,
        MARK_BAD_TEXT,
        MARK_INNER_BATCH,
        MARK_SCHEDULE,
        MARKS,
        OK,
        PHYSICAL_OFFSET,
        PREPARED_OFFSET,
        PROPERTIES_AT,
        PROPERTIES_LENGTH,
        QUEUE_HASH,
        QUEUE_ID,
        QUEUE_OFFSET,
        RECONSUME_TIMES,
        REQUIRE_RECORD_CRC,
        SIZE,
        STORE_TIMESTAMP,
        STRICT,
        SYS_FLAG,
        TOPIC_AT,
        TOPIC_LENGTH,
        VERSION,
    )
    from flaremq.core.text import is_utf8

    Frame = NamedTuple(  # noqa: UP014  # a class statement would be compiled too
        "Frame",
        [
            ("code", int),
            ("size", int),
            ("body_at", int),
            ("body_length", int),
            ("topic_at", int),
            ("topic_length", int),
            ("properties_at", int),
            ("properties_length", int),
        ],
    )

MAGIC_V1 = -626843481
MAGIC_V2 = -626843477
_MAGIC_BLANK = -875286124
SMALLEST_RECORD = 91  # V1, IPv4, nothing in it
_HEAD = 88  # bytes before the body over IPv4; 12 more for each IPv6 host
_SCHEDULE_1 = int.from_bytes(b"SCHEDULE", "little")
_SCHEDULE_2 = int.from_bytes(b"_TOPIC_X", "little")
_SCHEDULE_3 = int.from_bytes(b"PIC_XXXX", "little")  # its last eight of nineteen bytes
# A bit for each byte that a topic's name may have: % - 0-9 A-Z _ a-z |
_TOPIC_LOW, _TOPIC_HIGH = 0x03FF202000000000, 0x17FFFFFE87FFFFFE
_MIX = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio: spreads neighbouring values


def _plausible(log: View, at: int, frame: Frame) -> bool:
    """Fields no body checksum covers hold values some broker could have written."""
    born = 20 if load_i32(log, at + 36) & 0x10 else 8
    born_port = load_i32(log, at + 48 + born - 4)
    store_port = load_i32(log, frame.body_at - 20)
    if born_port < 0 or born_port > 65535 or store_port < 0 or store_port > 65535:
        return False
    if load_i64(log, at + 48 + born) <= 0 or load_i32(log, at + 12) < 0 or load_i64(log, at + 20) < 0:
        return False
    if frame.topic_length == 0:
        return False
    for place in range(frame.topic_at, frame.topic_at + frame.topic_length):
        byte = load_u8(log, place)
        if byte > 127 or ((_TOPIC_LOW if byte < 64 else _TOPIC_HIGH) >> (byte & 63)) & 1 == 0:
            return False
    return properties_plausible(log, frame.properties_at, at + frame.size)


def _refuse(code: int) -> Frame:
    return Frame(code, 0, 0, 0, 0, 0, 0, 0)


# Over sixty lines on purpose: one decision after the other, each trusting those before it.
def frame_at(log: View, at: int, end: int, base: int, flags: int) -> Frame:
    """Judge the record at file offset ``at``; reads nothing from ``end`` on. ``log`` is the whole file."""
    left = end - at
    if left < 8:
        return _refuse(INVALID_SIZE)
    size = load_i32(log, at)
    magic = load_i32(log, at + 4)
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        code = INVALID_MAGIC
        if magic == _MAGIC_BLANK:
            code = BLANK if size == log.size - at else INVALID_SIZE
        elif magic == 0 and size == 0:
            code = EMPTY
        return _refuse(code)
    # Topic and properties stand right before the next record: fetch them while this header is looked at.
    prefetch_read(log, at + size - 192)
    prefetch_read(log, at + size - 128)
    prefetch_read(log, at + size - 64)
    prefetch_read(log, at + size)
    prefetch_read(log, at + size + 64)
    version = 1 if magic == MAGIC_V1 else 2
    if size < SMALLEST_RECORD or size > left:
        return _refuse(INVALID_SIZE)
    sys_flag = load_i32(log, at + 36)
    head = _HEAD + (12 if sys_flag & 0x10 else 0) + (12 if sys_flag & 0x20 else 0)
    # What is left for body, topic and properties once their length fields are taken off; shrinks as they are read.
    room = size - head - version - 2
    if room < 0:
        return _refuse(INVALID_LENGTHS)
    body_length = load_i32(log, at + head - 4)
    if body_length < 0 or body_length > room:
        return _refuse(INVALID_LENGTHS)
    room -= body_length
    topic_at = at + head + body_length + version
    topic_length = load_i8(log, topic_at - 1) if version == 1 else load_i16(log, topic_at - 2)
    if topic_length < 0 or topic_length > room:
        return _refuse(INVALID_LENGTHS)
    room -= topic_length
    text_at = topic_at + topic_length + 2
    text_length = max(load_i16(log, text_at - 2), 0)  # Java reads a negative length as "none"
    if text_length != room:
        return _refuse(INVALID_LENGTHS)
    if load_i64(log, at + 28) != base + at:
        return _refuse(INVALID_OFFSET)
    if flags & CHECK_BODY_CRC and body_length > 0:
        if crc32_at(log, at + head, body_length) & 0x7FFFFFFF != load_i32(log, at + 8):
            return _refuse(INVALID_BODY_CRC)
    if flags & (CHECK_RECORD_CRC | REQUIRE_RECORD_CRC):
        if has_record_crc(log, text_at, at + size):
            if crc32_at(log, at, size - RECORD_CRC_SIZE) & 0x7FFFFFFF != stored_record_crc(log, at + size):
                return _refuse(INVALID_RECORD_CRC)
        elif flags & REQUIRE_RECORD_CRC:
            return _refuse(INVALID_RECORD_CRC)
    frame = Frame(OK, size, at + head, body_length, topic_at, topic_length, text_at, text_length)
    if flags & STRICT and not _plausible(log, at, frame):
        return _refuse(IMPLAUSIBLE)
    return frame


def queue_hash(log: View, at: int, length: int, queue_id: int) -> int:
    """A hash of topic and queue id for tables in memory; never stored."""
    hashed = as_u64(length << 32) ^ as_u64(queue_id * _MIX)
    end = at + length
    while at < end:
        hashed = as_u64((hashed ^ word_before(log, at, end)) * _MIX)
        hashed ^= hashed >> 32
        at += 8
    return as_i64(hashed)


def fill_row(log: View, at: int, frame: Frame, flags: int, table: Table, row: int) -> None:
    """Write one accepted record into a row of the table."""
    sys_flag = load_i32(log, at + 36)
    queue_id = load_i32(log, at + 12)
    marks = MARK_INNER_BATCH if sys_flag & 0x80 else 0
    if not is_utf8(log, frame.topic_at, frame.topic_at + frame.topic_length):
        marks |= MARK_BAD_TEXT
    if (
        frame.topic_length == 19
        and load_word(log, frame.topic_at) == _SCHEDULE_1
        and load_word(log, frame.topic_at + 8) == _SCHEDULE_2
        and load_word(log, frame.topic_at + 11) == _SCHEDULE_3
    ):
        marks |= MARK_SCHEDULE
    if not flags & HEADERS_ONLY:
        marks |= read_properties(log, frame.properties_at, frame.properties_at + frame.properties_length, table, row)
    cells = table.data
    stride = table.stride
    cells[FILE_OFFSET * stride + row] = at
    cells[PHYSICAL_OFFSET * stride + row] = load_i64(log, at + 28)
    cells[SIZE * stride + row] = frame.size
    cells[VERSION * stride + row] = 1 if load_i32(log, at + 4) == MAGIC_V1 else 2
    cells[QUEUE_ID * stride + row] = queue_id
    cells[QUEUE_OFFSET * stride + row] = load_i64(log, at + 20)
    cells[SYS_FLAG * stride + row] = sys_flag
    cells[FLAG * stride + row] = load_i32(log, at + 16)
    cells[BODY_CRC * stride + row] = load_i32(log, at + 8)
    cells[BORN_TIMESTAMP * stride + row] = load_i64(log, at + 40)
    cells[STORE_TIMESTAMP * stride + row] = load_i64(log, at + (68 if sys_flag & 0x10 else 56))
    cells[RECONSUME_TIMES * stride + row] = load_i32(log, frame.body_at - 16)
    cells[PREPARED_OFFSET * stride + row] = load_i64(log, frame.body_at - 12)
    cells[BODY_AT * stride + row] = frame.body_at
    cells[BODY_LENGTH * stride + row] = frame.body_length
    cells[TOPIC_AT * stride + row] = frame.topic_at
    cells[TOPIC_LENGTH * stride + row] = frame.topic_length
    cells[PROPERTIES_AT * stride + row] = frame.properties_at
    cells[PROPERTIES_LENGTH * stride + row] = frame.properties_length
    cells[MARKS * stride + row] = marks
    cells[QUEUE_HASH * stride + row] = queue_hash(log, frame.topic_at, frame.topic_length, queue_id)
