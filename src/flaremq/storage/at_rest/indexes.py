"""The key index files of a store at rest.

Slot and entry counts are options of the broker that wrote the file; they are not in it, and its length
gives only one equation for the two. A wrong guess would read nonsense, so nothing is guessed: the counts
asked for must explain the length. If RocketMQ's default counts do not, they are *derived*: the header says
where the first and the last indexed record lie, and only the true slot count puts entries with these
offsets in their places **and** makes every slot lead to its entries. If even that fails, the file is
refused and the caller is told which options to give.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from flaremq.errors import InvalidArgumentError
from flaremq.storage.files import layout
from flaremq.storage.files.handles import OpenFiles
from flaremq.storage.index.index_file import ENTRY, HEADER, SLOT, index_file_size

_CHUNK_ENTRIES = 1 << 14
_SAMPLE_ENTRIES = 256  # enough that a wrong slot count cannot explain them all by chance


@dataclass(frozen=True, slots=True)
class IndexGeometry:
    """How many slots and entries the files of a store have."""

    slots: int
    entries: int

    @property
    def file_size(self) -> int:
        return index_file_size(self.slots, self.entries)

    def entry_position(self, number: int) -> int:
        return HEADER.size + self.slots * SLOT.size + number * ENTRY.size


DEFAULT_GEOMETRY = IndexGeometry(5_000_000, 20_000_000)


@dataclass(frozen=True, slots=True)
class IndexHeader:
    begin_timestamp: int
    end_timestamp: int
    begin_offset: int
    end_offset: int
    slot_count: int
    index_count: int


@dataclass(frozen=True, slots=True)
class IndexEntry:
    number: int
    key_hash: int
    physical_offset: int
    seconds: int
    previous: int


class StoredIndex:
    """One index file; valid as long as the store's files are open."""

    __slots__ = ("_asked", "_files", "geometry", "header", "name", "path", "size")

    def __init__(
        self,
        files: OpenFiles,
        path: str,
        size: int,
        geometry: IndexGeometry | None,
        asked: IndexGeometry | None = None,
    ) -> None:
        self._files = files
        self._asked = asked or DEFAULT_GEOMETRY
        self.path = path
        self.name = os.path.basename(path)
        self.size = size
        self.geometry = geometry  # None: unknown, only the header can be read
        raw = files.read(path, 0, HEADER.size)
        fields = HEADER.unpack(raw) if len(raw) == HEADER.size else (0, 0, 0, 0, 0, 0)
        # As RocketMQ reads it: a count that was never written stands for "no entry yet".
        begin_timestamp, end_timestamp, begin_offset, end_offset, slot_count, index_count = fields
        self.header = IndexHeader(
            begin_timestamp, end_timestamp, begin_offset, end_offset, slot_count, max(index_count, 1)
        )

    def entries(self) -> Iterator[IndexEntry]:
        """All entries in the order they were put."""
        geometry = self._known_geometry()
        end = min(self.header.index_count, geometry.entries)
        for first in range(1, end, _CHUNK_ENTRIES):
            count = min(_CHUNK_ENTRIES, end - first)
            data = self._files.read(self.path, geometry.entry_position(first), count * ENTRY.size)
            for at, fields in enumerate(ENTRY.iter_unpack(data[: len(data) // ENTRY.size * ENTRY.size])):
                yield IndexEntry(first + at, *fields)

    def read_raw(self, position: int, length: int) -> bytes:
        """Bytes of the file as they are."""
        return self._files.read(self.path, position, length)

    def entry(self, number: int) -> IndexEntry | None:
        data = self._files.read(self.path, self._known_geometry().entry_position(number), ENTRY.size)
        return IndexEntry(number, *ENTRY.unpack(data)) if len(data) == ENTRY.size else None

    def slot(self, number: int) -> int:
        data = self._files.read(self.path, HEADER.size + number * SLOT.size, SLOT.size)
        return int(SLOT.unpack(data)[0]) if len(data) == SLOT.size else 0

    def slots(self) -> Iterator[tuple[int, int]]:
        """(slot number, newest entry) of every slot in use."""
        geometry = self._known_geometry()
        step = _CHUNK_ENTRIES
        for first in range(0, geometry.slots, step):
            data = self._files.read(self.path, HEADER.size + first * SLOT.size, min(step, geometry.slots - first) * 4)
            if not data.strip(b"\0"):
                continue
            for at, (value,) in enumerate(SLOT.iter_unpack(data[: len(data) // 4 * 4])):
                if value:
                    yield first + at, value

    def chain(self, key_hash: int) -> Iterator[IndexEntry]:
        """Entries of the slot of this hash, newest first; ends at any link that cannot be right."""
        geometry = self._known_geometry()
        number, bound = self.slot(key_hash % geometry.slots), self.header.index_count + 1
        while 0 < number < bound and number < geometry.entries:
            entry = self.entry(number)
            if entry is None:
                return
            yield entry
            bound, number = number, entry.previous  # links lead to older entries only, so this ends

    def _known_geometry(self) -> IndexGeometry:
        if self.geometry is None:
            raise InvalidArgumentError(
                f"{self.path} has {self.size} bytes, where {self._asked.slots} slots and "
                f"{self._asked.entries} entries make {self._asked.file_size}; give the broker's values with "
                f"-c broker.conf or --set maxHashSlotNum=N --set maxIndexNum=N"
            )
        return self.geometry


def find_indexes(files: OpenFiles, folder: str, wanted: IndexGeometry | None) -> tuple[list[StoredIndex], list[str]]:
    """All index files, oldest first, and the names in the folder that do not belong there."""
    filesystem = files.filesystem
    paths: list[tuple[str, int]] = []
    foreign: list[str] = []
    for name in filesystem.list_directory(folder):
        path = os.path.join(folder, name)
        if layout.is_index_name(name) and not filesystem.is_directory(path):
            paths.append((path, filesystem.size(path)))
        else:
            foreign.append(path)
    geometries: dict[int, IndexGeometry | None] = {}
    for path, size in paths:
        if geometries.get(size) is None:  # an empty file tells nothing, another of the same length may
            geometries[size] = _geometry_of(files, path, size, wanted)
    return [StoredIndex(files, path, size, geometries[size], wanted) for path, size in paths], foreign


def _geometry_of(files: OpenFiles, path: str, size: int, wanted: IndexGeometry | None) -> IndexGeometry | None:
    geometry = wanted or DEFAULT_GEOMETRY
    if geometry.file_size == size:
        return geometry
    return None if wanted is not None else derive_geometry(files, path, size)


def derive_geometry(files: OpenFiles, path: str, size: int) -> IndexGeometry | None:
    """The only geometry in which this file makes sense, or None if none or more than one does."""
    header = StoredIndex(files, path, size, None).header
    used = header.index_count - 1
    if used < 1 or size > DEFAULT_GEOMETRY.file_size:
        return None
    data = files.read(path, 0, size)
    wanted = struct.pack(">q", header.end_offset)
    found: set[IndexGeometry] = set()
    at = data.find(wanted, HEADER.size)
    while at >= 0 and len(found) < 2:
        # If this is the offset of the last entry, the slots end right before entry 0.
        slot_bytes = at - 4 - used * ENTRY.size - HEADER.size
        rest = size - HEADER.size - slot_bytes
        if slot_bytes >= 4 and slot_bytes % 4 == 0 and rest % ENTRY.size == 0:
            geometry = IndexGeometry(slot_bytes // 4, rest // ENTRY.size)
            if _explains(data, header, geometry):
                found.add(geometry)
        at = data.find(wanted, at + 1)
    return found.pop() if len(found) == 1 else None


def _explains(data: bytes, header: IndexHeader, geometry: IndexGeometry) -> bool:
    used = header.index_count - 1
    if used >= geometry.entries:
        return False
    _, first_offset, _, _ = ENTRY.unpack_from(data, geometry.entry_position(1))
    if first_offset != header.begin_offset:
        return False
    step = max(used // _SAMPLE_ENTRIES, 1)
    for number in range(1, used + 1, step):
        key_hash, offset, _, previous = ENTRY.unpack_from(data, geometry.entry_position(number))
        if key_hash < 0 or not 0 <= previous < number or not header.begin_offset <= offset <= header.end_offset:
            return False
        (newest,) = SLOT.unpack_from(data, HEADER.size + key_hash % geometry.slots * SLOT.size)
        if not number <= newest <= used + 1:  # one ahead if the writer died before it counted its last entry
            return False
    return True
