"""Which files a store directory holds, read off the directory itself, and reading them without a trace.

A *run* is one byte space kept in files of one size: the commit log, one queue, one ext file chain. File
names are start offsets, so names and lengths tell the geometry; no option is needed. A damaged store
disagrees with itself (a short file, a missing one, a stranger): the run keeps what fits and lists what does
not, it never raises for it.

Reading goes through ``read_at``, never through a mapping: a bad sector is then an error for one page, which
reads as zeros and is remembered in ``unreadable``, where a mapping would end the process with a signal.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

from flaremq.errors import NotFoundError
from flaremq.storage.files import layout
from flaremq.storage.files.filesystem import FileSystem
from flaremq.storage.files.handles import OpenFiles

_CHUNK_BYTES = 1 << 18
_PROBE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class StoreFile:
    """One file of a run."""

    path: str
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


@dataclass(frozen=True, slots=True)
class FileRun:
    """The files of one byte space, sorted by start; ``file_size`` is 0 when there is none to read it off."""

    files: tuple[StoreFile, ...] = ()
    file_size: int = 0
    foreign: tuple[str, ...] = ()
    misfits: tuple[StoreFile, ...] = ()  # length or position contradicts the rest; used as far as it fits
    gaps: tuple[tuple[int, int], ...] = ()  # [start, end) between two files with no file
    starts: tuple[int, ...] = field(default=(), repr=False)

    @property
    def start(self) -> int:
        return self.files[0].start if self.files else 0

    @property
    def end(self) -> int:
        return self.files[-1].start + self.file_size if self.files else 0

    def file_at(self, offset: int) -> StoreFile | None:
        """The file whose bytes include ``offset``."""
        at = bisect_right(self.starts, offset) - 1
        if at < 0 or offset >= self.files[at].end:
            return None
        return self.files[at]

    def file_after(self, offset: int) -> StoreFile | None:
        """The first file that starts at or behind ``offset``."""
        at = bisect_right(self.starts, offset - 1)
        return self.files[at] if at < len(self.files) else None


def find_run(filesystem: FileSystem, folders: list[str]) -> FileRun:
    """The run kept in these folders (several for a log spread over disks); missing folders count as empty."""
    members: list[StoreFile] = []
    foreign: list[str] = []
    for folder in folders:
        for name in filesystem.list_directory(folder):
            path = os.path.join(folder, name)
            if filesystem.is_directory(path):
                continue  # RocketMQ 5 skips sub-folders too
            if not layout.is_file_name(name):
                foreign.append(path)
                continue
            members.append(StoreFile(path, int(name), filesystem.size(path)))
    members.sort(key=lambda file: (file.start, file.path))
    file_size = _file_size_of(members)
    files: list[StoreFile] = []
    misfits: list[StoreFile] = []
    gaps: list[tuple[int, int]] = []
    for file in members:
        if files and file.start < files[-1].start + file_size:
            misfits.append(file)  # overlaps its predecessor: a copy, or a name from another geometry
            continue
        if file.size == 0:
            misfits.append(file)  # the machine stopped while it was made
            continue
        if file.size != file_size:
            misfits.append(file)
        if files and file.start > files[-1].start + file_size:
            gaps.append((files[-1].start + file_size, file.start))
        # A file longer than its siblings is used up to their length.
        files.append(replace(file, size=min(file.size, file_size)))
    return FileRun(
        tuple(files),
        file_size,
        tuple(foreign),
        tuple(misfits),
        tuple(gaps),
        tuple(file.start for file in files),
    )


def _file_size_of(members: list[StoreFile]) -> int:
    """The length most files have; of several the one that explains the distance between names, then the
    larger."""
    counts = Counter(file.size for file in members if file.size)
    if not counts:
        return 0
    strides = Counter(b.start - a.start for a, b in pairwise(members))
    return max(counts, key=lambda size: (counts[size], strides[size], size))


class RunReader:
    """Read-only access to a run by offset."""

    __slots__ = ("_files", "run")

    def __init__(self, files: OpenFiles, run: FileRun) -> None:
        self.run = run
        self._files = files

    def read(self, offset: int, length: int) -> bytes:
        """Bytes from ``offset``, never past the end of its file; empty where there is no file."""
        file = self.run.file_at(offset)
        if file is None:
            return b""
        return self.read_file(file, offset - file.start, length)

    def read_file(self, file: StoreFile, file_offset: int, length: int) -> bytes:
        return self._files.read(file.path, file_offset, min(length, file.size - file_offset))

    def data_end(self, file: StoreFile) -> int:
        """Offset in the run behind which this file was never written (and reads as zeros)."""
        return min(file.start + self._files.get(file.path).data_end(), file.end)

    def written_end(self) -> int:
        """Where the run ends, about: by halves over the last file that holds anything."""
        for file in reversed(self.run.files):
            low, high = 0, -(-(self.data_end(file) - file.start) // _PROBE_BYTES)
            while low < high:
                middle = (low + high) // 2
                if self.read_file(file, middle * _PROBE_BYTES, _PROBE_BYTES).strip(b"\0"):
                    low = middle + 1
                else:
                    high = middle
            if low:
                return file.start + low * _PROBE_BYTES
        return self.run.start


def nonzero_end(read: Callable[[int, int], bytes], end: int) -> int:
    """Behind the last byte of [0, end) that is not zero, looking from the back; 0 if all are."""
    while end > 0:
        begin = max(end - _CHUNK_BYTES, 0)
        content = without_zero_tail(read(begin, end - begin))
        if content:
            return begin + len(content)
        end = begin
    return 0


def without_zero_tail(data: bytes) -> bytes:
    """The bytes up to the last that is not zero. Most files are longer than what was written to them, so most chunks
    are zeros as a whole, and to compare them is fifty times as fast as to strip them."""
    return b"" if data == _zeros(len(data)) else data.rstrip(b"\0")


@lru_cache(maxsize=4)
def _zeros(length: int) -> bytes:
    return bytes(length)


def read_small_file(filesystem: FileSystem, path: str, *, limit: int = 64 << 20) -> bytes | None:
    """The whole of a small file, or None if it is not there."""
    try:
        handle = filesystem.open(path, read_only=True)
    except NotFoundError:
        return None
    try:
        return handle.read_at(0, min(handle.size(), limit))
    finally:
        handle.close()
