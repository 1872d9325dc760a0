"""Header blocks of any encoder are read as it meant them, and blocks that are none are refused."""

from __future__ import annotations

import contextlib
import random

import pytest
from hpack import Decoder, Encoder, HPACKError
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


def test_every_text_of_one_and_two_bytes_survives_the_huffman_code() -> None:
    coder = Encoder().huffman_coder
    for first in range(256):
        assert decode_huffman(coder.encode(bytes((first,)))) == bytes((first,))
        for second in range(256):
            data = bytes((first, second))
            assert decode_huffman(coder.encode(data)) == data


@pytest.mark.parametrize("huffman", [True, False])
def test_every_beginning_of_a_block_is_refused_or_read_and_never_more_than_is_there(huffman: bool) -> None:
    encoder = Encoder()
    encoder.header_table_size = 100
    fields = [("x-long", "v" * 300), (":path", "/s/m"), ("x-mq-client-id", "ä~"), ("x-" + "n" * 140, "w")]
    block = encoder.encode(fields, huffman=huffman)
    read = 0
    for size in range(len(block)):
        with contextlib.suppress(HeaderError):
            read += len(HeaderDecoder(16_384).decode(block[:size]).fields) <= 3
    assert 0 < read < 8
    assert len(HeaderDecoder(16_384).decode(block).fields) == 3


@given(blocks, st.integers(0, 2**32), st.booleans())
def test_changed_blocks_are_read_as_others_read_them_or_refused(
    lists: list[list[tuple[str, str]]], seed: int, huffman: bool
) -> None:
    dice, encoder, ours, theirs = random.Random(seed), Encoder(), HeaderDecoder(1 << 20), Decoder(1 << 20)
    for fields in lists:
        data = bytearray(encoder.encode(fields, huffman=huffman))
        if data:
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        try:
            expected = theirs.decode(bytes(data), raw=True)
        except HPACKError:
            with contextlib.suppress(HeaderError):  # hpack refuses zero lengths and more in places where we do not
                ours.decode(bytes(data))
            return
        found = ours.decode(bytes(data))
        known = {name.decode("latin-1"): value.decode("latin-1") for name, value in expected}
        assert found.fields.items() <= known.items() or found.is_malformed
        if not found.is_malformed and not found.is_too_large:
            assert found.fields | found.pseudo == known


def test_any_place_of_the_table_is_found_or_refused() -> None:
    encoder, decoder = Encoder(), HeaderDecoder(1 << 20)
    decoder.decode(encoder.encode([(f"x-{number}", "v") for number in range(5)]))
    for index in range(1, 300):
        block = bytes((0x80 | index,)) if index < 127 else b"\xff" + _rest(index - 127)
        if index <= 66:
            found = decoder.decode(block)
            assert len(found.fields) + len(found.pseudo) + found.is_malformed == 1
        else:
            with pytest.raises(HeaderError):
                decoder.decode(block)
    assert decoder.decode(b"\xbe").fields == {"x-4": "v"}
    assert decoder.decode(b"\xc2").fields == {"x-0": "v"}
    with pytest.raises(HeaderError):
        decoder.decode(b"\x80")


def _rest(value: int) -> bytes:
    return bytes((value,)) if value < 128 else bytes((value & 127 | 128, value >> 7))
