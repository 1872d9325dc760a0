"""Random messages and random bytes: decode after encode is the identity, and nothing else raises."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flaremq.errors import CorruptionError
from flaremq.message.batch import decode_batch, encode_batch
from flaremq.message.hosts import encode_host, format_host
from flaremq.message.java_hash import continue_hash, java_hash
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import (
    edit_properties,
    encode_properties,
    find_property,
    parse_properties,
    strip_unstored,
)
from flaremq.message.record.codec import CheckReason, check_record, encode_record

I32 = st.integers(-(1 << 31), (1 << 31) - 1)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)
COUNT = st.integers(0, (1 << 63) - 1)
NAME = st.text("abcXYZ019%-_|", min_size=1, max_size=255).map(str.encode)
TEXT = st.text(st.characters(exclude_characters="\x00\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=12)
PROPERTIES = st.dictionaries(TEXT, TEXT, max_size=6)
HOST = st.one_of(
    st.builds(lambda a, p: f"{a}:{p}", st.ip_addresses(v=4), st.integers(0, 65535)),
    st.builds(lambda a, p: f"[{a}]:{p}", st.ip_addresses(v=6), st.integers(0, 65535)),
).map(encode_host)

FIELDS = st.fixed_dictionaries(
    {
        "topic": NAME,
        "body": st.binary(max_size=300),
        "properties": PROPERTIES.map(encode_properties),
        "queue_id": st.integers(0, (1 << 31) - 1),
        "queue_offset": COUNT,
        "physical_offset": COUNT,
        "born_timestamp": I64,
        "born_host": HOST,
        "store_timestamp": st.integers(1, (1 << 63) - 1),
        "store_host": HOST,
        "flag": I32,
        "sys_flag": st.integers(0, 0x7FF),
        "reconsume_times": I32,
        "prepared_transaction_offset": I64,
        "append_crc": st.booleans(),
    }
)


@given(FIELDS)
def test_encoded_record_reads_back_field_by_field(fields: dict[str, Any]) -> None:
    record = encode_record(**fields)
    message = MessageExt(record)
    assert message.size == len(record)
    assert message.topic.encode() == fields["topic"]
    assert message.stored_body == fields["body"]
    assert message.born_host_bytes == fields["born_host"]
    assert message.store_host_bytes == fields["store_host"]
    assert message.sys_flag & ~0x30 == fields["sys_flag"] & ~0x30
    for name in ("queue_id", "queue_offset", "physical_offset", "born_timestamp", "store_timestamp", "flag"):
        assert getattr(message, name) == fields[name]
    for name in ("reconsume_times", "prepared_transaction_offset"):
        assert getattr(message, name) == fields[name]
    properties = dict(message.properties)
    assert (properties.pop("__CRC32#", None) is not None) is fields["append_crc"]
    assert properties == parse_properties(fields["properties"])
    check = check_record(
        record,
        physical_offset=fields["physical_offset"],
        strict=True,
        require_record_crc=fields["append_crc"],
    )
    assert check == (CheckReason.OK, len(record))


@given(FIELDS, st.data())
def test_no_damaged_byte_goes_unnoticed_under_the_record_checksum(fields: dict[str, Any], data: st.DataObject) -> None:
    record = bytearray(encode_record(**(fields | {"append_crc": True})))
    at = data.draw(st.integers(0, len(record) - 1))
    record[at] ^= data.draw(st.integers(1, 255))
    assert not check_record(record, require_record_crc=True).ok


@given(FIELDS, st.data())
def test_cut_record_is_never_good(fields: dict[str, Any], data: st.DataObject) -> None:
    record = encode_record(**fields)
    length = data.draw(st.integers(0, len(record) - 1))
    assert check_record(record[:length]).reason is CheckReason.TRUNCATED


@given(st.binary(max_size=400), st.integers(0, 20))
def test_check_of_random_bytes_always_answers(data: bytes, at: int) -> None:
    assert not check_record(data, at, strict=True).ok


@given(st.binary(max_size=200), st.sampled_from([b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab"]), st.booleans())
def test_check_of_random_bytes_behind_a_magic_always_answers(rest: bytes, magic: bytes, exact: bool) -> None:
    size = len(rest) + 8 if exact else int.from_bytes(rest[:1] or b"\x00", "big")
    data = size.to_bytes(4, "big") + magic + rest
    assert isinstance(check_record(data, strict=True).reason, CheckReason)
    message = MessageExt(data)
    for field in ("topic", "body", "properties", "message_id", "born_host"):
        with contextlib.suppress(CorruptionError):
            getattr(message, field)


@given(PROPERTIES)
def test_properties_survive(properties: dict[str, str]) -> None:
    data = encode_properties(properties)
    assert parse_properties(data) == properties
    assert parse_properties(data.removesuffix(b"\x02")) == properties


PIECES = st.lists(st.sampled_from([b"a", b"b", b"ab", b"\x01", b"\x02", b"\xff", "键".encode()]), max_size=20).map(
    b"".join
)


@given(PIECES, st.sampled_from(["a", "b", "ab"]))
def test_finding_agrees_with_parsing_on_any_bytes(data: bytes, key: str) -> None:
    found = find_property(data, key.encode())
    assert (None if found is None else str(found, "utf-8", "replace")) == parse_properties(data).get(key)


@given(PIECES, st.sampled_from(["a", "b"]), st.sampled_from([None, "new"]))
def test_editing_changes_one_property_only(data: bytes, key: str, value: str | None) -> None:
    expected = parse_properties(data)
    expected.pop(key, None)
    if value is not None:
        expected[key] = value
    assert parse_properties(edit_properties(data, {key: value})) == expected


MESSAGES = st.builds(
    Message,
    st.just("t"),
    st.binary(max_size=50),
    tags=st.none() | TEXT,
    keys=st.none() | TEXT | st.lists(TEXT, max_size=3),
    properties=st.none()
    | st.dictionaries(TEXT | st.sampled_from(["TAGS", "KEYS", "__CRC32#", "DELAY"]), TEXT, max_size=4),
    flag=I32,
    delay_level=st.integers(0, 20),
    wait_store_msg_ok=st.booleans(),
)


@given(MESSAGES)
def test_fast_property_encoding_equals_the_plain_one(message: Message) -> None:
    assert message.encoded_properties() == strip_unstored(encode_properties(message.stored_properties()))


@given(st.lists(MESSAGES, max_size=5))
def test_batch_survives(messages: list[Message]) -> None:
    items = [(item.flag, bytes(item.body), bytes(item.properties)) for item in decode_batch(encode_batch(messages))]
    assert items == [(m.flag, m.body, m.encoded_properties()) for m in messages]


@given(st.binary(max_size=200))
def test_random_batch_body_raises_nothing_but_corruption(data: bytes) -> None:
    with contextlib.suppress(CorruptionError):
        list(decode_batch(data))


@given(st.text(max_size=100), st.text(max_size=100))
def test_hash_of_a_sum_continues_the_hash_of_its_first_part(first: str, second: str) -> None:
    units = (first + second).encode("utf-16-be", "surrogatepass")
    h = 0
    for at in range(0, len(units), 2):
        h = (31 * h + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    expected = h - (1 << 32) if h >= 1 << 31 else h
    assert java_hash(first + second) == continue_hash(java_hash(first), second) == expected


@given(HOST)
def test_host_text_survives(host: bytes) -> None:
    assert encode_host(format_host(host)) == host
