"""ServerConnection: one connection of HTTP/2, seen from the server. Bytes in, calls of a listener and bytes out.

The peer's frames are taken apart where they lie; what belongs to calls goes to the listener, the rest is answered here.
A frame that breaks the rules ends its stream or the connection, as the standard says for each; the listener hears of
streams that end early.

Everything a peer can make us keep has a bound (``limits``): streams, header lists, windows. Frames that cost us work
and bring nothing (pings, settings, resets, empty data) may come only so often.

Left out on purpose: priorities, server push, upgrades from HTTP/1.
"""

from __future__ import annotations

from typing import Final, Protocol

import cython

from flaremq.grpc.http2 import frames
from flaremq.grpc.http2.frames import PREFACE, SETTING, WORD, ErrorCode, Setting
from flaremq.grpc.http2.header_blocks import HeaderDecoder, HeaderError, RequestHeaders
from flaremq.grpc.http2.limits import Limits, Pace, Waiting
from flaremq.grpc.http2.sender import Sender
from flaremq.grpc.http2.stream import Stream

if not cython.compiled:
    from flaremq.core.memory import bytes_view, load_i32, load_u8
    from flaremq.grpc.http2.frames import (
        ACK,
        CONTINUATION,
        DATA,
        END_HEADERS,
        END_STREAM,
        GOAWAY,
        HEADERS,
        PADDED,
        PING,
        PRIORITY,
        PUSH_PROMISE,
        RST_STREAM,
        SETTINGS,
        WINDOW_DEFAULT,
        WINDOW_MAX,
        WINDOW_UPDATE,
        WITH_PRIORITY,
    )

_REMEMBERED_MAX: Final = 256  # closed streams, to tell late frames from wrong ones


class Listener(Protocol):
    """Who hears of calls."""

    def begin(self, stream: Stream, headers: RequestHeaders) -> None:
        """A call begins; if ``stream.remote_closed`` it brings nothing more."""

    def answer(self, headers: RequestHeaders, data: bytes) -> tuple[bytes, bytes, bytes] | None:
        """The whole reply (headers, data, trailers) to a call that came whole; None: it begins as others do."""

    def receive(self, stream: Stream, data: bytes) -> None:
        """Data of a call, the last if ``stream.remote_closed``."""

    def reset(self, stream: Stream) -> None:
        """A stream is over before its call was answered."""

    def writable(self, stream: Stream) -> None:
        """All pending data of a stream has gone out."""


class ConnectionFailure(Exception):
    """The connection ends."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class ServerConnection:
    """One connection. ``receive`` what came, then write ``sender.take()``, until ``is_over``."""

    __slots__ = (
        "_block",
        "_block_flags",
        "_block_stream",
        "_buffer",
        "_closed",
        "_continuations",
        "_control_pace",
        "_decoder",
        "_limits",
        "_listener",
        "_owed",
        "_preface_at",
        "_reset_pace",
        "_settings_pace",
        "_unbegun",
        "_was_told",
        "_window",
        "failure",
        "holds_back",
        "is_over",
        "last_stream",
        "sender",
        "streams",
    )

    def __init__(self, listener: Listener, limits: Limits, waiting: Waiting | None = None) -> None:
        self._listener = listener
        self._limits = limits
        self._decoder = HeaderDecoder(limits.header_list_max)
        self._buffer = b""
        self._preface_at = 0
        self._block: bytearray | None = None  # a header block that is not complete
        self._block_stream = self._block_flags = self._continuations = 0
        self._closed: dict[int, bool] = {}  # lately closed streams; True: by us, so that late frames mean no harm
        self._window = WINDOW_DEFAULT  # what the peer may still send over the connection
        self._owed = 0  # what was received of that and may be given back
        self._control_pace = Pace(10_000, 2_000)
        self._settings_pace = Pace(200, 20)
        self._reset_pace = Pace(1_000, 200)
        self._unbegun: list[Stream] = []  # calls of this read that the listener does not know yet
        self._was_told = False  # of our settings
        self.holds_back = False  # the peer gets no new room: there is too much of it here
        self.sender = Sender(waiting)
        self.streams: dict[int, Stream] = {}
        self.last_stream = 0
        self.is_over = False
        self.failure = ""

    @property
    def is_in_frame(self) -> bool:
        """Whether something has come in that is not complete: a preface, a frame or a header block."""
        return bool(self._buffer) or self._block is not None or self._preface_at < len(PREFACE)

    def start(self) -> None:
        """Tell our settings; they need not wait for the peer's."""
        limits = self._limits
        self.sender.write(
            frames.settings(
                {
                    Setting.MAX_CONCURRENT_STREAMS: limits.streams_max,
                    Setting.INITIAL_WINDOW_SIZE: limits.stream_window,
                    Setting.MAX_FRAME_SIZE: limits.frame_max,
                    Setting.MAX_HEADER_LIST_SIZE: limits.header_list_max,
                }
            )
        )
        self._owed = limits.connection_window - WINDOW_DEFAULT
        self._give_back()

    def receive(self, data: bytes, now: float) -> None:
        """Take what has come."""
        if self.is_over:
            return
        self.sender.now = now
        try:
            if self._preface_at < len(PREFACE):
                data = self._take_preface(data)
            self._take_frames(data, now)
            if self._unbegun:
                self._begin_rest()
        except ConnectionFailure as failure:
            self.fail(failure.code, str(failure))

    def fail(self, code: ErrorCode, reason: str) -> None:
        """The connection ends: say why."""
        self.failure = reason
        self.is_over = True
        self._buffer = b""
        self.sender.write(frames.go_away(self.last_stream, code, reason))

    def _take_preface(self, data: bytes) -> bytes:
        begun = self._preface_at
        expected = PREFACE[begun : begun + len(data)]
        if data[: len(expected)] != expected:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "this port speaks gRPC over HTTP/2")
        self._preface_at += len(expected)
        return data[len(expected) :]

    def _take_frames(self, data: bytes, now: float) -> None:
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        view = bytes_view(data)
        at, end = 0, len(data)
        frame_max = self._limits.frame_max
        while end - at >= 9:
            length = load_i32(view, at) >> 8 & 0xFFFFFF
            kind, flags, number = load_u8(view, at + 3), load_u8(view, at + 4), load_i32(view, at + 5) & 0x7FFFFFFF
            if length > frame_max:
                raise ConnectionFailure(
                    ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes; {frame_max} are allowed"
                )
            begin = at + 9
            at = begin + length
            if at > end:
                at = begin - 9
                break
            if self._block is not None and kind != CONTINUATION:
                raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "a header block is not complete")
            if kind == DATA:
                self._take_data(data[begin:at], flags, number, now)
            elif kind == HEADERS:
                self._take_headers(data[begin:at], flags, number, now)
            elif kind == WINDOW_UPDATE:
                self._take_window_update(data[begin:at], number, now)
            else:
                self._take_other(kind, data[begin:at], flags, number, now)
            if self.is_over:
                return
        if at < end:
            self._buffer = data[at:] if at else data

    # Calls

    def _take_headers(self, payload: bytes, flags: int, number: int, now: float) -> None:
        if not number & 1:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, f"stream {number} is none that a client may open")
        if flags & (PADDED | WITH_PRIORITY):
            payload = self._strip(payload, flags, number, now)
        if flags & END_HEADERS:
            self._take_block(payload, flags, number, now)
        else:
            self._block = bytearray(payload)
            self._block_stream, self._block_flags, self._continuations = number, flags, 0

    def _strip(self, payload: bytes, flags: int, number: int, now: float) -> bytes:
        """Without padding and priority."""
        begin, end = 0, len(payload)
        if flags & PADDED:
            if not payload or payload[0] >= end:
                raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "more padding than there is frame")
            end -= payload[0]
            begin = 1
        if flags & WITH_PRIORITY:
            if end - begin < 5:
                raise ConnectionFailure(ErrorCode.FRAME_SIZE_ERROR, "a priority that is cut off")
            if WORD.unpack_from(payload, begin)[0] & 0x7FFFFFFF == number:
                raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, f"stream {number} depends on itself")
            begin += 5
        return payload[begin:end]

    def _take_continuation(self, payload: bytes, flags: int, number: int, now: float) -> None:
        block = self._block
        if block is None or number != self._block_stream:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "a continuation of nothing")
        block += payload
        self._continuations += 1
        if self._continuations > self._limits.continuations_max or len(block) > self._limits.header_block_max:
            raise ConnectionFailure(ErrorCode.ENHANCE_YOUR_CALM, "the header block does not end")
        if flags & END_HEADERS:
            self._block = None
            self._take_block(bytes(block), self._block_flags, number, now)

    def _take_block(self, block: bytes, flags: int, number: int, now: float) -> None:
        try:
            headers = self._decoder.decode(block)
        except HeaderError as error:
            raise ConnectionFailure(ErrorCode.COMPRESSION_ERROR, str(error)) from None
        if number <= self.last_stream:
            self._take_trailers(headers, flags, number, now)
            return
        self.last_stream = number
        if len(self.streams) >= self._limits.streams_max:
            self._refuse(number, ErrorCode.REFUSED_STREAM, now)
            return
        if not headers.is_complete and not headers.is_too_large:
            self._refuse(number, ErrorCode.PROTOCOL_ERROR, now)
            return
        stream = Stream(number, self.sender.initial_window, self._limits.stream_window)
        self.streams[number] = stream
        if flags & END_STREAM:
            stream.remote_closed = True
            self._listener.begin(stream, headers)
        else:
            stream.headers = headers
            self._unbegun.append(stream)

    def _begin(self, stream: Stream) -> bool:
        """Tell the listener of a call; False if that was its end."""
        headers, stream.headers = stream.headers, None
        if headers is not None:
            self._listener.begin(stream, headers)
        return self.streams.get(stream.id) is stream

    def _begin_rest(self) -> None:
        """The calls of a read that have not come whole with it."""
        unbegun, self._unbegun = self._unbegun, []
        for stream in unbegun:
            if stream.headers is not None and stream.id in self.streams:
                self._begin(stream)

    def _answer(self, stream: Stream, headers: RequestHeaders, data: bytes) -> bool:
        """Answer a call that came whole, if the answer is at hand: then nobody hears of a stream."""
        reply = self._listener.answer(headers, data)
        if reply is None:
            return False
        stream.headers = None
        stream.remote_closed = True
        self.credit(len(data))
        head, body, trailers = reply
        self.sender.reply(stream, head, body, trailers)
        self.finish(stream)
        return True

    def _take_trailers(self, headers: RequestHeaders, flags: int, number: int, now: float) -> None:
        stream = self.streams.get(number)
        if stream is None:
            by_us = self._closed.get(number)
            if by_us is None:
                raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, f"stream {number} after stream {self.last_stream}")
            if not by_us:
                raise ConnectionFailure(ErrorCode.STREAM_CLOSED, f"stream {number} is closed")
            return
        if stream.remote_closed:
            self.reset(stream, ErrorCode.STREAM_CLOSED, now)
        elif not flags & END_STREAM or headers.pseudo or headers.is_malformed:
            self.reset(stream, ErrorCode.PROTOCOL_ERROR, now)
        elif self._begin(stream):
            stream.remote_closed = True
            self._listener.receive(stream, b"")
            self.release(stream)

    def _take_data(self, payload: bytes, flags: int, number: int, now: float) -> None:
        size = len(payload)
        self._window -= size
        if self._window < 0:
            raise ConnectionFailure(ErrorCode.FLOW_CONTROL_ERROR, "more data than the connection has room for")
        stream = self.streams.get(number)
        if stream is None or stream.remote_closed:
            self.credit(size)
            self._take_stray_data(stream, number, now)
            return
        stream.receive_window -= size
        if stream.receive_window < 0:
            self.credit(size)
            self.reset(stream, ErrorCode.FLOW_CONTROL_ERROR, now)
            return
        if flags & PADDED:
            whole = size
            payload = self._strip(payload, PADDED, number, now)
            size = len(payload)
            self.credit(whole - size)  # the listener gives back what it sees
            if not flags & END_STREAM:
                self.widen(stream, whole - size)
        if stream.headers is not None:
            if flags & END_STREAM and self._answer(stream, stream.headers, payload):
                return
            if not self._begin(stream):
                self.credit(size)
                return
        if flags & END_STREAM:
            stream.remote_closed = True
        elif not size and self._control_pace.is_exceeded(now):
            raise ConnectionFailure(ErrorCode.ENHANCE_YOUR_CALM, "too many empty frames")
        self._listener.receive(stream, payload)
        if stream.remote_closed and stream.local_closed:
            self.release(stream)

    def _take_stray_data(self, stream: Stream | None, number: int, now: float) -> None:
        if stream is not None:
            self.reset(stream, ErrorCode.STREAM_CLOSED, now)
        elif number == 0 or number > self.last_stream:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, f"data for stream {number}, which was not opened")
        elif not self._closed.get(number):
            self._refuse(number, ErrorCode.STREAM_CLOSED, now)

    def release(self, stream: Stream) -> None:
        """Forget a stream if both ends are done with it."""
        if stream.remote_closed and stream.local_closed and self.streams.pop(stream.id, None) is not None:
            self._remember(stream.id, False)

    def finish(self, stream: Stream) -> None:
        """We have sent all, and want nothing more of a peer that goes on sending."""
        if stream.local_closed:
            if not stream.remote_closed and stream.id in self.streams:
                self.sender.write(frames.reset(stream.id, ErrorCode.NO_ERROR))
                del self.streams[stream.id]
                self._remember(stream.id, True)
            else:
                self.release(stream)

    def cancel(self, stream: Stream, code: ErrorCode) -> None:
        """End a stream without an answer."""
        if self.streams.pop(stream.id, None) is not None:
            self.sender.forget(stream)
            self.sender.write(frames.reset(stream.id, code))
            self._remember(stream.id, True)

    def reset(self, stream: Stream, code: ErrorCode, now: float) -> None:
        """The peer broke a rule of the stream. It must not do so often: each time a call was begun for nothing."""
        if stream.id in self.streams:
            self.cancel(stream, code)
            self._listener.reset(stream)
            self._count_reset(now)

    def _refuse(self, number: int, code: ErrorCode, now: float) -> None:
        self.sender.write(frames.reset(number, code))
        self._remember(number, True)
        self._count_reset(now)

    def _count_reset(self, now: float) -> None:
        if self._reset_pace.is_exceeded(now):
            raise ConnectionFailure(ErrorCode.ENHANCE_YOUR_CALM, "too many streams were opened for nothing")

    def _remember(self, number: int, by_us: bool) -> None:
        closed = self._closed
        closed[number] = by_us
        if len(closed) > _REMEMBERED_MAX:
            del closed[next(iter(closed))]

    # Windows

    def credit(self, size: int) -> None:
        """Bytes of the peer have been dealt with: it may send as many again."""
        self._owed += size
        if self._owed * 2 >= self._limits.connection_window and not self.holds_back:
            self._give_back()

    def hold_back(self, holds: bool) -> None:
        """Give no new room, or give what is owed."""
        self.holds_back = holds
        if not holds and self._owed * 2 >= self._limits.connection_window:
            self._give_back()

    def _give_back(self) -> None:
        if self._owed > 0:
            self.sender.write(frames.window_update(0, self._owed))
            self._window += self._owed
            self._owed = 0

    def widen(self, stream: Stream, size: int) -> None:
        """A stream has a large message under way: let so much of it come."""
        if size > 0:
            stream.receive_window += size
            self.sender.write(frames.window_update(stream.id, size))

    def _take_window_update(self, payload: bytes, number: int, now: float) -> None:
        if len(payload) != 4:
            raise ConnectionFailure(ErrorCode.FRAME_SIZE_ERROR, "a window update that is not four bytes")
        size = WORD.unpack(payload)[0] & 0x7FFFFFFF
        sender = self.sender
        if number:
            stream = self.streams.get(number)
            if stream is None:
                if number > self.last_stream:
                    raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, f"a window of stream {number}, not opened yet")
                return
            if not size:
                self.reset(stream, ErrorCode.PROTOCOL_ERROR, now)
            elif not sender.opened(stream, size):
                self.reset(stream, ErrorCode.FLOW_CONTROL_ERROR, now)
            elif stream.pending is not None:
                self._pump(stream)
            elif self._control_pace.is_exceeded(now):
                raise ConnectionFailure(ErrorCode.ENHANCE_YOUR_CALM, "too many window updates")
            return
        if not size:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "a window update of nothing")
        if not sender.opened(None, size):
            raise ConnectionFailure(ErrorCode.FLOW_CONTROL_ERROR, "a window that is too large")
        pending = sender.pending_bytes
        self._pump_all()
        if pending == sender.pending_bytes and self._control_pace.is_exceeded(now):
            raise ConnectionFailure(ErrorCode.ENHANCE_YOUR_CALM, "too many window updates")

    def _pump_all(self) -> None:
        for stream in self.sender.blocked():
            if self.sender.window <= 0:
                break
            if not self._pump(stream):
                self.sender.move_back(stream)

    def _pump(self, stream: Stream) -> bool:
        if not self.sender.pump(stream):
            return False
        self._listener.writable(stream)
        if stream.local_closed:
            self.finish(stream)
        return True

    # The connection itself

    def _take_other(self, kind: int, payload: bytes, flags: int, number: int, now: float) -> None:
        if kind == CONTINUATION:
            self._take_continuation(payload, flags, number, now)
        elif kind == RST_STREAM:
            self._take_reset(payload, number, now)
        elif kind == SETTINGS:
            self._take_settings(payload, flags, number, now)
        elif kind == PING:
            if number or len(payload) != 8:
                code = ErrorCode.PROTOCOL_ERROR if number else ErrorCode.FRAME_SIZE_ERROR
                raise ConnectionFailure(code, "a ping that is none")
            if not flags & ACK:
                self.sender.write(frames.PING_ACK_HEAD + payload)
        elif kind == GOAWAY:
            if number:
                raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "a farewell on a stream")
        elif kind == PRIORITY:
            self._take_priority(payload, number, now)
        elif kind == PUSH_PROMISE:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "clients do not push")
        if kind != CONTINUATION and self._control_pace.is_exceeded(now):
            raise ConnectionFailure(ErrorCode.ENHANCE_YOUR_CALM, "too many frames that bring nothing")

    def _take_reset(self, payload: bytes, number: int, now: float) -> None:
        if len(payload) != 4:
            raise ConnectionFailure(ErrorCode.FRAME_SIZE_ERROR, "a reset that is not four bytes")
        if number == 0 or number > self.last_stream:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, f"a reset of stream {number}, which was not opened")
        stream = self.streams.pop(number, None)
        if stream is None:
            return
        self._remember(number, False)
        self.sender.forget(stream)
        self._listener.reset(stream)
        self._count_reset(now)

    def _take_settings(self, payload: bytes, flags: int, number: int, now: float) -> None:
        if number:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "settings of a stream")
        if len(payload) % SETTING.size or (flags & ACK and payload):
            raise ConnectionFailure(ErrorCode.FRAME_SIZE_ERROR, "settings of a wrong size")
        if flags & ACK:
            return
        if self._settings_pace.is_exceeded(now) or len(payload) > 64 * SETTING.size:
            raise ConnectionFailure(ErrorCode.ENHANCE_YOUR_CALM, "too many settings")
        for key, value in SETTING.iter_unpack(payload):
            self._take_setting(key, value)
        self.sender.write(frames.SETTINGS_ACK)
        self._pump_all()

    def _take_setting(self, key: int, value: int) -> None:
        sender = self.sender
        if key == Setting.INITIAL_WINDOW_SIZE:
            if value > WINDOW_MAX:
                raise ConnectionFailure(ErrorCode.FLOW_CONTROL_ERROR, "a window that is too large")
            difference = value - sender.initial_window
            sender.initial_window = value
            for stream in self.streams.values():
                if not sender.opened(stream, difference):
                    raise ConnectionFailure(ErrorCode.FLOW_CONTROL_ERROR, "a window that is too large")
        elif key == Setting.MAX_FRAME_SIZE:
            if not frames.FRAME_SIZE_MIN <= value < 1 << 24:
                raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, f"no frame may have {value} bytes")
            sender.frame_max = min(value, 1 << 20)
        elif key == Setting.HEADER_TABLE_SIZE:
            sender.table_size_changed(value)
        elif key == Setting.ENABLE_PUSH and value > 1:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "push can be on or off")

    def _take_priority(self, payload: bytes, number: int, now: float) -> None:
        if not number:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "a priority of no stream")
        stream = self.streams.get(number)
        is_wrong = len(payload) != 5
        if not is_wrong and WORD.unpack_from(payload)[0] & 0x7FFFFFFF != number:
            return
        code = ErrorCode.FRAME_SIZE_ERROR if is_wrong else ErrorCode.PROTOCOL_ERROR
        if stream is not None:
            self.reset(stream, code, now)
        else:
            self._refuse(number, code, now)

    def go_away(self, *, final: bool) -> None:
        """Take no new calls: first a warning that lets those on their way in, then the last one we take."""
        self.sender.write(frames.go_away(self.last_stream if final else WINDOW_MAX, ErrorCode.NO_ERROR, "closing"))

    def ping(self) -> None:
        """Is anybody there? Whatever comes is an answer."""
        self.sender.write(frames.head(8, PING, 0, 0) + bytes(8))

    def lost(self) -> None:
        """The peer is gone, and its calls with it."""
        self.is_over = True
        streams, self.streams = self.streams, {}
        for stream in streams.values():
            self.sender.forget(stream)
            self._listener.reset(stream)
