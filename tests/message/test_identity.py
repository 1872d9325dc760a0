"""Hosts and message ids."""

from __future__ import annotations

import time

import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.message.hosts import encode_host, format_host
from flaremq.message.message_id import UniqueKeyFactory, decode_message_id, encode_message_id


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("10.0.0.5:10911", "0a00000500002a9f"),
        ("[::1]:10911", "0000000000000000000000000000000100002a9f"),
        ("::1:10911", "0000000000000000000000000000000100002a9f"),
        ("[::ffff:10.0.0.5]:10911", "0a00000500002a9f"),
        ("[fe80::1%eth0]:1", "fe80000000000000000000000000000100000001"),
    ],
)
def test_host_is_stored_as_address_and_port(text: str, stored: str) -> None:
    assert encode_host(text).hex() == stored


@pytest.mark.parametrize("text", ["127.0.0.1:0", "255.255.255.255:65535", "[1:0:0:2:0:0:0:abcd]:80"])
def test_host_text_survives_both_ways(text: str) -> None:
    assert format_host(encode_host(text)) == text


@pytest.mark.parametrize("text", ["", "10.0.0.5", "10.0.0.5:", "10.0.0.5:x", "10.0.0.5:65536", "a:1", "1.2.3:4", ":5"])
def test_host_that_is_no_address_and_port_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="not address:port"):
        encode_host(text)


def test_impossible_port_is_still_printed() -> None:
    assert format_host(b"\x01\x02\x03\x04\xff\xff\xff\xff") == "1.2.3.4:-1"


def test_offset_id_is_upper_case_hex_of_host_and_offset() -> None:
    assert encode_message_id(encode_host("10.0.0.5:10911"), 1234) == "0A00000500002A9F00000000000004D2"


@pytest.mark.parametrize("host", ["10.0.0.5:10911", "[0:0:0:0:0:0:0:1]:10911"])
def test_offset_id_leads_back_to_host_and_offset(host: str) -> None:
    assert decode_message_id(encode_message_id(encode_host(host), 1 << 40)) == (host, 1 << 40)
    assert decode_message_id(encode_message_id(encode_host(host), 7).lower()) == (host, 7)


@pytest.mark.parametrize("text", ["", "0A", "G" * 32, "0" * 31, "0" * 34, "0 " * 16, "00 " * 10 + "00"])
def test_malformed_offset_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="message id"):
        decode_message_id(text)


def make_factory() -> UniqueKeyFactory:
    return UniqueKeyFactory(address=bytes([10, 0, 0, 5]), process_id=0x12345, instance_hash=-1)


def test_unique_keys_count_up_and_wrap() -> None:
    factory = make_factory()
    now_ms = int(time.mktime((2024, 5, 1, 0, 0, 1, 0, 0, -1))) * 1000
    assert factory.make(now_ms) == "0A0000052345FFFFFFFF000003E80000"
    assert factory.make(now_ms) == "0A0000052345FFFFFFFF000003E80001"
    keys = {factory.make(now_ms) for _ in range(65536)}
    assert len(keys) == 65536


def test_unique_key_counts_milliseconds_of_the_month() -> None:
    factory = make_factory()
    december = int(time.mktime((2023, 12, 31, 23, 59, 59, 0, 0, -1))) * 1000
    january = int(time.mktime((2024, 1, 1, 0, 0, 0, 0, 0, -1))) * 1000
    assert int(factory.make(december)[20:28], 16) == 31 * 86_400_000 - 1000
    assert int(factory.make(january)[20:28], 16) == 0


def test_clock_stepping_back_over_the_month_counts_as_its_start() -> None:
    factory = make_factory()
    start = int(time.mktime((2024, 1, 1, 0, 0, 0, 0, 0, -1))) * 1000
    factory.make(start)
    assert int(factory.make(start - 500)[20:28], 16) == 0


def test_address_of_an_odd_size_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="5 bytes"):
        UniqueKeyFactory(address=bytes(5), process_id=1, instance_hash=1)
