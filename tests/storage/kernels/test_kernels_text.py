"""CRC-32 and Java's string hash inside kernels, against zlib and a plain loop."""

from __future__ import annotations

import random
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.message.java_hash import index_hash, java_hash
from flaremq.storage.kernels.crc import crc32_at, slicing
from flaremq.storage.kernels.memory import as_array
from flaremq.storage.kernels.text import NOT_UTF8, java_hash_utf8, key_hashes


def crc(data: bytes, *, plain: bool = False) -> int:
    array = as_array(data)
    if plain:
        start: Any = np.uint64(0xFFFFFFFF)  # as kernels pass it; a plain int would compile for int64
        return int(slicing(start, array.ctypes.data, array.size)) ^ 0xFFFFFFFF
    return int(crc32_at(array.ctypes.data, array.size))


def kernel_hash(data: bytes, seed: int = 0) -> int:
    return java_hash_utf8(as_array(data), 0, len(data), seed)


@pytest.mark.parametrize("plain", [False, True], ids=["best way", "slicing"])
def test_crc_equals_zlib_for_every_length_around_the_block_sizes(plain: bool) -> None:
    data = random.Random(5).randbytes(70_000)
    for length in [*range(300), 1023, 1024, 1025, 4096, 65_537, 69_999]:
        for start in (0, 1, 7):
            piece = data[start : start + length]
            assert crc(piece, plain=plain) == zlib.crc32(piece)


@given(st.binary(max_size=500))
def test_both_ways_to_the_crc_agree(data: bytes) -> None:
    assert crc(data) == crc(data, plain=True) == zlib.crc32(data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("订单", 1129459),
        ("\U0001f600", 1772899),
        ("TopicTest#key1", -1655984460),
        ("polygenelubricants", -2147483648),
    ],
)
def test_hash_of_the_format_descriptions_vectors(text: str, expected: int) -> None:
    assert kernel_hash(text.encode()) == expected


def units_hash(text: str) -> int:
    h = 0
    encoded = text.encode("utf-16-be")
    for at in range(0, len(encoded), 2):
        h = (31 * h + int.from_bytes(encoded[at : at + 2], "big")) & 0xFFFFFFFF
    return h - (1 << 32) if h >= 1 << 31 else h


all_text = st.text(st.characters(codec="utf-8"), max_size=60)


@given(all_text, st.text("abcxyz019-_", max_size=40))
def test_hash_of_any_text_is_javas(text: str, ascii_text: str) -> None:
    for sample in (text, ascii_text, text + ascii_text, ascii_text + text):
        assert kernel_hash(sample.encode()) == units_hash(sample) == java_hash(sample)


@given(all_text, all_text)
def test_a_hash_can_be_continued_from_its_prefix(prefix: str, rest: str) -> None:
    assert kernel_hash(rest.encode(), java_hash(prefix)) == java_hash(prefix + rest)


@given(st.one_of(st.binary(max_size=30), st.lists(st.integers(0x7E, 0xFF), max_size=6).map(bytes)))
def test_bytes_are_refused_exactly_when_python_cannot_decode_them(data: bytes) -> None:
    try:
        expected = units_hash(data.decode())
    except UnicodeDecodeError:
        expected = NOT_UTF8
    assert kernel_hash(data) == expected


def test_every_two_and_three_byte_lead_is_judged_as_python_does() -> None:
    for first in range(0x80, 0x100):
        for second in range(0x70, 0xD0):
            for tail in (b"", b"\x80", b"\x80\xbf", b"\xbf\x7f", b"\x80\x80a"):
                data = bytes([first, second]) + tail
                try:
                    data.decode()
                except UnicodeDecodeError:
                    assert kernel_hash(data) == NOT_UTF8
                else:
                    assert kernel_hash(data) == units_hash(data.decode())


def test_a_range_outside_the_array_is_refused() -> None:
    data = as_array(b"abc")
    for at, length in ((-1, 2), (0, 4), (3, 1), (2, -1), (2**62, 2**62)):
        assert java_hash_utf8(data, at, length, 0) == NOT_UTF8


@given(st.text("AZaz_%", min_size=1, max_size=30), st.lists(all_text, max_size=8))
def test_key_hashes_are_those_an_index_file_stores(topic: str, keys: list[str]) -> None:
    encoded = [key.encode() for key in keys]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
    out = np.zeros(len(keys), np.int64)
    topic_bytes = as_array(topic.encode())
    assert key_hashes(topic_bytes, as_array(b"".join(encoded)), offsets, out) == len(keys)
    assert out.tolist() == [index_hash(topic, key) for key in keys]


def test_keys_that_are_no_text_or_not_there_hash_to_minus_one() -> None:
    out = np.zeros(3, np.int64)
    offsets = np.array([0, 2, 4, 99], np.int64)
    assert key_hashes(as_array(b"T"), as_array(b"ok\xff\xff"), offsets, out) == 3
    assert out.tolist() == [index_hash("T", "ok"), -1, -1]
