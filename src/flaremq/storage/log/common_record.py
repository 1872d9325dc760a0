"""The common record, checked in one step: version 1, IPv4 hosts, no checksum property.

``check_common`` is the fast twin of ``check_record`` for reads: the same verdict in a third of the time, or None when
the record is of another kind or anything at all looks wrong; ``check_record`` then has the last word.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

from flaremq.message.record.codec import MAGIC_V1, PREFIX_V4

# Of the 88 bytes before the body: total size, magic, body checksum, queue id, (flag), queue offset, physical offset,
# sys flag, (born time and host), store time, (store host, reconsume times, prepared offset), body length.
_FIELDS = struct.Struct(">iiii4xqqi16xq20xi")
assert _FIELDS.size == PREFIX_V4.size == 88
_unpack = _FIELDS.unpack_from


class CommonRecord(NamedTuple):
    """What a check of a whole record has read anyway."""

    queue_id: int
    queue_offset: int
    physical_offset: int
    store_timestamp: int
    topic_at: int
    properties_at: int


def check_common(view: memoryview) -> CommonRecord | None:
    """The fields of a whole common record whose lengths add up and whose body checksum holds; else None."""
    size = len(view)
    if size < 91:
        return None
    total, magic, crc, queue_id, queue_offset, physical, sys_flag, stored, body_length = _unpack(view)
    topic_length_at = 88 + body_length
    if magic != MAGIC_V1 or total != size or sys_flag & 0x30 or body_length < 0 or topic_length_at > size - 3:
        return None
    properties_length_at = topic_length_at + 1 + view[topic_length_at]
    if properties_length_at > size - 2:
        return None
    properties_at = properties_length_at + 2
    properties_length = view[properties_length_at] << 8 | view[properties_length_at + 1]
    if properties_at + properties_length != size or view[topic_length_at] > 127:
        return None
    if properties_length >= 20 and (view[size - 20] == 0x5F or view[size - 12] == 1):
        return None  # may end with the checksum property
    if crc32(view[88:topic_length_at]) & 0x7FFFFFFF != crc and body_length:
        return None
    return CommonRecord(queue_id, queue_offset, physical, stored, topic_length_at + 1, properties_at)
