"""Frames received into the reader's own buffer: what the decoder of whole reads finds, the reader finds."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.protocol.command import BINARY_HEADER, JSON_HEADER, RemotingCommand
from flaremq.protocol.frame import FRAME_SIZE_MAX, FrameDecoder, FrameReader, encode_frame


def frame(number: int, size: int, kind: int = JSON_HEADER) -> bytes:
    command = RemotingCommand(number, ext={"n": str(number)}, body=bytes([number % 251]) * size, opaque=number)
    command.serialize_type = kind
    return encode_frame(command)


def give(reader: FrameReader, data: bytes, room_max: int = 1 << 30) -> list[RemotingCommand]:
    """As a transport does: as much at a time as there is room for."""
    commands: list[RemotingCommand] = []
    while data and reader.failure is None:
        room = reader.room()
        count = min(len(room), len(data), room_max)
        assert count
        room[:count] = data[:count]
        commands += reader.received(count)
        data = data[count:]
    return commands


def seen(commands: list[RemotingCommand]) -> list[tuple[int, int, object, object]]:
    return [(one.code, one.opaque, one.ext, one.body) for one in commands]


sizes = st.one_of(st.integers(0, 300), st.sampled_from([60_000, 65_500, 70_000, 140_000]))
kinds = st.sampled_from([JSON_HEADER, BINARY_HEADER])


@given(
    st.lists(st.tuples(sizes, kinds), max_size=6),
    st.lists(st.one_of(st.integers(1, 40), st.integers(1, 200_000)), min_size=1, max_size=30),
    st.sampled_from([b"", b"\0", b"\0\0\0\1\0\0\0\0", b"\x7f\0\0\0\0\0\0\0", struct.pack(">iI", 20, 7 << 24)]),
)
def test_frames_in_pieces_of_any_size_are_those_of_the_decoder(
    frames: list[tuple[int, int]], cuts: list[int], behind: bytes
) -> None:
    stream = b"".join(frame(number, size, kind) for number, (size, kind) in enumerate(frames)) + behind
    reader, decoder = FrameReader(), FrameDecoder()
    at = turn = 0
    least = len(stream) // 2_000  # a long stream byte by byte says nothing more than its first thousands
    while at < len(stream):
        piece = stream[at : at + max(cuts[turn % len(cuts)], least if turn > 1_000 else 1)]
        at, turn = at + len(piece), turn + 1
        assert seen(give(reader, piece)) == seen(decoder.receive(piece))
        assert str(reader.failure) == str(decoder.failure)
        if reader.failure is not None:
            return
        assert reader.buffered == decoder.buffered


def test_commands_keep_their_bodies_when_the_buffer_is_used_again() -> None:
    reader = FrameReader()
    first = give(reader, frame(1, 50_000))
    give(reader, frame(2, 60_000))
    assert first[0].body == b"\1" * 50_000


def test_announced_length_takes_no_memory_before_its_bytes_come() -> None:
    reader = FrameReader()
    give(reader, struct.pack(">iI", FRAME_SIZE_MAX - 4, 100) + bytes(1000))
    assert len(reader.room()) < 1 << 17


def test_room_for_one_large_frame_is_given_back() -> None:
    reader = FrameReader()
    (command,) = give(reader, frame(3, 5 << 20))
    assert len(command.body) == 5 << 20
    assert len(reader.room()) < 1 << 20


def test_buffer_may_still_be_held_while_it_is_replaced() -> None:
    reader = FrameReader()
    held = [reader.room()]
    data = frame(4, 200_000)
    for at in range(0, len(data), 10_000):
        held.append(room := reader.room())
        piece = data[at : at + 10_000]
        room[: len(piece)] = piece
        commands = reader.received(len(piece))
    assert commands[0].body == b"\4" * 200_000


@pytest.mark.parametrize("number", [0, 1])
def test_nothing_follows_what_was_given_up(number: int) -> None:
    reader = FrameReader()
    give(reader, frame(1, 100)[:50])
    assert reader.buffered == 50
    reader.discard()
    assert reader.buffered == 0 and reader.failure is not None
    room = reader.room()
    room[:number] = bytes(number)
    assert reader.received(number) == []
