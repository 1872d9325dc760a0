"""AllocateMappedFileService: the next log file and the one after it are ready before the log needs them.

Creating a file costs a few synced metadata writes; done here, in the background, the put that rolls over pays a
dictionary lookup. New pages, which cost a put more than its copy does, are made ahead of the log's end here too.
Optional warm-up takes the whole file's space, touches every page, locks it in memory until the file
is full and durable, and advises the kernel. Without a thread (``start`` never called) files are made on demand.

TransientStorePool: locked buffers that take appends instead of the mapping. Faster while the kernel writes back, but
what was not yet committed dies with the *process*: with ASYNC_FLUSH that includes acknowledged messages.
"""

from __future__ import annotations

import logging
import mmap
import threading
from collections.abc import Callable

from flaremq.errors import FlareMQError, NotFoundError, StoreIOError
from flaremq.storage.files.filesystem import FileSystem, lock_memory
from flaremq.storage.files.mapped_file import PAGE, MappedFile
from flaremq.storage.files.mapped_file_queue import MappedFileQueue

_log = logging.getLogger(__name__)
_NOT_LOCKED = "could not be locked in memory and may be paged out: allow it by `ulimit -l`, or make it smaller"
_WAIT_SECONDS = 5.0  # as the original: a roll that has to wait longer is answered with an error


class TransientStorePool:
    """Anonymous memory for whole log files, reused."""

    __slots__ = ("_free", "file_size")

    def __init__(self, file_size: int, count: int, *, lock: Callable[[memoryview], bool] = lock_memory) -> None:
        self.file_size = file_size
        self._free = [memoryview(mmap.mmap(-1, file_size)) for _ in range(count)]
        if not all(lock(buffer) for buffer in self._free):
            _log.warning("the transient store pool %s", _NOT_LOCKED)

    @property
    def available_count(self) -> int:
        return len(self._free)

    def borrow(self) -> memoryview | None:
        """A zeroed buffer is not promised: only what was written since is ever read."""
        return self._free.pop() if self._free else None

    def give_back(self, buffer: memoryview) -> None:
        self._free.append(buffer)


class AllocateMappedFileService:
    """Makes log files ahead of need. ``take`` is called under the put lock."""

    __slots__ = (
        "_condition",
        "_failure",
        "_filesystem",
        "_lock_failed",
        "_pages",
        "_queue",
        "_ready",
        "_reserve_step",
        "_stopped",
        "_thread",
        "_told",
        "_wanted",
        "_warm_sync_pages",
        "_warm_up",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        queue: MappedFileQueue,
        *,
        reserve_step: int,
        warm_up: bool = False,
        warm_sync_pages: int = 0,
    ) -> None:
        self._filesystem = filesystem
        self._queue = queue
        self._reserve_step = reserve_step
        self._warm_up = warm_up
        self._warm_sync_pages = warm_sync_pages
        self._condition = threading.Condition()  # guards the fields below
        self._ready: dict[int, MappedFile] = {}
        self._wanted: list[int] = []
        self._pages: tuple[MappedFile, int, int, bool] | None = None
        self._failure: FlareMQError | None = None
        self._told = False  # a failure was logged, and none of its like is before the next success
        self._lock_failed = False
        self._stopped = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="flaremq-allocate", daemon=True)
        self._thread.start()

    def request(self, start: int) -> None:
        """Prepare the file at ``start`` and the one after it, if not yet under way."""
        if self._thread is None:
            return
        with self._condition:
            for wanted in (start, start + self._queue.file_size):
                if wanted not in self._ready and wanted not in self._wanted:
                    self._wanted.append(wanted)
                    self._failure = None  # of an earlier try
            self._condition.notify_all()

    def populate(self, file: MappedFile, start: int, end: int, *, write: bool = False) -> bool:
        """Make the pages of [start, end) of a file ready to be written, soon; False where no thread does that.

        With ``write`` they also go to disk as they are then.
        """
        if self._thread is None:
            return False
        with self._condition:
            self._pages = (file, start, end, write)
            self._condition.notify_all()
        return True

    def take(self, start: int) -> MappedFile:
        """The file starting here; raises when it cannot be made."""
        if self._thread is None:
            return self._create(start)
        self.request(start)
        with self._condition:
            if not self._condition.wait_for(
                lambda: start in self._ready or self._failure is not None or self._stopped, _WAIT_SECONDS
            ):
                raise StoreIOError("create", self._queue.path_for(start), TimeoutError("not ready in 5 s"))
            ready = self._ready.pop(start, None)
            failure, self._failure = self._failure, None
        if ready is not None:
            # A RocketMQ that tried to open the store meanwhile removes prepared files before it asks for the lock.
            if self._filesystem.exists(ready.path):
                return ready
            ready.close()
            return self._create(start)
        if failure is not None:
            raise failure
        raise StoreIOError("create", self._queue.path_for(start), OSError("the store is closing"))

    def discard(self, files: list[MappedFile]) -> None:
        """Delete files that were taken and are not needed after all, the newest first."""
        for file in reversed(files):
            file.close()
            self._remove_quietly(file.path)

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._wanted or self._pages or self._stopped)
                if self._stopped:
                    return
                pages, self._pages = self._pages, None
                start = min(self._wanted) if self._wanted else -1
            if pages is not None:
                file, first, end, write = pages
                file.populate(first, end)
                if write:
                    file.start_writing(first, end)
            if start < 0:
                continue
            try:
                created = self._create(start)
            except Exception as error:
                # Not retried here: the put that needs the file asks again, and gets the reason meanwhile.
                if not self._told:
                    _log.warning("could not prepare a log file: %s", error)
                    self._told = True
                with self._condition:
                    self._wanted.clear()
                    self._failure = (
                        error
                        if isinstance(error, FlareMQError)
                        else StoreIOError("create", self._queue.path_for(start), OSError(str(error)))
                    )
                    self._condition.notify_all()
                continue
            with self._condition:
                self._wanted.remove(start)
                self._failure = None
                self._told = False
                self._ready[start] = created
                self._condition.notify_all()

    def _create(self, start: int) -> MappedFile:
        path = self._queue.path_for(start)
        size = self._queue.file_size
        try:
            # Every page is written to by the warm-up: without space behind it that would be a signal.
            reserve = size if self._warm_up else self._reserve_step
            created = MappedFile.create(self._filesystem, path, size, reserve=reserve)
        except FlareMQError:
            self._remove_quietly(path)  # no half-made file, no space taken, while the disk is full
            raise
        created.random_access = self._queue.random_access
        mapping = created.mapping()
        if self._warm_up:
            self._warm(created)
            if not mapping.lock(0, size) and not self._lock_failed:
                self._lock_failed = True
                _log.warning("the log file %s %s", path, _NOT_LOCKED)
            mapping.advise(mmap.MADV_WILLNEED, 0, size)
        return created

    def _warm(self, file: MappedFile) -> None:
        buffer = file.buffer
        for number, at in enumerate(range(0, file.size, PAGE)):
            buffer[at] = 0
            if self._warm_sync_pages and number % self._warm_sync_pages == self._warm_sync_pages - 1:
                file.file().sync()
        file.file().sync()

    def _remove_quietly(self, path: str) -> None:
        try:
            self._filesystem.remove(path)
        except (NotFoundError, StoreIOError):
            _log.debug("nothing to remove at %s", path)

    def halt(self) -> None:
        """Stop the thread; files stay as they are."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """Stop and delete files that were prepared but not used."""
        self.halt()
        for start in sorted(self._ready, reverse=True):
            self._ready.pop(start).destroy()
