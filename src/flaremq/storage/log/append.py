"""Appending records to the log: claim a place, write behind the end where nobody looks, publish.

All of it under ``log.lock``, which also guards the next queue offsets; whatever fails before ``publish`` leaves the log
as it was. The two fast paths (``MessageWriter.put`` and ``StoreDriver.append``) take the same steps without the calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

from flaremq.message.record.codec import PREFIX_BY_FAMILY, SHORT
from flaremq.message.record.crc import CRC_PROPERTY_SIZE, crc_property
from flaremq.message.sys_flag import gets_queue_unit
from flaremq.storage.log.commit_log import CommitLog

_pack_short = SHORT.pack


class RecordFields(NamedTuple):
    """What all records of one append share."""

    magic: int
    topic: bytes  # the name behind its length
    queue_id: int
    sys_flag: int  # with the host families
    born_timestamp: int | None  # None: the store time
    born_host: bytes
    store_host: bytes
    reconsume_times: int = 0
    prepared_offset: int = 0

    def prefix(self, now: int) -> bytes:
        """A record up to its body, with zeros where records differ."""
        magic, _, queue_id, sys_flag, born, born_host, store_host, reconsume_times, prepared_offset = self
        if born is None:
            born = now
        pack = PREFIX_BY_FAMILY[sys_flag >> 4 & 3].pack
        return pack(
            0,
            magic,
            0,
            queue_id,
            0,
            0,
            0,
            sys_flag,
            born,
            born_host,
            now,
            store_host,
            reconsume_times,
            prepared_offset,
            0,
        )


# Where records came to stand: queue offset and physical offset of the first, store time, their sizes.
Appended = tuple[int, int, int, list[int]]


def append_records(
    log: CommitLog,
    fields: RecordFields,
    queue_offsets: dict[int, int],
    bodies: Sequence[bytes],
    properties: Sequence[bytes],
    flags: Sequence[int],
    *,
    seal_crc: bool,
) -> Appended:
    """Append records for consecutive queue offsets, all in one file; the caller has checked them and holds the lock.

    With ``seal_crc`` the properties end with room for the record checksum. Raises StoreIOError, with nothing changed,
    when there is no space.
    """
    magic, topic, queue_id, sys_flag, born_timestamp, born_host, store_host, reconsume_times, prepared_offset = fields
    prefix = PREFIX_BY_FAMILY[sys_flag >> 4 & 3]
    pack, fixed = prefix.pack, prefix.size + len(topic) + 2
    sizes = [fixed + len(body) + len(text) for body, text in zip(bodies, properties, strict=True)]
    total = sum(sizes)
    at, base, now = log.claim(total)
    if born_timestamp is None:
        born_timestamp = now
    physical_offset = base + at
    has_unit = gets_queue_unit(sys_flag)
    first_queue_offset = queue_offset = queue_offsets.get(queue_id, 0) if has_unit else 0
    parts: list[bytes] = []
    for size, body, text, flag in zip(sizes, bodies, properties, flags, strict=True):
        head = pack(
            size,
            magic,
            crc32(body) & 0x7FFFFFFF,
            queue_id,
            flag,
            queue_offset,
            physical_offset,
            sys_flag,
            born_timestamp,
            born_host,
            now,
            store_host,
            reconsume_times,
            prepared_offset,
            len(body),
        )
        if seal_crc:
            covered = b"".join((head, body, topic, _pack_short(len(text)), text[:-CRC_PROPERTY_SIZE]))
            parts += (covered, crc_property(crc32(covered) & 0x7FFFFFFF))
        else:
            parts += (head, body, topic, _pack_short(len(text)), text)
        physical_offset += size
        queue_offset += 1
    log.buffer[at : at + total] = b"".join(parts)
    if has_unit:
        queue_offsets[queue_id] = queue_offset
    log.publish(at + total, now)
    return first_queue_offset, base + at, now, sizes
