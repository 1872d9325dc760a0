"""CatchUp: log bytes that a slave is far behind with, sent by a thread, so that no disk read waits on the loop.

The loop decides what is sent, frame by frame, and hands over pieces; the thread sends them in order by ``sendfile`` and
tells the loop when the last one is out. While it has work, nobody else writes to the connection.

Old data are read once. What was not in the page cache before is dropped from it again, some way behind the place that
is sent, so that catching up does not push out what consumers read. (A page that still waits in a socket cannot be
dropped, hence the distance.)
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, NamedTuple, Protocol

_WINDOW: Final = 4 << 20  # read ahead and dropped in such pieces
_AHEAD: Final = 2 * _WINDOW
_LAG: Final = 4 * _WINDOW  # more than the sockets of a connection hold


class Piece(NamedTuple):
    """One frame: its header and the log bytes behind it, all in one file."""

    header: bytes
    offset: int
    length: int


class OpenFile(Protocol):
    """A log file from some offset on: ``storage.get.transfer.TransferFile``."""

    @property
    def file_offset(self) -> int: ...
    @property
    def length(self) -> int: ...
    def fileno(self) -> int: ...
    def is_resident(self, file_offset: int, length: int) -> bool: ...
    def forget(self, file_offset: int, length: int) -> None: ...
    def close(self) -> None: ...


class Sink(Protocol):
    """Where the thread sends. All methods but ``abandon`` are the thread's; OSError ends it."""

    def send(self, data: bytes, *, more: bool) -> None: ...
    def send_file(self, descriptor: int, file_offset: int, length: int) -> None: ...
    def close(self) -> None: ...
    def abandon(self) -> None:
        """From the loop: whoever waits in ``send`` gets an OSError."""


class CatchUp:
    """A thread that sends pieces. ``sent(pieces)`` and ``failed(error)`` are called from it."""

    def __init__(
        self,
        open_file: Callable[[int], OpenFile | None],
        sink: Sink,
        sent: Callable[[list[Piece]], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._open_file = open_file
        self._sink = sink
        self._sent = sent
        self._failed = failed
        self._work: SimpleQueue[list[Piece] | None] = SimpleQueue()
        self._is_stopped = False
        self.queued = 0  # batches that were handed over and are not reported as sent; the loop's
        self._thread = threading.Thread(target=self._run, name="flaremq-ha-catch-up", daemon=True)
        self._thread.start()

    def send(self, pieces: list[Piece]) -> None:
        self.queued += 1
        self._work.put(pieces)

    def stop(self) -> None:
        """No more work, and what is not sent yet is given up."""
        self._is_stopped = True
        if self.queued:
            self._sink.abandon()
        self._work.put(None)

    def join(self) -> None:
        """After ``stop``: wait until the thread has let go of socket and files."""
        self._thread.join()

    def _run(self) -> None:
        reading: _Reading | None = None
        try:
            while (pieces := self._work.get()) is not None:
                end = pieces[-1].offset + pieces[-1].length
                for piece in pieces:
                    if self._is_stopped:
                        return
                    reading = self._send_piece(piece, reading, end)
                self._sent(pieces)
        except Exception as error:  # of the socket, the file, or a store that is being closed
            if not self._is_stopped:
                self._failed(error)
        finally:
            if reading is not None:
                reading.close()
            self._sink.close()

    def _send_piece(self, piece: Piece, reading: _Reading | None, end: int) -> _Reading | None:
        self._sink.send(piece.header, more=piece.length > 0)
        if not piece.length:
            return reading
        if reading is None or not reading.has(piece):
            if reading is not None:
                reading.close()
            file = self._open_file(piece.offset)
            if file is None or file.length < piece.length:
                raise OSError(f"the log bytes at {piece.offset} were deleted before they were sent")
            reading = _Reading(file, piece.offset)
        reading.send(piece, self._sink, end)
        return reading


class _Reading:
    """A log file as it is read once, from front to back."""

    def __init__(self, file: OpenFile, offset: int) -> None:
        self._file = file
        self._base = offset - file.file_offset  # log offset of the file's first byte
        self._end = offset + file.length  # what the file held when it was opened
        self._ahead = -1  # in the file: read ahead up to here
        self._cold: deque[int] = deque()  # in the file: windows that were not in memory before

    def has(self, piece: Piece) -> bool:
        return self._base <= piece.offset and piece.offset + piece.length <= self._end

    def send(self, piece: Piece, sink: Sink, end: int) -> None:
        """Send a piece; what comes soon, up to log offset ``end``, is read while the socket takes this."""
        start = piece.offset - self._base
        stop = start + piece.length
        self._read_ahead(start, min(stop + _AHEAD, end - self._base, self._end - self._base))
        sink.send_file(self._file.fileno(), start, piece.length)
        self._forget_before(stop - _LAG)

    def _read_ahead(self, start: int, stop: int) -> None:
        position = max(self._ahead, start // _WINDOW * _WINDOW)
        while position < stop:
            size = min(_WINDOW, self._end - self._base - position)
            if not self._file.is_resident(position, size):
                self._cold.append(position)
                os.posix_fadvise(self._file.fileno(), position, size, os.POSIX_FADV_WILLNEED)
            position += _WINDOW
        self._ahead = position

    def _forget_before(self, file_offset: int) -> None:
        while self._cold and self._cold[0] + _WINDOW <= file_offset:
            self._file.forget(self._cold.popleft(), _WINDOW)

    def close(self) -> None:
        self._forget_before(1 << 62)
        self._file.close()
