"""Mutated golden frames and frames made to hurt: typed errors only, and memory in proportion to what was sent."""

from __future__ import annotations

import itertools
import random
import struct
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.errors import LocalProtocolError, RemoteProtocolError
from flaremq.protocol.bodies.register import RegisterBrokerBody
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.frame import FRAME_SIZE_MAX, HEADER_SIZE_MAX, FrameDecoder, encode_frame
from flaremq.protocol.headers.consume import decode_pull_header
from flaremq.protocol.headers.send import decode_send_header
from tests.support.body_table import REQUEST_BODIES, RESPONSE_BODIES
from tests.support.golden_frames import decode_one, sample_frames
from tests.support.header_table import REQUEST_HEADERS, RESPONSE_HEADERS

SEND_CODES = {int(code) for code, kind in REQUEST_HEADERS.items() if kind.__name__ == "SendMessageRequestHeader"}
HEADERS = sorted({*REQUEST_HEADERS.values(), *RESPONSE_HEADERS.values()}, key=lambda kind: kind.__name__)
BODIES = sorted({*REQUEST_BODIES.values(), *RESPONSE_BODIES.values()}, key=lambda kind: kind.__name__)


def decode_all(data: bytes) -> list[RemotingCommand]:
    """Everything up to the end or the first refusal."""
    return FrameDecoder().receive(data)


def read_everything(command: RemotingCommand, choice: random.Random) -> None:
    """What a server would do with a command: its header, its body, and an answer."""
    attempts: list[Callable[[], object]] = [
        lambda: decode_send_header(command.code, command.ext),
        lambda: decode_pull_header(command.ext),
        lambda: choice.choice(HEADERS).decode(command.ext),
        lambda: choice.choice(BODIES).from_json(command.body_bytes),
        lambda: RegisterBrokerBody.decode(command.body_bytes),
    ]
    if command.code in set(RequestCode):
        code = RequestCode(command.code)
        if code in REQUEST_HEADERS:
            attempts.append(lambda: REQUEST_HEADERS[code].decode(command.ext).encode())
        if code in REQUEST_BODIES:
            attempts.append(lambda: REQUEST_BODIES[code].from_json(command.body_bytes).to_json())
    for attempt in attempts:
        try:
            attempt()
        except (RemoteProtocolError, RequestError) as error:
            assert len(str(error)) < 1000
    try:
        again = decode_one(encode_frame(command))
    except LocalProtocolError:
        return
    assert again.opaque == command.opaque


def mutate_frame(data: bytes, other: bytes, choice: random.Random) -> bytes:
    """Damage to the frame as a whole, or to its body alone so that something gets past the header."""
    (word,) = struct.unpack_from(">I", data, 4)
    header_length = word & 0xFFFFFF
    if choice.random() < 0.5 and len(data) > 8 + header_length:
        head, body = data[: 8 + header_length], mutate(data[8 + header_length :], other, choice)
        return struct.pack(">i", len(head) + len(body) - 4) + head[4:] + body
    mutated = mutate(data, other, choice)
    if len(mutated) < 8 or choice.random() < 0.3:
        return mutated
    # With lengths that fit again, for most damage would end at the frame.
    header_length = min(max(header_length + len(mutated) - len(data), 0), len(mutated) - 8)
    return struct.pack(">iI", len(mutated) - 4, word & 0xFF000000 | header_length) + mutated[8:]


def mutate(data: bytes, other: bytes, choice: random.Random) -> bytes:
    mutated = bytearray(data)
    for _ in range(choice.choice((1, 1, 2, 5, 20))):
        at = choice.randrange(len(mutated) or 1)
        kind = choice.randrange(6)
        if kind == 0:
            mutated[at : at + 1] = choice.randbytes(1)
        elif kind == 1:
            mutated[at : at + 1] = bytes(byte ^ 1 << choice.randrange(8) for byte in mutated[at : at + 1])
        elif kind == 2:
            del mutated[at : at + choice.randrange(1, 9)]
        elif kind == 3:
            mutated[at:at] = choice.choice(
                (b'"', b"{", b"[", b"\\", b"\x00", b"-", b"9" * 20, b'{"$ref":"$"}', b"null")
            )
        elif kind == 4:
            start = choice.randrange(len(other))
            mutated[at:at] = other[start : start + choice.randrange(1, 60)]
        else:
            mutated[at : at + 4] = choice.choice((b"\x00" * 4, b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff" * 4))
    return bytes(mutated)


def fuzz(seed: int, count: int) -> int:
    """How many commands came through, for a test to see that it reached anything."""
    choice = random.Random(seed)
    frames = [frame.data for frame in sample_frames()]
    decoded = 0
    for _ in range(count):
        for command in decode_all(mutate_frame(choice.choice(frames), choice.choice(frames), choice)):
            decoded += 1
            read_everything(command, choice)
    return decoded


def test_mutated_golden_frames_raise_typed_errors_only() -> None:
    assert fuzz(seed=4, count=4_000) > 800


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_mutated_golden_frames_raise_typed_errors_only(seed: int) -> None:
    assert fuzz(seed, count=50_000) > 10_000


@given(st.binary(max_size=200))
def test_garbage_raises_typed_errors_only(data: bytes) -> None:
    decode_all(data)


@given(st.binary(max_size=120), st.sampled_from((0, 1)))
def test_garbage_in_a_good_frame_raises_typed_errors_only(header: bytes, serialize_type: int) -> None:
    word = serialize_type << 24 | len(header)
    decode_all(struct.pack(">iI", 4 + len(header), word) + header)


@given(st.integers(0, 2**32), st.lists(st.integers(1, 700), min_size=1, max_size=6))
def test_the_cut_of_the_stream_changes_nothing(seed: int, sizes: list[int]) -> None:
    frames = random.Random(seed).choices(sample_frames(), k=3)
    stream = b"".join(frame.data for frame in frames)
    whole = [(command.code, command.opaque, command.body_bytes) for command in decode_all(stream)]
    decoder = FrameDecoder()
    pieces = []
    at = 0
    for size in itertools.cycle(sizes):
        for command in decoder.receive(stream[at : at + size]):
            pieces.append((command.code, command.opaque, command.body_bytes))
        at += size
        if at >= len(stream):
            break
    assert len(whole) == 3
    assert pieces == whole


EXT = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40),
    max_size=8,
)


@given(
    code=st.integers(-(2**15), 2**15 - 1),
    ext=EXT,
    body=st.binary(max_size=100),
    remark=st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
    flag=st.integers(0, 3),
    opaque=st.integers(-(2**31), 2**31 - 1),
    language=st.sampled_from(("JAVA", "GO", "PYTHON", "NODE_JS")),
    serialize_type=st.sampled_from((0, 1)),
)
def test_any_command_decodes_to_what_was_encoded(
    code: int,
    ext: dict[str, str],
    body: bytes,
    remark: str | None,
    flag: int,
    opaque: int,
    language: str,
    serialize_type: int,
) -> None:
    command = RemotingCommand(
        code,
        ext=ext,
        body=body,
        remark=remark,
        flag=flag,
        opaque=opaque,
        language=language,
        version=407,
        serialize_type=serialize_type,
    )
    again = decode_one(encode_frame(command))
    for name in ("code", "remark", "flag", "opaque", "language", "version", "serialize_type"):
        assert getattr(again, name) == getattr(command, name)
    assert again.ext == ext
    assert again.body_bytes == body


# Frames made to hurt. Each is a few bytes that ask for much, or much that asks for more.


def compact(remark_length: int, ext_length: int, rest: bytes = b"") -> bytes:
    header = struct.pack(">hBhiiii", 105, 0, 399, 1, 0, remark_length, ext_length) + rest
    return struct.pack(">iI", 4 + len(header), 1 << 24 | len(header)) + header


def json_frame(header: bytes) -> bytes:
    return struct.pack(">iI", 4 + len(header), len(header)) + header


HOSTILE = {
    "a frame of 16 MiB is announced and never sent": struct.pack(">iI", FRAME_SIZE_MAX - 4, 100),
    "a header of 16 MiB is announced": struct.pack(">iI", FRAME_SIZE_MAX - 4, FRAME_SIZE_MAX - 8),
    "a remark of 2 GiB": compact(2**31 - 1, 0),
    "a remark of negative length": compact(-5, 0),
    "fields of 2 GiB": compact(0, 2**31 - 1),
    "fields of negative length": compact(0, -1),
    "a name of negative length": compact(0, 8, struct.pack(">hi", -1, 0) + b"ab"),
    "a value of 2 GiB": compact(0, 8, struct.pack(">h", 2) + b"ab" + struct.pack(">i", 2**31 - 1)),
    "half a million empty fields": compact(0, 480_000, bytes(480_000)),
    "nested arrays": json_frame(b"[" * 400_000),
    "nested fields": json_frame(b'{"code":1,"opaque":1,"extFields":' + b'{"a":' * 80_000),
    "many fields": json_frame(b'{"code":1,"opaque":1,"extFields":{' + b'"a":[],' * 60_000 + b'"b":""}}'),
    "a long number": json_frame(b'{"code":1,"opaque":' + b"9" * 400_000 + b"}"),
    "no end of a text": json_frame(b'{"code":1,"opaque":1,"remark":"' + b'\\"' * 200_000),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_frame_costs_memory_in_proportion_to_what_was_sent(data: bytes) -> None:
    decode_all(encode_frame(RemotingCommand(1)))  # whatever is made once is made
    tracemalloc.start()
    try:
        decode_all(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 65_536 + 40 * len(data)


def test_a_header_is_bounded_below_the_frame() -> None:
    assert HEADER_SIZE_MAX < FRAME_SIZE_MAX
    decoder = FrameDecoder()
    assert decoder.receive(struct.pack(">iI", FRAME_SIZE_MAX - 4, HEADER_SIZE_MAX + 1)) == []
    assert "header" in str(decoder.failure)


def test_a_slow_sender_of_a_large_frame_is_held_once() -> None:
    size = 1 << 20
    frame = encode_frame(RemotingCommand(310, body=bytes(size)))
    decoder = FrameDecoder()
    commands: list[RemotingCommand] = []
    tracemalloc.start()
    try:
        for at in range(0, len(frame), 1460):
            commands += decoder.receive(frame[at : at + 1460])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [len(command.body_bytes) for command in commands] == [size]
    assert peak < 4 * size


@pytest.mark.parametrize("size", [HEADER_SIZE_MAX, HEADER_SIZE_MAX + 1])
def test_a_long_header_gets_the_same_verdict_whole_and_in_pieces(size: int) -> None:
    header = b'{"code":310,"opaque":1,"flag":0'
    frame = json_frame(header + b" " * (size - len(header) - 1) + b"}")
    verdicts = []
    for step in (len(frame), 1460, 7):
        decoder = FrameDecoder()
        commands = [command for at in range(0, len(frame), step) for command in decoder.receive(frame[at : at + step])]
        verdicts.append((len(commands), str(decoder.failure)))
    assert len(set(verdicts)) == 1, verdicts
    assert (verdicts[0][0] == 1) == (size == HEADER_SIZE_MAX)
