"""CommitLog: append records, make them durable, read them back. Knows framing and places, not topics or queues.

Offsets, all physical: ``flushed_offset <= committed <= end_offset``. ``readable_offset`` is what others may see: in
SYNC_FLUSH only what is durable, so nothing a reader acted on can vanish in a power cut; and never more than
``confirm_offset``, up to where enough copies hold the log, so nothing can vanish with the master.

An append (``log/append``) happens under ``lock`` in the caller's thread. The space it touches was reserved before; a
full disk shows when the next step is reserved and is answered with a status, not a signal. A record never spans two
files; what is left of a file becomes a blank.
"""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress

from flaremq.clock import Clock
from flaremq.errors import StoreIOError
from flaremq.message.record.codec import (
    BLANK,
    HEADER,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    store_timestamp_at,
)
from flaremq.storage.files.allocation import AllocateMappedFileService, TransientStorePool
from flaremq.storage.files.filesystem import FileSystem
from flaremq.storage.files.mapped_file import PAGE, MappedFile
from flaremq.storage.files.mapped_file_queue import MappedFileQueue
from flaremq.storage.log.log_end import LogEnd

_PREFAULT_BYTES = 4 << 20
# What is made ready beyond that in the background: some 20 ms of the fastest writer. Pages that a sync finds without
# content are written twice, so a writer that takes long for a step gets only the next one ahead.
_PREFAULT_AHEAD = 16 << 20
_PREFAULT_FAST_MS = 100
# A log that is synced all the time has its next blocks written as zeros: a sync of records in reserved blocks also has
# to note that these are in use now (journal or inode), which is a second write to wait for. Little at a time, as syncs
# wait for that too.
_WRITE_STEP = 256 << 10
_WRITE_AHEAD = 1 << 20
NO_GATE = 2**63 - 1  # as confirm offset: copies elsewhere are not waited for
_SPARE = BLANK.size  # every file keeps room for a blank header


class CommitLog(LogEnd):
    """The log of one store."""

    __slots__ = (
        "_populated",
        "_populated_at",
        "_prefault",
        "allocation",
        "confirm_offset",
        "files",
        "flush_lock",
        "flushed_offset",
        "flushed_timestamp",
        "no_space_count",
        "only_durable_readable",
        "pool",
        "reserve_step",
    )

    def __init__(
        self,
        files: MappedFileQueue,
        allocation: AllocateMappedFileService,
        clock: Clock,
        *,
        reserve_step: int,
        only_durable_readable: bool,
        pool: TransientStorePool | None = None,
        prefault: bool = False,
    ) -> None:
        super().__init__(clock)
        self.files = files
        self.allocation = allocation
        self.reserve_step = reserve_step
        self._populated = 0  # pages of the current file before this file offset are ready, or will be soon
        self._populated_at = 0  # store time of the last step
        self._prefault = prefault  # dirties pages ahead of the data: not for a log that is synced all the time
        self.only_durable_readable = only_durable_readable
        self.pool = pool
        self.flush_lock = threading.Lock()  # guards syncing: flushed_offset
        self.no_space_count = 0  # how often the disk had no room for an append
        self.flushed_offset = 0
        self.flushed_timestamp = 0
        self.confirm_offset = NO_GATE  # need not be the end of a record

    @property
    def min_offset(self) -> int:
        return self.files.min_offset

    @property
    def committed_offset(self) -> int:
        file = self.current
        if file is None or self.pool is None:
            return self.end_offset
        # A file that is just being finished counts as committed to its end before the next one is there.
        return min(self.end_offset, file.start + file.committed)

    @property
    def appended_readable(self) -> int:
        """As ``readable_offset``, as if copies elsewhere were not waited for; always the end of a record."""
        return self.flushed_offset if self.only_durable_readable else self.committed_offset

    @property
    def readable_offset(self) -> int:
        """Records that end at or before this may be shown to others."""
        return min(self.flushed_offset if self.only_durable_readable else self.committed_offset, self.confirm_offset)

    def begin(self, end_offset: int, last_timestamp: int) -> None:
        """After recovery: appends continue at ``end_offset``; everything before it is durable."""
        self.end_offset = self.flushed_offset = end_offset
        self.last_timestamp = max(last_timestamp, 1)  # recovery takes a record without a store time for a torn one
        self.flushed_timestamp = last_timestamp
        file = self.files.last
        if file is None:
            self.current = None
        else:
            self.use(file)
            if file.wrote >= file.size:
                self.limit = -1

    def leave_pool(self) -> None:
        """Append to the files themselves from now on. With ``lock`` held; raises StoreIOError with nothing changed."""
        file = self.current
        if file is not None and file.pool_buffer is not None:
            file.commit()
            file.pool_buffer = None
            self.write_into(file.buffer)
        self.pool = None

    def use(self, file: MappedFile) -> None:
        """Appends go to this file from now on."""
        if self.pool is not None and file.pool_buffer is None and file.wrote < file.size:
            file.pool_buffer = self.pool.borrow()
            if file.pool_buffer is not None and file.wrote:
                # Readers go to the file; only commit copies from here, starting at ``committed``.
                file.committed = file.wrote
        self.current = file
        self.write_into(file.write_buffer)
        if not self._prefault and file.pool_buffer is None:
            file.write_singly()
        self.limit = -1 if file.pool_buffer is None else file.reserved
        self._populated = 0

    def make_room(self, total: int) -> MappedFile:
        """Reserve more of the current file, or finish it and go to the next one."""
        try:
            return self._make_room(total)
        except StoreIOError as error:
            if error.errno == errno.ENOSPC:
                self.no_space_count += 1  # the cleaner looks at it
            raise

    def _make_room(self, total: int) -> MappedFile:
        file = self.current
        if file is None or file.wrote + total + _SPARE > file.size:
            file = self._roll(file)
        end = file.wrote + total + _SPARE
        if end > file.reserved:
            file.reserve_to(end, self.reserve_step)
        self.limit = file.reserved
        if file.pool_buffer is None:
            if self._prefault:
                self._populate(file, end)
            else:
                self._write_ahead(file, end)
        # From the first append on, not only after a roll: a store that was just opened must not make files under the
        # put lock either. One that only reads makes none.
        self.allocation.request(file.end)
        return file

    def _populate(self, file: MappedFile, end: int) -> None:
        """Make the next pages ready: those that nobody else is at here, those behind them in the background."""
        is_fast = self.last_timestamp - self._populated_at <= _PREFAULT_FAST_MS
        self._populated_at = self.last_timestamp
        ahead = min(file.size, end + _PREFAULT_BYTES + (_PREFAULT_AHEAD if is_fast else _PREFAULT_BYTES))
        with suppress(StoreIOError):  # not needed yet: whoever needs it is told
            file.reserve_to(ahead, self.reserve_step)
        self.limit = min(file.reserved, end + _PREFAULT_BYTES)
        if self._populated < self.limit:
            file.populate(file.wrote, self.limit)
        first = max(self._populated, self.limit)
        if self.allocation.populate(file, first, min(file.reserved, ahead)):
            self._populated = max(first, min(file.reserved, ahead))

    def _write_ahead(self, file: MappedFile, end: int) -> None:
        """Have the pages of the next records written in the background while they are still zeros."""
        self.limit = min(file.reserved, end + _WRITE_STEP)
        first = max(self._populated, -(-end // PAGE) * PAGE)
        ahead = min(file.reserved, end + _WRITE_AHEAD)
        if first < ahead and self.allocation.populate(file, first, ahead, write=True):
            self._populated = ahead

    def _roll(self, file: MappedFile | None) -> MappedFile:
        start = self.end_offset if file is None else file.end
        if file is None:
            start -= start % self.files.file_size
        created = self.allocation.take(start)  # first, so that a failure leaves the old file as it is
        if file is not None and file.wrote < file.size:
            if file.wrote + _SPARE > file.reserved:
                file.reserve_to(file.wrote + _SPARE, self.reserve_step)
            BLANK.pack_into(file.write_buffer, file.wrote, file.size - file.wrote, MAGIC_BLANK)
            # The filler counts as written to the end; pool memory is committed only as far as it was written.
            if file.pool_buffer is not None:
                written = file.wrote + _SPARE
                file.file().write_at(file.committed, file.pool_buffer[file.committed : written])
                assert self.pool is not None
                self.pool.give_back(file.pool_buffer)
                file.pool_buffer = None
            file.wrote = file.committed = file.size
        self.files.append(created)
        self.end_offset = created.start
        self.use(created)
        return created

    def commit(self) -> None:
        """Move what lies in pool memory to the file."""
        file = self.current
        if file is not None and self.pool is not None:
            with self.lock:
                file.commit()

    def sync(self) -> int:
        """Make everything appended so far durable; the offset reached. Raises StoreIOError and moves nothing."""
        with self.flush_lock:
            timestamp = self.last_timestamp  # read before the end: never newer than what is synced
            target = self.end_offset
            if self.pool is not None:
                self.commit()  # after the target was read: what is appended from now on waits for the next sync
            offset = self.flushed_offset
            while offset < target:
                file = self.files.find(offset)
                if file is None:
                    raise StoreIOError("sync", f"log offset {offset}", OSError("no file holds this offset"))
                if self.pool is None:
                    file.commit()  # nothing to copy: what was appended lies in the mapping
                file.sync()
                if file.flushed == file.size:
                    file.seal()
                offset = min(file.end, target)
            self.flushed_offset = target
            self.flushed_timestamp = timestamp
            return target

    def pending_bytes(self) -> int:
        return self.end_offset - self.flushed_offset

    def header(self, physical_offset: int) -> tuple[int, ...] | None:
        """The first 48 bytes' fields of a record that claims to start here; None if none does."""
        file = self.files.find(physical_offset)
        view = None if file is None else file.view(physical_offset - file.start, RECORD_SIZE_MIN)
        if view is None:
            return None
        fields = HEADER.unpack_from(view)
        if fields[1] not in (MAGIC_V1, MAGIC_V2) or fields[6] != physical_offset:
            return None
        return fields

    def store_timestamp(self, physical_offset: int) -> int | None:
        """Store time of a record that claims to start here; None if none does."""
        fields = self.header(physical_offset)
        file = self.files.find(physical_offset)
        if fields is None or file is None:
            return None
        view = file.view(physical_offset - file.start + store_timestamp_at(fields[7]), 8)
        return None if view is None else int.from_bytes(view, "big", signed=True)

    def record(self, physical_offset: int, end: int | None = None) -> memoryview | None:
        """A view of the record that starts here and ends at or before ``end`` (default: what is readable)."""
        fields = self.header(physical_offset)
        if fields is None:
            return None
        size = fields[0]
        limit = self.readable_offset if end is None else end
        if size < RECORD_SIZE_MIN or physical_offset + size > limit:
            return None
        file = self.files.find(physical_offset)
        return None if file is None else file.view(physical_offset - file.start, size)

    def close(self) -> None:
        self.limit = -1
        self.current = None
        self.write_into(memoryview(bytearray()))
        self.files.close()


def saved_tail_name(start: int, end: int) -> str:
    return f"{start:020d}-{end:020d}"


def save_tail(log: CommitLog, filesystem: FileSystem, folder: str, start: int, end: int) -> str:
    """Copy [start, end) of the log to a file of its own before it is cut off; durable when this returns."""
    filesystem.make_directories(folder)
    path = os.path.join(folder, saved_tail_name(start, end))
    target = filesystem.open(path, create=True)
    try:
        offset = start
        while offset < end:
            file = log.files.find(offset)
            if file is None:
                break
            stop = min(file.end, end, offset + (1 << 20))
            target.write_at(offset - start, bytes(file.buffer[offset - file.start : stop - file.start]))
            offset = stop
        target.sync()
    finally:
        target.close()
    filesystem.sync_directory(folder)
    return path
