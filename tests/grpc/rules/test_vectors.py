"""Values that the original gives too: hashes, digests, signatures, handles, and the numbers of the protocol."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from flaremq.grpc.guard import parse_authorization
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code
from flaremq.grpc.rules.languages import language_of
from flaremq.grpc.rules.queue_choice import queue_of_group
from flaremq.grpc.rules.recall_handles import broker_of
from flaremq.grpc.rules.settings import RETRY_STEPS_MS
from flaremq.grpc.rules.status import Refused
from flaremq.grpc.rules.times import duration, timestamp, to_ms
from flaremq.message.java_hash import java_hash

GROUPS = {
    "one": (110182, (0, 0, 4, 15)),
    "red": (112785, (0, 0, 4, 9)),
    "green": (98619139, (0, 2, 2, 2)),
    "blue": (3027034, (0, 2, 2, 15)),
    "order-1": (-1207111310, (0, 3, 3, 3)),
    "g" * 63: (264539463, (1, 2, 5, 5)),
    "polygenelubricants": (-2147483648, (1, 2, 2, 2)),
}


@pytest.mark.parametrize("group", GROUPS)
def test_a_message_group_goes_to_the_queue_of_the_original(group: str) -> None:
    number, queues = GROUPS[group]
    assert java_hash(group) == number
    assert tuple(queue_of_group(group, count) for count in (2, 4, 8, 16)) == queues
    assert queue_of_group(group, 1) == 0


def test_a_topic_with_one_queue_more_moves_groups_to_that_one_alone() -> None:
    for number in range(500):
        before, after = queue_of_group(str(number), 7), queue_of_group(str(number), 8)
        assert after in (before, 7)


def test_an_authorization_is_taken_apart() -> None:
    signed = hmac.digest(b"sk1234567", b"20240101T000000Z", "sha1").hex()
    assert signed == "760a97fb95591c6fbf7d0e0120c20b3c84254751"
    for credential in ("ak", "ak//Rocketmq", "ak/region/RocketMQ"):
        text = f"MQv2-HMAC-SHA1 Credential={credential}, SignedHeaders=x-mq-date-time, Signature={signed}"
        assert parse_authorization(text) == ("ak", signed)
    nobody = "MQv2-HMAC-SHA1 Credential=, SignedHeaders=x-mq-date-time, Signature="
    assert parse_authorization(nobody) == ("", "")
    for text in ("", "Bearer", "MQv2-HMAC-SHA1 ", "=,=,=", "x" * 10_000):
        assert parse_authorization(text) == ("", "")


def test_a_recall_handle_names_its_broker() -> None:
    handle = base64.urlsafe_b64encode(b"v1 topic broker-a 1794869457001 0102030405060708090A0B0C").decode()
    assert broker_of(handle) == "broker-a"
    for wrong in ("", "%%%", "äöü", handle[:-5], base64.urlsafe_b64encode(b"v2 a b 1 c").decode(), "x" * 10_000):
        with pytest.raises(Refused) as refused:
            broker_of(wrong)
        assert refused.value.code is Code.INTERNAL_SERVER_ERROR


def test_a_digest_is_that_of_the_original() -> None:
    assert hashlib.md5(b"hello", usedforsecurity=False).hexdigest().upper() == "5D41402ABC4B2A76B9719D911017C592"


def test_times_keep_their_milliseconds_and_any_pair_of_numbers_is_one() -> None:
    for milliseconds in (0, 1, 999, 1000, 1_794_869_457_001, -1, -1500):
        assert to_ms(timestamp(milliseconds)) == milliseconds
        assert to_ms(duration(milliseconds)) == milliseconds
    for seconds, nanos in ((2**63 - 1, 2**31 - 1), (-(2**63), -(2**31))):
        assert abs(to_ms(classes.Timestamp(seconds=seconds, nanos=nanos))) <= 2**62


LANGUAGES = {
    "JAVA": "JAVA", "GO": "GO", "golang": "GO", "HTTP": "NODE_JS", "DOTNET": "DOTNET", "CPP": "CPP",
    "PYTHON": "PYTHON", "RUST": "RUST", "": "OTHER", "COBOL": "OTHER", "x" * 5000: "OTHER",
}  # fmt: skip


def test_a_language_is_shown_as_tools_know_it() -> None:
    assert {told: language_of(told) for told in LANGUAGES} == LANGUAGES


def test_the_steps_of_retries_are_the_original_s() -> None:
    seconds = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
    assert tuple(step // 1000 for step in RETRY_STEPS_MS) == seconds


def test_numbers_of_statuses_are_the_protocol_s() -> None:
    numbers = {
        "OK": 20000, "MULTIPLE_RESULTS": 30000, "BAD_REQUEST": 40000, "ILLEGAL_TOPIC": 40002,
        "ILLEGAL_CONSUMER_GROUP": 40003, "ILLEGAL_MESSAGE_TAG": 40004, "ILLEGAL_MESSAGE_KEY": 40005,
        "ILLEGAL_MESSAGE_GROUP": 40006, "ILLEGAL_MESSAGE_PROPERTY_KEY": 40007, "INVALID_TRANSACTION_ID": 40008,
        "ILLEGAL_MESSAGE_ID": 40009, "ILLEGAL_FILTER_EXPRESSION": 40010, "ILLEGAL_INVISIBLE_TIME": 40011,
        "ILLEGAL_DELIVERY_TIME": 40012, "INVALID_RECEIPT_HANDLE": 40013,
        "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE": 40014, "UNRECOGNIZED_CLIENT_TYPE": 40015, "MESSAGE_CORRUPTED": 40016,
        "CLIENT_ID_REQUIRED": 40017, "ILLEGAL_POLLING_TIME": 40018, "ILLEGAL_LITE_TOPIC": 40020,
        "UNAUTHORIZED": 40100, "FORBIDDEN": 40300, "MESSAGE_NOT_FOUND": 40401, "TOPIC_NOT_FOUND": 40402,
        "CONSUMER_GROUP_NOT_FOUND": 40403, "MESSAGE_BODY_TOO_LARGE": 41301, "MESSAGE_BODY_EMPTY": 41302,
        "TOO_MANY_REQUESTS": 42900, "MESSAGE_PROPERTIES_TOO_LARGE": 43101, "INTERNAL_SERVER_ERROR": 50001,
        "HA_NOT_AVAILABLE": 50002, "NOT_IMPLEMENTED": 50100, "PROXY_TIMEOUT": 50400,
        "MASTER_PERSISTENCE_TIMEOUT": 50401, "SLAVE_PERSISTENCE_TIMEOUT": 50402, "FAILED_TO_CONSUME_MESSAGE": 60000,
    }  # fmt: skip
    assert {name: int(Code[name]) for name in numbers} == numbers
