"""Sender: what goes out over a connection, as far as the peer's windows are open.

Nothing is written here: frames collect in ``out``, and whoever has the transport takes them. Data that the peer has no
room for waits with its stream; how much a stream may let wait is its owner's business.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import cython

from flaremq.grpc.http2.frames import head
from flaremq.grpc.http2.limits import Waiting
from flaremq.grpc.http2.stream import Bytes, Stream

if not cython.compiled:
    from flaremq.grpc.http2.frames import (
        DATA,
        END_HEADERS,
        END_STREAM,
        FRAME_SIZE_MIN,
        HEADERS,
        TABLE_SIZE_DEFAULT,
        WINDOW_DEFAULT,
        WINDOW_MAX,
    )

_NO_TABLE: Final = b"\x20"  # "my table has the size 0"


class Sender:
    """The outgoing half of a connection."""

    __slots__ = (
        "_blocked",
        "_prefix",
        "_waiting",
        "frame_max",
        "initial_window",
        "now",
        "out",
        "out_bytes",
        "pending_bytes",
        "window",
    )

    def __init__(self, waiting: Waiting | None = None) -> None:
        self._waiting = waiting or Waiting()
        self.out: list[Bytes] = []
        self.out_bytes = 0
        self.window = WINDOW_DEFAULT  # of the whole connection
        self.initial_window = WINDOW_DEFAULT  # of new streams
        self.frame_max = FRAME_SIZE_MIN
        self.pending_bytes = 0  # over all streams
        self.now = 0.0  # of the last read or sweep: near enough to judge who stands still
        self._blocked: dict[int, Stream] = {}  # those with pending data
        self._prefix = b""

    def write(self, frame: Bytes) -> None:
        self.out.append(frame)
        self.out_bytes += len(frame)

    def take(self) -> list[Bytes]:
        """What is to be written now."""
        out, self.out, self.out_bytes = self.out, [], 0
        return out

    def table_size_changed(self, size: int) -> None:
        """The peer decodes with a table of this size. We use none, but a smaller one must be confirmed."""
        if size < TABLE_SIZE_DEFAULT:
            self._prefix = _NO_TABLE

    def reply(self, stream: Stream, block: bytes, data: bytes, trailers: bytes) -> None:
        """A whole answer. For nearly all calls this is all that is sent."""
        size = len(data)
        if size > stream.send_window or size > self.window or size > self.frame_max or self._prefix:
            self.headers(stream, block)
            self.data(stream, data)
            self.end(stream, trailers)
            return
        stream.send_window -= size
        self.window -= size
        stream.head_sent = stream.local_closed = True
        number = stream.id
        frame = b"".join(
            (
                head(len(block), HEADERS, END_HEADERS, number),
                block,
                head(size, DATA, 0, number),
                data,
                head(len(trailers), HEADERS, END_HEADERS | END_STREAM, number),
                trailers,
            )
        )
        self.out.append(frame)
        self.out_bytes += len(frame)

    def headers(self, stream: Stream, block: bytes, end: bool = False) -> None:
        if self._prefix:
            block, self._prefix = self._prefix + block, b""
        stream.head_sent = True
        flags = END_HEADERS
        if end:
            stream.local_closed = True
            flags |= END_STREAM
        self.write(head(len(block), HEADERS, flags, stream.id) + block)

    def data(self, stream: Stream, data: Bytes) -> None:
        """Send, or keep until the peer has room."""
        if stream.pending is None:
            sent = self._send(stream, data)
            if sent == len(data):
                return
            data = memoryview(data)[sent:]  # what waits is not copied each time a little of it goes
            stream.pending = deque()
            stream.waits_since = self.now
            self._blocked[stream.id] = stream
        stream.pending.append(data)
        self._count(stream, len(data))

    def end(self, stream: Stream, trailers: bytes) -> None:
        """Nothing follows but these."""
        if stream.pending is not None:
            stream.trailers = trailers
        else:
            self.headers(stream, trailers, end=True)

    def forget(self, stream: Stream) -> None:
        """The stream is over; what was pending is lost."""
        if stream.pending is not None:
            self._count(stream, -stream.pending_bytes)
            stream.pending, stream.trailers = None, None
            del self._blocked[stream.id]

    def opened(self, stream: Stream | None, size: int) -> bool:
        """The peer has room for more; False if that is more than there can be."""
        if stream is not None:
            stream.send_window += size
            return stream.send_window <= WINDOW_MAX
        self.window += size
        return self.window <= WINDOW_MAX

    def pump(self, stream: Stream) -> bool:
        """Send pending data of a stream; whether none is left."""
        pending = stream.pending
        if pending is None:
            return True
        while pending:
            data = pending[0]
            sent = self._send(stream, data)
            if sent:
                stream.waits_since = self.now
                self._count(stream, -sent)
            if sent < len(data):
                pending[0] = memoryview(data)[sent:]
                return False
            pending.popleft()
        trailers = stream.trailers
        stream.pending = stream.trailers = None
        del self._blocked[stream.id]
        if trailers is not None:
            self.headers(stream, trailers, end=True)
        return True

    def blocked(self) -> list[Stream]:
        """Streams whose peer has no room, the one that waits longest first."""
        return list(self._blocked.values())

    def move_back(self, stream: Stream) -> None:
        """Others are served first next time."""
        self._blocked[stream.id] = self._blocked.pop(stream.id)

    def _count(self, stream: Stream, difference: int) -> None:
        stream.pending_bytes += difference
        self.pending_bytes += difference
        self._waiting.bytes += difference

    def _send(self, stream: Stream, data: Bytes) -> int:
        """As much as there is room for; how much that was."""
        room = min(stream.send_window, self.window)
        at, end = 0, min(len(data), max(room, 0))
        limit, number = self.frame_max, stream.id
        if end > limit:
            data = memoryview(data)  # its parts are not copied
        while at < end:
            part = data[at : min(at + limit, end)] if at or end - at > limit or end < len(data) else data
            size = len(part)
            self.write(head(size, DATA, 0, number))
            self.write(part)
            at += size
        stream.send_window -= at
        self.window -= at
        return at
