"""One index file: hash slots and chained entries, key hash -> place of the record in the log.

    at             size  field
     0                8  begin_timestamp   store time of the first entry's record
     8                8  end_timestamp     ... of the last
    16                8  begin_offset      physical offset of the first entry's record
    24                8  end_offset        ... of the last
    32                4  slot_count        slots in use (informative)
    36                4  index_count       next entry number; starts at 1, entry 0 is never used
    40        4 * slots  slots             newest entry number of the chain, 0 for none
     …   20 * entries    entries           key hash i32, physical offset i64, seconds since begin i32, previous i32

Entries are only ever appended and slots are a function of the entries, so after a crash the file is cut to the
entries known durable and its slots computed anew. Space is reserved in steps before the mapping is touched.
"""

from __future__ import annotations

import mmap
import os
import struct
from array import array
from typing import NamedTuple

from flaremq.core.index import index_put, index_rebuild_slots
from flaremq.core.lookup import index_lookup
from flaremq.errors import CorruptionError
from flaremq.storage.files.filesystem import File, FileSystem, Mapping

HEADER = struct.Struct(">qqqqii")
ENDS = struct.Struct(">qqqq")
COUNT, COUNT_AT = struct.Struct(">i"), 36
SLOT = struct.Struct(">i")
ENTRY = struct.Struct(">iqii")
HEADER_SIZE, SLOT_SIZE, ENTRY_SIZE = 40, 4, 20
assert (HEADER.size, SLOT.size, ENTRY.size) == (HEADER_SIZE, SLOT_SIZE, ENTRY_SIZE)


class IndexHeader(NamedTuple):
    begin_timestamp: int
    end_timestamp: int
    begin_offset: int
    end_offset: int
    slot_count: int
    index_count: int


def index_file_size(slots: int, entries: int) -> int:
    return HEADER_SIZE + SLOT_SIZE * slots + ENTRY_SIZE * entries


class IndexFile:
    """One mapped index file. Written by dispatch; read by anyone."""

    __slots__ = (
        "_entries_at",
        "_file",
        "_filesystem",
        "_mapping",
        "_reserved_entries",
        "buffer",
        "entries",
        "path",
        "reserve_step",
        "slots",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        path: str,
        *,
        slots: int,
        entries: int,
        reserve_step: int,
        create: bool = False,
        read_only: bool = False,
    ) -> None:
        self._filesystem = filesystem
        self.path = path
        self.slots = slots
        self.entries = entries
        self.reserve_step = max(reserve_step // ENTRY_SIZE, 1)
        self._entries_at = HEADER_SIZE + SLOT_SIZE * slots
        size = index_file_size(slots, entries)
        self._file: File = filesystem.open(path, create=create, read_only=read_only)
        if create:
            self._file.resize(size)
            self._file.reserve(0, self._entries_at)
            self._file.sync()
            filesystem.sync_directory(os.path.dirname(path))
        elif self._file.size() != size:
            found = self._file.size()
            self._file.close()
            raise CorruptionError(
                "an index file has the wrong length; are maxHashSlotNum and maxIndexNum what it was written with?",
                path=path,
                expected=size,
                found=found,
            )
        self._mapping: Mapping = self._file.map(size, read_only=read_only)
        self.buffer = self._mapping.buffer
        self._reserved_entries = 0

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def header(self) -> IndexHeader:
        """What the file says of itself; beside dispatch, at this moment."""
        return IndexHeader(*HEADER.unpack_from(self.buffer, 0))

    @property
    def count(self) -> int:
        """The number of the next entry; the first is 1."""
        count: int = COUNT.unpack_from(self.buffer, COUNT_AT)[0]
        return max(count, 1)

    @property
    def begin_timestamp(self) -> int:
        return self.header.begin_timestamp

    @property
    def end_offset(self) -> int:
        return self.header.end_offset

    @property
    def end_timestamp(self) -> int:
        return self.header.end_timestamp

    def set_ends(self, begin_timestamp: int, end_timestamp: int, begin_offset: int, end_offset: int) -> None:
        """Of which records the file holds the keys: for a file that begins, or is cut."""
        ENDS.pack_into(self.buffer, 0, begin_timestamp, end_timestamp, begin_offset, end_offset)

    @property
    def is_full(self) -> bool:
        return bool(self.count >= self.entries)

    @property
    def reserved_entries(self) -> int:
        """Entries below this number have space behind them."""
        return self._reserved_entries

    def reserve(self, entry: int) -> None:
        """Make sure entries up to and including ``entry`` can be stored; raises when the disk is full."""
        if entry < self._reserved_entries:
            return
        target = min(self.entries, (entry // self.reserve_step + 1) * self.reserve_step)
        start = self._entries_at + self._reserved_entries * ENTRY_SIZE
        if self._reserved_entries == 0:
            start = 0  # a file from elsewhere may have holes anywhere
        self._file.reserve(start, self._entries_at + target * ENTRY_SIZE - start)
        self._reserved_entries = target

    def put(self, key_hash: int, physical_offset: int, store_timestamp: int) -> bool:
        """Add one entry; False if the file is full."""
        if self.is_full:
            return False
        return self.put_keys(array("q", (key_hash, physical_offset, store_timestamp)), 0) == 1

    def put_keys(self, keys: bytearray | array[int], first: int) -> int:
        """Add entries from key ``first`` on, three numbers each, as far as they fit; the first that is not added."""
        if self.is_full:
            return first
        self.reserve(self.count)
        done, _why = index_put(self.buffer, self.slots, self.entries, self._reserved_entries, keys, first)
        return done

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """(key hash, physical offset, seconds since begin, previous entry)."""
        return ENTRY.unpack_from(self.buffer, self._entries_at + number * ENTRY_SIZE)

    def lookup(self, key_hash: int, begin_ms: int, end_ms: int, max_count: int) -> list[int]:
        """Physical offsets of records whose key has this hash, newest first; times are only good to a second."""
        return index_lookup(self.buffer, self.slots, self.entries, key_hash, begin_ms, end_ms, max_count)

    def cut(self, count: int) -> None:
        """Keep entries below ``count``: zero the rest, compute slots and counts anew. The caller syncs."""
        self.reserve(max(count - 1, 0))
        data_end = min(self._file.data_end(), len(self.buffer))
        at = self._entries_at + count * ENTRY_SIZE
        while at < data_end:
            length = min(1 << 20, data_end - at)
            if bytes(self.buffer[at : at + length]).strip(b"\0"):
                self._file.reserve(at, length)
                self.buffer[at : at + length] = bytes(length)
            at += length
        index_rebuild_slots(self.buffer, self.slots, self.entries, count)

    def sync(self) -> None:
        self._file.sync()

    def release_pages(self) -> None:
        """Let go of the pages this process has touched; they stay in the page cache."""
        self._mapping.advise(mmap.MADV_DONTNEED, 0, len(self.buffer))

    def close(self) -> None:
        """Nothing more is written; the mapping goes with the last who refers to this object or reads it."""
        self._file.close()

    def destroy(self) -> None:
        """Delete the file; a reader that is in it finishes."""
        self.close()
        self._filesystem.remove(self.path)
        self._filesystem.sync_directory(os.path.dirname(self.path))
