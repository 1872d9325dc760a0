"""Log bytes for replicas, as they stand: views of the mapping for what is recent, descriptors for what is old.

Neither looks at records, nor at what is readable: who sends decides up to where.
"""

from __future__ import annotations

import contextlib
import os

from flaremq.errors import NotFoundError
from flaremq.storage.files.filesystem import File
from flaremq.storage.files.mapped_file import MappedFile
from flaremq.storage.log.commit_log import CommitLog


class TransferFile:
    """The rest of one log file from some offset on, open for ``sendfile``. Close it, or use ``with``.

    A file that retention deletes meanwhile can be read to its end. ``length`` is what the file held when this was made.
    """

    __slots__ = ("_file", "_mapped", "file_offset", "length", "path")

    def __init__(self, mapped: MappedFile, file: File, file_offset: int, length: int) -> None:
        self._mapped = mapped
        self._file = file
        self.path = mapped.path
        self.file_offset = file_offset
        self.length = length

    def fileno(self) -> int:
        return self._file.fileno()

    def is_resident(self, file_offset: int, length: int) -> bool:
        """Whether most of these bytes are in memory now (mincore).

        Ask well before reading comes near: what the system reads ahead, often some megabytes, counts too.
        """
        if length <= 0 or self._mapped.borrow() is None:
            return True
        pages = self._mapped.mapping().resident(file_offset, length)
        return 2 * pages.count(0) < len(pages)

    def forget(self, file_offset: int, length: int) -> None:
        """Let the system drop these bytes from memory: they were read for a transfer alone. A hint, never an error."""
        with contextlib.suppress(OSError):
            os.posix_fadvise(self._file.fileno(), file_offset, length, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> TransferFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class LogTransfer:
    """Reads one log for transfers. Any thread."""

    __slots__ = ("_log",)

    def __init__(self, log: CommitLog) -> None:
        self._log = log

    def view(self, offset: int, limit: int, size_max: int) -> memoryview | None:
        """The log from ``offset`` on: to ``limit``, its file's end or ``size_max`` bytes at most; None if it is none.

        No copy: the file stays mapped for as long as somebody holds the view, deleted or not.
        """
        file = self._log.files.find(offset)
        if file is None:
            return None
        length = min(limit, file.end, self._log.committed_offset, offset + size_max) - offset
        return file.view(offset - file.start, length) if length > 0 else None

    def open(self, offset: int) -> TransferFile | None:
        """The file that holds this offset, from there on; None if the log has no such byte (any more)."""
        file = self._log.files.find(offset)
        if file is None:
            return None
        length = min(file.end, self._log.committed_offset) - offset
        if length <= 0:
            return None
        try:
            return TransferFile(file, file.open_again(), offset - file.start, length)
        except NotFoundError:  # deleted since it was looked at
            return None
