from __future__ import annotations

import pytest

from flaremq.message.record.crc import CRC_PROPERTY_SIZE, body_crc, crc_property, has_crc_property, record_crc


@pytest.mark.parametrize(("body", "expected"), [(b"hello", 907060870), (b"a", 1756872259), (b"", 0)])
def test_body_checksum_has_its_sign_bit_cleared(body: bytes, expected: int) -> None:
    assert body_crc(body) == expected


def test_checksum_property_keeps_digits_least_significant_first() -> None:
    assert crc_property(907060870) == b"__CRC32#\x010780607090\x02"


@pytest.mark.parametrize("checksum", [0, 1, 9, 10, 0x7FFFFFFF])
def test_checksum_property_is_always_twenty_bytes(checksum: int) -> None:
    encoded = crc_property(checksum)
    assert len(encoded) == CRC_PROPERTY_SIZE
    assert int(encoded[9:19][::-1]) == checksum


def test_checksum_property_is_recognised_only_at_the_end() -> None:
    assert has_crc_property(b"TAGS\x01a\x02" + crc_property(5))
    assert not has_crc_property(crc_property(5) + b"TAGS\x01a\x02")
    assert not has_crc_property(b"")


def test_name_that_ends_like_the_checksum_key_is_no_checksum() -> None:
    assert not has_crc_property(b"x__CRC32#\x01abcdefghij\x02")
    assert not has_crc_property(b"k\x01__CRC32#\x01abcdefghij\x02")
    assert not has_crc_property(b"__CRC32#\x01short\x02")


def test_damaged_digits_still_count_as_a_checksum_property() -> None:
    assert has_crc_property(b"__CRC32#\x01x780607090\x00")


def test_record_checksum_leaves_out_its_own_property() -> None:
    assert record_crc(b"hello" + bytes(20)) == body_crc(b"hello")
