"""Items of write streams: stored messages depend on every byte and number of them."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from flaremq.core.stream_items import SUFFIX_SIZE, chain_rows, encode_items, hash_rows

BODIES = bytes(range(256)) * 5
BODY_OFFSETS = np.array([0, 0, 1, 7, 8, 9, 300, 1000, 1280], np.int64)
PROPERTIES = "KEYS\x01k1\x02TAGS\x01t\x02é".encode()
PROPERTY_OFFSETS = np.array([0, 5, 5, 6, 10, 14, 14, 15, len(PROPERTIES)], np.int64)
ROWS = np.array([7, 0, 3, 5, 6, 1], np.int64)
HASHES = [
    -8217655382752046271,
    539419067167480999,
    3735211885934367163,
    8099010951043864235,
    -8613624943384743541,
    3981021613559051957,
]
SUFFIX = f"UNIQ_KEY\x01{'A' * 16}{'0' * 16}\x02FMQ_CHAIN\x01{'0' * 16}\x02".encode()


def test_hashes_and_their_chain_are_those_of_stored_messages() -> None:
    hashes = np.empty(6, np.int64)
    assert hash_rows(BODIES, BODY_OFFSETS, PROPERTIES, PROPERTY_OFFSETS, ROWS, hashes) == 6
    assert hashes.tolist() == HASHES
    assert chain_rows(hashes, -12345) == -4121008579856504861
    assert chain_rows(hashes[:0], 5) == 5


@pytest.mark.parametrize(
    ("room", "start", "count_max", "result", "crc"),
    [
        (5000, 0, 99, (6, 1831, -1293626746729669671), 1777210227),
        (900, 1, 99, (3, 574, -7439678769558138915), 1926011229),
        (5000, 2, 2, (2, 478, 3856077382758628325), 1823187372),
        (90, 1, 99, (0, 0, 77), 0),
    ],
)
def test_items_are_those_of_stored_messages(
    room: int, start: int, count_max: int, result: tuple[int, int, int], crc: int
) -> None:
    out = np.zeros(room, np.uint8)
    columns = (BODIES, BODY_OFFSETS, PROPERTIES, PROPERTY_OFFSETS, ROWS, np.array(HASHES))
    made = encode_items(*columns, start, count_max, SUFFIX, 0x1FFFE, 77, out)
    assert made == result
    assert zlib.crc32(out[: made[1]].tobytes()) == crc


@pytest.mark.parametrize("offsets", [[0, 1281], [-1, 5], [7, 3], [0]])
def test_offsets_outside_of_their_bytes_are_refused(offsets: list[int]) -> None:
    rows, hashes, wrong = np.zeros(1, np.int64), np.zeros(1, np.int64), np.array(offsets, np.int64)
    right = np.array([0, 5], np.int64)
    assert hash_rows(BODIES, wrong, BODIES, right, rows, hashes) == -1
    assert hash_rows(BODIES, right, BODIES, wrong, rows, hashes) == -1
    out = np.zeros(4000, np.uint8)
    for body, properties in ((wrong, right), (right, wrong)):
        columns = (BODIES, body, BODIES, properties, rows, hashes)
        assert encode_items(*columns, 0, 9, SUFFIX, 0, 0, out) == (-1, 0, 0)


def test_what_does_not_belong_together_is_refused() -> None:
    offsets, rows, few = np.array([0, 5], np.int64), np.zeros(2, np.int64), np.zeros(1, np.int64)
    columns = (BODIES, offsets, BODIES, offsets)
    out = np.zeros(4000, np.uint8)
    assert hash_rows(*columns, rows, few) == -1
    assert encode_items(*columns, rows, few, 0, 9, SUFFIX, 0, 0, out) == (-1, 0, 0)
    assert encode_items(*columns, few, few, -1, 9, SUFFIX, 0, 0, out) == (-1, 0, 0)
    assert encode_items(*columns, few, few, 0, 9, SUFFIX[1:], 0, 0, out) == (-1, 0, 0)
    long = np.array([0, 32_767 - SUFFIX_SIZE + 1], np.int64)
    text = bytes(int(long[1]))
    assert encode_items(text, offsets, text, long, few, few, 0, 9, SUFFIX, 0, 0, np.zeros(40_000, np.uint8))[0] == -1
    with pytest.raises((BufferError, TypeError)):
        encode_items(*columns, few, few, 0, 9, SUFFIX, 0, 0, bytes(100))
