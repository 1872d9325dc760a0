"""Whatever a client sends, in whatever order: the server keeps its books, and sends no more than there is room for."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from flaremq.grpc.http2 import frames
from flaremq.grpc.http2.stream import Stream
from tests.grpc.http2_lab import HEAD, OK, REQUEST, Peer, frame, met

numbers = st.sampled_from([1, 3, 5, 7, 9, 11])
steps = st.one_of(
    st.tuples(st.just("open"), numbers, st.booleans()),
    st.tuples(st.just("data"), numbers, st.integers(0, 30_000), st.booleans(), st.integers(0, 9)),
    st.tuples(st.just("whole"), numbers, st.integers(0, 30_000), st.one_of(st.none(), st.integers(0, 90_000))),
    st.tuples(st.just("trailers"), numbers),
    st.tuples(st.just("reset"), numbers),
    st.tuples(st.just("window"), st.one_of(st.just(0), numbers), st.integers(1, 100_000)),
    st.tuples(st.just("initial"), st.integers(0, 100_000)),
    st.tuples(st.just("frame size"), st.integers(16_384, 70_000)),
    st.tuples(st.just("table size"), st.integers(0, 8192)),
    st.tuples(st.just("ping")),
    st.tuples(st.just("reply"), numbers, st.integers(0, 90_000)),
    st.tuples(st.just("send"), numbers, st.integers(0, 90_000)),
    st.tuples(st.just("end"), numbers),
    st.tuples(st.just("cancel"), numbers),
)


class Conversation:
    """Both ends, and the client's own books of what it was sent."""

    def __init__(self) -> None:
        self.peer = met(stream_window=60_000, connection_window=200_000, streams_max=4)
        self.room = frames.WINDOW_DEFAULT
        self.initial = frames.WINDOW_DEFAULT
        self.rooms: dict[int, int] = {}
        self.frame_max = 16_384
        self.expected: dict[int, bytes] = {}
        self.got: dict[int, bytes] = {}
        self.finished: set[int] = set()

    def stream(self, number: int) -> Stream | None:
        return self.peer.server.streams.get(number)

    def step(self, what: str, *values: int | None) -> None:
        getattr(self, f"do_{what.replace(' ', '_')}")(*values)
        self.look()

    def do_open(self, number: int, end: int) -> None:
        if number > self.peer.server.last_stream:
            self.rooms[number] = self.initial
            block = self.peer.encoder.encode(REQUEST)
            self.peer.feed(frame(frames.HEADERS, frames.END_HEADERS | bool(end), number, block))

    def do_data(self, number: int, size: int, end: int, padding: int) -> None:
        payload = bytes((padding,)) + bytes(size) + bytes(padding)
        self.peer.feed(frame(frames.DATA, frames.PADDED | bool(end), number, payload))

    def do_whole(self, number: int, size: int, answer: int | None) -> None:
        peer, is_new = self.peer, number > self.peer.server.last_stream
        if is_new:
            self.rooms[number] = self.initial
        peer.at_hand = None if answer is None else random.Random(answer).randbytes(answer)
        heard = len(peer.whole)
        block = peer.encoder.encode(REQUEST)
        peer.feed(
            frame(frames.HEADERS, frames.END_HEADERS, number, block),
            frame(frames.DATA, frames.END_STREAM, number, bytes(size)),
        )
        if len(peer.whole) > heard and peer.at_hand is not None:
            self.expected[number] = peer.at_hand
        peer.at_hand = None

    def do_trailers(self, number: int) -> None:
        block = self.peer.encoder.encode([("x-end", "1")])
        self.peer.feed(frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, number, block))

    def do_reset(self, number: int) -> None:
        self.peer.feed(frame(frames.RST_STREAM, 0, number, bytes(4)))

    def do_window(self, number: int, size: int) -> None:
        if number:
            self.rooms[number] = self.rooms.get(number, 0) + size
        else:
            self.room += size
        self.peer.update(number, size)

    def do_initial(self, size: int) -> None:
        for number in self.rooms:
            self.rooms[number] += size - self.initial
        self.initial = size
        self.peer.settings(INITIAL_WINDOW_SIZE=size)

    def do_frame_size(self, size: int) -> None:
        self.frame_max = size
        self.peer.settings(MAX_FRAME_SIZE=size)

    def do_table_size(self, size: int) -> None:
        self.peer.decoder.max_allowed_table_size = 8192
        self.peer.settings(HEADER_TABLE_SIZE=size)

    def do_ping(self) -> None:
        self.peer.feed(frame(frames.PING, 0, 0, bytes(8)))

    def do_reply(self, number: int, size: int) -> None:
        stream = self.stream(number)
        if stream is not None and not stream.head_sent:
            data = random.Random(size).randbytes(size)
            self.expected[number] = data
            self.peer.server.sender.reply(stream, HEAD, data, OK)
            self.peer.server.finish(stream)

    def do_send(self, number: int, size: int) -> None:
        stream = self.stream(number)
        if stream is not None and stream.trailers is None and not stream.local_closed:
            data = random.Random(size).randbytes(size)
            self.expected[number] = self.expected.get(number, b"") + data
            if not stream.head_sent:
                self.peer.server.sender.headers(stream, HEAD)
            self.peer.server.sender.data(stream, data)

    def do_end(self, number: int) -> None:
        stream = self.stream(number)
        if stream is not None and stream.head_sent and stream.trailers is None and not stream.local_closed:
            self.peer.server.sender.end(stream, OK)
            self.peer.server.finish(stream)

    def do_cancel(self, number: int) -> None:
        stream = self.stream(number)
        if stream is not None:
            self.peer.server.cancel(stream, frames.ErrorCode.CANCEL)

    def look(self) -> None:
        server = self.peer.server
        for each in self.peer.take():
            if each.kind == frames.DATA:
                size = len(each.payload)
                assert size <= self.frame_max
                self.room -= size
                self.rooms[each.stream] -= size
                if size:
                    assert self.room >= 0
                    assert self.rooms[each.stream] >= 0
                assert each.stream not in self.finished
                self.got[each.stream] = self.got.get(each.stream, b"") + each.payload
                assert self.expected[each.stream].startswith(self.got[each.stream])
            elif each.kind == frames.HEADERS:
                assert each.stream not in self.finished
                if each.flags & frames.END_STREAM:
                    self.finished.add(each.stream)
                    assert self.got.get(each.stream, b"") == self.expected.get(each.stream, b"")
        waiting = {stream.id: stream.pending_bytes for stream in server.streams.values() if stream.pending is not None}
        assert server.sender.pending_bytes == sum(waiting.values())
        assert {stream.id for stream in server.sender.blocked()} == set(waiting)
        assert len(server.streams) <= self.peer.limits.streams_max
        if not server.is_over:
            for number in waiting:
                assert self.room <= 0 or self.rooms[number] <= 0, "it waits, and there is room"

    def end(self) -> None:
        self.peer.server.lost()
        assert self.peer.server.sender.pending_bytes == 0
        assert self.peer.server.streams == {}
        assert len(set(self.peer.resets)) == len(self.peer.resets)  # each call ends once


@given(st.lists(steps, max_size=60))
def test_any_order_of_frames_keeps_the_books_right(conversation: list[tuple[str, int]]) -> None:
    talk = Conversation()
    for what, *values in conversation:
        talk.step(what, *values)
        if talk.peer.server.is_over:
            break
    talk.end()


def _recorded() -> bytes:
    peer = Peer()
    parts = [frames.PREFACE, frame(frames.SETTINGS, 0, 0, b"\0\4\0\0\x40\0")]
    for number in range(1, 20, 2):
        block = peer.encoder.encode([*REQUEST, ("x-number", str(number))])
        parts.append(frame(frames.HEADERS, frames.END_HEADERS, number, block))
        parts.append(frame(frames.DATA, frames.END_STREAM * (number % 3 > 0), number, bytes(number * 7)))
        parts.append(frame(frames.WINDOW_UPDATE, 0, number, b"\0\0\1\0"))
    parts.append(frame(frames.RST_STREAM, 0, 3, bytes(4)))
    parts.append(frame(frames.PING, 0, 0, bytes(8)))
    return b"".join(parts)


RECORDED = _recorded()


@given(st.integers(0, 2**32))
def test_a_conversation_with_wrong_bytes_in_it_is_never_an_exception(seed: int) -> None:
    dice = random.Random(seed)
    data = bytearray(RECORDED)
    for _ in range(dice.randint(1, 8)):
        at = dice.randrange(len(frames.PREFACE), len(data))
        how = dice.randrange(4)
        if how == 0:
            data[at] = dice.randrange(256)
        elif how == 1:
            del data[at : at + dice.randint(1, 20)]
        elif how == 2:
            data[at:at] = dice.randbytes(dice.randint(1, 20))
        else:
            data[at] ^= 1 << dice.randrange(8)
    peer = Peer()
    at = 0
    while at < len(data):
        size = dice.randint(1, 400)
        peer.feed(bytes(data[at : at + size]))
        at += size
        for stream in list(peer.server.streams.values()):
            if dice.random() < 0.3 and not stream.head_sent:
                peer.server.sender.reply(stream, HEAD, b"reply", OK)
                peer.server.finish(stream)
    peer.take()
    peer.server.lost()
    assert peer.server.sender.pending_bytes == 0
