"""Header blocks of any encoder are read as it meant them, and blocks that are none are refused."""

from __future__ import annotations

import contextlib

import pytest
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st

from flaremq.grpc.http2.header_blocks import HeaderDecoder, HeaderError, decode_huffman, literal, status

names = st.text(alphabet="abcdefghijklmnopqrstuvwxyz-0123456789", min_size=1, max_size=30).map(lambda text: "x-" + text)
values = st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=200)
blocks = st.lists(st.lists(st.tuples(names, values), max_size=12), min_size=1, max_size=8)


@given(blocks, st.booleans(), st.lists(st.integers(0, 4096), min_size=8, max_size=8))
def test_blocks_are_read_as_they_were_meant(
    lists: list[list[tuple[str, str]]], huffman: bool, sizes: list[int]
) -> None:
    encoder, decoder = Encoder(), HeaderDecoder(1 << 20)
    for fields, size in zip(lists, sizes, strict=False):
        encoder.header_table_size = size  # told in the block, and both tables shrink
        found = decoder.decode(encoder.encode(fields, huffman=huffman))
        assert found.fields == dict(fields)
        assert not found.is_malformed


@given(st.binary(max_size=300))
def test_bytes_that_are_no_block_are_refused_with_one_kind_of_error(data: bytes) -> None:
    with contextlib.suppress(HeaderError):
        HeaderDecoder(16_384).decode(data)


@given(st.text(alphabet=st.characters(max_codepoint=255), max_size=100))
def test_huffman_texts_are_read(text: str) -> None:
    data = text.encode("latin-1")
    coded = Encoder().huffman_coder.encode(data)
    assert decode_huffman(coded) == data


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\x00", b"\xfe"])
def test_huffman_codes_that_do_not_end_are_refused(data: bytes) -> None:
    with pytest.raises(HeaderError):
        decode_huffman(data)


def test_what_we_send_is_read_by_others() -> None:
    block = status(200) + literal("grpc-message", "x" * 500) + status(415)
    assert Decoder().decode(block) == [(":status", "200"), ("grpc-message", "x" * 500), (":status", "415")]


def test_a_list_that_is_too_large_is_not_kept_but_still_enters_the_table() -> None:
    encoder, decoder = Encoder(), HeaderDecoder(1000)
    found = decoder.decode(encoder.encode([("x-a", "v" * 2000), ("x-b", "w")]))
    assert found.is_too_large
    assert "x-a" not in found.fields
    assert decoder.decode(encoder.encode([("x-b", "w")])).fields == {"x-b": "w"}
