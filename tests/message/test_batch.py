from __future__ import annotations

import contextlib
import random

import pytest

from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.message.batch import decode_batch, encode_batch, encode_batch_item, inner_messages
from flaremq.message.compression import compress
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.message.sys_flag import INNER_BATCH, NEED_UNWRAP, CompressionType, with_compression
from tests.message.records import make_record

MESSAGES = [
    Message("t", b"one", tags="a", flag=7),
    Message("t", b""),
    Message("t", b"three" * 50, keys=["k1", "k2"]),
]


def test_batch_item_has_the_wire_layout() -> None:
    assert encode_batch_item(7, b"hi", b"a\x01b\x02") == bytes.fromhex(
        "0000001c 00000000 00000000 00000007 00000002 6869 0004 61016202".replace(" ", "")
    )


def test_batch_reads_back_what_was_written() -> None:
    items = list(decode_batch(encode_batch(MESSAGES)))
    assert [(item.flag, bytes(item.body), bytes(item.properties)) for item in items] == [
        (message.flag, message.body, message.encoded_properties()) for message in MESSAGES
    ]


def test_empty_batch_has_no_messages() -> None:
    assert list(decode_batch(b"")) == []


def test_announced_total_magic_and_checksum_are_not_trusted() -> None:
    body = bytearray(encode_batch(MESSAGES[:1]))
    body[0:12] = b"\xff" * 12
    assert bytes(next(decode_batch(body)).body) == b"one"


def test_negative_properties_length_means_none() -> None:
    body = encode_batch_item(0, b"x", b"")[:-2] + b"\xff\xff"
    assert bytes(next(decode_batch(body)).properties) == b""


def test_truncated_batch_is_corruption_or_fewer_messages() -> None:
    body = encode_batch(MESSAGES)
    for length in range(len(body)):
        with contextlib.suppress(CorruptionError):
            assert len(list(decode_batch(body[:length]))) < len(MESSAGES)


def test_garbage_raises_nothing_but_corruption() -> None:
    chance = random.Random(8)
    for _ in range(1000):
        with contextlib.suppress(CorruptionError):
            list(decode_batch(chance.randbytes(chance.randrange(120))))


def test_negative_body_length_is_corruption() -> None:
    body = bytearray(encode_batch(MESSAGES[:1]))
    body[16:20] = b"\xff\xff\xff\xff"
    with pytest.raises(CorruptionError, match="negative body length"):
        list(decode_batch(body))


def test_properties_beyond_the_length_field_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="40000 bytes"):
        encode_batch_item(0, b"", b"x" * 40000)


@pytest.mark.parametrize("packed", [False, True])
def test_inner_batch_yields_its_messages_in_queue_order(packed: bool) -> None:
    body, flag = encode_batch(MESSAGES), INNER_BATCH | NEED_UNWRAP
    if packed:
        body, flag = compress(body, CompressionType.LZ4), with_compression(flag, CompressionType.LZ4)
    record = MessageExt(
        make_record(body=body, sys_flag=flag, properties=b"INNER_NUM\x013\x02INNER_BASE\x0140\x02", queue_offset=40)
    )
    assert record.is_inner_batch
    inner = list(inner_messages(record))
    assert [message.queue_offset for message in inner] == [40, 41, 42]
    assert [message.body for message in inner] == [message.body for message in MESSAGES]
    assert inner[0].tags == "a" and inner[0].flag == 7 and inner[0].topic == "TopicTest"
    assert inner[2].keys == ["k1", "k2"]


def test_inner_batch_without_a_base_counts_from_the_queue_offset() -> None:
    record = MessageExt(make_record(body=encode_batch(MESSAGES), sys_flag=0xC0, properties=b"", queue_offset=5))
    assert [message.queue_offset for message in inner_messages(record)] == [5, 6, 7]
