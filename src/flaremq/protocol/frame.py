"""Frames: a length, a header word, the header, the body. Bytes in, commands out, no I/O.

    at  size  content
     0     4  everything after this word: 4 + H + B
     4     4  serialize type in the top byte, H in the other three
     8     H  header
   8+H     B  body

The decoder never holds more than it was given: an announced length only bounds what it will wait for. A frame that is
too long, or a header that cannot be read, ends the connection; what came before it is still handed out.
"""

from __future__ import annotations

from struct import Struct

from flaremq.errors import LocalProtocolError, RemoteProtocolError
from flaremq.protocol import header_binary, header_json
from flaremq.protocol.command import BINARY_HEADER, JSON_HEADER, Body, RemotingCommand

FRAME_SIZE_MAX = 16 << 20  # of a whole frame, its length word included, as in Java
HEADER_SIZE_MAX = 512 << 10  # 32 KiB of properties, every byte escaped, and room to spare
REPLY_HEADER_SIZE_MAX = 8 << 20  # the reply to a batch has an id of 33 characters for each of its messages
_ROOM_MIN = 64 << 10  # of a reader's buffer
_ROOM_LOW = 16 << 10  # so much is free at least for what is received next
_ROOM_MAX = 1 << 20  # that is kept
_WORDS = Struct(">iI")
_words_at = _WORDS.unpack_from


class FrameDecoder:
    """Cuts a byte stream into commands."""

    __slots__ = ("_buffer", "_header_limit", "_limit", "_wanted", "failure")

    def __init__(self, limit: int = FRAME_SIZE_MAX, *, header_limit: int = HEADER_SIZE_MAX) -> None:
        self._limit = limit
        self._header_limit = header_limit
        self._buffer = bytearray()
        self._wanted = 8  # bytes in the buffer before another look at it is worth while
        self.failure: RemoteProtocolError | None = None

    @property
    def buffered(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._buffer)

    def joined(self, data: bytes) -> bytes:
        """What was kept of a frame that was not complete, and ``data`` behind it; nothing while it still is not."""
        buffer = self._buffer
        if not buffer:
            return data
        buffer += data
        if len(buffer) < self._wanted:
            return b""
        data = bytes(buffer)
        buffer.clear()
        return data

    def receive(self, data: bytes, at: int = 0) -> list[RemotingCommand]:
        """All commands that are complete now; ``failure`` says why the stream cannot go on, if so.

        The first ``at`` bytes, whole frames, were answered by somebody else.
        """
        if self.failure is not None:
            return []
        buffer = self._buffer
        if buffer:
            data = self.joined(data)
        commands: list[RemotingCommand] = []
        at = self._cut(data, at, len(data), commands)
        end = len(data)
        if self.failure is not None:
            return commands
        if at < end:
            if at == 0 and not buffer:
                buffer += data
            else:
                buffer += memoryview(data)[at:]
            if len(buffer) < 8:
                self._wanted = 8
        return commands

    def _cut(self, data: bytes | memoryview, at: int, end: int, commands: list[RemotingCommand]) -> int:
        """Add the whole frames of ``data[at:end]`` to the commands; where the first begins that is not whole."""
        try:
            while end - at >= 8:
                length, word = _words_at(data, at)
                header_end = at + 8 + (word & 0xFFFFFF)
                frame_end = at + 4 + length
                if frame_end > end or length < 4 or header_end > frame_end:
                    self._check(length, word)
                    self._wanted = length + 4
                    break
                if length + 4 > self._limit or word & 0xFFFFFF > self._header_limit:
                    self._check(length, word)
                kind = word >> 24
                if kind != JSON_HEADER and kind != BINARY_HEADER:
                    raise RemoteProtocolError(f"unknown serialize type {kind}")
                decode = header_json.decode_header if kind == JSON_HEADER else header_binary.decode_header
                commands.append(decode(bytes(data[at + 8 : header_end]), bytes(data[header_end:frame_end])))
                at = frame_end
            else:
                self._wanted = 8
        except RemoteProtocolError as error:
            self.failure = error
        return at

    def discard(self) -> None:
        """Forget a frame that is not complete; nothing more can follow it."""
        self.failure = self.failure or RemoteProtocolError("the frame was given up before it was complete")
        self._buffer = bytearray()

    def _check(self, length: int, word: int) -> None:
        """Refuse what cannot become a frame, before waiting for its bytes."""
        header = word & 0xFFFFFF
        if length < 4 or length + 4 > self._limit:
            raise RemoteProtocolError(f"a frame of {length + 4} bytes is outside 8..{self._limit}")
        if header > length - 4:
            raise RemoteProtocolError(f"a header of {header} bytes does not fit a frame of {length + 4}")
        if header > self._header_limit:
            raise RemoteProtocolError(f"a header of {header} bytes, at most {self._header_limit} are read")
        if word >> 24 not in (JSON_HEADER, BINARY_HEADER):
            raise RemoteProtocolError(f"unknown serialize type {word >> 24}")


class FrameReader(FrameDecoder):
    """The same for who receives into the reader's own buffer: a large reply is copied once, out of it, and not put
    together of reads first.

    The buffer grows with what has arrived, not with what a frame says of its length.
    """

    __slots__ = ("_end", "_start", "_view")

    def __init__(self, limit: int = FRAME_SIZE_MAX, *, header_limit: int = HEADER_SIZE_MAX) -> None:
        super().__init__(limit, header_limit=header_limit)
        self._view = memoryview(bytearray(_ROOM_MIN))
        self._start = self._end = 0  # of what has arrived and is not cut yet

    @property
    def buffered(self) -> int:
        return self._end - self._start

    def room(self) -> memoryview:
        """Where to put what is received next; never empty."""
        size, waiting = len(self._view), self._end - self._start
        if size - self._end < _ROOM_LOW:
            # A new one instead of a larger one: whoever receives may hold the old one for a moment more.
            view = memoryview(bytearray(2 * size)) if waiting > size // 2 else self._view
            view[:waiting] = self._view[self._start : self._end]
            self._view, self._start, self._end = view, 0, waiting
        return self._view[self._end :]

    def received(self, count: int) -> list[RemotingCommand]:
        """So many bytes were put there: all commands that are complete now, as :meth:`receive` gives them."""
        if self.failure is not None:
            return []
        self._end += count
        commands: list[RemotingCommand] = []
        if self._end - self._start >= self._wanted:
            self._start = self._cut(self._view, self._start, self._end, commands)
        if self._start == self._end:
            self._start = self._end = 0
            if len(self._view) > _ROOM_MAX:
                self._view = memoryview(bytearray(_ROOM_MIN))  # a frame of that size does not come often
        return commands

    def discard(self) -> None:
        super().discard()
        self._start = self._end = 0
        self._view = memoryview(bytearray(_ROOM_MIN))


def encode_head(command: RemotingCommand, body_length: int) -> bytes:
    """Everything of a frame but its body."""
    if command.serialize_type == BINARY_HEADER:
        header, word = header_binary.encode_header(command), BINARY_HEADER << 24
    else:
        header, word = header_json.encode_header(command), 0
    length = 4 + len(header) + body_length
    if length + 4 > FRAME_SIZE_MAX or len(header) > 0xFFFFFF:
        raise LocalProtocolError(f"a frame of {length + 4} bytes is larger than {FRAME_SIZE_MAX}")
    return _WORDS.pack(length, word | len(header)) + header


def encode_frame(command: RemotingCommand) -> bytes:
    """The whole frame in one piece."""
    body = command.body_bytes
    head = encode_head(command, len(body))
    return head + body if body else head


def encode_parts(command: RemotingCommand) -> list[Body]:
    """The frame as buffers to write one after the other: body parts are passed on, not copied."""
    body = command.body
    if isinstance(body, (bytes, bytearray, memoryview)):
        head = encode_head(command, len(body))
        return [head, body] if len(body) else [head]
    return [encode_head(command, sum(map(len, body))), *body]
