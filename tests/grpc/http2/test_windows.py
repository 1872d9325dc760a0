"""Flow control in both directions: nothing is sent that the client has no room for, and nothing more is taken."""

from __future__ import annotations

import pytest

from flaremq.grpc.http2 import frames
from flaremq.grpc.http2.frames import ErrorCode
from tests.grpc.http2_lab import HEAD, OK, Frame, Peer, frame, met

DATA, HEADERS, END_STREAM = frames.DATA, frames.HEADERS, frames.END_STREAM


def bodies(found: list[Frame], number: int = 1) -> bytes:
    return b"".join(each.payload for each in found if each.kind == DATA and each.stream == number)


def answer(peer: Peer, number: int, data: bytes) -> None:
    peer.server.sender.reply(peer.calls[number][0], HEAD, data, OK)
    peer.server.finish(peer.calls[number][0])


def test_an_answer_that_fits_goes_at_once() -> None:
    peer = met()
    peer.open(1, end=True)
    answer(peer, 1, b"reply")
    found = peer.take()
    assert [(each.kind, each.flags & END_STREAM) for each in found] == [(HEADERS, 0), (DATA, 0), (HEADERS, END_STREAM)]
    assert dict(peer.decoder.decode(found[0].payload)) == {":status": "200", "content-type": "application/grpc"}
    assert dict(peer.decoder.decode(found[2].payload)) == {"grpc-status": "0"}
    assert peer.server.streams == {}


def test_an_answer_waits_for_the_stream_s_window_and_its_trailers_for_the_answer() -> None:
    peer = met()
    peer.settings(INITIAL_WINDOW_SIZE=10)
    peer.open(1, end=True)
    peer.take()
    answer(peer, 1, bytes(range(100)))
    assert bodies(peer.take()) == bytes(range(10))
    peer.update(1, 50)
    assert bodies(peer.take()) == bytes(range(10, 60))
    assert peer.written == []
    peer.update(1, 1000)
    found = peer.take()
    assert bodies(found) == bytes(range(60, 100))
    assert found[-1].flags & END_STREAM
    assert peer.written == [1]
    assert peer.server.sender.pending_bytes == 0
    assert peer.server.streams == {}


def test_a_changed_initial_window_opens_and_closes_those_of_open_streams() -> None:
    peer = met()
    peer.settings(INITIAL_WINDOW_SIZE=0)
    stream = peer.open(1, end=True)
    peer.take()
    answer(peer, 1, bytes(100))
    assert bodies(peer.take()) == b""
    peer.settings(INITIAL_WINDOW_SIZE=30)
    assert len(bodies(peer.take())) == 30
    peer.settings(INITIAL_WINDOW_SIZE=5)
    assert stream.send_window == -25  # a window may be less than nothing
    peer.update(1, 25)
    assert bodies(peer.take()) == b""
    peer.update(1, 70)
    assert len(bodies(peer.take())) == 70


def test_the_connection_s_window_is_shared_by_turns() -> None:
    peer = met()
    peer.settings(INITIAL_WINDOW_SIZE=200_000)
    peer.take()
    for number in (1, 3):
        peer.open(number, end=True)
        answer(peer, number, bytes(60_000))
    first = peer.take()
    assert len(bodies(first, 1)) == 60_000
    assert len(bodies(first, 3)) == 5_535
    for _ in range(10):
        peer.update(0, 10_000)
    assert len(bodies(peer.take(), 3)) == 60_000 - 5_535
    assert peer.server.streams == {}


def test_frames_are_no_longer_than_the_client_takes() -> None:
    peer = met()
    peer.settings(INITIAL_WINDOW_SIZE=1_000_000)
    peer.update(0, 1_000_000)
    peer.open(1, end=True)
    answer(peer, 1, bytes(100_000))
    sizes = [len(each.payload) for each in peer.take() if each.kind == DATA]
    assert max(sizes) == 16_384
    assert sum(sizes) == 100_000
    peer.settings(MAX_FRAME_SIZE=50_000)
    peer.open(3, end=True)
    answer(peer, 3, bytes(100_000))
    assert [len(each.payload) for each in peer.take() if each.kind == DATA] == [50_000, 50_000]


def test_a_smaller_header_table_is_confirmed_in_the_next_block() -> None:
    peer = met()
    peer.settings(HEADER_TABLE_SIZE=0)
    peer.open(1, end=True)
    peer.take()
    answer(peer, 1, b"x")
    found = peer.take()
    assert found[0].payload[:1] == b"\x20"
    assert found[2].payload == OK


def test_what_waited_for_a_cancelled_call_is_forgotten() -> None:
    peer = met()
    peer.settings(INITIAL_WINDOW_SIZE=0)
    peer.open(1, end=True)
    answer(peer, 1, bytes(1000))
    assert peer.server.sender.pending_bytes == 1000
    peer.feed(frame(frames.RST_STREAM, 0, 1, bytes(4)))
    assert peer.server.sender.pending_bytes == 0
    peer.take()
    peer.update(0, 1000)
    peer.update(1, 1000)
    assert peer.take() == []


def test_an_answer_before_the_request_has_ended_tells_the_client_to_send_no_more() -> None:
    peer = met()
    peer.open(1)
    answer(peer, 1, b"enough")
    last = peer.take()[-1]
    assert (last.kind, last.number) == (frames.RST_STREAM, ErrorCode.NO_ERROR)
    peer.feed(frame(DATA, END_STREAM, 1, b"on its way"))
    assert not peer.server.is_over


def test_a_stream_may_not_send_more_than_it_was_given_room_for() -> None:
    peer = met(stream_window=1000)
    peer.open(1)
    peer.feed(frame(DATA, 0, 1, bytes(1000)))
    peer.feed(frame(DATA, 0, 1, b"x"))
    assert peer.is_reset(1) is ErrorCode.FLOW_CONTROL_ERROR
    peer.open(3)


def test_a_stream_gets_room_when_its_listener_says_so() -> None:
    peer = met(stream_window=1000)
    stream = peer.open(1)
    peer.feed(frame(DATA, 0, 1, bytes(1000)))
    peer.server.widen(stream, 500)
    assert [(each.stream, each.number) for each in peer.take()] == [(1, 500)]
    peer.feed(frame(DATA, 0, 1, bytes(500)))
    assert len(peer.data[1]) == 1500


def test_a_connection_may_not_send_more_than_it_was_given_room_for() -> None:
    peer = met(stream_window=200_000, connection_window=100_000)
    peer.server.hold_back(True)
    peer.open(1)
    for _ in range(10):
        peer.feed(frame(DATA, 0, 1, bytes(10_000)))
    assert not peer.server.is_over
    peer.feed(frame(DATA, 0, 1, b"x"))
    assert peer.fails() is ErrorCode.FLOW_CONTROL_ERROR


def test_a_connection_that_is_held_back_gets_its_room_later() -> None:
    peer = met(stream_window=200_000, connection_window=100_000)
    peer.open(1)
    peer.server.hold_back(True)
    for _ in range(8):
        peer.feed(frame(DATA, 0, 1, bytes(10_000)))
    assert peer.take() == []
    peer.server.hold_back(False)
    assert [(each.stream, each.number) for each in peer.take()] == [(0, 80_000)]


@pytest.mark.parametrize("number", [5, 7, 9])
def test_data_for_streams_that_are_gone_gives_the_connection_its_room_back(number: int) -> None:
    peer = met(connection_window=100_000, streams_max=2)
    for each in (1, 3):
        peer.open(each)
    for refused in (5, 7, 9):
        peer.feed(frame(HEADERS, frames.END_HEADERS, refused, peer.encoder.encode([(":method", "POST")])))
    for _ in range(30):
        peer.feed(frame(DATA, 0, number, bytes(10_000)))
    assert not peer.server.is_over
    assert sum(each.number for each in peer.take() if each.kind == frames.WINDOW_UPDATE) >= 200_000
