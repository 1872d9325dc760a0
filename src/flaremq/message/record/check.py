"""Is this a record? The question of recovery, ``store verify`` and every read by offset.

``check_record`` takes bytes of any origin and answers with a reason, never with an exception. It reads no
further than the given view and allocates nothing by a size the bytes announce.

What RocketMQ checks is the magic, the body checksum and that the lengths add up. We also want PHYSICALOFFSET
to be the place the record was found at, since stale bytes behind a cut pass everything else, and the record
checksum wherever there is one. ``strict`` is for the unsynced tail of a log, where pages of a record may be
missing: header, topic and properties are covered by no checksum, so what no writer would have written is
taken as damage.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple
from zlib import crc32

from flaremq.message.record.crc import CRC_PROPERTY_PREFIX, CRC_PROPERTY_SIZE, crc_property, has_crc_property
from flaremq.message.record.layout import (
    BLANK,
    INT,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PREFIX_BY_FAMILY,
    RECORD_SIZE_MIN,
    SHORT,
    SYS_FLAG_AT,
)
from flaremq.message.topics import STORED_BYTES

# Places in the tuple a prefix struct unpacks to.
_BODY_CRC, _QUEUE_ID, _QUEUE_OFFSET, _PHYSICAL_OFFSET = 2, 3, 5, 6
_BORN_HOST, _STORE_TIMESTAMP, _STORE_HOST, _BODY_LENGTH = 9, 10, 11, 14


class CheckReason(Enum):
    """Why a place is, or is not, the start of a good record. The value is text for people."""

    OK = "good record"
    BLANK = "filler up to the end of the file"
    EMPTY = "zeros, nothing was written here"
    TRUNCATED = "the bytes end before the record does"
    UNKNOWN_MAGIC = "no known magic number"
    BAD_SIZE = "the announced size cannot be that of a record"
    PHYSICAL_OFFSET = "the record says it belongs to another place"
    LENGTH_MISMATCH = "lengths of body, topic and properties do not add up to the size"
    BODY_CRC = "body checksum differs"
    RECORD_CRC = "record checksum differs or is missing"
    TOPIC = "the topic is not a legal name"
    PROPERTIES = "the properties are not well formed"
    FIELD = "a header field has an impossible value"


class RecordCheck(NamedTuple):
    """``size`` is the announced size: to step over a good record or a blank, only a hint otherwise."""

    reason: CheckReason
    size: int

    @property
    def ok(self) -> bool:
        return self[0] is _OK


_OK = CheckReason.OK  # a global: looking a member up on its class costs as much as a checksum of 256 bytes
_TOO_SHORT = RecordCheck(CheckReason.TRUNCATED, 0)
_EMPTY = RecordCheck(CheckReason.EMPTY, 0)


# Long on purpose: one pass over a record in the order of its bytes, without a call for each field.
def check_record(
    view: bytes | bytearray | memoryview,
    at: int = 0,
    *,
    physical_offset: int | None = None,
    check_body_crc: bool = True,
    require_record_crc: bool = False,
    strict: bool = False,
) -> RecordCheck:
    """Check the record that starts at byte ``at`` of ``view``.

    ``physical_offset`` is where that byte lies in the log, if known. ``require_record_crc`` treats a record
    without the checksum property as damaged (RocketMQ's ``forceVerifyPropCRC``).
    """
    if type(view) is not memoryview:
        view = memoryview(view)
    available = len(view) - at
    if available < BLANK.size:
        return _TOO_SHORT
    size, magic = BLANK.unpack_from(view, at)
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        return _no_record(size, magic)
    if size < RECORD_SIZE_MIN:
        return RecordCheck(CheckReason.BAD_SIZE, size)
    if size > available:
        return RecordCheck(CheckReason.TRUNCATED, size)
    (sys_flag,) = INT.unpack_from(view, at + SYS_FLAG_AT)
    prefix = PREFIX_BY_FAMILY[sys_flag >> 4 & 3]
    if size < prefix.size + 3:
        return RecordCheck(CheckReason.BAD_SIZE, size)
    fields = prefix.unpack_from(view, at)
    if physical_offset is not None and fields[_PHYSICAL_OFFSET] != physical_offset:
        return RecordCheck(CheckReason.PHYSICAL_OFFSET, size)

    # Every position is checked against the end of the record before it is read.
    end = at + size
    body_start = at + prefix.size
    body_length = fields[_BODY_LENGTH]
    topic_at = body_start + body_length
    if body_length < 0 or topic_at + (3 if magic == MAGIC_V1 else 4) > end:
        return RecordCheck(CheckReason.LENGTH_MISMATCH, size)
    if magic == MAGIC_V1:
        topic_length = view[topic_at]
        topic_start = topic_at + 1
        if topic_length > 127:  # a signed byte
            return RecordCheck(CheckReason.LENGTH_MISMATCH, size)
    else:
        (topic_length,) = SHORT.unpack_from(view, topic_at)
        topic_start = topic_at + 2
    properties_at = topic_start + topic_length
    if topic_length < 0 or properties_at + 2 > end:
        return RecordCheck(CheckReason.LENGTH_MISMATCH, size)
    (properties_length,) = SHORT.unpack_from(view, properties_at)
    properties_start = properties_at + 2
    if properties_start + max(0, properties_length) != end:
        return RecordCheck(CheckReason.LENGTH_MISMATCH, size)

    if check_body_crc and body_length > 0:
        found_crc = crc32(view[body_start:topic_at]) & 0x7FFFFFFF
        if found_crc != fields[_BODY_CRC]:
            return RecordCheck(CheckReason.BODY_CRC, size)
    # Two bytes of its announcement, of which damage spares one, rule the property out for most records.
    if properties_length >= CRC_PROPERTY_SIZE and (
        view[end - CRC_PROPERTY_SIZE] == CRC_PROPERTY_PREFIX[0] or view[end - 12] == CRC_PROPERTY_PREFIX[-1]
    ):
        properties = bytes(view[properties_start:end])
        if has_crc_property(properties):
            covered = view[at : end - CRC_PROPERTY_SIZE]
            if properties[-CRC_PROPERTY_SIZE:] != crc_property(crc32(covered) & 0x7FFFFFFF):
                return RecordCheck(CheckReason.RECORD_CRC, size)
            require_record_crc = False
    if require_record_crc:
        return RecordCheck(CheckReason.RECORD_CRC, size)
    if strict:
        reason = _implausible(fields, view[topic_start:properties_at], view[properties_start:end])
        if reason is not None:
            return RecordCheck(reason, size)
    return RecordCheck(_OK, size)


def _no_record(size: int, magic: int) -> RecordCheck:
    if magic == MAGIC_BLANK:
        return RecordCheck(CheckReason.BLANK if size >= BLANK.size else CheckReason.BAD_SIZE, size)
    if magic == 0 and size == 0:
        return _EMPTY
    return RecordCheck(CheckReason.UNKNOWN_MAGIC, size)


def _implausible(fields: tuple[Any, ...], topic: memoryview, properties: memoryview) -> CheckReason | None:
    """What no writer would have written, if anything."""
    if fields[_QUEUE_ID] < 0 or fields[_QUEUE_OFFSET] < 0 or fields[_STORE_TIMESTAMP] <= 0:
        return CheckReason.FIELD
    if not (_port_ok(fields[_BORN_HOST]) and _port_ok(fields[_STORE_HOST])):
        return CheckReason.FIELD
    if STORED_BYTES.fullmatch(topic) is None:
        return CheckReason.TOPIC
    if b"\0" in bytes(properties):  # no put takes it, so a zeroed page shows
        return CheckReason.PROPERTIES
    return None


def _port_ok(host: bytes) -> bool:
    # The port is the last four bytes, big-endian: 0-65535 leaves the upper two at zero.
    return host[-4] == 0 == host[-3]
