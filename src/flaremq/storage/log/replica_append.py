"""Appending to a replica's log: the master's bytes, as they stand, at the same place.

A piece is whole records, and where a file of the master ends its filler with all bytes behind the filler's header: so
files become equal byte for byte, and roll exactly where the master's rolled. Whoever received the piece has checked its
records; here only the framing is looked at once more, for the one thing a log cannot stand is an end inside a record.

All or nothing. Files are made and space is reserved for the whole piece first; then it is written behind the end, one
write a file; then the end moves. As on a master, the end of a file is reached only together with the next file: a
filler with no file behind it is not part of a log.
"""

from __future__ import annotations

import errno
from typing import NamedTuple

from flaremq.core.record import walk
from flaremq.core.table import BLANK, END, FULL, HEADERS_ONLY, STORE_TIMESTAMP, RecordTable
from flaremq.errors import InvalidArgumentError, StoreIOError
from flaremq.storage.files.mapped_file import MappedFile
from flaremq.storage.log.commit_log import CommitLog

_ROWS = 2048


class _Stretch(NamedTuple):
    """A part of a piece that goes into one file; no bytes stand for a file that is only made."""

    file: MappedFile
    at: int
    data: memoryview


class ReplicaAppender:
    """Appends to one log. Under ``log.lock``."""

    __slots__ = ("_log", "_requested", "_rows")

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._rows = RecordTable(_ROWS)
        self._requested = -1  # the file that is made ahead of the log's end

    def append(self, offset: int, data: bytes | bytearray | memoryview) -> int:
        """Append a piece that starts at our end; the new end.

        InvalidArgumentError for any other offset and for bytes that are no whole records, StoreIOError when there is no
        space; nothing is changed then.
        """
        log = self._log
        piece = memoryview(data).cast("B")
        if offset != log.end_offset:
            raise InvalidArgumentError(f"a piece for log offset {offset}, but the log ends at {log.end_offset}")
        if not len(piece):
            return offset
        newest = self._check(offset, piece)
        try:
            stretches = self._make_room(offset, piece)
        except StoreIOError as error:
            if error.errno == errno.ENOSPC:
                log.no_space_count += 1  # the cleaner looks at it
            raise
        self._write(stretches)
        for stretch in stretches:
            if stretch.file is not log.current:
                log.files.append(stretch.file)
                log.use(stretch.file)
            stretch.file.wrote = stretch.at + len(stretch.data)
            if stretch.file.wrote < stretch.file.size:  # else the next file is not in the list yet
                log.end_offset = stretch.file.start + stretch.file.wrote
        log.last_timestamp = newest or log.last_timestamp  # after the end: never newer than what a sync counts
        following = stretches[-1].file.end
        if following != self._requested:
            self._requested = following
            log.allocation.request(following)
        return log.end_offset

    def _check(self, offset: int, piece: memoryview) -> int:
        """The store time of the newest record, 0 if there is none; InvalidArgumentError unless these are records."""
        size = self._log.files.file_size
        newest = at = 0
        while at < len(piece):
            place = offset + at
            room = size - place % size
            part = piece[at : at + room]
            base, here = place, 0
            while here < len(part):
                rows, here, stop = walk(part, here, len(part), base, HEADERS_ONLY, self._rows.cells)
                if rows:
                    newest = self._rows.cell(STORE_TIMESTAMP, rows - 1)
                if stop == BLANK and len(part) == room:
                    break
                if stop not in (END, FULL) or (stop == END and len(part) == room):
                    raise InvalidArgumentError(f"no whole record stands at log offset {base + here} of the piece")
            at += len(part)
        return newest

    def _write(self, stretches: list[_Stretch]) -> None:
        """Copy the piece behind the end.

        By a write, not through the mapping: it takes no page fault, lets other threads run, and can fail. Then what was
        written must not stay: behind the end of a log only zeros are no record.
        """
        begun = []
        try:
            for stretch in stretches:
                begun.append(stretch)
                stretch.file.file().write_at(stretch.at, stretch.data)
        except BaseException:
            for stretch in begun:
                if stretch.file is self._log.current:
                    stretch.file.buffer[stretch.at : stretch.at + len(stretch.data)] = bytes(len(stretch.data))
                    stretch.file.is_doubtful = True  # the zeros have to reach the disk, too: the next sync takes them
            self._log.allocation.discard(
                [stretch.file for stretch in stretches if stretch.file is not self._log.current]
            )
            raise

    def _make_room(self, offset: int, piece: memoryview) -> list[_Stretch]:
        """Where the piece goes, with space for all of it; the file behind a file that gets full comes last."""
        log = self._log
        file = log.current
        if file is not None and file.wrote + len(piece) < file.size:  # as nearly always
            file.reserve_to(file.wrote + len(piece), log.reserve_step)
            return [_Stretch(file, file.wrote, piece)]
        taken: list[MappedFile] = []
        stretches: list[_Stretch] = []
        done = 0
        try:
            while done < len(piece) or (file is not None and _end(file, stretches) == file.size):
                at = 0 if file is None else _end(file, stretches)
                if file is None or at == file.size:
                    start = offset - offset % log.files.file_size if file is None else file.end
                    file, at = log.allocation.take(start), 0
                    taken.append(file)
                part = piece[done : done + file.size - at]
                file.reserve_to(at + len(part), log.reserve_step)
                stretches.append(_Stretch(file, at, part))
                done += len(part)
        except BaseException:
            log.allocation.discard(taken)
            raise
        return stretches


def _end(file: MappedFile, stretches: list[_Stretch]) -> int:
    """Up to where a file will be written."""
    last = stretches[-1] if stretches else None
    return last.at + len(last.data) if last is not None and last.file is file else file.wrote
