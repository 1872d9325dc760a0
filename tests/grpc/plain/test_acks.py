"""The short way of acknowledgements reads what protobuf reads, or nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.grpc.messages import classes
from flaremq.grpc.plain.acks import PlainAck, acknowledged_reply, read_plain_ack
from flaremq.grpc.plain.wire import varint
from flaremq.grpc.rules.receipts import NORMAL, RETRY_V2, Receipt, ReceiptSeal
from flaremq.grpc.rules.status import OK
from tests.grpc.door_lab import resource
from tests.grpc.mutation import Mutations

SEAL = ReceiptSeal(b"a key of this server")
RECEIPT = Receipt(7, 1_794_869_453_419, 30_000, 3, NORMAL, "broker-a", 1, 9, 8_037)
HANDLE = SEAL.handle(RECEIPT, "T", "G")

texts = st.text(st.characters(min_codepoint=0x1F, max_codepoint=0x80), max_size=40)
numbers = st.integers(-1, 2**63)
receipts = st.builds(
    Receipt, numbers, numbers, numbers, numbers, st.sampled_from("012"), texts, numbers, numbers, numbers
)
handles = st.one_of(receipts.map(lambda receipt: SEAL.handle(receipt, "T", "G")), texts)


def made(handle: str = HANDLE, message_id: str = "ID", topic: str = "T", group: str = "G", **fields: Any) -> Any:
    entry = classes.AckMessageEntry(message_id=message_id, receipt_handle=handle, **fields)
    return classes.AckMessageRequest(group=resource(group), topic=resource(topic), entries=[entry])


def read(data: bytes) -> PlainAck | None:
    return read_plain_ack(b"12345" + data, 5)


def check(data: bytes) -> bool:
    """Whether the short way has read it; it must have read what the ordinary way reads."""
    found = read(data)
    if found is None:
        return False
    request = classes.AckMessageRequest.FromString(data)
    assert request.SerializeToString() == data
    (entry,) = request.entries
    assert not entry.HasField("lite_topic")
    assert request.topic == resource(found.topic.decode())
    assert request.group == resource(found.group.decode())
    assert found.message_id.decode() == entry.message_id
    assert found.handle.decode() == entry.receipt_handle
    assert found.handle == found.words + b" " + found.seal
    if SEAL.is_own(found.words, found.seal, found.topic, found.group):
        receipt = SEAL.parse(entry.receipt_handle, request.topic.name, request.group.name)
        assert receipt == Receipt(
            found.start_offset,
            found.pop_time,
            found.invisible_time,
            found.revive_queue_id,
            found.kind.decode(),
            found.broker.decode(),
            found.queue_id,
            found.offset,
            found.physical_offset,
        )
    return True


@pytest.mark.parametrize("receipt", [RECEIPT, RECEIPT._replace(kind=RETRY_V2, offset=0, physical_offset=10**18 - 1)])
def test_handles_of_ours_are_read(receipt: Receipt) -> None:
    data = made(SEAL.handle(receipt, "T", "G")).SerializeToString()
    assert check(data)
    found = read(data)
    assert found is not None
    assert SEAL.is_own(found.words, found.seal, b"T", b"G")
    assert not SEAL.is_own(found.words, found.seal, b"T", b"H")
    assert not SEAL.is_own(found.words, found.seal, b"U", b"G")
    assert not SEAL.is_own(found.words + b"0", found.seal, b"T", b"G")


@pytest.mark.parametrize(
    "changes",
    [
        {"handle": ""},
        {"handle": HANDLE[:-17]},
        {"handle": "1 " + HANDLE},
        {"handle": HANDLE.replace("30000", "-30000")},
        {"handle": HANDLE.replace("30000", "3_0")},
        {"handle": HANDLE.replace("30000", "")},
        {"handle": HANDLE.replace("30000", "9" * 19)},
        {"handle": HANDLE.replace("broker", "brökr")},
        {"handle": "9" * 2_000},
        {"message_id": ""},
        {"message_id": "ä"},
        {"topic": ""},
        {"topic": " "},
        {"group": ""},
        {"lite_topic": "l"},
        {"lite_topic": ""},
    ],
)
def test_what_is_not_plain_is_left_alone(changes: dict[str, Any]) -> None:
    assert read(made(**changes).SerializeToString()) is None


def test_several_entries_or_none_are_left_alone() -> None:
    request = made()
    data = request.SerializeToString()
    assert read(data + b"\x20\x01") is None  # a field that nobody knows
    assert all(read(data[:size]) is None for size in range(len(data)))
    request.entries.append(request.entries[0])
    assert read(request.SerializeToString()) is None
    del request.entries[:]
    assert read(request.SerializeToString()) is None


def test_a_namespace_is_left_alone() -> None:
    for name in ("topic", "group"):
        request = made()
        getattr(request, name).resource_namespace = "n"
        assert read(request.SerializeToString()) is None


@given(st.builds(made, handles, texts, texts, texts))
def test_any_request_is_read_as_protobuf_does_or_not_at_all(request: Any) -> None:
    check(request.SerializeToString())


def test_changed_bytes_are_read_as_protobuf_does_or_not_at_all() -> None:
    mutations, read_ones = Mutations(11), 0
    whole = [made(), made(topic="topic-1", group="group-1", message_id="x" * 200)]
    for number in range(6_000):
        data = mutations.of(random.Random(number).choice(whole))
        try:
            read_ones += check(data)
        except classes.DecodeError as error:
            raise AssertionError(f"{data.hex()} is not plain: {error!r}") from error
    assert 500 < read_ones < 5_500


@given(st.text(max_size=300), st.text(max_size=300))
def test_a_reply_is_what_protobuf_makes_of_it(message_id: str, handle: str) -> None:
    if not message_id or not handle:
        return
    entry = classes.AckMessageResultEntry(message_id=message_id, receipt_handle=handle, status=OK)
    expected = classes.AckMessageResponse(status=OK, entries=[entry]).SerializeToString()
    status = OK.SerializeToString()
    reply = acknowledged_reply(varint(len(status)) + status, message_id.encode(), handle.encode())
    assert reply == b"\0" + len(expected).to_bytes(4, "big") + expected
