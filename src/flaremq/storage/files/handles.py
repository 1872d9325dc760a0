"""Open files by path, the least recently used forgotten first: for queues that grow, and for stores at rest.

A cache only ever forgets a file; whoever still uses it keeps it open, and the last reference closes it.
"""

from __future__ import annotations

import resource
import threading
from collections import OrderedDict

from flaremq.errors import StoreIOError
from flaremq.storage.files.filesystem import File, FileSystem

_HANDLES_MIN, _HANDLES_MAX = 256, 16_384
_HANDLES_AT_REST = 64
_PAGE_BYTES = 4096  # the step for reading around a bad sector: what the kernel reads at once anyway


class HandleCache:
    """Shared by all queues of a store. Any thread."""

    __slots__ = ("_files", "_limit", "_lock", "_newest", "_read_only", "filesystem")

    def __init__(self, filesystem: FileSystem, *, read_only: bool = False, limit: int | None = None) -> None:
        self.filesystem = filesystem
        self._read_only = read_only
        self._limit = limit or _handles_allowed()
        self._files: OrderedDict[str, File] = OrderedDict()
        self._newest = ""
        self._lock = threading.Lock()  # guards the table, never held during I/O on an open file

    def get(self, path: str) -> File:
        with self._lock:
            file = self._files.get(path)
            if file is not None:
                if path != self._newest:
                    self._files.move_to_end(path)
                    self._newest = path
                return file
        file = self.filesystem.open(path, read_only=self._read_only)
        with self._lock:
            self._files[path] = file
            self._newest = path
            if len(self._files) > self._limit:
                self._files.popitem(last=False)
        return file

    def forget(self, path: str) -> None:
        with self._lock:
            self._files.pop(path, None)

    def close(self) -> None:
        with self._lock:
            self._files.clear()


def _handles_allowed() -> int:
    """Half of the descriptors the process may have: a write to a queue that is not open costs three system calls more.

    A limit of 1,024, as most shells have, is raised by servers at their start (remoting/event_loop.py).
    """
    return max(_HANDLES_MIN, min(_HANDLES_MAX, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))


class OpenFiles(HandleCache):
    """The few files a reader of a store at rest keeps open at a time; pages that the disk refuses read as zeros."""

    __slots__ = ("unreadable",)

    def __init__(self, filesystem: FileSystem) -> None:
        super().__init__(filesystem, read_only=True, limit=_HANDLES_AT_REST)
        self.unreadable: list[tuple[str, int, int]] = []  # path, file offset, length of pages the disk refused

    def read(self, path: str, file_offset: int, length: int) -> bytes:
        handle = self.get(path)
        try:
            return handle.read_at(file_offset, length)
        except StoreIOError:
            return self._read_around(handle, file_offset, length)

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
