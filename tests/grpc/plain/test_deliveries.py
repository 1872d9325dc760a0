"""The short way of deliveries makes of a record what the ordinary one makes, or nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.errors import CorruptionError
from flaremq.grpc.framing import MessageReader, prefixed
from flaremq.grpc.messages import classes
from flaremq.grpc.plain.deliveries import Deliveries, PlainRecord, read_plain_record
from flaremq.grpc.rules.delivered import delivered, message_id_of
from flaremq.grpc.rules.outgoing import RESERVED
from flaremq.grpc.rules.pop_reply import PopReply
from flaremq.grpc.rules.times import duration
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.codec import encode_record

HOST = bytes((10, 1, 2, 3)) + (40_000).to_bytes(4, "big")
HOST_V6 = bytes(range(16)) + (40_000).to_bytes(4, "big")
FIELDS: dict[str, Any] = {
    "topic": b"stored-under",
    "body": b"hello",
    "queue_id": 3,
    "queue_offset": 7,
    "physical_offset": 123_456,
    "born_timestamp": 1_700_000_000_123,
    "born_host": HOST,
    "store_timestamp": 1_700_000_001_000,
    "store_host": HOST,
}
PLAIN = {"UNIQ_KEY": "01AB", "BORN_TIMESTAMP": "1700000000123", "__BORNHOST": "vm", "PGROUP": "T"}
texts = st.text(st.characters(min_codepoint=0x1F, max_codepoint=0x80), max_size=20)
names = st.one_of(texts, st.sampled_from([*sorted(RESERVED), "TIMER_DELX", "ORIGIN_GROUP", "colour", "__SHARDINGKEY"]))
times = st.one_of(st.just(0), st.integers(-1_000, 2**53))
rests = st.fixed_dictionaries(
    {},
    optional={
        "body": st.binary(max_size=300),
        "queue_id": st.integers(-1, 2**31 - 1),
        "queue_offset": st.integers(-1, 2**62),
        "physical_offset": st.integers(-1, 2**62),
        "born_timestamp": times,
        "store_timestamp": times,
        "reconsume_times": st.integers(-1, 300),
        "sys_flag": st.sampled_from([0, 0x100, 0x700, 1, 4, 8, 0x80]),
        "flag": st.integers(0, 2**31 - 1),
        "born_host": st.sampled_from([HOST, HOST_V6]),
        "store_host": st.sampled_from([HOST, HOST_V6]),
        "topic": st.sampled_from([b"T", b"T" * 200]),
        "append_crc": st.booleans(),
    },
)


def text_of(properties: dict[str, str], *, ends: bool = True) -> bytes:
    text = "\x02".join(f"{name}\x01{value}" for name, value in properties.items())
    return (text + ("\x02" if ends and text else "")).encode()


def record(properties: bytes = text_of(PLAIN), **fields: Any) -> bytes:
    return encode_record(properties=properties, **FIELDS | fields)


def made(plain: PlainRecord, handle: str = "a handle", attempt: int = 1, invisible_ms: int = 30_000) -> Any:
    out = Deliveries(classes.Resource(name="T").SerializeToString(), duration(invisible_ms).SerializeToString())
    out.add(plain, handle.encode(), attempt)
    return out.take()


def expected(stored: bytes, handle: str = "a handle", attempt: int = 1, invisible_ms: int = 30_000) -> Any:
    message = delivered(
        MessageExt(stored), topic="T", handle=handle, reconsume_times=attempt - 1, invisible_ms=invisible_ms
    )
    return prefixed(classes.ReceiveMessageResponse(message=message).SerializeToString())


def check(stored: bytes, **given: Any) -> bool:
    """Whether the short way has read it; then it must say what the ordinary way says."""
    plain = read_plain_record(memoryview(stored))
    if plain is None:
        return False
    message = MessageExt(stored)
    assert plain.message_id.decode() == message_id_of(message)
    assert plain.tag.decode() == (message.tags or "")
    assert plain.reconsume_times == message.reconsume_times
    answer = PopReply({"popTime": "5", "startOffsetInfo": "0 3 6"}, "b")
    receipt = answer.receipt(message)
    assert answer.plain_receipt(plain.queue_id, plain.queue_offset, plain.physical_offset) == receipt
    assert answer.plain_words(plain.queue_id, plain.queue_offset, plain.physical_offset).decode() == " ".join(
        map(str, receipt)
    )
    short, ordinary = made(plain, **given), expected(stored, **given)
    if len(message.properties) <= 5:  # no map whose order is open
        assert short == ordinary
    found, wanted = (
        [classes.ReceiveMessageResponse.FromString(each) for each in MessageReader(1 << 30, "").feed(data)]
        for data in (short, ordinary)
    )
    assert found == wanted
    return True


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"colour": "red"},
        {"TAGS": "paid"},
        {"KEYS": "a  bc d"},
        {"WAIT": "true", "MSG_REGION": "r", "TRACE_ON": "true"},
        {"UNIQ_KEY": "x" * 1_100},
    ],
)
def test_plain_records_are_read(changes: dict[str, str]) -> None:
    assert check(record(text_of(PLAIN | changes)))
    assert check(record(text_of(PLAIN | changes, ends=False)))


@pytest.mark.parametrize("body", [b"", b"x", b"x" * 127, b"x" * 128, bytes(range(256)) * 80, bytes(3 << 20)])
def test_bodies_of_any_length_are_given(body: bytes) -> None:
    assert check(record(body=body))


@pytest.mark.parametrize("given", [{"attempt": 129}, {"invisible_ms": 1}, {"invisible_ms": 0}, {"handle": "h" * 1_000}])
def test_what_is_told_of_the_delivery_is_the_same(given: dict[str, Any]) -> None:
    assert check(record(), **given)


def test_a_message_of_another_protocol_has_the_address_it_came_from() -> None:
    assert check(record(b"UNIQ_KEY\x01A"))


@pytest.mark.parametrize("name", ["TIMER_DELIVER_MS", "__SHARDINGKEY", "POP_CK", "DELAY", "TRAN_MSG", "TRACE_CONTEXT"])
def test_names_that_steer_are_left_alone(name: str) -> None:
    assert read_plain_record(record(text_of(PLAIN | {name: "1"}))) is None


@pytest.mark.parametrize(
    "properties", [b"", b"colour\x01red\x02", b"UNIQ_KEY\x01", b"UNIQ_KEY\x01A\x02\x02", "UNIQ_KEY\x01ä".encode()]
)
def test_properties_that_are_not_plain_are_left_alone(properties: bytes) -> None:
    assert read_plain_record(record(properties)) is None


def test_several_messages_stand_one_behind_the_other() -> None:
    out = Deliveries(classes.Resource(name="T").SerializeToString(), b"")
    out.append(b"before")
    wanted = b"before"
    for number in range(60):
        stored = record(body=bytes(number * 50), queue_offset=number)
        plain = read_plain_record(stored)
        assert plain is not None
        out.add(plain, b"h", 1)
        wanted += expected(stored, handle="h", invisible_ms=0)
    assert out.size == len(wanted)
    assert out.take() == wanted
    assert (out.size, out.take()) == (0, b"")
    out.append(b"x" * 100_000)
    assert out.take() == b"x" * 100_000


@given(st.dictionaries(names, texts, max_size=6), rests, st.booleans(), st.booleans())
def test_any_record_is_given_as_the_ordinary_way_gives_it_or_not_at_all(
    properties: dict[str, str], rest: dict[str, Any], is_ours: bool, ends: bool
) -> None:
    check(record(text_of(properties | PLAIN if is_ours else properties, ends=ends), **rest))


def test_damaged_records_are_given_as_the_ordinary_way_gives_them_or_not_at_all() -> None:
    whole = record(text_of(PLAIN | {"colour": "red", "TAGS": "t", "KEYS": "k l"}))
    given_ones = 0
    for number in range(6_000):
        dice, stored = random.Random(number), bytearray(whole)
        for _ in range(dice.choice((1, 1, 2, 5))):
            at = dice.randrange(len(stored))
            how = dice.randrange(4)
            if how == 0:
                del stored[at:]
            elif how == 1:
                stored[at] ^= 1 << dice.randrange(8)
            else:
                stored[at] = dice.randrange(256)
            if not stored:
                break
        try:
            given_ones += check(bytes(stored))
        except (CorruptionError, ValueError) as error:
            raise AssertionError(f"{stored.hex()} is not plain: {error!r}") from error
    assert given_ones > 500
