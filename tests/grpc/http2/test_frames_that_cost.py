"""Frames that make a server work and bring nothing: so many, and no more. An honest client sends far fewer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flaremq.grpc.http2 import frames
from flaremq.grpc.http2.frames import ErrorCode
from tests.grpc.http2_lab import HEAD, REQUEST, Peer, frame, met

END_HEADERS, END_STREAM = frames.END_HEADERS, frames.END_STREAM


def flood(peer: Peer, make: Callable[[int], bytes], count: int = 40_000) -> int:
    """How many of these were taken before the connection ended."""
    for number in range(count):
        peer.feed(make(number))
        peer.server.sender.take()
        if peer.server.is_over:
            assert "too many" in peer.server.failure
            return number
    return count


def opened_and_reset(peer: Peer) -> Callable[[int], bytes]:
    def make(number: int) -> bytes:
        block = peer.encoder.encode(REQUEST)
        stream = 2 * number + 101
        return frame(frames.HEADERS, END_HEADERS, stream, block) + frame(frames.RST_STREAM, 0, stream, bytes(4))

    return make


def made_to_reset(peer: Peer) -> Callable[[int], bytes]:
    """The server resets the stream itself, for a window update of nothing."""

    def make(number: int) -> bytes:
        block = peer.encoder.encode(REQUEST)
        stream = 2 * number + 101
        return frame(frames.HEADERS, END_HEADERS, stream, block) + frame(frames.WINDOW_UPDATE, 0, stream, bytes(4))

    return make


FLOODS: dict[str, Callable[[Peer], Callable[[int], bytes]]] = {
    "pings": lambda peer: lambda number: frame(frames.PING, 0, 0, bytes(8)),
    "settings": lambda peer: lambda number: frame(frames.SETTINGS, 0, 0),
    "settings acks": lambda peer: lambda number: frame(frames.SETTINGS, frames.ACK, 0),
    "rapid reset": opened_and_reset,
    "made to reset": made_to_reset,
    "empty data": lambda peer: lambda number: frame(frames.DATA, 0, 1),
    "priorities": lambda peer: lambda number: frame(frames.PRIORITY, 0, 1, bytes(5)),
    "unknown frames": lambda peer: lambda number: frame(0x55, 0, 0),
    "small windows of a stream": lambda peer: lambda number: frame(frames.WINDOW_UPDATE, 0, 1, b"\0\0\0\1"),
    "small windows of the connection": lambda peer: lambda number: frame(frames.WINDOW_UPDATE, 0, 0, b"\0\0\0\1"),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_ends_its_connection(name: str) -> None:
    peer = met()
    peer.open(1)
    assert 100 <= flood(peer, FLOODS[name](peer)) <= 10_100
    assert peer.server.is_over


def test_a_connection_forgets_the_streams_it_has_closed() -> None:
    peer = met()
    for number in range(1, 20_001, 2):
        peer.now += 0.01
        stream = peer.open(number, end=True)
        peer.server.sender.reply(stream, HEAD, b"x", b"")
        peer.server.finish(stream)
        peer.server.sender.take()
    assert peer.server.streams == {}
    assert len(peer.server._closed) <= 256


def test_a_steady_client_is_never_cut_off() -> None:
    peer = met()
    for number in range(1, 40_001, 2):
        peer.now += 0.01
        peer.open(number)
        peer.feed(frame(frames.RST_STREAM, 0, number, bytes(4)))
        peer.feed(frame(frames.PING, 0, 0, bytes(8)), frame(frames.WINDOW_UPDATE, 0, 0, b"\0\0\0\1"))
    assert not peer.server.is_over


def test_a_client_that_takes_a_large_answer_in_crumbs_costs_no_copy_of_it_each_time() -> None:
    peer = met()
    peer.settings(INITIAL_WINDOW_SIZE=0)
    stream = peer.open(1, end=True)
    data = bytes(4_000_000)
    peer.server.sender.data(stream, data)
    peer.update(1, 1)
    assert stream.pending is not None
    waiting = stream.pending[0]
    assert isinstance(waiting, memoryview)
    assert waiting.obj is data


def test_too_many_bytes_of_one_frame_are_never_kept() -> None:
    peer = met(frame_max=20_000)
    peer.feed(frames.head(20_001, frames.DATA, 0, 1))
    assert peer.fails() is ErrorCode.FRAME_SIZE_ERROR
