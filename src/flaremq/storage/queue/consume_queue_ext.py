"""ConsumeQueueExt: what a queue unit has no room for (filter bit map, store time). Read, never written, by us.

    at  size    field
     0     2    size           20 + bit map; below 1: end of this file
     2     8    tags_code
    10     8    store_timestamp
    18     2    bit_map_size
    20     …    bit_map

A unit's ``tags_code`` at or below -2**31 - 1 is an address here: byte offset = address + 2**63.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from flaremq.storage.files.queue_files import QueueFiles
from flaremq.storage.queue.consume_queue import EXT_ADDRESS_MAX

EXT_HEAD = struct.Struct(">hqqh")
assert EXT_HEAD.size == 20  # see docs/formats/consume_queue_ext.md


class ExtUnit(NamedTuple):
    tags_code: int
    store_timestamp: int
    bit_map: bytes


def is_ext_address(tags_code: int) -> bool:
    return tags_code <= EXT_ADDRESS_MAX


class ConsumeQueueExt:
    """The ext files of one queue."""

    __slots__ = ("files",)

    def __init__(self, files: QueueFiles) -> None:
        self.files = files

    def read(self, address: int) -> ExtUnit | None:
        """The unit behind an address, None if it cannot be resolved (the record itself then decides)."""
        position = address + 2**63
        head = self.files.read(position, EXT_HEAD.size)
        if len(head) < EXT_HEAD.size:
            return None
        size, tags_code, store_timestamp, bit_map_size = EXT_HEAD.unpack(head)
        if size < EXT_HEAD.size or bit_map_size < 0 or size != EXT_HEAD.size + bit_map_size:
            return None
        bit_map = self.files.read(position + EXT_HEAD.size, bit_map_size)
        return ExtUnit(tags_code, store_timestamp, bit_map) if len(bit_map) == bit_map_size else None

    def drop_files_before(self, address: int | None) -> int:
        """Delete leading files that end before an address (all, if there is none), never the last; the number."""
        dropped = 0
        while len(self.files.starts) > 1:
            if address is not None and self.files.starts[0] + self.files.file_size > address + 2**63:
                break
            self.files.drop_first()
            dropped += 1
        return dropped
