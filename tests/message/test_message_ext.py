from __future__ import annotations

import contextlib
import copy
import pickle
import random

import pytest

from flaremq.errors import CorruptionError
from flaremq.message.compression import compress
from flaremq.message.hosts import encode_host
from flaremq.message.message_ext import MessageExt
from flaremq.message.sys_flag import CompressionType, TransactionType, with_compression
from tests.message.records import VECTOR, flip, make_record

FIELDS = [
    "size", "magic", "body_crc", "queue_id", "flag", "queue_offset", "physical_offset", "sys_flag",
    "born_timestamp", "born_host", "store_timestamp", "store_host", "reconsume_times",
    "prepared_transaction_offset", "body_length", "topic", "raw_properties", "properties", "stored_body",
    "body", "tags", "keys", "uniq_key", "message_id", "transaction_type", "is_inner_batch",
]  # fmt: skip


def test_all_fields_of_the_format_description_read_back() -> None:
    message = MessageExt(VECTOR)
    assert message.size == 125
    assert message.topic == "TopicTest"
    assert (message.queue_id, message.queue_offset, message.physical_offset) == (3, 7, 1234)
    assert (message.flag, message.sys_flag, message.reconsume_times) == (0, 0, 0)
    assert message.prepared_transaction_offset == 0
    assert (message.born_timestamp, message.store_timestamp) == (1700000000000, 1700000000123)
    assert (message.born_host, message.store_host) == ("192.168.0.1:10000", "10.0.0.5:10911")
    assert message.body_crc == 907060870
    assert message.body == b"hello"
    assert message.properties == {"TAGS": "TagA", "KEYS": "key1"}
    assert (message.tags, message.keys, message.uniq_key) == ("TagA", ["key1"], None)
    assert message.message_id == "0A00000500002A9F00000000000004D2"
    assert message.transaction_type is TransactionType.NONE


@pytest.mark.parametrize("first", FIELDS)
def test_any_field_may_be_the_first_one_asked_for(first: str) -> None:
    message = MessageExt(memoryview(VECTOR))
    assert getattr(message, first) == getattr(MessageExt(VECTOR), first)


def test_stored_body_is_a_view_not_a_copy() -> None:
    record = bytearray(VECTOR)
    view = MessageExt(memoryview(record)).stored_body
    record[88] = ord("j")
    assert bytes(view) == b"jello"


def test_fields_are_decoded_once() -> None:
    message = MessageExt(VECTOR)
    assert message.properties is message.properties
    assert message.topic is message.topic


def test_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'subject'"):
        MessageExt(VECTOR).subject  # type: ignore[attr-defined]  # noqa: B018


def test_keys_are_split_at_spaces() -> None:
    assert MessageExt(make_record(properties=b"KEYS\x01a b  c\x02")).keys == ["a", "b", "c"]
    assert MessageExt(make_record(properties=b"")).keys == []


@pytest.mark.parametrize("kind", list(CompressionType))
def test_compressed_body_arrives_inflated(kind: CompressionType) -> None:
    packed = compress(b"hello" * 1000, kind)
    message = MessageExt(make_record(body=packed, sys_flag=with_compression(0, kind)))
    assert message.body == b"hello" * 1000
    assert bytes(message.stored_body) == packed


def test_body_that_cannot_be_inflated_is_given_as_stored_and_says_why() -> None:
    message = MessageExt(make_record(body=b"not zlib", sys_flag=1))
    assert message.body == b"not zlib"
    assert message.body_error is not None and "zlib body is damaged" in message.body_error
    with pytest.raises(CorruptionError):
        message.read_body()
    shown = message.to_dict()
    assert shown["inflatedLength"] is None and shown["bodyError"] == message.body_error and "body" not in shown
    assert message.to_dict("base64")["body"] == "bm90IHpsaWI="


def test_inflated_body_is_capped() -> None:
    message = MessageExt(make_record(body=compress(bytes(1000), CompressionType.ZLIB), sys_flag=0x301))
    assert len(message.read_body(inflated_size_max=1000)) == 1000
    with pytest.raises(CorruptionError, match="too much"):
        message.read_body(inflated_size_max=999)


def test_dictionary_uses_the_names_of_rocketmq() -> None:
    record = MessageExt(VECTOR).to_dict()
    assert list(record) == [
        "physicalOffset", "size", "magic", "topic", "queueId", "queueOffset", "sysFlag", "flag",
        "bornTimestamp", "bornHost", "storeTimestamp", "storeHost", "reconsumeTimes",
        "preparedTransactionOffset", "bodyCRC", "bodyLength", "bodySha256", "body", "tags", "keys",
        "properties", "msgId",
    ]  # fmt: skip
    assert record["magic"] == "daa320a7"
    assert record["keys"] == "key1"


def test_dictionary_shows_the_body_as_asked() -> None:
    message = MessageExt(make_record(body=b"\xff\x00"))
    assert "body" not in message.to_dict("text")
    assert message.to_dict("base64")["body"] == "/wA="
    assert "body" not in MessageExt(VECTOR).to_dict("none")
    assert "body" not in MessageExt(VECTOR).to_dict("text", body_bytes_max=4)
    assert MessageExt(VECTOR).to_dict("text", body_bytes_max=5)["body"] == "hello"


def test_ipv6_hosts_are_printed_uncompressed() -> None:
    message = MessageExt(make_record(born_host=encode_host("[::1]:5"), store_host=encode_host("[2001:db8::a]:6")))
    assert message.born_host == "[0:0:0:0:0:0:0:1]:5"
    assert message.store_host == "[2001:db8:0:0:0:0:0:a]:6"
    assert message.message_id == "20010DB800000000000000000000000A0000000600000000000004D2"


def read_everything(record: bytes) -> None:
    message = MessageExt(record)
    for field in FIELDS:
        with contextlib.suppress(CorruptionError):
            getattr(message, field)


def test_truncated_records_raise_nothing_but_corruption() -> None:
    for length in range(len(VECTOR)):
        read_everything(VECTOR[:length])
        repr(MessageExt(VECTOR[:length]))


def test_damaged_records_raise_nothing_but_corruption() -> None:
    for at in range(len(VECTOR)):
        for bit in range(8):
            read_everything(flip(VECTOR, at, bit))


def test_garbage_raises_nothing_but_corruption() -> None:
    chance = random.Random(22)
    for _ in range(500):
        read_everything(chance.randbytes(chance.randrange(300)))


def test_body_length_beyond_the_record_is_named() -> None:
    record = VECTOR[:84] + (1 << 30).to_bytes(4, "big") + VECTOR[88:]
    message = MessageExt(record)
    assert message.physical_offset == 1234  # the header is still readable
    with pytest.raises(CorruptionError, match="at 1234"):
        message.body  # noqa: B018
    with pytest.raises(CorruptionError):
        message.topic  # noqa: B018


def test_pickled_or_copied_message_owns_its_record() -> None:
    record = bytearray(VECTOR)
    message = MessageExt(memoryview(record))
    assert message.topic == "TopicTest"
    copies = [pickle.loads(pickle.dumps(message)), copy.copy(message), copy.deepcopy(message)]
    record[88] = 0
    assert [again.body for again in copies] == [b"hello"] * 3


def test_repr_names_the_place() -> None:
    assert repr(MessageExt(VECTOR)) == (
        "MessageExt('TopicTest', queue_id=3, queue_offset=7, physical_offset=1234, size=125)"
    )
