"""The second parser agrees with the format page's own examples, so it may judge the first."""

from __future__ import annotations

import struct

from tests.support import raw_store

# The worked example of the format page: topic TopicTest, body hello, tag TagA, key key1.
_RECORD = bytes.fromhex(
    "0000007ddaa320a73610a6860000000300000000000000000000000700000000000004d200000000"
    "0000018bcfe56800c0a80001000027100000018bcfe5687b0a00000500002a9f0000000000000000"
    "000000000000000568656c6c6f09546f706963546573740014544147530154616741024b45595301"
    "6b65793102"
)


def test_the_example_record_is_read_field_by_field() -> None:
    record = raw_store.parse_record(_RECORD, 0, 1234)
    assert record is not None
    assert (record.topic, record.body, record.queue_id, record.queue_offset) == ("TopicTest", b"hello", 3, 7)
    assert record.properties == {"TAGS": "TagA", "KEYS": "key1"}
    assert record.store_timestamp == 1700000000123
    assert record.intact and not record.sealed
    assert record.unit.hex() == "00000000000004d20000007d000000000027a807"


def test_a_record_at_another_place_is_not_one() -> None:
    assert raw_store.parse_record(_RECORD, 0, 1235) is None


def test_a_changed_body_is_not_intact() -> None:
    record = raw_store.parse_record(_RECORD.replace(b"hello", b"hellp"), 0, 1234)
    assert record is not None and not record.intact


def test_java_hashes_are_those_of_the_format_page() -> None:
    assert [raw_store.java_hash(text) for text in ("TagA", "TagB", "订单", "\U0001f600")] == [
        2598919,
        2598920,
        1129459,
        1772899,
    ]


def test_a_log_is_walked_over_filler_and_ends_at_zeros() -> None:
    first = bytearray(300)
    first[: len(_RECORD)] = _at(0)
    struct.pack_into(">iI", first, 125, 175, raw_store.MAGIC_BLANK)
    second = bytearray(300)
    second[: len(_RECORD)] = _at(300)
    log = raw_store.walk_log({0: bytes(first), 300: bytes(second)})
    assert [record.physical_offset for record in log.records] == [0, 300]
    assert (log.end, log.position, log.problems, log.stale) == (425, 425, [], [])


def test_a_valid_record_behind_the_end_is_reported_as_stale() -> None:
    segment = bytearray(600)
    segment[:125] = _at(0)
    segment[200:325] = _at(200)
    assert raw_store.walk_log({0: bytes(segment)}).stale == [200]


def _at(offset: int) -> bytes:
    record = bytearray(_RECORD)
    struct.pack_into(">q", record, 28, offset)
    return bytes(record)
