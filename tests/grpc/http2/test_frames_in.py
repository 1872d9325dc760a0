"""What a client sends: taken however it is cut into pieces, and refused as the standard says where it breaks a rule."""

from __future__ import annotations

import pytest

from flaremq.grpc.http2 import frames
from flaremq.grpc.http2.frames import ErrorCode
from tests.grpc.http2_lab import REQUEST, Peer, frame, met

HEADERS, DATA, CONTINUATION = frames.HEADERS, frames.DATA, frames.CONTINUATION
END_HEADERS, END_STREAM, PADDED, PRIORITY = frames.END_HEADERS, frames.END_STREAM, frames.PADDED, frames.WITH_PRIORITY
WORD = (0).to_bytes(4, "big")


def test_the_server_tells_its_limits_before_it_is_asked() -> None:
    peer = Peer(streams_max=7)
    kinds = [each.kind for each in peer.greeting]
    assert kinds == [frames.SETTINGS, frames.WINDOW_UPDATE]
    told = dict(frames.SETTING.iter_unpack(peer.greeting[0].payload))
    assert told[frames.Setting.MAX_CONCURRENT_STREAMS] == 7
    assert told[frames.Setting.MAX_HEADER_LIST_SIZE] == 16_384
    assert 65_535 + peer.greeting[1].number == peer.limits.connection_window


def test_a_call_is_the_same_in_one_piece_and_byte_by_byte() -> None:
    whole, slow = Peer(), Peer()
    data = b"".join(
        (
            frames.PREFACE,
            frame(frames.SETTINGS, 0, 0),
            frame(HEADERS, END_HEADERS, 1, whole.encoder.encode(REQUEST)),
            frame(DATA, 0, 1, b"one"),
            frame(DATA, END_STREAM, 1, b"two"),
        )
    )
    whole.feed(data)
    for at in range(len(data)):
        slow.feed(data[at : at + 1])
    for peer in (whole, slow):
        assert peer.data == {1: b"onetwo"}
        assert peer.ended == [1]
        assert peer.calls[1][1].pseudo[":path"] == "/s/m"
        assert not peer.server.is_in_frame
        assert [each.flags for each in peer.take()] == [frames.ACK]


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nXX", b"\x16\x03\x01", b"\0\0\0\x06"])
def test_another_protocol_is_told_what_is_spoken_here(data: bytes) -> None:
    peer = Peer()
    peer.feed(data)
    assert peer.fails() is ErrorCode.PROTOCOL_ERROR
    assert "gRPC" in peer.server.failure


def test_padding_and_priority_are_no_part_of_a_call() -> None:
    peer = met()
    block = peer.encoder.encode(REQUEST)
    peer.feed(frame(HEADERS, END_HEADERS | PADDED | PRIORITY, 1, b"\x04" + WORD + b"\x10" + block + b"\0" * 4))
    peer.feed(frame(DATA, PADDED, 1, b"\x03body\0\0\0"))
    assert peer.data[1] == b"body"
    assert not peer.server.is_over


def test_padding_uses_up_no_window_for_good() -> None:
    peer = met(stream_window=1000)
    stream = peer.open(1)
    for _ in range(50):
        peer.feed(frame(DATA, PADDED, 1, b"\xc8x" + b"\0" * 200))
        peer.data[1] = b""
    assert stream.receive_window == 950  # the fifty bytes that were no padding
    assert not peer.resets


def test_a_header_block_in_many_frames_is_one() -> None:
    peer = met()
    block = peer.encoder.encode([*REQUEST, ("x-long", "v" * 200)])
    parts = [block[at : at + 40] for at in range(0, len(block), 40)]
    peer.feed(frame(HEADERS, END_STREAM, 1, parts[0]))
    for part in parts[1:-1]:
        peer.feed(frame(CONTINUATION, 0, 1, part))
        assert peer.server.is_in_frame
    peer.feed(frame(CONTINUATION, END_HEADERS, 1, parts[-1]))
    assert peer.calls[1][1].fields["x-long"] == "v" * 200
    assert peer.ended == [1]


def test_a_header_block_that_does_not_end_is_given_up() -> None:
    for size in (0, 4096):
        peer = met()
        peer.feed(frame(HEADERS, 0, 1, b""))
        for _ in range(40):
            if not peer.server.is_over:
                peer.feed(frame(CONTINUATION, 0, 1, b"\x82" * size))
        assert peer.fails() is ErrorCode.ENHANCE_YOUR_CALM


def test_a_long_header_list_is_told_to_the_caller_and_the_connection_goes_on() -> None:
    peer = met()
    peer.open(1, fields=[*REQUEST, ("x-long", "v" * 20_000)])
    assert peer.calls[1][1].is_too_large
    peer.open(3, fields=[*REQUEST, ("x-after", "it")])
    assert peer.calls[3][1].fields["x-after"] == "it"  # the tables of both ends are still the same
    assert not peer.calls[3][1].is_too_large


def test_a_small_block_that_stands_for_a_large_list_is_too_large() -> None:
    peer = met()
    name = ("x-bomb", "v" * 3000)
    peer.open(1, fields=[*REQUEST, name])
    peer.open(3, fields=[*REQUEST, *[name] * 200])
    assert peer.calls[3][1].is_too_large
    assert len(peer.calls[3][1].fields) < 10


MALFORMED = [
    REQUEST[1:],
    [*REQUEST, (":path", "/late")],
    [*REQUEST, (":status", "200")],
    [*REQUEST[:3], (":path", "/twice")],
    [*REQUEST, ("connection", "close")],
    [*REQUEST, ("te", "gzip")],
    [*REQUEST, ("Upper", "case")],
    [*REQUEST, ("x-split", "a\r\nb")],
    [*REQUEST, ("", "nameless")],
    [(":method", "POST"), (":scheme", "http"), (":path", "")],
]


@pytest.mark.parametrize("fields", MALFORMED)
def test_a_malformed_request_loses_its_stream_alone(fields: list[tuple[str, str]]) -> None:
    peer = met()
    peer.feed(frame(HEADERS, END_HEADERS | END_STREAM, 1, peer.encoder.encode(fields)))
    assert peer.is_reset(1) is ErrorCode.PROTOCOL_ERROR
    assert not peer.calls
    peer.open(3)


# What a client has opened before: stream 1, which it may go on sending on, and 3, which is closed at its end.
WRONG = [
    (frame(DATA, 0, 0, b"x"), ErrorCode.PROTOCOL_ERROR),
    (frame(DATA, 0, 9, b"x"), ErrorCode.PROTOCOL_ERROR),
    (frame(DATA, PADDED, 1, b"\x05abc"), ErrorCode.PROTOCOL_ERROR),
    (frame(DATA, PADDED, 1, b""), ErrorCode.PROTOCOL_ERROR),
    (frame(HEADERS, END_HEADERS, 0, b"\x82"), ErrorCode.PROTOCOL_ERROR),
    (frame(HEADERS, END_HEADERS, 8, b"\x82"), ErrorCode.PROTOCOL_ERROR),
    (frame(HEADERS, END_HEADERS, 5, b"\xff\xff\xff\xff\xff\xff"), ErrorCode.COMPRESSION_ERROR),
    (frame(HEADERS, END_HEADERS, 5, b"\x80"), ErrorCode.COMPRESSION_ERROR),
    (frame(HEADERS, END_HEADERS, 5, b"\xc0"), ErrorCode.COMPRESSION_ERROR),
    (frame(HEADERS, END_HEADERS, 5, b"\x3f\xe2\x1f"), ErrorCode.COMPRESSION_ERROR),
    (frame(HEADERS, END_HEADERS, 5, b"\x40\x05ab"), ErrorCode.COMPRESSION_ERROR),
    (frame(HEADERS, END_HEADERS | PADDED, 5, b"\x40a"), ErrorCode.PROTOCOL_ERROR),
    (frame(HEADERS, END_HEADERS | PRIORITY, 5, b"abc"), ErrorCode.FRAME_SIZE_ERROR),
    (frame(HEADERS, END_HEADERS | PRIORITY, 5, b"\0\0\0\x05\0"), ErrorCode.PROTOCOL_ERROR),
    (frame(CONTINUATION, END_HEADERS, 1, b""), ErrorCode.PROTOCOL_ERROR),
    (frame(HEADERS, 0, 5, b"\x82") + frame(DATA, 0, 1, b""), ErrorCode.PROTOCOL_ERROR),
    (frame(HEADERS, 0, 5, b"\x82") + frame(CONTINUATION, 0, 7, b""), ErrorCode.PROTOCOL_ERROR),
    (frame(frames.PING, 0, 1, b"12345678"), ErrorCode.PROTOCOL_ERROR),
    (frame(frames.PING, 0, 0, b"1234567"), ErrorCode.FRAME_SIZE_ERROR),
    (frame(frames.RST_STREAM, 0, 0, WORD), ErrorCode.PROTOCOL_ERROR),
    (frame(frames.RST_STREAM, 0, 99, WORD), ErrorCode.PROTOCOL_ERROR),
    (frame(frames.RST_STREAM, 0, 1, b"abc"), ErrorCode.FRAME_SIZE_ERROR),
    (frame(frames.SETTINGS, 0, 1), ErrorCode.PROTOCOL_ERROR),
    (frame(frames.SETTINGS, 0, 0, b"12345"), ErrorCode.FRAME_SIZE_ERROR),
    (frame(frames.SETTINGS, frames.ACK, 0, b"123456"), ErrorCode.FRAME_SIZE_ERROR),
    (frame(frames.SETTINGS, 0, 0, b"\0\4\x80\0\0\0"), ErrorCode.FLOW_CONTROL_ERROR),
    (frame(frames.SETTINGS, 0, 0, b"\0\5\0\0\0\1"), ErrorCode.PROTOCOL_ERROR),
    (frame(frames.SETTINGS, 0, 0, b"\0\2\0\0\0\2"), ErrorCode.PROTOCOL_ERROR),
    (frame(frames.WINDOW_UPDATE, 0, 0, WORD), ErrorCode.PROTOCOL_ERROR),
    (frame(frames.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"), ErrorCode.FLOW_CONTROL_ERROR),
    (frame(frames.WINDOW_UPDATE, 0, 0, b"\0"), ErrorCode.FRAME_SIZE_ERROR),
    (frame(frames.WINDOW_UPDATE, 0, 99, b"\0\0\0\1"), ErrorCode.PROTOCOL_ERROR),
    (frame(frames.PUSH_PROMISE, 0, 1, WORD), ErrorCode.PROTOCOL_ERROR),
    (frame(frames.GOAWAY, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
    (frame(frames.PRIORITY, 0, 0, bytes(5)), ErrorCode.PROTOCOL_ERROR),
    (frames.head(200_000, DATA, 0, 1), ErrorCode.FRAME_SIZE_ERROR),
]  # fmt: skip


@pytest.mark.parametrize(("data", "code"), WRONG)
def test_a_frame_that_breaks_the_connection_s_rules_ends_it(data: bytes, code: ErrorCode) -> None:
    peer = met()
    peer.open(1)
    peer.open(3, end=True)
    peer.feed(data)
    assert peer.fails() is code
    peer.feed(frame(frames.PING, 0, 0, b"12345678"))
    assert peer.take() == []  # nothing more is heard


def test_a_stream_that_breaks_a_rule_is_the_only_one_to_end() -> None:
    for data, number, code in (
        (frame(DATA, 0, 3, b"late"), 3, ErrorCode.STREAM_CLOSED),
        (frame(HEADERS, END_HEADERS, 3, b"\x82"), 3, ErrorCode.STREAM_CLOSED),
        (frame(HEADERS, END_HEADERS, 1, b"\x40\x01a\x01b"), 1, ErrorCode.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x82"), 1, ErrorCode.PROTOCOL_ERROR),
        (frame(frames.WINDOW_UPDATE, 0, 1, WORD), 1, ErrorCode.PROTOCOL_ERROR),
        (frame(frames.WINDOW_UPDATE, 0, 1, b"\x7f\xff\xff\xff"), 1, ErrorCode.FLOW_CONTROL_ERROR),
        (frame(frames.PRIORITY, 0, 1, b"\0\0\0\1\0"), 1, ErrorCode.PROTOCOL_ERROR),
        (frame(frames.PRIORITY, 0, 1, b"\0"), 1, ErrorCode.FRAME_SIZE_ERROR),
    ):
        peer = met()
        peer.open(1)
        peer.open(3, end=True)
        peer.feed(data)
        assert peer.is_reset(number) is code
        assert peer.resets == [number]
        peer.feed(frame(DATA, 0, number, b"on its way"))  # sent before the client heard of it
        assert not peer.server.is_over


def test_trailers_end_a_call() -> None:
    peer = met()
    peer.open(1)
    peer.feed(frame(HEADERS, END_HEADERS | END_STREAM, 1, peer.encoder.encode([("x-last", "word")])))
    assert peer.ended == [1]


def test_a_call_that_is_cancelled_is_heard_of_once() -> None:
    peer = met()
    peer.open(1)
    for _ in range(3):
        peer.feed(frame(frames.RST_STREAM, 0, 1, (8).to_bytes(4, "big")))
    assert peer.resets == [1]
    peer.feed(frame(HEADERS, END_HEADERS, 1, b"\x82"))
    assert peer.fails() is ErrorCode.STREAM_CLOSED


def test_unknown_frames_and_settings_are_passed_over() -> None:
    peer = met()
    peer.feed(frame(0x77, 0xFF, 0, b"grease"), frame(0x0B, 0, 12345, b""))
    peer.feed(frame(frames.SETTINGS, 0, 0, b"\x77\x77\0\0\0\1"))
    assert [each.kind for each in peer.take()] == [frames.SETTINGS]
    peer.feed(frame(frames.PING, 0, 0, b"12345678"), frame(frames.PING, frames.ACK, 0, b"12345678"))
    assert [(each.flags, each.payload) for each in peer.take()] == [(frames.ACK, b"12345678")]
    peer.open(1)


def test_a_farewell_of_the_client_ends_no_call() -> None:
    peer = met()
    peer.open(1)
    peer.feed(frame(frames.GOAWAY, 0, 0, bytes(8)), frame(DATA, END_STREAM, 1, b"x"))
    assert peer.ended == [1]


def test_more_calls_than_are_allowed_are_refused_so_that_they_may_be_tried_again() -> None:
    peer = met(streams_max=2)
    peer.open(1)
    peer.open(3)
    peer.feed(frame(HEADERS, END_HEADERS, 5, peer.encoder.encode(REQUEST)))
    assert peer.is_reset(5) is ErrorCode.REFUSED_STREAM
    peer.feed(frame(frames.RST_STREAM, 0, 1, WORD))
    peer.open(7)
