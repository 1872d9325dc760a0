from __future__ import annotations

import pytest

from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.message.hosts import encode_host
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.codec import (
    BLANK,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    body_at,
    check_record,
    decode_header,
    encode_blank,
    store_timestamp_at,
)
from tests.message.records import VECTOR, make_record


def test_record_of_the_format_description_is_encoded_byte_for_byte() -> None:
    assert make_record() == VECTOR


def test_blank_header_holds_the_remaining_size() -> None:
    assert encode_blank(100).hex() == "00000064cbd43194"
    assert BLANK.unpack(encode_blank(8)) == (8, MAGIC_BLANK)


def test_magic_numbers_are_the_bytes_on_disk() -> None:
    assert MAGIC_V1.to_bytes(4, "big", signed=True).hex() == "daa320a7"
    assert MAGIC_V2.to_bytes(4, "big", signed=True).hex() == "daa320ab"


def test_header_decodes_at_any_place() -> None:
    header = decode_header(b"\x00" * 5 + VECTOR, 5)
    assert header.total_size == 125
    assert (header.queue_id, header.queue_offset, header.physical_offset) == (3, 7, 1234)
    assert header.born_timestamp == 1700000000000


def test_header_cut_short_is_corruption() -> None:
    with pytest.raises(CorruptionError, match="header"):
        decode_header(VECTOR[:47])


def test_topic_of_127_bytes_still_makes_a_v1_record() -> None:
    record = make_record(topic=b"t" * 127)
    assert decode_header(record).magic == MAGIC_V1
    assert len(record) == 91 + 5 + 127 + 20


def test_longer_topic_makes_a_v2_record() -> None:
    record = make_record(topic=b"t" * 128)
    assert decode_header(record).magic == MAGIC_V2
    assert len(record) == 92 + 5 + 128 + 20
    assert MessageExt(record).topic == "t" * 128


def test_topic_that_does_not_fit_a_forced_v1_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="topic of 128 bytes"):
        make_record(topic=b"t" * 128, magic=MAGIC_V1)


@pytest.mark.parametrize(
    ("born", "store", "bits", "extra"),
    [
        ("1.2.3.4:5", "6.7.8.9:10", 0x00, 0),
        ("[::1]:5", "6.7.8.9:10", 0x10, 12),
        ("1.2.3.4:5", "[fe80::1]:10", 0x20, 12),
        ("[::1]:5", "[fe80::1]:10", 0x30, 24),
    ],
)
def test_hosts_decide_the_ipv6_bits_and_the_size(born: str, store: str, bits: int, extra: int) -> None:
    record = make_record(born_host=encode_host(born), store_host=encode_host(store), sys_flag=0x31)
    message = MessageExt(record)
    assert message.sys_flag == bits | 1
    assert len(record) == len(VECTOR) + extra
    assert bytes(record[body_at(bits) : body_at(bits) + 5]) == b"hello"
    assert int.from_bytes(record[store_timestamp_at(bits) : store_timestamp_at(bits) + 8], "big") == 1700000000123
    assert message.store_timestamp == 1700000000123
    assert check_record(record, strict=True).ok


def test_properties_of_32767_bytes_fit_and_one_more_is_refused() -> None:
    assert check_record(make_record(properties=b"k\x01" + b"v" * 32764 + b"\x02"), strict=True).ok
    with pytest.raises(InvalidArgumentError, match="32768 bytes"):
        make_record(properties=b"k\x01" + b"v" * 32765 + b"\x02")


def test_checksum_property_counts_towards_the_limit() -> None:
    fits = b"k\x01" + b"v" * (32767 - 20 - 3) + b"\x02"
    assert check_record(make_record(properties=fits, append_crc=True), require_record_crc=True).ok
    with pytest.raises(InvalidArgumentError):
        make_record(properties=fits[:2] + b"v" + fits[2:], append_crc=True)


@pytest.mark.parametrize(
    ("properties", "joined"),
    [
        (b"", b"__CRC32#"),
        (b"a\x011\x02", b"a\x011\x02__CRC32#"),
        (b"a\x011", b"a\x011\x02__CRC32#"),
    ],
)
def test_checksum_property_follows_a_separator(properties: bytes, joined: bytes) -> None:
    raw = bytes(MessageExt(make_record(properties=properties, append_crc=True)).raw_properties)
    assert raw.startswith(joined + b"\x01")
    assert len(raw) == len(joined) - 8 + 20


def test_empty_body_has_checksum_zero() -> None:
    record = make_record(body=b"")
    assert decode_header(record).body_crc == 0
    assert check_record(record).ok


def test_body_may_be_any_buffer() -> None:
    assert make_record(body=bytearray(b"hello")) == make_record(body=memoryview(b"hello")) == VECTOR
