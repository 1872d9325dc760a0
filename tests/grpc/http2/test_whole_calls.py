"""Calls that come whole are answered in the same read if the answer is at hand, and begin like others if it is not."""

from __future__ import annotations

from flaremq.grpc.http2 import frames
from flaremq.grpc.http2.frames import ErrorCode
from tests.grpc.http2_lab import REQUEST, Peer, frame, met

END_STREAM, END_HEADERS = frames.END_STREAM, frames.END_HEADERS


def head(peer: Peer, number: int) -> bytes:
    return frame(frames.HEADERS, END_HEADERS, number, peer.encoder.encode(REQUEST))


def data(number: int, payload: bytes, flags: int = END_STREAM) -> bytes:
    return frame(frames.DATA, flags, number, payload)


def answering(reply: bytes | None = b"reply") -> Peer:
    peer = met()
    peer.at_hand = reply
    return peer


def test_an_answer_at_hand_is_all_that_a_call_leaves() -> None:
    peer = answering()
    peer.feed(head(peer, 1), data(1, b"one"))
    found = peer.take()
    assert [(each.kind, each.stream) for each in found] == [(frames.HEADERS, 1), (frames.DATA, 1), (frames.HEADERS, 1)]
    assert found[1].payload == b"reply"
    assert found[2].flags & END_STREAM
    assert (peer.whole, peer.calls, peer.server.streams) == ([b"one"], {}, {})


def test_frames_of_several_calls_may_be_mixed() -> None:
    peer = answering()
    peer.feed(head(peer, 1), head(peer, 3), data(3, b"three"), head(peer, 5), data(1, b"one"), data(5, b"five"))
    assert [each.stream for each in peer.take() if each.kind == frames.DATA] == [3, 1, 5]
    assert peer.whole == [b"three", b"one", b"five"]
    assert peer.server.streams == {}


def test_a_call_without_an_answer_at_hand_begins_as_others_do() -> None:
    peer = answering(None)
    peer.feed(head(peer, 1), data(1, b"one"))
    assert (peer.data, peer.ended) == ({1: b"one"}, [1])


def test_a_call_that_has_not_come_whole_begins_with_the_read() -> None:
    peer = answering()
    peer.feed(head(peer, 1))
    assert (list(peer.calls), peer.ended) == ([1], [])
    peer.feed(data(1, b"one"))
    assert (peer.whole, peer.data, peer.ended) == ([], {1: b"one"}, [1])


def test_data_in_two_frames_are_for_who_takes_calls_bit_by_bit() -> None:
    peer = answering()
    peer.feed(head(peer, 1), data(1, b"on", 0), data(1, b"e"))
    assert (peer.whole, peer.data, peer.ended) == ([], {1: b"one"}, [1])


def test_trailers_end_a_call_that_has_not_begun() -> None:
    peer = answering()
    trailers = frame(frames.HEADERS, END_HEADERS | END_STREAM, 1, peer.encoder.encode([("x-end", "1")]))
    peer.feed(head(peer, 1), trailers)
    assert (peer.data, peer.ended) == ({1: b""}, [1])


def test_a_reset_before_the_data_is_heard_of_once() -> None:
    peer = answering()
    peer.feed(head(peer, 1), frame(frames.RST_STREAM, 0, 1, bytes(4)), head(peer, 3))
    assert (peer.resets, list(peer.calls)) == ([1], [3])
    peer.feed(data(1, b"late"))
    assert peer.whole == []


def test_an_answer_larger_than_the_window_waits_for_it() -> None:
    peer = answering(bytes(range(100)))
    peer.settings(INITIAL_WINDOW_SIZE=10)
    peer.feed(head(peer, 1), data(1, b"one"))
    assert b"".join(each.payload for each in peer.take() if each.kind == frames.DATA) == bytes(range(10))
    peer.update(1, 1000)
    found = peer.take()
    assert (found[0].payload, found[-1].flags & END_STREAM) == (bytes(range(10, 100)), END_STREAM)
    assert peer.server.streams == {}


def test_padding_is_no_part_of_the_request_and_is_given_back() -> None:
    peer = met(connection_window=70_000)
    peer.at_hand = b"reply"
    for number in range(1, 2000, 2):
        payload = b"\x64" + bytes(300) + bytes(100)
        peer.feed(head(peer, number), data(number, payload, END_STREAM | frames.PADDED))
    assert peer.whole == [bytes(300)] * 1000
    assert not peer.server.is_over


def test_a_second_end_of_a_call_that_was_answered_breaks_the_rules() -> None:
    peer = answering()
    peer.feed(head(peer, 1), data(1, b"one"))
    peer.take()
    peer.feed(data(1, b"again"))
    assert peer.is_reset(1) is ErrorCode.STREAM_CLOSED


def test_too_many_at_a_time_are_refused_as_long_as_they_are_open() -> None:
    peer = met(streams_max=1)
    peer.at_hand = b"reply"
    peer.feed(head(peer, 1), head(peer, 3), data(1, b"one"))
    first = peer.take()[0]
    assert (first.kind, first.stream) == (frames.RST_STREAM, 3)
    assert peer.whole == [b"one"]
