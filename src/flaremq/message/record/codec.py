"""Writing records and reading their headers.

The layout itself is in ``record_layout``, the judgement on bytes of unknown origin in ``record_check``; both
are re-exported, so that storage needs this one module. The encoder refuses what does not fit the format, the
header decoder trusts its input.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.message.properties import SIZE_MAX as PROPERTIES_SIZE_MAX
from flaremq.message.record.check import CheckReason, RecordCheck, check_record
from flaremq.message.record.crc import CRC_PROPERTY_SIZE, crc_property
from flaremq.message.record.layout import (
    BLANK,
    BODY_AT_BY_FAMILY,
    BORN_HOST_AT,
    HEADER,
    INT,
    MAGIC_AT,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    OFFSETS,
    PHYSICAL_OFFSET_AT,
    PREFIX_BY_FAMILY,
    PREFIX_V4,
    PREFIXES,
    QUEUE_OFFSET_AT,
    RECORD_SIZE_MIN,
    SHORT,
    SYS_FLAG_AT,
    TIMESTAMP,
    TOPIC_BYTES_V1_MAX,
    body_at,
    store_timestamp_at,
)
from flaremq.message.sys_flag import with_host_families

__all__ = [
    "BLANK",
    "BODY_AT_BY_FAMILY",
    "BORN_HOST_AT",
    "HEADER",
    "INT",
    "MAGIC_AT",
    "MAGIC_BLANK",
    "MAGIC_V1",
    "MAGIC_V2",
    "OFFSETS",
    "PHYSICAL_OFFSET_AT",
    "PREFIXES",
    "PREFIX_BY_FAMILY",
    "PREFIX_V4",
    "PROPERTIES_SIZE_MAX",
    "QUEUE_OFFSET_AT",
    "RECORD_SIZE_MIN",
    "SHORT",
    "SYS_FLAG_AT",
    "TIMESTAMP",
    "TOPIC_BYTES_V1_MAX",
    "CheckReason",
    "RecordCheck",
    "RecordHeader",
    "body_at",
    "check_record",
    "decode_header",
    "encode_blank",
    "encode_record",
    "store_timestamp_at",
]


class RecordHeader(NamedTuple):
    """The fixed first 48 bytes of a record."""

    total_size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int


# Long on purpose: the fields of a record, each once as a parameter and once in the layout's order.
def encode_record(
    *,
    topic: bytes,
    body: bytes | bytearray | memoryview,
    properties: bytes,
    queue_id: int,
    queue_offset: int,
    physical_offset: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    flag: int = 0,
    sys_flag: int = 0,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
    magic: int | None = None,
    append_crc: bool = False,
) -> bytes:
    """One whole record.

    ``magic`` is V1 unless the topic needs V2: older readers cut a log off at the first V2 record. Hosts are
    in stored form (``hosts.encode_host``), and the IPv6 bits of ``sys_flag`` are set to match them.
    ``append_crc`` adds the checksum property, which counts in the length of the properties.
    """
    if magic is None:
        magic = MAGIC_V1 if len(topic) <= TOPIC_BYTES_V1_MAX else MAGIC_V2
    if append_crc:
        separator = b"\x02" if properties and properties[-1] != 2 else b""
        properties = properties + separator + bytes(CRC_PROPERTY_SIZE)
    if len(properties) > PROPERTIES_SIZE_MAX:
        raise InvalidArgumentError(
            f"properties of {len(properties)} bytes, at most {PROPERTIES_SIZE_MAX} can be stored"
        )
    try:
        topic_length = len(topic).to_bytes(1 if magic == MAGIC_V1 else 2, "big", signed=True)
    except OverflowError:
        raise InvalidArgumentError(f"topic of {len(topic)} bytes does not fit the record version") from None
    prefix = PREFIXES[len(born_host), len(store_host)]
    total_size = prefix.size + len(body) + len(topic_length) + len(topic) + 2 + len(properties)
    head = prefix.pack(
        total_size,
        magic,
        crc32(body) & 0x7FFFFFFF,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        with_host_families(sys_flag, born_host, store_host),
        born_timestamp,
        born_host,
        store_timestamp,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
        len(body),
    )
    record = b"".join((head, body, topic_length, topic, SHORT.pack(len(properties)), properties))
    if append_crc:
        covered = record[:-CRC_PROPERTY_SIZE]
        return covered + crc_property(crc32(covered) & 0x7FFFFFFF)
    return record


def encode_blank(remaining: int) -> bytes:
    """The filler header for the ``remaining`` bytes (at least 8) at the end of a file."""
    return BLANK.pack(remaining, MAGIC_BLANK)


def decode_header(view: bytes | bytearray | memoryview, at: int = 0) -> RecordHeader:
    """The fixed part of the record at ``at``; ``CorruptionError`` if there are not 48 bytes."""
    try:
        return RecordHeader._make(HEADER.unpack_from(view, at))
    except struct.error:
        found = len(view) - at
        raise CorruptionError("record header cut short", offset=at, expected=48, found=found) from None
