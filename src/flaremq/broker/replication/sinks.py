"""Where a CatchUp thread sends: to a socket by itself, or through the loop."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable
from typing import Final

_POLL_MS: Final = 1000
_CHUNK: Final = 256 << 10  # of a stream that passes through the loop


class SocketSink:
    """A socket that the thread writes to itself. It has a descriptor of its own, so no other can take its number."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLOUT)

    def send(self, data: bytes, *, more: bool) -> None:
        flags = socket.MSG_NOSIGNAL | (socket.MSG_MORE if more else 0)
        while data:
            try:
                data = data[self._socket.send(data, flags) :]
            except BlockingIOError:
                self._wait()

    def send_file(self, descriptor: int, file_offset: int, length: int) -> None:
        end = file_offset + length
        while file_offset < end:
            try:
                sent = os.sendfile(self._socket.fileno(), descriptor, file_offset, end - file_offset)
            except BlockingIOError:
                self._wait()
                continue
            if sent == 0:
                raise OSError(f"a log file ends at {file_offset}, {end - file_offset} bytes early")
            file_offset += sent

    def _wait(self) -> None:
        while not self._poll.poll(_POLL_MS):
            pass  # the loop shuts a connection down that stands still for too long

    def close(self) -> None:
        self._socket.close()

    def abandon(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # closed already


class LoopSink:
    """A stream that must pass through the loop (TLS): the thread reads, ``write`` gets it there."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._is_abandoned = False
        self.room = threading.Semaphore(1)  # released by the loop when what was written last is gone

    def send(self, data: bytes, *, more: bool) -> None:
        self.room.acquire()
        if self._is_abandoned:
            raise OSError("the connection is closed")
        self._write(data)

    def send_file(self, descriptor: int, file_offset: int, length: int) -> None:
        end = file_offset + length
        while file_offset < end:
            data = os.pread(descriptor, min(_CHUNK, end - file_offset), file_offset)
            if not data:
                raise OSError(f"a log file ends at {file_offset}, {end - file_offset} bytes early")
            file_offset += len(data)
            self.send(data, more=False)

    def close(self) -> None:
        pass

    def abandon(self) -> None:
        self._is_abandoned = True
        self.room.release()
