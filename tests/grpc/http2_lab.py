"""A client of HTTP/2 made of bytes, before a ServerConnection without a socket; it can break every rule."""

from __future__ import annotations

from typing import NamedTuple

from hpack import Decoder, Encoder

from flaremq.grpc.http2 import frames
from flaremq.grpc.http2.connection import ServerConnection
from flaremq.grpc.http2.header_blocks import RequestHeaders, literal, status
from flaremq.grpc.http2.limits import Limits
from flaremq.grpc.http2.stream import Stream

REQUEST = [(":method", "POST"), (":scheme", "http"), (":path", "/s/m"), ("content-type", "application/grpc")]
HEAD = status(200) + literal("content-type", "application/grpc")
OK = literal("grpc-status", "0")


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def number(self) -> int:
        """A window update's or a reset's."""
        return int.from_bytes(self.payload[:4], "big")


def parse(data: bytes) -> list[Frame]:
    found, at = [], 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 3], "big")
        number = int.from_bytes(data[at + 5 : at + 9], "big")
        found.append(Frame(data[at + 3], data[at + 4], number, data[at + 9 : at + 9 + length]))
        at += 9 + length
    assert at == len(data)
    return found


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return frames.head(len(payload), kind, flags, stream) + payload


class Peer:
    """The client's end; also the listener of the server's end, which keeps what it hears."""

    def __init__(self, **limits: int) -> None:
        self.limits = Limits(**limits)
        self.server = ServerConnection(self, self.limits)
        self.server.start()
        self.encoder, self.decoder = Encoder(), Decoder()
        self.now = 0.0
        self.calls: dict[int, tuple[Stream, RequestHeaders]] = {}
        self.data: dict[int, bytes] = {}
        self.ended: list[int] = []
        self.resets: list[int] = []
        self.written: list[int] = []
        self.whole: list[bytes] = []  # what calls brought that came whole
        self.at_hand: bytes | None = None  # the answer to them
        self.greeting = self.take()

    # The listener

    def begin(self, stream: Stream, headers: RequestHeaders) -> None:
        self.calls[stream.id] = stream, headers
        self.data[stream.id] = b""
        if stream.remote_closed:
            self.ended.append(stream.id)

    def answer(self, headers: RequestHeaders, data: bytes) -> tuple[bytes, bytes, bytes] | None:
        self.whole.append(data)
        return None if self.at_hand is None else (HEAD, self.at_hand, OK)

    def receive(self, stream: Stream, data: bytes) -> None:
        self.server.credit(len(data))
        self.data[stream.id] += data
        if stream.remote_closed:
            self.ended.append(stream.id)

    def reset(self, stream: Stream) -> None:
        self.resets.append(stream.id)

    def writable(self, stream: Stream) -> None:
        self.written.append(stream.id)

    # The client

    def preface(self) -> None:
        self.feed(frames.PREFACE + frame(frames.SETTINGS, 0, 0))
        self.take()

    def feed(self, *parts: bytes) -> None:
        self.server.receive(b"".join(parts), self.now)

    def take(self) -> list[Frame]:
        return parse(b"".join(self.server.sender.take()))

    def open(self, number: int, *, end: bool = False, fields: list[tuple[str, str]] = REQUEST) -> Stream:
        block = self.encoder.encode(fields)
        flags = frames.END_HEADERS | (frames.END_STREAM if end else 0)
        self.feed(frame(frames.HEADERS, flags, number, block))
        return self.calls[number][0]

    def settings(self, **values: int) -> None:
        body = b"".join(frames.SETTING.pack(frames.Setting[name], value) for name, value in values.items())
        self.feed(frame(frames.SETTINGS, 0, 0, body))

    def update(self, number: int, size: int) -> None:
        self.feed(frame(frames.WINDOW_UPDATE, 0, number, size.to_bytes(4, "big")))

    def fails(self) -> frames.ErrorCode:
        """The code with which the server has ended the connection."""
        last = self.take()[-1]
        assert (last.kind, self.server.is_over) == (frames.GOAWAY, True), last
        return frames.ErrorCode(int.from_bytes(last.payload[4:8], "big"))

    def is_reset(self, number: int) -> frames.ErrorCode:
        """The code with which the server has ended a stream."""
        last = self.take()[-1]
        assert (last.kind, last.stream) == (frames.RST_STREAM, number), last
        assert not self.server.is_over
        return frames.ErrorCode(last.number)


def met(**limits: int) -> Peer:
    """A client that has said hello."""
    peer = Peer(**limits)
    peer.preface()
    return peer
