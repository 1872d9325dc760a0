from __future__ import annotations

import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.message.message import Message
from flaremq.message.properties import encode_properties, parse_properties, strip_unstored


def test_plain_message_has_no_properties() -> None:
    assert Message("orders", b"x").encoded_properties() == b""


def test_tags_and_keys_are_stored_as_properties() -> None:
    message = Message("orders", b"x", tags="paid", keys=["o-1", "o-2"])
    assert message.encoded_properties() == b"KEYS\x01o-1 o-2\x02TAGS\x01paid\x02"
    assert message.keys == ["o-1", "o-2"]


def test_keys_may_be_any_iterable() -> None:
    message = Message("orders", b"x", keys=(f"k{n}" for n in range(3)))
    assert message.encoded_properties() == b"KEYS\x01k0 k1 k2\x02"
    assert message.encoded_properties() == b"KEYS\x01k0 k1 k2\x02"  # an iterator must not be used up


def test_one_string_of_keys_is_split_at_spaces() -> None:
    assert Message("orders", b"x", keys="a  b").keys == ["a", "b"]
    assert Message("orders", b"x").keys == []


def test_delay_and_wait_are_stored_only_when_asked_for() -> None:
    message = Message("orders", b"x", delay_level=3, wait_store_msg_ok=False)
    assert message.encoded_properties() == b"DELAY\x013\x02WAIT\x01false\x02"


def test_named_arguments_win_over_equal_property_names() -> None:
    message = Message("orders", b"x", tags="new", properties={"TAGS": "old", "a": "1"})
    assert parse_properties(message.encoded_properties()) == {"TAGS": "new", "a": "1"}
    assert message.encoded_properties().count(b"TAGS") == 1


def test_empty_tags_and_keys_are_left_out() -> None:
    assert Message("orders", b"x", tags="", keys="").encoded_properties() == b""


MESSAGES = [
    Message("t", b""),
    Message("t", b"", tags="a"),
    Message("t", b"", keys="k"),
    Message("t", b"", tags="a", keys=["k", "l"]),
    Message("t", b"", tags="标签"),
    Message("t", b"", tags="a", properties={"x": "1", "y": "2"}),
    Message("t", b"", properties={"x": "1"}, delay_level=2),
    Message("t", b"", properties={"KEYS": "k"}),
    Message("t", b"", properties={"__CRC32#": "0780607090"}),
    Message("t", b"", properties={"__RMQ.TRANSIENT.a": "1", "b": "2"}, tags="a"),
    Message("t", b"", properties={"键": "值"}, wait_store_msg_ok=False),
    Message("t", b"", properties={}, delay_level=1),
]


@pytest.mark.parametrize("message", MESSAGES, ids=repr)
def test_fast_encoding_equals_the_plain_one(message: Message) -> None:
    assert message.encoded_properties() == strip_unstored(encode_properties(message.stored_properties()))


@pytest.mark.parametrize(
    "message",
    [
        Message("t", b"", tags="a\x01"),
        Message("t", b"", tags="a\x02b"),
        Message("t", b"", keys="\x02"),
        Message("t", b"", tags="a", keys="b\x01TAGS"),
        Message("t", b"", properties={"a": "\x01"}),
        Message("t", b"", properties={"": "b"}),
        Message("t", b"", properties={"a": ""}),
        Message("t", b"", properties={"a": "1"}, tags="\x02"),
        Message("t", b"", tags="\ud800"),
        Message("t", b"", properties={"a": "\udfff"}),
        Message("t", b"", properties={"a": 1}),  # type: ignore[dict-item]
    ],
)
def test_properties_that_cannot_be_stored_are_refused(message: Message) -> None:
    with pytest.raises(InvalidArgumentError):
        message.encoded_properties()


@pytest.mark.parametrize("body", [bytearray(b"abc"), memoryview(b"abc")])
def test_any_buffer_is_taken_as_body_and_copied(body: bytearray | memoryview) -> None:
    message = Message("orders", body)
    assert message.body == b"abc" and type(message.body) is bytes


def test_text_as_body_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="must be bytes, not str"):
        Message("orders", "text")  # type: ignore[arg-type]


def test_keys_that_are_no_strings_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="keys"):
        Message("orders", b"", keys=[1, 2])  # type: ignore[list-item]
    with pytest.raises(InvalidArgumentError, match="keys"):
        Message("orders", b"", keys=5)  # type: ignore[arg-type]


def test_message_from_stored_properties_equals_the_original() -> None:
    original = Message("orders", b"x", tags="t", keys=["k"], properties={"a": "1"}, flag=4, delay_level=2)
    stored = parse_properties(original.encoded_properties())
    again = Message.from_properties("orders", b"x", stored, flag=4)
    assert again == original
    assert (again.tags, again.keys, again.delay_level, again.wait_store_msg_ok) == ("t", ["k"], 2, True)


def test_message_from_stored_properties_keeps_wait() -> None:
    assert not Message.from_properties("t", b"", {"WAIT": "false"}).wait_store_msg_ok
    assert Message.from_properties("t", b"", {"WAIT": "true"}).encoded_properties() == b"WAIT\x01true\x02"


def test_delay_that_is_no_number_counts_as_none() -> None:
    assert Message.from_properties("t", b"", {"DELAY": "soon"}).delay_level == 0


def test_messages_compare_by_content() -> None:
    assert Message("t", b"x", tags="a") == Message("t", b"x", properties={"TAGS": "a"})
    assert Message("t", b"x") != Message("t", b"y")
    assert Message("t", b"x") != "t"


def test_repr_names_topic_and_size_but_not_the_body() -> None:
    text = repr(Message("orders", b"secret", tags="a"))
    assert "orders" in text and "6 bytes" in text and "secret" not in text
