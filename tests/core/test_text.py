"""CRC-32 and Java's string hash in the core, against zlib and a plain loop."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.core.arrays import as_array
from flaremq.core.digest import crc_slices
from flaremq.core.text import key_hashes
from flaremq.message.java_hash import index_hash, java_hash


def crc(data: bytes) -> int:
    out = np.zeros(1, np.int64)
    crc_slices(as_array(data), np.array([0, len(data)], np.int32), out)
    return int(out[0])


def hashed(*keys: bytes, topic: bytes = b"T") -> list[int]:
    out = np.zeros(len(keys), np.int64)
    offsets = np.cumsum([0, *map(len, keys)]).astype(np.int64)
    assert key_hashes(as_array(topic), as_array(b"".join(keys)), offsets, out) == len(keys)
    return [int(value) for value in out]


def test_crc_equals_zlib_for_every_length_around_the_block_sizes() -> None:
    data = random.Random(5).randbytes(70_000)
    for length in [*range(840), 1023, 1024, 1025, 4096, 65_537, 69_999]:
        for start in (0, 1, 7):
            piece = data[start : start + length]
            assert crc(piece) == zlib.crc32(piece) & 0x7FFFFFFF


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("订单", 1129459),
        ("\U0001f600", 1772899),
        ("TopicTest#key1", -1655984460),
        ("polygenelubricants", -2147483648),
    ],
)
def test_hash_of_the_format_descriptions_vectors(text: str, expected: int) -> None:
    assert java_hash(text) == expected
    topic, _, key = text.partition("#")
    if key:
        assert hashed(key.encode(), topic=topic.encode()) == [abs(expected)]


def units_hash(text: str) -> int:
    h = 0
    encoded = text.encode("utf-16-be")
    for at in range(0, len(encoded), 2):
        h = (31 * h + int.from_bytes(encoded[at : at + 2], "big")) & 0xFFFFFFFF
    return h - (1 << 32) if h >= 1 << 31 else h


def expected_hash(data: bytes) -> int:
    """What an index file stores for a key of topic T; -1 for what is no text."""
    try:
        value = units_hash(f"T#{data.decode()}")
    except UnicodeDecodeError:
        return -1
    return 0 if value == -(2**31) else abs(value)


all_text = st.text(st.characters(codec="utf-8"), max_size=60)


@given(all_text, st.text("abcxyz019-_", max_size=40))
def test_hash_of_any_text_is_javas(text: str, ascii_text: str) -> None:
    samples = (text, ascii_text, text + ascii_text, ascii_text + text)
    assert hashed(*(sample.encode() for sample in samples)) == [expected_hash(sample.encode()) for sample in samples]


@given(st.one_of(st.binary(max_size=30), st.lists(st.integers(0x7E, 0xFF), max_size=6).map(bytes)))
def test_bytes_are_refused_exactly_when_python_cannot_decode_them(data: bytes) -> None:
    assert hashed(data) == [expected_hash(data)]


def test_every_two_and_three_byte_lead_is_judged_as_python_does() -> None:
    tails = (b"", b"\x80", b"\x80\xbf", b"\xbf\x7f", b"\x80\x80a")
    pieces = [
        bytes([first, second]) + tail for first in range(0x80, 0x100) for second in range(0x70, 0xD0) for tail in tails
    ]
    assert hashed(*pieces) == [expected_hash(piece) for piece in pieces]


@given(st.text("AZaz_%", min_size=1, max_size=30), st.lists(all_text, max_size=8))
def test_key_hashes_are_those_an_index_file_stores(topic: str, keys: list[str]) -> None:
    assert hashed(*(key.encode() for key in keys), topic=topic.encode()) == [index_hash(topic, key) for key in keys]


def test_keys_that_are_no_text_or_not_there_hash_to_minus_one() -> None:
    out = np.zeros(3, np.int64)
    offsets = np.array([0, 2, 4, 99], np.int64)
    assert key_hashes(as_array(b"T"), as_array(b"ok\xff\xff"), offsets, out) == 3
    assert out.tolist() == [index_hash("T", "ok"), -1, -1]
