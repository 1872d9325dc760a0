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
from dataclasses import dataclass, field, replace
from itertools import pairwise

from flaremq.errors import NotFoundError, StoreIOError
from flaremq.storage.files import layout
from flaremq.storage.files.filesystem import File, FileSystem

_PAGE_BYTES = 4096  # the step for reading around a bad sector: what the kernel reads at once anyway
_OPEN_FILES_MAX = 64


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


class OpenFiles:
    """The few files a reader keeps open at a time, shared by all runs of a store. One thread at a time."""

    __slots__ = ("_open", "filesystem", "unreadable")

    def __init__(self, filesystem: FileSystem) -> None:
        self.filesystem = filesystem
        self.unreadable: list[tuple[str, int, int]] = []  # path, file offset, length of pages the disk refused
        self._open: dict[str, File] = {}

    def get(self, path: str) -> File:
        handle = self._open.pop(path, None)
        if handle is None:
            if len(self._open) >= _OPEN_FILES_MAX:
                self._open.pop(next(iter(self._open))).close()  # the one unused for longest: dicts keep order
            handle = self.filesystem.open(path, read_only=True)
        self._open[path] = handle
        return handle

    def read(self, path: str, file_offset: int, length: int) -> bytes:
        handle = self.get(path)
        try:
            return handle.read_at(file_offset, length)
        except StoreIOError:
            return self._read_around(handle, file_offset, length)

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def _read_around(self, handle: File, file_offset: int, length: int) -> bytes:
        pieces: list[bytes] = []
        position, end = file_offset, file_offset + length
        while position < end:
            step = min(_PAGE_BYTES - position % _PAGE_BYTES, end - position)
            try:
                pieces.append(handle.read_at(position, step))
            except StoreIOError:
                pieces.append(bytes(step))
                if (handle.path, position, step) not in self.unreadable:
                    self.unreadable.append((handle.path, position, step))
            position += step
        return b"".join(pieces)


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
