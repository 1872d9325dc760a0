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

from flaremq.errors import CorruptionError
from flaremq.storage.files.filesystem import File, FileSystem, Mapping

HEADER = struct.Struct(">qqqqii")
SLOT = struct.Struct(">i")
ENTRY = struct.Struct(">iqii")
HEADER_SIZE, SLOT_SIZE, ENTRY_SIZE = 40, 4, 20
assert (HEADER.size, SLOT.size, ENTRY.size) == (HEADER_SIZE, SLOT_SIZE, ENTRY_SIZE)

_INT_MAX = 2**31 - 1


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
        "begin_offset",
        "begin_timestamp",
        "buffer",
        "count",
        "end_offset",
        "end_timestamp",
        "entries",
        "path",
        "reserve_step",
        "slot_count",
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
        self.load_header()
        self._reserved_entries = 0

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    def load_header(self) -> None:
        fields = HEADER.unpack_from(self.buffer, 0)
        self.begin_timestamp, self.end_timestamp, self.begin_offset, self.end_offset = fields[:4]
        self.slot_count = fields[4]
        self.count = max(fields[5], 1)

    def store_header(self) -> None:
        HEADER.pack_into(
            self.buffer,
            0,
            self.begin_timestamp,
            self.end_timestamp,
            self.begin_offset,
            self.end_offset,
            self.slot_count,
            self.count,
        )

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
        number = self.count
        if number >= self.entries:
            return False
        if number >= self._reserved_entries:
            self.reserve(number)
        buffer = self.buffer
        slot_at = HEADER_SIZE + key_hash % self.slots * SLOT_SIZE
        (previous,) = SLOT.unpack_from(buffer, slot_at)
        if not 0 < previous <= number:
            previous = 0
        seconds = 0
        if self.begin_timestamp > 0 and store_timestamp > self.begin_timestamp:
            seconds = min((store_timestamp - self.begin_timestamp) // 1000, _INT_MAX)
        ENTRY.pack_into(buffer, self._entries_at + number * ENTRY_SIZE, key_hash, physical_offset, seconds, previous)
        SLOT.pack_into(buffer, slot_at, number)
        if number <= 1:
            self.begin_offset = physical_offset
            self.begin_timestamp = store_timestamp
        if previous == 0:
            self.slot_count += 1
        self.count = number + 1
        self.end_offset = physical_offset
        self.end_timestamp = store_timestamp
        self.store_header()
        return True

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """(key hash, physical offset, seconds since begin, previous entry)."""
        return ENTRY.unpack_from(self.buffer, self._entries_at + number * ENTRY_SIZE)

    def lookup(self, key_hash: int, begin_ms: int, end_ms: int, max_count: int) -> list[int]:
        """Physical offsets of records whose key has this hash, newest first; times are only good to a second."""
        buffer, entries_at = self.buffer, self._entries_at
        (number,) = SLOT.unpack_from(buffer, HEADER_SIZE + key_hash % self.slots * SLOT_SIZE)
        found: list[int] = []
        # A sound chain only goes back: anything else ends the walk. ``count`` is no bound: while dispatch fills the
        # file it is older than the slots, and a chain whose newest entry lies beyond it holds the earlier ones too.
        last = self.entries
        while 0 < number < last:
            entry_hash, physical_offset, seconds, previous = ENTRY.unpack_from(buffer, entries_at + number * ENTRY_SIZE)
            if seconds < 0:
                break
            # Of the first entry after a roll the seconds count from the file before; its time is the begin time.
            timestamp = self.begin_timestamp + seconds * 1000 if number > 1 else self.begin_timestamp
            if entry_hash == key_hash and begin_ms <= timestamp <= end_ms:
                found.append(physical_offset)
                if len(found) >= max_count:
                    break
            if timestamp < begin_ms:
                break
            last, number = number, previous
        return found

    def cut(self, count: int) -> None:
        """Keep entries below ``count``: zero the rest, compute slots and header anew. The caller syncs."""
        self.reserve(max(count - 1, 0))
        data_end = min(self._file.data_end(), len(self.buffer))
        at = self._entries_at + count * ENTRY_SIZE
        while at < data_end:
            length = min(1 << 20, data_end - at)
            if bytes(self.buffer[at : at + length]).strip(b"\0"):
                self._file.reserve(at, length)
                self.buffer[at : at + length] = bytes(length)
            at += length
        self.buffer[HEADER_SIZE : self._entries_at] = bytes(self._entries_at - HEADER_SIZE)
        self.count = count
        if count > 4096:
            from flaremq.storage.kernels.index import rebuild_slots

            self.slot_count = rebuild_slots(self.buffer, self.slots, self.entries, count)
        else:
            self.slot_count = self._rebuild_slots()
        self.store_header()

    def _rebuild_slots(self) -> int:
        used = 0
        for number in range(1, self.count):
            slot_at = HEADER_SIZE + self.entry(number)[0] % self.slots * SLOT_SIZE
            if SLOT.unpack_from(self.buffer, slot_at)[0] == 0:
                used += 1
            SLOT.pack_into(self.buffer, slot_at, number)
        return used

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
