"""One fixed-size mapped file of the commit log: cursors, space reservation, view lifetime.

Cursors, all file offsets: ``flushed <= committed <= wrote <= reserved``. Without the transient pool an append goes
straight into the mapping and ``committed`` follows ``wrote``; with it, appends go to a borrowed buffer and
``commit`` copies them to the file.

Space is reserved in steps ahead of ``wrote`` before the mapping is touched, so a full disk is an error from
``reserve_to`` and never a SIGBUS; a small store does not take a whole file's space.

Nothing is ever unmapped under a reader. ``unmap`` and ``destroy`` only let go of the mapping; Python counts the views
that were lent (``borrow``, ``view``) and the last one to go unmaps. A deleted file loses its name at once and its space
with its last reader, so a slow reader keeps its own file and no other.
"""

from __future__ import annotations

import mmap
import os
import threading

from flaremq.errors import NotFoundError
from flaremq.storage.files.filesystem import File, FileSystem, Mapping

PAGE = 4096
_MADV_POPULATE_WRITE = 23  # Linux 5.14; an older kernel says no, and pages are faulted in one by one


class MappedFile:
    """A log file. Writers call under the put lock, ``sync`` under the flush lock, readers any time."""

    __slots__ = (
        "_file",
        "_filesystem",
        "_lock",
        "_mapping",
        "available",
        "committed",
        "end",
        "flushed",
        "is_doubtful",
        "path",
        "pool_buffer",
        "random_access",
        "read_only",
        "reserved",
        "singly",
        "size",
        "start",
        "wrote",
    )

    def __init__(self, filesystem: FileSystem, path: str, size: int, *, read_only: bool = False) -> None:
        self._filesystem = filesystem
        self.path = path
        self.size = size
        self.start = int(os.path.basename(path))
        self.end = self.start + size
        self.read_only = read_only
        self._lock = threading.Lock()  # guards mapping, unmapping and closing; never needed to read
        self._file: File | None = None
        self._mapping: Mapping | None = None
        self.pool_buffer: memoryview | None = None
        self.available = True
        self.random_access = False
        self.singly = False  # what is not written yet gets its pages one by one
        self.is_doubtful = True  # other bytes than those behind ``flushed`` may wait to be synced, too
        # A loaded file counts as full until recovery says otherwise.
        self.wrote = self.committed = self.flushed = self.reserved = size

    @classmethod
    def create(cls, filesystem: FileSystem, path: str, size: int, *, reserve: int) -> MappedFile:
        """A new zero-filled file of full length, its first bytes reserved and its name durable."""
        folder = os.path.dirname(path)
        handle = filesystem.open(path, create=True)
        try:
            if handle.size() != size:
                handle.resize(size)
            handle.reserve(0, min(reserve, size))
            handle.sync()
            filesystem.sync_directory(folder)
        except BaseException:
            handle.close()
            raise
        created = cls(filesystem, path, size)
        created._file = handle
        created.set_positions(0)
        created.reserved = min(reserve, size)
        return created

    def set_positions(self, position: int) -> None:
        """After recovery: everything before ``position`` is written and durable, the rest is free."""
        self.wrote = self.committed = self.flushed = position
        self.reserved = position

    def file(self) -> File:
        if self._file is None:
            self._file = self._filesystem.open(self.path, read_only=self.read_only)
        return self._file

    def open_again(self) -> File:
        """Another handle, to read, which outlives this file's own; NotFoundError once it was deleted."""
        return self._filesystem.open(self.path, read_only=True)

    def mapping(self) -> Mapping:
        mapping = self._mapping  # read once: another thread may let go of it at any moment
        return self._map() if mapping is None else mapping

    def _map(self) -> Mapping:
        with self._lock:
            mapping = self._mapping
            if mapping is None:
                mapping = self.file().map(self.size, read_only=self.read_only)
                if self.random_access:
                    mapping.advise(mmap.MADV_RANDOM, 0, self.size)
                self._mapping = mapping
            return mapping

    @property
    def is_mapped(self) -> bool:
        return self._mapping is not None

    @property
    def buffer(self) -> memoryview:
        """The whole mapping, for those who know that the file stays: the writer, dispatch, recovery."""
        return self.mapping().buffer

    @property
    def write_buffer(self) -> memoryview:
        """Where an append goes: the mapping, or the pool's memory."""
        return self.pool_buffer if self.pool_buffer is not None else self.buffer

    def view(self, file_offset: int, length: int) -> memoryview | None:
        """Lend a part of the file; None once it is going away."""
        if file_offset < 0 or length < 0 or file_offset + length > self.size:
            return None
        whole = self.borrow()
        return None if whole is None else whole[file_offset : file_offset + length]

    def borrow(self) -> memoryview | None:
        """Lend the whole file, valid for as long as the borrower holds it; None once it is going away."""
        if not self.available:
            return None
        try:
            return self.buffer
        except NotFoundError:  # deleted since it was looked at
            return None

    def reserve_to(self, file_offset: int, step: int) -> None:
        """Reserve whole steps so that bytes below ``file_offset`` can be stored; raises when the disk is full."""
        if file_offset <= self.reserved:
            return
        target = min(self.size, (file_offset + step - 1) // step * step)
        start = self.reserved // PAGE * PAGE
        self.file().reserve(start, target - start)
        self.reserved = target
        if self.singly:
            self._read_ahead(self.wrote)

    def write_singly(self) -> None:
        """From now on what is appended gets its pages one by one; the last file of a log that is synced all the time.

        Else the kernel reads ahead where a page is missing, in folios that grow to 2 MiB, and as one record makes a
        folio dirty as a whole, each sync writes that much.
        """
        mapping = self._mapping
        if mapping is not None and not self.random_access:
            self.singly = True
            mapping.advise(mmap.MADV_RANDOM, self.wrote, self.size - self.wrote)

    def _read_ahead(self, end: int) -> None:
        """What lies before ``end`` is not written to any more: who reads it once it left memory is read ahead for."""
        mapping = self._mapping
        if mapping is not None and end >= PAGE:
            mapping.advise(mmap.MADV_NORMAL, 0, end // PAGE * PAGE)

    def populate(self, start: int, end: int) -> None:
        """Fault in the pages of [start, end), which is reserved, for writing; a hint, in any thread.

        By one call that costs a third of taking the faults one by one while appending.
        """
        mapping = self._mapping
        if mapping is not None and start < end:
            mapping.advise(_MADV_POPULATE_WRITE, start, end - start)

    def start_writing(self, start: int, end: int) -> None:
        """Have the pages of [start, end) that were changed written to disk soon; a hint, in any thread."""
        file = self._file
        if file is not None:
            file.start_writing(start, end - start)

    def commit(self) -> None:
        """Copy what lies in pool memory to the file; without a pool there is nothing to copy."""
        wrote = self.wrote
        if self.pool_buffer is not None and wrote > self.committed:
            self.file().write_at(self.committed, self.pool_buffer[self.committed : wrote])
        self.committed = wrote

    def sync(self) -> int:
        """Make everything committed durable; the new flushed position. Raises and moves nothing on failure.

        Only pages with new bytes: those behind them, which were made ahead, would be written twice.
        """
        target, start = self.committed, self.flushed
        mapping = self._mapping
        if mapping is None or self.is_doubtful or start >= target:
            self.is_doubtful = False  # for what is written while the sync is under way it may become true again
            self.file().sync()
        else:
            mapping.sync(start, target - start)
        self.flushed = target
        return target

    def seal(self) -> None:
        """Nothing more will be written: keep the mapping, give descriptor and locked memory back."""
        if self.singly:
            self.singly = False
            self._read_ahead(self.size)
        with self._lock:
            if self._file is not None and self._mapping is not None and self.flushed == self.size:
                self._mapping.unlock()
                self._file.close()
                self._file = None

    def unmap(self) -> None:
        """Let go of the mapping of an idle file; who reads it next maps it again."""
        with self._lock:
            self._mapping = None
            if self._file is not None and self.flushed == self.size:
                self._file.close()
                self._file = None

    def destroy(self) -> None:
        """Delete the file. Those who hold a view of it may read on; nobody new gets one."""
        self.available = False
        self.close()
        try:
            self._filesystem.remove(self.path)
        except NotFoundError:
            pass  # somebody else was faster

    def close(self) -> None:
        with self._lock:
            self._mapping = None
            if self._file is not None:
                self._file.close()
                self._file = None
