"""Every recorded frame decodes, and encodes to the same bytes; every custom header to the same fields."""

from __future__ import annotations

import itertools

import pytest

from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import BINARY_HEADER, RemotingCommand
from flaremq.protocol.frame import FrameDecoder, encode_frame, encode_parts
from flaremq.protocol.headers.consume import decode_pull_header
from flaremq.protocol.headers.send import SendMessageRequestHeader, decode_send_header
from tests.support.golden_frames import (
    RECORDINGS,
    GoldenFrame,
    decode_one,
    golden_frames,
    golden_pairs,
    sample_frames,
)
from tests.support.header_table import REQUEST_HEADERS, RESPONSE_HEADERS

LETTER_CODES = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
PULL_CODES = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
# Fields that any request may carry beside its own.
GENERAL_FIELDS = {"ReqT"}


def fields(command: RemotingCommand) -> tuple[object, ...]:
    remark = command.remark or None  # the compact header has no empty one
    values = (command.code, command.flag, command.opaque, command.language, command.version, remark)
    return (*values, dict(command.ext or {}), command.body_bytes)


@pytest.mark.parametrize("recording", RECORDINGS)
def test_every_frame_decodes_to_a_known_code(recording: str) -> None:
    for frame in golden_frames(recording):
        command = frame.command
        assert command.is_response or command.code in set(RequestCode), command


@pytest.mark.parametrize("recording", RECORDINGS)
def test_every_frame_is_encoded_as_java_encoded_it(recording: str) -> None:
    for frame in golden_frames(recording):
        command = frame.command
        again = encode_frame(command)
        assert b"".join(encode_parts(command)) == again
        if not command.ext and command.serialize_type != BINARY_HEADER:
            # Java leaves an empty set of fields out or writes it, by request; that is not kept.
            command.ext = None if b'"extFields":{}' not in frame.data else {}
            assert encode_frame(command) == frame.data
        else:
            assert again == frame.data


@pytest.mark.parametrize("recording", RECORDINGS)
def test_every_frame_survives_both_header_encodings(recording: str) -> None:
    for frame in golden_frames(recording):
        command = frame.command
        if command.code > 32767 or "" in (command.ext or {}).values():
            continue  # POP's codes do not fit the compact header, and an empty value is none there
        for serialize_type in (0, 1):
            command.serialize_type = serialize_type
            assert fields(decode_one(encode_frame(command))) == fields(command)


@pytest.mark.parametrize("recording", RECORDINGS)
def test_a_whole_connection_decodes_from_pieces_of_any_size(recording: str) -> None:
    streams: dict[tuple[str, bool], list[GoldenFrame]] = {}
    for frame in golden_frames(recording):
        streams.setdefault((frame.connection, frame.towards), []).append(frame)
    for frames in streams.values():
        stream = b"".join(frame.data for frame in frames)
        for size in (7, 1460, len(stream)):
            decoder = FrameDecoder()
            decoded = []
            for at in range(0, len(stream), size):
                decoded += map(fields, decoder.receive(stream[at : at + size]))
            assert decoded == [fields(frame.command) for frame in frames]
            assert decoder.buffered == 0


def test_frames_decode_byte_by_byte_and_not_a_byte_early() -> None:
    for frame in sample_frames():
        decoder = FrameDecoder()
        for at in range(len(frame.data) - 1):
            assert decoder.receive(frame.data[at : at + 1]) == []
        assert [*map(fields, decoder.receive(frame.data[-1:]))] == [fields(frame.command)]


def test_bytes_of_the_next_frame_wait_for_the_rest_of_it() -> None:
    samples = sample_frames()
    for frame, following in itertools.pairwise(samples):
        for cut in (1, 4, 8, len(following.data) - 1):
            decoder = FrameDecoder()
            first = decoder.receive(frame.data + following.data[:cut])
            assert [*map(fields, first)] == [fields(frame.command)]
            assert decoder.buffered == cut
            second = decoder.receive(following.data[cut:])
            assert [*map(fields, second)] == [fields(following.command)]


@pytest.mark.parametrize("recording", RECORDINGS)
def test_custom_headers_of_requests_come_back_as_they_were(recording: str) -> None:
    for frame in golden_frames(recording):
        command = frame.command
        if command.is_response:
            continue
        ext = {name: value for name, value in (command.ext or {}).items() if name not in GENERAL_FIELDS}
        kind = REQUEST_HEADERS.get(RequestCode(command.code))
        if kind is None:
            assert ext == {}, f"code {command.code} has fields and no header"
        elif command.code in LETTER_CODES:
            assert decode_send_header(command.code, command.ext).encode_letters() == ext
        elif command.code in PULL_CODES:
            assert decode_pull_header(command.ext).encode() == ext
        else:
            assert kind.decode(command.ext).encode() == ext


@pytest.mark.parametrize("recording", RECORDINGS)
def test_custom_headers_of_replies_come_back_as_they_were(recording: str) -> None:
    for request, reply in golden_pairs(recording):
        command = reply.command
        kind = RESPONSE_HEADERS.get(RequestCode(request.command.code))
        if not command.ext or command.code not in (0, 19, 20, 21, 22):
            continue  # a failed send carries region and trace switch, and no header
        assert kind is not None, f"the reply to {request.command.code} has fields and no header"
        assert kind.decode(command.ext).encode() == command.ext


@pytest.mark.parametrize("recording", RECORDINGS)
def test_the_quick_ways_read_sends_and_pulls_as_the_plain_way_does(recording: str) -> None:
    for frame in golden_frames(recording):
        command = frame.command
        if command.is_response:
            continue
        if command.code in PULL_CODES:
            plain = REQUEST_HEADERS[RequestCode(command.code)].decode(command.ext)
            assert decode_pull_header(command.ext) == plain
        elif command.code in LETTER_CODES:
            header = decode_send_header(command.code, command.ext)
            assert SendMessageRequestHeader.decode(header.encode()) == header


# The same request in both headers, assembled by hand.
COMPACT_ROUTE_REQUEST = bytes.fromhex(
    "00000025 01000021 0069 00 018f 00000001 00000000 00000000 0000000c 0005 746f706963 00000001 54"
)


def test_a_request_assembled_by_hand_is_what_we_encode() -> None:
    command = RemotingCommand(105, ext={"topic": "T"}, opaque=1, language="JAVA", version=399, serialize_type=1)
    assert encode_frame(command) == COMPACT_ROUTE_REQUEST
    assert fields(decode_one(COMPACT_ROUTE_REQUEST)) == fields(command)
    command.serialize_type = 0
    frame = encode_frame(command)
    assert frame[:8] == bytes.fromhex("0000007f 0000007b")
    assert frame[8:] == (
        b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":1,'
        b'"serializeTypeCurrentRPC":"JSON","version":399}'
    )
