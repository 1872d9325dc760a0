"""What a client sends is judged in the order of the original, and stored under the names of the other protocol."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from typing import Any

import pytest

from flaremq.grpc.messages.enums import Code, DigestType, Encoding, MessageType
from flaremq.grpc.rules.limits import CallLimits
from flaremq.grpc.rules.outgoing import RESERVED, Outgoing, outgoing
from flaremq.grpc.rules.status import Refused
from flaremq.message.sys_flag import COMPRESSED
from tests.grpc.door_lab import message

NOW = 1_700_000_000_000
LIMITS = CallLimits()
HOUR = 3_600_000


def made(given: Any, limits: CallLimits = LIMITS) -> Outgoing:
    return outgoing(given, "T", limits, peer="10.1.2.3", now_ms=NOW)


def code_of(given: Any) -> Code:
    with pytest.raises(Refused) as refused:
        made(given)
    assert refused.value.message
    return refused.value.code


# In the order in which they are looked at: each breaks its own rule and all that come after it.
RULES: list[tuple[Code, dict[str, Any]]] = [
    (Code.MESSAGE_BODY_EMPTY, {"body": b""}),
    (Code.MESSAGE_PROPERTIES_TOO_LARGE, {"properties": {f"p{number}": "v" for number in range(129)}}),
    (Code.ILLEGAL_MESSAGE_PROPERTY_KEY, {"properties": {"TAGS": "v"}}),
    (Code.ILLEGAL_MESSAGE_TAG, {"tag": "a|b"}),
    (Code.ILLEGAL_MESSAGE_KEY, {"keys": ["a\n"]}),
    (Code.MESSAGE_PROPERTIES_TOO_LARGE, {"properties": {"p": "v" * 16_384}}),
    (Code.ILLEGAL_MESSAGE_ID, {"message_id": " "}),
    (Code.BAD_REQUEST, {"message_type": MessageType.TRANSACTION, "recovery_seconds": 3601}),
    (Code.ILLEGAL_DELIVERY_TIME, {"delivery_timestamp": NOW + 25 * HOUR}),
    (Code.ILLEGAL_MESSAGE_GROUP, {"message_group": "g" * 64}),
]


@pytest.mark.parametrize("at", range(len(RULES)))
def test_rules_are_looked_at_in_the_order_of_the_original(at: int) -> None:
    broken: dict[str, Any] = {}
    for _, fields in reversed(RULES[at:]):
        broken |= fields
    body = broken.pop("body", b"x")
    assert code_of(message("T", body, **broken)) is RULES[at][0]


def test_a_body_has_a_largest_size() -> None:
    small = CallLimits(max_message_size=10)
    made(message("T", bytes(10)), small)
    with pytest.raises(Refused) as refused:
        made(message("T", bytes(11)), small)
    assert refused.value.code is Code.MESSAGE_BODY_TOO_LARGE


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_reserved_names_are_refused(name: str) -> None:
    assert code_of(message("T", properties={name: "v"})) is Code.ILLEGAL_MESSAGE_PROPERTY_KEY


def test_names_the_original_lets_through_are_users_own() -> None:
    for name in ("__SHARDINGKEY", "TRACE_CONTEXT", "__transactionId__", "TRANSACTION_CHECK_TIMES", "anything else"):
        assert made(message("T", properties={name: "v"})).properties[name] == "v"
    assert code_of(message("T", properties={"INNER_NUM": "9"})) is Code.ILLEGAL_MESSAGE_PROPERTY_KEY


@pytest.mark.parametrize("bad", ["\x00", "a\x01b", "a\x02b", "\n", "\x7f", "\x85"])
def test_control_characters_are_refused_everywhere(bad: str) -> None:
    key = Code.ILLEGAL_MESSAGE_PROPERTY_KEY
    assert code_of(message("T", properties={bad: "v"})) is key
    assert code_of(message("T", properties={"p": bad})) is key
    assert code_of(message("T", tag="t" + bad)) is Code.ILLEGAL_MESSAGE_TAG
    assert code_of(message("T", keys=["k" + bad])) is Code.ILLEGAL_MESSAGE_KEY
    assert code_of(message("T", message_id="i" + bad)) is Code.ILLEGAL_MESSAGE_ID
    assert code_of(message("T", message_group="g" + bad)) is Code.ILLEGAL_MESSAGE_GROUP
    assert code_of(message("T", trace_context="t" + bad)) is key
    assert code_of(message("T", lite_topic="l" + bad)) is Code.ILLEGAL_LITE_TOPIC
    given = message("T")
    given.system_properties.born_host = "h" + bad
    assert code_of(given) is key


def test_edges_of_the_rules() -> None:
    assert code_of(message("T", tag="  ")) is Code.ILLEGAL_MESSAGE_TAG
    assert "TAGS" not in made(message("T", tag="")).properties
    assert code_of(message("T", keys=[""])) is Code.ILLEGAL_MESSAGE_KEY
    assert code_of(message("T", message_group=" ")) is Code.ILLEGAL_MESSAGE_GROUP
    assert made(message("T", message_group="ä" * 31)).message_group == "ä" * 31
    assert code_of(message("T", message_group="ä" * 32)) is Code.ILLEGAL_MESSAGE_GROUP  # bytes, not characters
    made(message("T", properties={"p": "v" * 16_383}))
    made(message("T", properties={f"p{number}": "v" for number in range(128)}))
    assert "empty" not in made(message("T", properties={"empty": ""})).properties
    made(message("T", delivery_timestamp=NOW + 24 * HOUR))
    assert made(message("T", delivery_timestamp=NOW - HOUR)).kind is MessageType.DELAY


def test_what_is_set_is_stored_under_the_other_protocol_s_names() -> None:
    given = message(
        "T", b"x", message_id="ID", tag="t", keys=["a", "b"], message_group="g", trace_context="tc",
        delivery_attempt=3, properties={"own": "v"},
    )  # fmt: skip
    result = made(given)
    assert result.properties == {
        "UNIQ_KEY": "ID", "own": "v", "TAGS": "t", "KEYS": "a b", "__SHARDINGKEY": "g", "TRACE_CONTEXT": "tc",
        "RECONSUME_TIME": "3", "BORN_TIMESTAMP": "1700000000000", "__BORNHOST": "client-host", "PGROUP": "T",
    }  # fmt: skip
    assert (result.born_ms, result.sys_flag, result.kind) == (1_700_000_000_000, 0, MessageType.FIFO)
    given = message("T", message_type=MessageType.TRANSACTION, recovery_seconds=30)
    given.system_properties.ClearField("born_timestamp")
    given.system_properties.born_host = ""
    result = made(given)
    assert result.properties["TRAN_MSG"] == "true"
    assert result.properties["CHECK_IMMUNITY_TIME_IN_SECONDS"] == "30"
    assert (result.properties["__BORNHOST"], result.born_ms, result.sys_flag) == ("10.1.2.3", NOW, 4)
    assert made(message("T", delivery_timestamp=NOW + 5001)).properties["TIMER_DELIVER_MS"] == str(NOW + 5001)


@pytest.mark.parametrize(
    ("kind", "checksum"),
    [
        (DigestType.MD5, "5D41402ABC4B2A76B9719D911017C592"),
        (DigestType.MD5, "5d41402abc4b2a76b9719d911017c592"),
        (DigestType.SHA1, hashlib.sha1(b"hello", usedforsecurity=False).hexdigest()),
        (DigestType.CRC32, "3610A686"),
        (DigestType.CRC32, str(zlib.crc32(b"hello"))),
    ],
)
def test_a_digest_is_held_against_the_body(kind: DigestType, checksum: str) -> None:
    given = message("T", b"hello")
    given.system_properties.body_digest.type = kind
    given.system_properties.body_digest.checksum = checksum
    made(given)
    given.body = b"hallo"
    assert code_of(given) is Code.MESSAGE_CORRUPTED


def test_a_digest_that_says_nothing_is_none() -> None:
    given = message("T", b"hello")
    given.system_properties.body_digest.SetInParent()
    made(given)
    given.system_properties.body_digest.checksum = "whatever"
    made(given)  # of a type that is not known


def test_a_gzip_body_is_stored_as_consumers_of_the_other_protocol_read_it() -> None:
    given = message("T", gzip.compress(b"hello" * 100))
    given.system_properties.body_encoding = Encoding.GZIP
    result = made(given)
    assert result.sys_flag & COMPRESSED
    assert zlib.decompress(result.body) == b"hello" * 100
    for body in (gzip.compress(b"x" * 100)[:-4], b"\x1f\x8bnonsense"):
        given.body = body
        assert code_of(given) is Code.MESSAGE_CORRUPTED
