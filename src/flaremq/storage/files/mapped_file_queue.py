"""A run of mapped files addressed by one physical offset: load, find, append, truncate, drop the oldest.

Files are named by their first offset and follow each other without gaps; a gap is reported, not stepped over.
The list is replaced, never changed in place, so readers need no lock.
"""

from __future__ import annotations

import os
import threading
from itertools import pairwise

from flaremq.core.record import nonzero_end
from flaremq.errors import CorruptionError
from flaremq.storage.files.filesystem import FileSystem
from flaremq.storage.files.layout import file_name, is_file_name
from flaremq.storage.files.mapped_file import MappedFile

# Mapped files beyond this many are unmapped, oldest use first: a mapping costs a descriptor and a kernel map entry.
_MAPPED_FILES_MAX = 256
_ZEROS = bytes(1 << 20)


class MappedFileQueue:
    """The files of a log spread over one or several folders."""

    __slots__ = (
        "_filesystem",
        "_list_lock",
        "_recent",
        "file_size",
        "files",
        "folders",
        "full_folders",
        "random_access",
        "read_only",
        "read_only_folders",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        folders: list[str],
        file_size: int,
        *,
        read_only: bool = False,
        read_only_folders: frozenset[str] = frozenset(),
        random_access: bool = False,
    ) -> None:
        self._filesystem = filesystem
        self.folders = folders
        self.file_size = file_size
        self.read_only = read_only
        self.read_only_folders = read_only_folders
        self.random_access = random_access
        self.full_folders: frozenset[str] = frozenset()
        self.files: tuple[MappedFile, ...] = ()
        self._list_lock = threading.Lock()  # guards replacing the tuple: a roll and retention may meet
        self._recent: list[MappedFile] = []

    def load(self) -> None:
        """Find the files, check names, lengths and that no file is missing between the first and the last."""
        paths = []
        for folder in self.folders:
            for name in self._filesystem.list_directory(folder):
                if is_file_name(name) and not self._filesystem.is_directory(os.path.join(folder, name)):
                    paths.append(os.path.join(folder, name))
        paths.sort(key=os.path.basename)
        files = []
        for number, path in enumerate(paths):
            length = self._filesystem.size(path)
            if length == 0 and number == len(paths) - 1:
                # Created but not yet sized when the machine stopped.
                if not self.read_only:
                    self._filesystem.remove(path)
                continue
            if length != self.file_size:
                raise CorruptionError(
                    "a log file has the wrong length; is mappedFileSizeCommitLog what the store was written with?",
                    path=path,
                    expected=self.file_size,
                    found=length,
                )
            files.append(MappedFile(self._filesystem, path, self.file_size, read_only=self.read_only))
            files[-1].random_access = self.random_access
        for before, after in pairwise(files):
            if before.start == after.start:
                raise CorruptionError("the same log file stands in two folders", path=after.path)
            if before.end != after.start:
                raise CorruptionError(
                    "log files are missing: restore them, or use `flaremq store rescue`",
                    path=before.path,
                    expected=f"next file {file_name(before.end)}",
                    found=file_name(after.start),
                )
        self.files = tuple(files)

    @property
    def first(self) -> MappedFile | None:
        return self.files[0] if self.files else None

    @property
    def last(self) -> MappedFile | None:
        return self.files[-1] if self.files else None

    @property
    def min_offset(self) -> int:
        for file in self.files:
            if file.available:
                return file.start
        return self.files[-1].end if self.files else 0

    def find(self, physical_offset: int) -> MappedFile | None:
        """The file that holds this byte."""
        files = self.files
        if not files:
            return None
        number = (physical_offset - files[0].start) // self.file_size
        if not 0 <= number < len(files):
            return None
        found = files[number]
        if not found.is_mapped:
            self._note_mapped(found)
        return found

    def _note_mapped(self, file: MappedFile) -> None:
        recent = self._recent
        recent.append(file)
        if len(recent) > _MAPPED_FILES_MAX:
            oldest = recent.pop(0)
            if oldest is file or oldest is self.last or oldest.flushed < oldest.size:
                recent.append(oldest)
            else:
                oldest.unmap()

    def path_for(self, start: int) -> str:
        """Where the file starting here belongs: writable folders take turns by file number."""
        choice = sorted(set(self.folders) - self.read_only_folders - self.full_folders)
        if not choice:
            choice = sorted(set(self.folders) - self.read_only_folders) or sorted(self.folders)
        return os.path.join(choice[start // self.file_size % len(choice)], file_name(start))

    def append(self, file: MappedFile) -> None:
        with self._list_lock:
            last = self.last
            assert last is None or last.end == file.start, f"{file.path} does not follow the last file"
            self.files = (*self.files, file)
        self._note_mapped(file)

    def truncate(self, end: int, *, erase_tail: bool = True) -> None:
        """Cut at ``end`` for good: later files go, bytes behind the cut become zeros on disk.

        ``erase_tail=False`` is for a tail known to be zeros already, which then need not be read.
        """
        keep = list(self.files)
        # Newest first, each removal durable before the next: a crash in between must not leave a gap.
        # A file that starts exactly at the end stays, empty: without it RocketMQ would not count the filler before it.
        while len(keep) > 1 and keep[-1].start > end:
            gone = keep.pop()
            gone.destroy()
            self._filesystem.sync_directory(os.path.dirname(gone.path))
        for file in keep:
            position = min(max(end - file.start, 0), file.size)
            if erase_tail and position < file.size:
                erase(file, position)
            file.set_positions(position)
        self.files = tuple(keep)

    def drop_first(self) -> None:
        """Delete the oldest file; those who read it read on."""
        oldest = self.files[0]
        oldest.destroy()
        self._filesystem.sync_directory(os.path.dirname(oldest.path))
        with self._list_lock:
            if self.files and self.files[0] is oldest:
                self.files = self.files[1:]

    def drop_all(self) -> None:
        """Delete every file, the newest first."""
        while self.files:
            newest = self.files[-1]
            newest.destroy()
            self._filesystem.sync_directory(os.path.dirname(newest.path))
            with self._list_lock:
                self.files = self.files[:-1]

    def close(self) -> None:
        for file in self.files:
            file.close()


def erase(file: MappedFile, position: int) -> None:
    """Overwrite with zeros whatever stands from ``position`` on, and sync: a cut tail must not come back."""
    buffer = file.buffer
    written_end = nonzero_end(buffer, position, min(file.file().data_end(), file.size))
    if written_end <= position:
        return
    while position < written_end:
        length = min(len(_ZEROS), written_end - position)
        if bytes(buffer[position : position + length]) != _ZEROS[:length]:
            file.file().reserve(position, length)
            buffer[position : position + length] = _ZEROS[:length]
        position += length
    file.file().sync()
