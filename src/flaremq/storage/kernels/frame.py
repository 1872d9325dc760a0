"""One record inside kernels: is it one, where are its parts, and its row in the table.

``frame_at`` accepts a record only if its parts add up exactly to its size, it ends inside the given range and
it names its own position. Everything after that may trust the lengths.
"""

from __future__ import annotations

from typing import NamedTuple

from flaremq.storage.kernels.compile import I64, U64, helper
from flaremq.storage.kernels.crc import crc32_at
from flaremq.storage.kernels.memory import (
    load_i8,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    load_word,
    prefetch_read,
    store_native,
    word_before,
)
from flaremq.storage.kernels.properties import (
    RECORD_CRC_SIZE,
    has_record_crc,
    properties_plausible,
    read_properties,
    stored_record_crc,
)
from flaremq.storage.kernels.table import (
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
from flaremq.storage.kernels.text import is_utf8

MAGIC_V1 = -626843481
MAGIC_V2 = -626843477
_MAGIC_BLANK = -875286124
SMALLEST_RECORD = 91  # V1, IPv4, nothing in it
_HEAD = 88  # bytes before the body over IPv4; 12 more for each IPv6 host
_HIGH_BITS = U64(0x8080808080808080)
_SCHEDULE_1 = U64(int.from_bytes(b"SCHEDULE", "little"))
_SCHEDULE_2 = U64(int.from_bytes(b"_TOPIC_X", "little"))
_SCHEDULE_3 = U64(int.from_bytes(b"PIC_XXXX", "little"))  # its last eight of nineteen bytes
_TOPIC_BYTES = sum(1 << byte for byte in b"%-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz|")
_TOPIC_LOW, _TOPIC_HIGH = U64(_TOPIC_BYTES & (1 << 64) - 1), U64(_TOPIC_BYTES >> 64)
_MIX = U64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio: spreads neighbouring values


class Frame(NamedTuple):
    """A verdict and, if it is OK, the extent of a record and of its variable parts."""

    code: int
    size: int
    body_at: int
    body_length: int
    topic_at: int
    topic_length: int
    properties_at: int
    properties_length: int


@helper
def _plausible(record: int, head: int, topic_at: int, topic_length: int, text_at: int, size: int) -> bool:
    """Fields no body checksum covers hold values some broker could have written."""
    born = 20 if load_i32(record + 36) & 0x10 else 8
    born_port = load_i32(record + 48 + born - 4)
    store_port = load_i32(record + head - 20)
    if born_port < 0 or born_port > 65535 or store_port < 0 or store_port > 65535:
        return False
    if load_i64(record + 48 + born) <= 0 or load_i32(record + 12) < 0 or load_i64(record + 20) < 0:
        return False
    if topic_length == 0:
        return False
    for place in range(record + topic_at, record + topic_at + topic_length):
        byte = load_u8(place)
        allowed = _TOPIC_LOW if byte < 64 else _TOPIC_HIGH
        if byte > 127 or (allowed >> U64(byte & 63)) & U64(1) == U64(0):
            return False
    return properties_plausible(record + text_at, record + size)


@helper
def _refuse(code: int) -> Frame:
    return Frame(code, 0, 0, 0, 0, 0, 0, 0)


@helper
def frame_at(log: int, at: int, end: int, file_size: int, base: int, flags: int) -> Frame:
    """Judge the record at file offset ``at`` of the log at address ``log``; reads nothing from ``end`` on."""
    record = log + at
    left = end - at
    if left < 8:
        return _refuse(INVALID_SIZE)
    size = load_i32(record)
    magic = load_i32(record + 4)
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        code = INVALID_MAGIC
        if magic == _MAGIC_BLANK:
            code = BLANK if size == file_size - at else INVALID_SIZE
        elif magic == 0 and size == 0:
            code = EMPTY
        return _refuse(code)
    # Topic and properties stand right before the next record: fetch them while this header is looked at.
    for back in range(-192, 65, 64):
        prefetch_read(record + size + back)
    version = 1 if magic == MAGIC_V1 else 2
    if size < SMALLEST_RECORD or size > left:
        return _refuse(INVALID_SIZE)
    sys_flag = load_i32(record + 36)
    head = _HEAD + (12 if sys_flag & 0x10 else 0) + (12 if sys_flag & 0x20 else 0)
    # What is left for body, topic and properties once their length fields are taken off; shrinks as they are
    # read.
    room = size - head - version - 2
    if room < 0:
        return _refuse(INVALID_LENGTHS)
    body_length = load_i32(record + head - 4)
    if body_length < 0 or body_length > room:
        return _refuse(INVALID_LENGTHS)
    room -= body_length
    topic_at = head + body_length + version
    topic_length = load_i8(record + topic_at - 1) if version == 1 else load_i16(record + topic_at - 2)
    if topic_length < 0 or topic_length > room:
        return _refuse(INVALID_LENGTHS)
    room -= topic_length
    text_at = topic_at + topic_length + 2
    text_length = max(load_i16(record + text_at - 2), 0)  # Java reads a negative length as "none"
    if text_length != room:
        return _refuse(INVALID_LENGTHS)
    if load_i64(record + 28) != base + at:
        return _refuse(INVALID_OFFSET)
    if flags & CHECK_BODY_CRC and body_length > 0:
        body_crc = crc32_at(record + head, body_length) & 0x7FFFFFFF
        if body_crc != load_i32(record + 8):
            return _refuse(INVALID_BODY_CRC)
    if flags & (CHECK_RECORD_CRC | REQUIRE_RECORD_CRC):
        if has_record_crc(record + text_at, record + size):
            if crc32_at(record, size - RECORD_CRC_SIZE) & 0x7FFFFFFF != stored_record_crc(record + size):
                return _refuse(INVALID_RECORD_CRC)
        elif flags & REQUIRE_RECORD_CRC:
            return _refuse(INVALID_RECORD_CRC)
    if flags & STRICT and not _plausible(record, head, topic_at, topic_length, text_at, size):
        return _refuse(IMPLAUSIBLE)
    return Frame(OK, size, at + head, body_length, at + topic_at, topic_length, at + text_at, text_length)


@helper
def fill_row(log: int, at: int, frame: Frame, flags: int, cell: int, stride: int) -> None:
    """Write one accepted record into the row whose first cell is at ``cell``."""
    record = log + at
    sys_flag = load_i32(record + 36)
    queue_id = load_i32(record + 12)
    store_at = 68 if sys_flag & 0x10 else 56
    marks = MARK_INNER_BATCH if sys_flag & 0x80 else 0
    hashed = (U64(frame.topic_length) << U64(32)) ^ U64(queue_id) * _MIX
    high = U64(0)
    position = log + frame.topic_at
    stop = position + frame.topic_length
    while position < stop:
        word = U64(word_before(position, stop))
        high |= word
        hashed = (hashed ^ word) * _MIX
        hashed ^= hashed >> U64(32)
        position += 8
    if high & _HIGH_BITS != U64(0) and not is_utf8(log + frame.topic_at, stop):
        marks |= MARK_BAD_TEXT
    if (
        frame.topic_length == 19
        and load_word(log + frame.topic_at) == _SCHEDULE_1
        and load_word(log + frame.topic_at + 8) == _SCHEDULE_2
        and load_word(stop - 8) == _SCHEDULE_3
    ):
        marks |= MARK_SCHEDULE
    if not flags & HEADERS_ONLY:
        marks |= read_properties(log, frame.properties_at, frame.properties_at + frame.properties_length, cell, stride)
    store_native(cell + FILE_OFFSET * stride, at)
    store_native(cell + PHYSICAL_OFFSET * stride, load_i64(record + 28))
    store_native(cell + SIZE * stride, frame.size)
    store_native(cell + VERSION * stride, 1 if load_i32(record + 4) == MAGIC_V1 else 2)
    store_native(cell + QUEUE_ID * stride, queue_id)
    store_native(cell + QUEUE_OFFSET * stride, load_i64(record + 20))
    store_native(cell + SYS_FLAG * stride, sys_flag)
    store_native(cell + FLAG * stride, load_i32(record + 16))
    store_native(cell + BODY_CRC * stride, load_i32(record + 8))
    store_native(cell + BORN_TIMESTAMP * stride, load_i64(record + 40))
    store_native(cell + STORE_TIMESTAMP * stride, load_i64(record + store_at))
    store_native(cell + RECONSUME_TIMES * stride, load_i32(log + frame.body_at - 16))
    store_native(cell + PREPARED_OFFSET * stride, load_i64(log + frame.body_at - 12))
    store_native(cell + BODY_AT * stride, frame.body_at)
    store_native(cell + BODY_LENGTH * stride, frame.body_length)
    store_native(cell + TOPIC_AT * stride, frame.topic_at)
    store_native(cell + TOPIC_LENGTH * stride, frame.topic_length)
    store_native(cell + PROPERTIES_AT * stride, frame.properties_at)
    store_native(cell + PROPERTIES_LENGTH * stride, frame.properties_length)
    store_native(cell + MARKS * stride, marks)
    store_native(cell + QUEUE_HASH * stride, I64(hashed))
