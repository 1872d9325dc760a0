"""Custom headers: what is mandatory, what is tolerated, and the forms that the recordings do not contain."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RequestError
from flaremq.protocol.headers.admin import DeleteSubscriptionGroupRequestHeader, GetConsumeStatsRequestHeader
from flaremq.protocol.headers.consume import (
    GetMaxOffsetRequestHeader,
    PullMessageRequestHeader,
    QueryMessageRequestHeader,
    SearchOffsetRequestHeader,
    decode_pull_header,
)
from flaremq.protocol.headers.custom_header import CustomHeader, ext_fields, parse_flag, parse_int32, parse_int64
from flaremq.protocol.headers.send import SendMessageRequestHeader, decode_send_header
from tests.support.header_table import REQUEST_HEADERS, RESPONSE_HEADERS

ALL_HEADERS = sorted({*REQUEST_HEADERS.values(), *RESPONSE_HEADERS.values()}, key=lambda kind: kind.__name__)
V2 = RequestCode.SEND_MESSAGE_V2
LONG = RequestCode.SEND_MESSAGE
LETTERS = {
    "a": "P",
    "b": "T",
    "c": "TBW102",
    "d": "4",
    "e": "3",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": "KEYS\x01k\x02",
    "j": "0",
    "k": "false",
    "l": "16",
    "m": "false",
    "n": "broker-a",
}
PULL = {
    "consumerGroup": "G",
    "topic": "T",
    "queueId": "1",
    "queueOffset": "5",
    "maxMsgNums": "32",
    "sysFlag": "7",
    "commitOffset": "4",
    "suspendTimeoutMillis": "15000",
    "subVersion": "0",
}


def sample(parse: Any) -> str:
    return {parse_int32: "7", parse_int64: str(2**40), parse_flag: "true", None: "text"}[parse]


@pytest.mark.parametrize("kind", ALL_HEADERS, ids=lambda kind: kind.__name__)
def test_every_field_comes_back_as_it_was(kind: type[CustomHeader]) -> None:
    ext = {row.name: sample(row.parse) for row in ext_fields(kind)}
    header = kind.decode(ext)
    assert header.encode() == ext
    assert kind.decode(header.encode()) == header


@pytest.mark.parametrize("kind", ALL_HEADERS, ids=lambda kind: kind.__name__)
def test_a_missing_mandatory_field_is_named_and_an_optional_one_is_not_missed(kind: type[CustomHeader]) -> None:
    ext = {row.name: sample(row.parse) for row in ext_fields(kind)}
    for row in ext_fields(kind):
        rest = {name: value for name, value in ext.items() if name != row.name}
        if row.mandatory:
            with pytest.raises(RequestError, match=f"<{row.name}>") as caught:
                kind.decode(rest)
            assert caught.value.code == 1
        else:
            kind.decode(rest)


@pytest.mark.parametrize("kind", ALL_HEADERS, ids=lambda kind: kind.__name__)
def test_a_malformed_number_is_named(kind: type[CustomHeader]) -> None:
    ext = {row.name: sample(row.parse) for row in ext_fields(kind)}
    for row in ext_fields(kind):
        if row.parse in (parse_int32, parse_int64):
            for wrong in ("x", "1.5", "0x10", str(2**63), "9" * 4000, "9" * 5000):
                with pytest.raises(RequestError, match=f"<{row.name}>") as caught:
                    kind.decode({**ext, row.name: wrong})
                assert caught.value.code == 1
                assert len(caught.value.remark) < 200


def test_no_fields_at_all_are_missing_fields() -> None:
    with pytest.raises(RequestError, match="<topic>"):
        GetMaxOffsetRequestHeader.decode(None)
    with pytest.raises(RequestError, match="<consumerGroup>"):
        decode_pull_header(None)
    with pytest.raises(RequestError, match="<a>"):
        decode_send_header(V2, None)
    with pytest.raises(RequestError, match="<producerGroup>"):
        decode_send_header(LONG, {})


def test_fields_nobody_declared_are_ignored() -> None:
    ext = {"topic": "T", "queueId": "0", "AccessKey": "k", "Signature": "s", "ns": "n"}
    assert GetMaxOffsetRequestHeader.decode(ext) == GetMaxOffsetRequestHeader(topic="T", queue_id=0)


def test_an_empty_number_is_an_absent_one() -> None:
    assert PullMessageRequestHeader.decode({**PULL, "maxMsgBytes": ""}).max_msg_bytes is None
    assert decode_pull_header({**PULL, "maxMsgBytes": ""}).max_msg_bytes is None
    with pytest.raises(RequestError, match="<queueId> is empty"):
        decode_pull_header({**PULL, "queueId": ""})


def test_values_of_a_command_that_never_was_on_the_wire_are_read_too() -> None:
    assert GetMaxOffsetRequestHeader.decode({"topic": "T", "queueId": 3, "committed": True}) == (
        GetMaxOffsetRequestHeader(topic="T", queue_id=3, committed=True)
    )
    header = decode_send_header(V2, {**LETTERS, "d": 4, "e": -1, "k": True, "m": False})
    assert (header.default_topic_queue_nums, header.queue_id, header.unit_mode, header.batch) == (4, -1, True, False)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TRUE", True), ("false", False), ("yes", False)])
def test_booleans_are_read_as_java_reads_them(text: str, value: bool) -> None:
    assert decode_send_header(V2, {**LETTERS, "k": text}).unit_mode is value
    assert decode_send_header(V2, {**LETTERS, "k": text, "e": "-1"}).unit_mode is value


# Sends: one header under two sets of names.


def test_letters_and_long_names_are_the_same_header() -> None:
    header = decode_send_header(V2, LETTERS)
    assert header.encode_letters() == LETTERS
    assert header.encode()["bname"] == "broker-a"
    assert decode_send_header(LONG, header.encode()) == header
    for code in (RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2):
        assert decode_send_header(code, LETTERS) == header
    assert decode_send_header(RequestCode.SEND_REPLY_MESSAGE, header.encode()) == header


def test_a_refusal_of_letters_names_the_letter() -> None:
    for letter in "abcdefgh":
        with pytest.raises(RequestError, match=f"<{letter}> is null"):
            decode_send_header(V2, {name: value for name, value in LETTERS.items() if name != letter})
    with pytest.raises(RequestError, match="<e> does not fit 32 bits"):
        decode_send_header(V2, {**LETTERS, "e": str(2**31)})
    with pytest.raises(RequestError, match="<g> is not a number"):
        decode_send_header(V2, {**LETTERS, "g": "now"})


def test_a_negative_queue_asks_the_broker_to_choose() -> None:
    assert decode_send_header(V2, {**LETTERS, "e": "-1"}).queue_id == -1


NUMBER = st.one_of(
    st.integers(-(2**65), 2**65).map(str), st.sampled_from(["", "x", "0", "-1", "007", "+3", " 1", "1_0", "١"])
)


def outcome(decode: Any, ext: dict[str, str]) -> object:
    try:
        return decode(ext)
    except RequestError as error:
        return error.code


@given(st.dictionaries(st.sampled_from("abcdefghijklmn"), NUMBER | st.just("true")))
def test_the_quick_way_reads_any_send_as_the_plain_way_does(changes: dict[str, str]) -> None:
    ext = {**LETTERS, **changes}
    long_names = dict(zip(SendMessageRequestHeader(**_send_arguments()).encode(), ext.values(), strict=True))
    quick = outcome(lambda fields: decode_send_header(V2, fields), ext)
    assert quick == outcome(SendMessageRequestHeader.decode, long_names)
    assert quick == outcome(lambda fields: decode_send_header(LONG, fields), long_names)


@given(st.dictionaries(st.sampled_from([*PULL, "maxMsgBytes", "requestSource", "subscription"]), NUMBER))
def test_the_quick_way_reads_any_pull_as_the_plain_way_does(changes: dict[str, str]) -> None:
    ext = {**PULL, **changes}
    assert outcome(decode_pull_header, ext) == outcome(PullMessageRequestHeader.decode, ext)


def _send_arguments() -> dict[str, Any]:
    header = decode_send_header(V2, LETTERS)
    return {row.attribute: getattr(header, row.attribute) for row in ext_fields(SendMessageRequestHeader)}


# What headers know about their fields.


@pytest.mark.parametrize(("word", "upper"), [(None, False), ("LOWER", False), ("UPPER", True), ("upper", True)])
def test_a_boundary_is_lower_unless_it_says_upper(word: str | None, upper: bool) -> None:
    assert SearchOffsetRequestHeader(topic="T", queue_id=0, timestamp=1, boundary_type=word).is_upper is upper


def test_a_group_is_deleted_with_its_offsets_by_either_name() -> None:
    assert not DeleteSubscriptionGroupRequestHeader.decode({"groupName": "G"}).with_offsets
    assert DeleteSubscriptionGroupRequestHeader.decode({"groupName": "G", "cleanOffset": "true"}).with_offsets
    assert DeleteSubscriptionGroupRequestHeader.decode({"groupName": "G", "removeOffset": "true"}).with_offsets


def test_a_query_is_for_a_unique_key_by_either_field() -> None:
    ext = {"topic": "T", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "9"}
    assert not QueryMessageRequestHeader.decode(ext).is_unique_key
    assert QueryMessageRequestHeader.decode({**ext, "_UNIQUE_KEY_QUERY": "true"}).is_unique_key
    assert QueryMessageRequestHeader.decode({**ext, "indexType": "U"}).is_unique_key
    assert not QueryMessageRequestHeader.decode({**ext, "indexType": "K", "_UNIQUE_KEY_QUERY": "false"}).is_unique_key


def test_topics_of_a_lag_query_come_from_either_field() -> None:
    assert GetConsumeStatsRequestHeader(consumer_group="G").topics == []
    assert GetConsumeStatsRequestHeader(consumer_group="G", topic="A", topic_list="B;C;").topics == ["A", "B", "C"]


def test_every_code_with_fields_in_its_table_has_a_header() -> None:
    without = set(RequestCode) - set(REQUEST_HEADERS)
    # Those about accounts have a field or two, which their handlers read by name.
    without -= {code for code in RequestCode if 50 <= code <= 54 or 3001 <= code <= 3010}
    assert without == {
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.HEART_BEAT,
        RequestCode.LOCK_BATCH_MQ,
        RequestCode.UNLOCK_BATCH_MQ,
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_DELAY_OFFSET,
        RequestCode.CHECK_CLIENT_CONFIG,
        RequestCode.GET_TIMER_CHECK_POINT,
        RequestCode.GET_TIMER_METRICS,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        RequestCode.CLEAN_UNUSED_TOPIC,
        RequestCode.UPDATE_NAMESRV_CONFIG,
        RequestCode.GET_NAMESRV_CONFIG,
        RequestCode.GET_ALL_PRODUCER_INFO,
        RequestCode.DELETE_EXPIRED_COMMITLOG,
        RequestCode.QUERY_ASSIGNMENT,
        RequestCode.SET_MESSAGE_REQUEST_MODE,
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
        RequestCode.GET_BROKER_HA_STATUS,
        RequestCode.CONTROLLER_GET_METADATA_INFO,
        RequestCode.CONTROLLER_GET_SYNC_STATE_DATA,
        RequestCode.GET_BROKER_EPOCH_CACHE,
        RequestCode.UPDATE_CONTROLLER_CONFIG,
        RequestCode.GET_CONTROLLER_CONFIG,
        RequestCode.BATCH_ACK_MESSAGE,
    }
