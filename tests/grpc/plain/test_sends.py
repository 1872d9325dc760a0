"""The short way of sends says the same as the ordinary one, or nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Encoding, MessageType
from flaremq.grpc.plain.sends import PlainSend, read_plain_send, sent_reply
from flaremq.grpc.rules.limits import CallLimits
from flaremq.grpc.rules.outgoing import outgoing
from flaremq.grpc.rules.status import OK, Refused
from flaremq.message.properties import parse_properties
from tests.grpc.door_lab import message, resource
from tests.grpc.mutation import Mutations

NOW = 1_700_000_000_000
PEER = "10.1.2.3"
LIMITS = CallLimits(max_message_size=2_000, max_user_property_size=300, user_property_max_num=4)

texts = st.text(st.characters(min_codepoint=0x1F, max_codepoint=0x80), max_size=40)
names = st.one_of(texts, st.sampled_from(["TAGS", "INNER_X", "TIMER_DX", "a__CRC32#b", "WAIT", "DELAY", "shape"]))
requests = st.builds(
    lambda body, properties, fields: made(body, properties, **fields),
    st.binary(max_size=2_100),
    st.dictionaries(names, texts, max_size=5),
    st.fixed_dictionaries(
        {"message_id": texts, "message_type": st.integers(0, 5)},
        optional={
            "tag": texts,
            "keys": st.lists(texts, max_size=3),
            "body_encoding": st.integers(0, 2),
            "born_host": texts,
            "queue_id": st.integers(-1, 7),
            "message_group": texts,
            "delivery_attempt": st.integers(0, 3),
            "trace_context": texts,
        },
    ),
)


def made(body: bytes, properties: dict[str, str], **fields: Any) -> Any:
    system = classes.SystemProperties(**fields)
    system.born_timestamp.seconds = 1_700_000_000
    return classes.SendMessageRequest(
        messages=[classes.Message(topic=resource("T"), body=body, user_properties=properties, system_properties=system)]
    )


def read(data: bytes) -> PlainSend | None:
    return read_plain_send(
        b"12345" + data,
        5,
        LIMITS.max_message_size,
        LIMITS.max_user_property_size,
        LIMITS.user_property_max_num,
        NOW,
        PEER.encode(),
    )


def check(data: bytes) -> bool:
    """Whether the short way has read it; it must have read what the ordinary way reads."""
    found = read(data)
    if found is None:
        return False
    request = classes.SendMessageRequest.FromString(data)
    assert len(request.messages) == 1
    name = request.messages[0].topic.name
    expected = outgoing(request.messages[0], name, LIMITS, peer=PEER, now_ms=NOW)
    assert (expected.kind, expected.sys_flag, expected.message_group) == (MessageType.NORMAL, 0, None)
    assert not request.messages[0].topic.resource_namespace
    assert found.topic.decode() == name
    assert found.message_id.decode() == expected.message_id
    assert found.body == expected.body
    assert found.born_ms == expected.born_ms
    assert parse_properties(found.properties) == expected.properties
    assert sorted(found.properties.split(b"\x02")) == sorted(expected.properties_text.encode().split(b"\x02"))
    return True


PLAIN = {"message_id": "ID", "body_encoding": Encoding.IDENTITY, "message_type": MessageType.NORMAL, "queue_id": 3}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"tag": "paid"},
        {"keys": ["a", "b c"]},
        {"born_host": "vm"},
        {"message_type": 0, "body_encoding": 0, "queue_id": 0},
        {"queue_id": 2**31 - 1, "message_id": "x" * 1024},
    ],
)
def test_plain_messages_are_read(fields: dict[str, Any]) -> None:
    assert check(made(b"x" * 2_000, {"colour": "red", "size": "7"}, **PLAIN | fields).SerializeToString())


def test_the_order_of_properties_is_that_of_the_ordinary_way() -> None:
    request = made(b"x", {"colour": "red"}, **PLAIN, tag="t", keys=["k"])
    found = read(request.SerializeToString())
    assert found is not None
    expected = outgoing(request.messages[0], "T", LIMITS, peer=PEER, now_ms=NOW)
    assert found.properties == expected.properties_text.encode()


@pytest.mark.parametrize(
    "fields",
    [
        {"message_type": MessageType.TRANSACTION},
        {"message_type": MessageType.FIFO},
        {"message_group": "g"},
        {"delivery_timestamp": classes.Timestamp(seconds=1)},
        {"body_encoding": Encoding.GZIP},
        {"body_digest": classes.Digest(type=1, checksum="0")},
        {"lite_topic": "l"},
        {"priority": 1},
        {"trace_context": "t"},
        {"delivery_attempt": 2},
        {"tag": "a|b"},
        {"tag": "ä"},
        {"keys": [" "]},
        {"message_id": " "},
        {"message_id": "x" * 1025},
        {"orphaned_transaction_recovery_duration": classes.Duration(seconds=1)},
    ],
)
def test_what_is_not_plain_is_left_alone(fields: dict[str, Any]) -> None:
    assert read(made(b"x", {}, **PLAIN | fields).SerializeToString()) is None


@pytest.mark.parametrize(
    "name",
    ["TAGS", "KEYS", "DELAY", "WAIT", "INNER_X", "TIMER_DX", "x CRC32", "__SHARDINGKEY", "", " ", "\x02"],
)
def test_names_of_the_broker_are_left_alone(name: str) -> None:
    assert read(made(b"x", {name: "v"}, **PLAIN).SerializeToString()) is None


def test_several_messages_or_none_are_left_alone() -> None:
    one = made(b"x", {}, **PLAIN)
    data = one.SerializeToString()
    assert read(data) is not None
    assert read(data * 2) is None
    assert read(b"") is None
    assert read(data + b"\x10\x01") is None  # a field that nobody knows
    assert all(read(data[:size]) is None for size in range(len(data)))


def test_a_namespace_is_left_alone() -> None:
    request = made(b"x", {}, **PLAIN)
    request.messages[0].topic.resource_namespace = "n"
    assert read(request.SerializeToString()) is None


def test_a_body_that_is_empty_or_too_large_is_left_alone() -> None:
    assert read(made(b"", {}, **PLAIN).SerializeToString()) is None
    assert read(made(b"x" * 2_001, {}, **PLAIN).SerializeToString()) is None


@given(requests)
def test_any_message_is_read_as_the_ordinary_way_does_or_not_at_all(request: Any) -> None:
    check(request.SerializeToString())


def test_changed_bytes_are_read_as_the_ordinary_way_does_or_not_at_all() -> None:
    mutations, read_ones = Mutations(5), 0
    whole = [
        made(b"body", {}, **PLAIN),
        made(b"body", {"colour": "red", "size": "7"}, **PLAIN, tag="t", keys=["k", "l"], born_host="vm"),
        classes.SendMessageRequest(messages=[message("T", tag="A")]),
    ]
    for number in range(6_000):
        data = mutations.of(random.Random(number).choice(whole))
        try:
            read_ones += check(data)
        except (classes.DecodeError, Refused) as error:
            raise AssertionError(f"{data.hex()} is not plain: {error!r}") from error
    assert 500 < read_ones < 5_500


@pytest.mark.parametrize("offset", [0, 1, 127, 128, 300, 2**31, 2**62])
@pytest.mark.parametrize("message_id", [b"0102FC000000016F110B10FCA30000CA08", b"i", b"x" * 1024])
def test_a_reply_is_what_protobuf_makes_of_it(offset: int, message_id: bytes) -> None:
    text = message_id.decode()
    entry = classes.SendResultEntry(status=OK, message_id=text, transaction_id=text, offset=offset)
    expected = classes.SendMessageResponse(status=OK, entries=[entry]).SerializeToString()
    status = classes.SendMessageResponse(status=OK).SerializeToString()
    assert sent_reply(status, message_id, offset) == b"\0" + len(expected).to_bytes(4, "big") + expected
