"""Messages out of the replies to pulls."""

from __future__ import annotations

import gc
import pickle
import weakref

import pytest

from flaremq.client.consumer.received import ReceivedMessage, read_messages, restore_topics
from flaremq.errors import CorruptionError, RemoteProtocolError
from flaremq.message.batch import encode_batch
from flaremq.message.compression import compress
from flaremq.message.hosts import encode_host
from flaremq.message.message import Message
from flaremq.message.properties import encode_properties
from flaremq.message.record.codec import encode_record
from flaremq.message.sys_flag import INNER_BATCH, NEED_UNWRAP, CompressionType, with_compression
from flaremq.protocol.bodies.queue import MessageQueue

QUEUE = MessageQueue("T", "broker-a", 3)
HOST = encode_host("127.0.0.1:10911")


def record(
    body: bytes = b"body", *, offset: int = 0, sys_flag: int = 0, host: bytes = HOST, **properties: str
) -> bytes:
    return encode_record(
        topic=b"T",
        body=body,
        properties=encode_properties(properties),
        queue_id=3,
        queue_offset=offset,
        physical_offset=1000 + offset,
        born_timestamp=1,
        born_host=host,
        store_timestamp=2,
        store_host=host,
        sys_flag=sys_flag,
    )


def test_each_record_of_a_reply_is_a_message_with_its_place() -> None:
    body = b"".join(record(str(n).encode(), offset=n, TAGS="t", KEYS="a b") for n in range(5))
    messages = read_messages(body, QUEUE)
    assert [(m.queue_offset, m.body, m.physical_offset) for m in messages] == [
        (n, str(n).encode(), 1000 + n) for n in range(5)
    ]
    assert (messages[0].tags, messages[0].keys, messages[0].topic, messages[0].queue) == ("t", ["a", "b"], "T", QUEUE)


def test_no_record_is_no_message() -> None:
    assert read_messages(b"", QUEUE) == []


@pytest.mark.parametrize("cut", [1, 40, 90, 94])
def test_reply_that_ends_within_a_record_is_the_peers_fault(cut: int) -> None:
    whole = record()
    with pytest.raises(RemoteProtocolError):
        read_messages(whole + whole[:cut], QUEUE)


@pytest.mark.parametrize("size", [-1, 0, 90, 1 << 30])
def test_record_with_an_impossible_size_is_the_peers_fault(size: int) -> None:
    damaged = size.to_bytes(4, "big", signed=True) + record()[4:]
    with pytest.raises(RemoteProtocolError):
        read_messages(damaged, QUEUE)


def test_compressed_body_and_body_of_an_ipv6_producer_are_read() -> None:
    packed = record(compress(b"large" * 100, CompressionType.ZLIB), sys_flag=with_compression(0, CompressionType.ZLIB))
    far = record(b"far", host=encode_host("[2001:db8::1]:10911"))
    first, second = read_messages(packed + far, QUEUE)
    assert (first.body, second.body) == (b"large" * 100, b"far")


def test_record_that_holds_a_batch_is_taken_apart() -> None:
    inner = encode_batch([Message("T", b"one", tags="a"), Message("T", b"two", keys="k")])
    batch = record(inner, offset=40, sys_flag=INNER_BATCH | NEED_UNWRAP, INNER_NUM="2", INNER_BASE="40")
    messages = read_messages(record(b"zero", offset=39) + batch, QUEUE)
    assert [(m.queue_offset, m.body, m.tags, m.keys) for m in messages] == [
        (39, b"zero", None, []),
        (40, b"one", "a", []),
        (41, b"two", None, ["k"]),
    ]


def test_body_that_cannot_be_inflated_is_given_as_it_is_stored_and_says_why() -> None:
    flags = with_compression(0, CompressionType.ZLIB)
    bad, good = read_messages(record(b"not zlib", sys_flag=flags) + record(b"good", offset=1), QUEUE)
    assert (bad.body, good.body) == (b"not zlib", b"good")
    assert bad.body_error is not None and "zlib" in bad.body_error
    assert good.body_error is None


@pytest.mark.parametrize("flags", [0, with_compression(0, CompressionType.LZ4)])
def test_batch_that_cannot_be_taken_apart_is_one_message(flags: int) -> None:
    broken = record(b"no batch", offset=40, sys_flag=flags | INNER_BATCH | NEED_UNWRAP, INNER_NUM="2", INNER_BASE="40")
    messages = read_messages(record(b"before", offset=39) + broken + record(b"behind", offset=42), QUEUE)
    assert [(m.queue_offset, m.body) for m in messages] == [(39, b"before"), (40, b"no batch"), (42, b"behind")]


def test_id_is_the_unique_key_or_else_the_place() -> None:
    named, nameless = read_messages(record(UNIQ_KEY="u-1") + record(), QUEUE)
    assert (named.message_id, nameless.message_id) == ("u-1", nameless.offset_message_id)
    assert named.offset_message_id == "7F00000100002A9F00000000000003E8"


def test_retried_message_has_the_topic_it_was_sent_to() -> None:
    messages = read_messages(record(RETRY_TOPIC="orders", TAGS="t") + record(), QUEUE)
    restore_topics(messages)
    assert [message.topic for message in messages] == ["orders", "T"]
    assert messages[0].tags == "t"


def test_received_message_can_be_pickled() -> None:
    (message,) = read_messages(record(b"x"), QUEUE)
    again = pickle.loads(pickle.dumps(message))
    assert (again.body, again.queue_offset) == (b"x", 0)
    assert isinstance(message, ReceivedMessage)


def test_kept_message_keeps_nothing_of_the_reply_but_its_record() -> None:
    data = bytearray(record(b"one") + record(b"two", offset=1))
    kept = read_messages(memoryview(data), QUEUE)
    data[:] = bytes(len(data))
    assert [message.body for message in kept] == [b"one", b"two"]
    data.clear()  # which nothing forbids


def test_body_that_runs_past_its_record_is_refused_as_before() -> None:
    damaged = bytearray(record(b"body"))
    damaged[84:88] = (1 << 20).to_bytes(4, "big")
    (message,) = read_messages(bytes(damaged), QUEUE)
    with pytest.raises(CorruptionError):
        _ = message.body


def test_messages_that_wait_in_a_queue_nobody_holds_are_collected() -> None:
    class Held:
        """Stands for a process queue, which has the messages that have it."""

        waiting: list[ReceivedMessage]

    held = Held()
    held.waiting = read_messages(record(), QUEUE, held)  # type: ignore[arg-type]
    gone = weakref.ref(held)
    del held
    gc.collect()
    assert gone() is None
