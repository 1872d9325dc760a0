"""The key index: the run of index files, filled by dispatch, asked by ``query``.

``put`` follows RocketMQ to the byte: first the unique key, then each of the KEYS, each one entry under the hash of
``topic#key``; a full file is flushed and the next one starts from its end values. The file's name is the local time
of its making, which no reader needs: content is a pure function of the log.
"""

from __future__ import annotations

import datetime
import os
from array import array
from collections.abc import Iterable

from flaremq.clock import Clock
from flaremq.errors import FlareMQError, StoreIOError
from flaremq.message.java_hash import index_hash
from flaremq.storage.files.filesystem import FileSystem
from flaremq.storage.files.layout import is_index_name
from flaremq.storage.index.index_file import IndexFile
from flaremq.storage.index.lookup_files import lookup_files


class IndexService:
    """All index files of a store. ``put`` and ``drop_before`` are called by one thread at a time."""

    __slots__ = (
        "_clock",
        "_entries",
        "_filesystem",
        "_folder",
        "_full_unsynced",
        "_names_doubtful",
        "_read_only",
        "_reserve_step",
        "_slots",
        "_unfinished",
        "files",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        clock: Clock,
        folder: str,
        *,
        slots: int,
        entries: int,
        reserve_step: int,
        read_only: bool = False,
    ) -> None:
        self._filesystem = filesystem
        self._clock = clock
        self._folder = folder
        self._slots = slots
        self._entries = entries
        self._reserve_step = reserve_step
        self._read_only = read_only
        self.files: tuple[IndexFile, ...] = ()
        self._names_doubtful = True  # until synced once: a killed process may have left files here
        self._full_unsynced: tuple[IndexFile, ...] = ()
        self._unfinished = (-1, 0)  # (physical offset, keys done) of a record whose indexing was cut short

    def load(self) -> None:
        """Open every index file; names that are not ours are left alone."""
        names = [name for name in self._filesystem.list_directory(self._folder) if is_index_name(name)]
        files: list[IndexFile] = []
        for name in names:
            path = os.path.join(self._folder, name)
            if not self._read_only and self._filesystem.size(path) == 0:
                self._filesystem.remove(path)  # made, but not yet sized when the machine stopped
                continue
            files.append(self._open(path))
        self.files = tuple(files)

    def _open(self, path: str, *, create: bool = False) -> IndexFile:
        return IndexFile(
            self._filesystem,
            path,
            slots=self._slots,
            entries=self._entries,
            reserve_step=self._reserve_step,
            create=create,
            read_only=self._read_only and not create,
        )

    def _create(self, path: str) -> IndexFile:
        try:
            return self._open(path, create=True)
        except StoreIOError:
            try:
                self._filesystem.remove(path)  # no half-made file for the next try to trip over
            except FlareMQError:
                pass
            raise

    @property
    def last(self) -> IndexFile | None:
        return self.files[-1] if self.files else None

    @property
    def end_offset(self) -> int:
        """Records before this physical offset are in the index."""
        return self.files[-1].end_offset if self.files else 0

    def writable_file(self) -> IndexFile:
        """The file that takes the next entry, made if needed."""
        last = self.last
        if last is not None and not last.is_full:
            return last
        self._filesystem.make_directories(self._folder)
        created = self._create(self._new_path())
        if last is not None:
            self._full_unsynced = (*self._full_unsynced, last)
            ended = last.header
            created.set_ends(ended.end_timestamp, ended.end_timestamp, ended.end_offset, ended.end_offset)
        self.files = (*self.files, created)
        return created

    def _new_path(self) -> str:
        now_ms = self._clock.now_ms()
        moment = datetime.datetime.fromtimestamp(now_ms / 1000)
        name = moment.strftime("%Y%m%d%H%M%S") + f"{now_ms % 1000:03d}"
        if self.files and name <= self.files[-1].name:
            # Two files in one millisecond, or the clock went back: names must still sort.
            name = f"{int(self.files[-1].name) + 1:017d}"
        return os.path.join(self._folder, name)

    def put(
        self,
        topic: str,
        unique_key: str | None,
        keys: Iterable[str],
        physical_offset: int,
        store_timestamp: int,
    ) -> None:
        """Index one record under all its keys; may be called again for the same record after an error."""
        rows = array("q")
        for key in (unique_key, *keys):
            if key:
                rows.extend((index_hash(topic, key), physical_offset, store_timestamp))
        if rows:
            self.put_keys(rows)

    def put_keys(self, keys: bytearray | array[int]) -> None:
        """Add keys as ``core.index.index_keys`` gives them; after an error, those left from ``resume_offset`` on."""
        cells = memoryview(keys).cast("B").cast("q")
        at = self._unfinished[1] if cells[1] == self._unfinished[0] else 0
        while 3 * at < len(cells):
            try:
                at = self.writable_file().put_keys(keys, at)
            except Exception:
                record, first = cells[3 * at + 1], at
                while first and cells[3 * first - 2] == record:
                    first -= 1
                self._unfinished = (record, at - first)
                raise
        self._unfinished = (-1, 0)

    @property
    def resume_offset(self) -> int:
        """Physical offset of the record whose indexing an error cut short, -1 if there is none."""
        return self._unfinished[0]

    def lookup(self, topic: str, key: str, begin_ms: int, end_ms: int, max_count: int) -> list[int]:
        """Candidate physical offsets, newest first, hash collisions included: the caller compares the text."""
        return lookup_files(self.files, index_hash(topic, key), begin_ms, end_ms, max_count)

    def drop_before(self, log_min_offset: int) -> int:
        """Delete leading files that point only below the log's start, never the last; the number deleted."""
        dropped = 0
        while len(self.files) > 1 and self.files[0].end_offset < log_min_offset:
            self.files[0].destroy()
            self.files = self.files[1:]
            dropped += 1
        return dropped

    def drop_all(self) -> None:
        while self.files:
            self.files[-1].destroy()
            self.files = self.files[:-1]

    def drop_last(self) -> None:
        self.files[-1].destroy()
        self.files = self.files[:-1]

    def sync(self) -> None:
        """Make every entry durable: the newest file, and those that became full since the last time."""
        if self.files:
            full = self._full_unsynced
            for file in full:
                if file in self.files:
                    file.sync()
            self._full_unsynced = tuple(file for file in self._full_unsynced if file not in full)
            self.files[-1].sync()
            if self._names_doubtful:
                self._filesystem.sync_directory(self._folder)
                self._filesystem.sync_directory(os.path.dirname(self._folder))
                self._names_doubtful = False

    def close(self) -> None:
        for file in self.files:
            file.close()
        self.files = self._full_unsynced = ()  # their mappings go now, or with the last who reads one
