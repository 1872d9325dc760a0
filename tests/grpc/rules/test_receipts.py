"""Receipt handles: RocketMQ's nine words and a seal, which nobody else can make."""

from __future__ import annotations

import random

import pytest

from flaremq.grpc.messages.enums import Code
from flaremq.grpc.rules.receipts import NORMAL, RETRY_V1, RETRY_V2, Receipt, ReceiptSeal, kind_of
from flaremq.grpc.rules.status import Refused

SEAL = ReceiptSeal(b"a key of this server")
RECEIPT = Receipt(0, 1794869453419, 30000, 0, NORMAL, "broker-a", 1, 0, 8037)
HANDLE = SEAL.handle(RECEIPT, "T", "G")


def refused(handle: str, topic: str = "T", group: str = "G", seal: ReceiptSeal = SEAL) -> bool:
    with pytest.raises(Refused) as caught:
        seal.parse(handle, topic, group)
    return caught.value.code is Code.INVALID_RECEIPT_HANDLE


def test_a_handle_begins_with_the_words_of_the_original() -> None:
    assert HANDLE.startswith("0 1794869453419 30000 0 0 broker-a 1 0 8037 ")
    assert SEAL.parse(HANDLE, "T", "G") == RECEIPT
    assert RECEIPT.extra_info == "0 1794869453419 30000 0 0 broker-a 1 0"
    assert RECEIPT.visible_at == 1794869483419


def test_another_server_with_the_same_key_takes_a_handle_and_one_with_another_does_not() -> None:
    assert ReceiptSeal(b"a key of this server").parse(HANDLE, "T", "G") == RECEIPT
    assert refused(HANDLE, seal=ReceiptSeal(b"another key of 16 bytes"))
    with pytest.raises(ValueError, match="16 bytes"):
        ReceiptSeal(b"short")


def test_a_handle_is_good_for_its_topic_and_group_alone() -> None:
    assert refused(HANDLE, group="H")
    assert refused(HANDLE, topic="U")


def test_no_changed_handle_is_taken() -> None:
    dice = random.Random(7)
    for _ in range(3000):
        at = dice.randrange(len(HANDLE))
        character = dice.choice("0123456789 abcXYZ-_=.\n\0ä")
        changed = HANDLE[:at] + character + HANDLE[at + dice.randrange(2) :]
        if changed != HANDLE:
            assert refused(changed)
    words = HANDLE.split(" ")
    for at in range(len(words)):
        assert refused(" ".join(words[:at] + words[at + 1 :]))
        assert refused(" ".join([*words[:at], "1", *words[at:]]))
    assert refused("")
    assert refused(" " * 9)
    assert refused("9" * 2000)
    assert refused(" ".join(words[:9]))  # a handle of the original
    assert refused(" ".join(words[:9]) + " ")


def test_the_kind_of_a_handle_tells_the_topic_it_was_read_from() -> None:
    assert RECEIPT.real_topic("T", "G") == "T"
    for kind in (RETRY_V1, RETRY_V2):
        topic = RECEIPT._replace(kind=kind).real_topic("T", "G")
        assert topic.startswith("%RETRY%G")
        assert kind_of(topic) == kind
    assert kind_of("T") == NORMAL
