"""A run of fixed-size files read and written by position: what consume queues are made of.

No mapping here: thousands of queues would cost a descriptor and a map entry each, and a plain write reports a full
disk as an error. Handles come from a small shared cache. Writes go to the page cache; ``flush`` makes them durable,
names included.
"""

from __future__ import annotations

import contextlib
import os
from itertools import pairwise

from flaremq.errors import CorruptionError, NotFoundError
from flaremq.storage.files.directory import nonzero_end
from flaremq.storage.files.filesystem import File, FileSystem
from flaremq.storage.files.handles import HandleCache
from flaremq.storage.files.layout import file_name, is_file_name

_CHUNK = 1 << 16


class QueueFiles:
    """The byte space of one queue. One writer (dispatch, or recovery before it); any number of readers."""

    __slots__ = (
        "_dirty",
        "_filesystem",
        "_handles",
        "_new_names",
        "_orphans",
        "_paths",
        "file_size",
        "folder",
        "read_only",
        "starts",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        handles: HandleCache,
        folder: str,
        file_size: int,
        *,
        read_only: bool = False,
    ) -> None:
        self._filesystem = filesystem
        self._handles = handles
        self.folder = folder
        self.file_size = file_size
        self.read_only = read_only
        self.starts: tuple[int, ...] = ()
        self._dirty: set[int] = set()
        self._new_names = False
        self._orphans: tuple[int, ...] = ()
        self._paths: dict[int, str] = {}  # by start: made once, every read asks for one

    def load(self) -> None:
        """Find the files; a short last file (the machine stopped while it was made) is completed with zeros."""
        names = [name for name in self._filesystem.list_directory(self.folder) if is_file_name(name)]
        starts = []
        for name in names:
            path = os.path.join(self.folder, name)
            length = self._filesystem.size(path)
            if length == 0 and not self.read_only:
                self._drop_unsized(names[names.index(name) :])
                break
            if length != self.file_size:
                if name != names[-1] or length > self.file_size:
                    raise CorruptionError(
                        "a queue file has the wrong length; is mappedFileSizeConsumeQueue what it was written with?",
                        path=path,
                        expected=self.file_size,
                        found=length,
                    )
                if not self.read_only:
                    self._handles.get(path).resize(self.file_size)
                    self._dirty.add(int(name))
            starts.append(int(name))
        self.starts = tuple(starts)
        for before, after in pairwise(starts):
            if after - before != self.file_size:
                self.starts, self._orphans = self.starts[: starts.index(after)], tuple(starts[starts.index(after) :])
                break

    def drop_behind_gap(self, durable_end: int | None) -> None:
        """Files behind a missing one: dropped if everything durable lies before the gap, else an error.

        ``durable_end`` is the position up to which the queue is known to be on disk, None if nobody knows. After a
        power cut names that were not synced may be lost one by one; a missing file that was durable is damage.
        """
        if not self._orphans:
            return
        if durable_end is None or durable_end > self.capacity_end:
            raise CorruptionError(
                "queue files are missing: remove the queue's folder to have it rebuilt from the log",
                path=self.path(self.starts[-1]),
                expected=f"next file {file_name(self.capacity_end)}",
                found=file_name(self._orphans[0]),
            )
        for start in reversed(self._orphans):
            self._remove(start)
        self._orphans = ()
        self._filesystem.sync_directory(self.folder)

    def _drop_unsized(self, names: list[str]) -> None:
        """A file without a length was made after the last sync, and so was everything behind it."""
        for name in reversed(names):
            self._filesystem.remove(os.path.join(self.folder, name))
        self._filesystem.sync_directory(self.folder)

    def path(self, start: int) -> str:
        path = self._paths.get(start)
        if path is None:
            path = self._paths[start] = os.path.join(self.folder, file_name(start))
        return path

    @property
    def begin(self) -> int:
        return self.starts[0] if self.starts else 0

    @property
    def capacity_end(self) -> int:
        return self.starts[-1] + self.file_size if self.starts else 0

    def read(self, position: int, length: int) -> bytes:
        """Bytes from ``position`` to at most the end of its file; empty where there is no file."""
        start = position // self.file_size * self.file_size
        if not self.starts or not self.starts[0] <= start <= self.starts[-1]:
            return b""
        try:
            return self._handles.get(self.path(start)).read_at(
                position - start, min(length, start + self.file_size - position)
            )
        except NotFoundError:  # deleted by retention meanwhile
            return b""

    def write(self, position: int, data: bytes | memoryview) -> None:
        """Write anywhere at or after the first file, making files as needed; all of it or an error."""
        view = memoryview(data)
        while len(view):
            start = position // self.file_size * self.file_size
            part = view[: start + self.file_size - position]
            file = self._file_for_write(start)
            self._dirty.add(start)
            file.write_at(position - start, part)
            position += len(part)
            view = view[len(part) :]

    def _file_for_write(self, start: int) -> File:
        if start in self.starts:
            return self._handles.get(self.path(start))
        if not self.starts:
            # Not synced here: ``sync_names`` does it for all queues at once, before anything claims that they exist.
            self._filesystem.make_directories(self.folder, sync=False)
        elif start < self.starts[0]:
            raise CorruptionError(
                "a queue write lies before the queue's first file", path=self.path(start), offset=start
            )
        # Files between the last one and this one (a gap of whole files) are made too: names never have holes.
        first_new = self.capacity_end if self.starts else start
        file: File | None = None
        for new in range(first_new, start + 1, self.file_size):
            path = self.path(new)
            file = self._filesystem.open(path, create=True)
            file.resize(self.file_size)
            self._dirty.add(new)
            self._new_names = True
            self.starts = (*self.starts, new)
        assert file is not None
        self._handles.forget(self.path(start))
        return self._handles.get(self.path(start))

    def truncate(self, position: int) -> None:
        """Drop files behind ``position`` and overwrite with zeros what stands after it in its own file; durable."""
        # The file that holds the last kept byte stays; a queue that is emptied keeps its first file (and its name).
        last = max(self.begin, (position - 1) // self.file_size * self.file_size)
        while self.starts and self.starts[-1] > last:
            self._remove(self.starts[-1])
            self.starts = self.starts[:-1]
            self._filesystem.sync_directory(self.folder)
        if not self.starts:
            return
        start = self.starts[-1]
        file = self._handles.get(self.path(start))
        at = max(position - start, 0)
        end = min(file.data_end(), self.file_size)
        while at < end:
            length = min(_CHUNK, end - at)
            if file.read_at(at, length).strip(b"\0"):
                file.write_at(at, bytes(length))
                self._dirty.add(start)
            at += length

    def nonzero_end(self) -> int:
        """Position after the last byte that is not zero, looking from the back; ``begin`` if all is zero."""
        for start in reversed(self.starts):
            file = self._handles.get(self.path(start))
            end = nonzero_end(file.read_at, min(file.data_end(), self.file_size))
            if end:
                return start + end
        return self.begin

    def drop_first(self) -> None:
        """Delete the oldest file, durably."""
        self._remove(self.starts[0])
        self.starts = self.starts[1:]
        self._filesystem.sync_directory(self.folder)

    def remove_all(self) -> None:
        """Delete every file, those behind a missing one included, durably."""
        for start in reversed(self._orphans):
            self._remove(start)
        self._orphans = ()
        while self.starts:
            with contextlib.suppress(NotFoundError):  # removed meanwhile
                self._remove(self.starts[-1])
            self.starts = self.starts[:-1]
        if self._filesystem.is_directory(self.folder):
            self._filesystem.sync_directory(self.folder)

    def _remove(self, start: int) -> None:
        self._handles.forget(self.path(start))
        self._dirty.discard(start)
        self._filesystem.remove(self.path(start))
        self._paths.pop(start, None)

    @property
    def is_dirty(self) -> bool:
        return bool(self._dirty) or self._new_names

    def flush(self) -> None:
        """Make every write so far durable. Raises and forgets nothing on failure."""
        for start in sorted(self._dirty):
            if start not in self.starts:
                self._dirty.discard(start)
                continue
            # Taken out before the sync: a write that comes in meanwhile marks the file dirty again.
            self._dirty.discard(start)
            try:
                self._handles.get(self.path(start)).sync()
            except BaseException:
                self._dirty.add(start)
                raise

    def doubt_names(self) -> None:
        """Names found here were made by a process that was killed: not known durable until synced again."""
        self._new_names = True

    def sync_names(self, done: set[str]) -> None:
        """Make new file names, and the folders above them, durable; ``done`` spares folders queues share."""
        if not self._new_names or not self.starts:
            return
        self._new_names = False
        try:
            topic = os.path.dirname(self.folder)
            for folder in (self.folder, topic, os.path.dirname(topic), os.path.dirname(os.path.dirname(topic))):
                if folder not in done:
                    self._filesystem.sync_directory(folder)
                    done.add(folder)
        except BaseException:
            self._new_names = True
            raise
