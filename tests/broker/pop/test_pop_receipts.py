"""The texts of POP: receipts, names of retry topics, the info fields of replies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.broker.options import BrokerOptions
from flaremq.broker.pop.receipts import (
    Receipt,
    message_offset_info,
    normal_topic,
    order_count_info,
    real_topic,
    retry_flag,
    start_offset_info,
)
from flaremq.broker.pop.taking import retry_topics
from flaremq.message.message_ext import MessageExt
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RequestError
from tests.broker.pop_lab import GROUP, TOPIC, PopLab, Popped, run

NUMBERS = st.integers(-(2**63), 2**63 - 1)


def test_a_receipt_is_read_as_recorded_from_a_java_client() -> None:
    receipt = Receipt.parse("0 1794822580503 10000 0 0 broker-a 0 2")
    assert receipt == Receipt(0, 1794822580503, 10000, 0, "0", "broker-a", 0, 2)
    assert receipt.revive_time == 1794822590503
    assert not receipt.is_order
    assert Receipt.parse("0 1 2 999 1 b 3 4").is_order


def test_the_last_item_of_a_receipt_may_be_missing_and_a_ninth_is_ignored() -> None:
    assert Receipt.parse("1 2 3 4 0 b 5").queue_offset == -1
    assert Receipt.parse("1 2 3 4 0 b 5 6 7") == Receipt(1, 2, 3, 4, "0", "b", 5, 6)


@given(st.builds(Receipt, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.sampled_from("012"), st.just("b"), NUMBERS, NUMBERS))
def test_reading_a_receipt_undoes_writing_it(receipt: Receipt) -> None:
    assert Receipt.parse(receipt.text) == receipt


@given(st.text(max_size=64))
def test_any_other_text_is_refused_or_a_receipt(text: str) -> None:
    try:
        receipt = Receipt.parse(text)
    except RequestError as error:
        assert error.code == 1
    else:
        assert Receipt.parse(receipt.text) == receipt


@pytest.mark.parametrize(
    "text", ["", "1 2 3", "1 2 3 4 9 b 5 6", "x 2 3 4 0 b 5 6", f"{2**63} 2 3 4 0 b 5 6", "1 " * 5000]
)
def test_a_malformed_receipt_is_an_error_of_the_request(text: str) -> None:
    with pytest.raises(RequestError):
        Receipt.parse(text)


@pytest.mark.parametrize(
    ("topic", "flag"), [("orders", "0"), ("%RETRY%G_orders", "1"), ("%RETRY%G+orders", "2"), ("%RETRY%G", "1")]
)
def test_the_flag_says_where_a_message_was_read(topic: str, flag: str) -> None:
    assert retry_flag(topic) == flag


@pytest.mark.parametrize("flag", ["0", "1", "2"])
def test_the_topic_a_consumer_asked_for_is_found_again(flag: str) -> None:
    topic = real_topic("a_b", "G_1", flag)
    assert retry_flag(topic) == flag
    assert normal_topic(topic, "G_1") == "a_b"


def test_new_retries_go_to_the_new_name_and_old_ones_are_still_read() -> None:
    assert retry_topics(BrokerOptions(), "G", "t") == ["%RETRY%G_t"]
    assert retry_topics(BrokerOptions(enable_retry_topic_v2=True), "G", "t") == ["%RETRY%G+t", "%RETRY%G_t"]
    options = BrokerOptions(enable_retry_topic_v2=True, retrieve_message_from_pop_retry_topic_v1=False)
    assert retry_topics(options, "G", "t") == ["%RETRY%G+t"]


def test_the_info_fields_have_three_items_a_part() -> None:
    assert start_offset_info("orders", 3, 17) == "0 3 17"
    assert message_offset_info("%RETRY%G_orders", 0, [5, 7]) == "1 0 5,7"
    assert order_count_info("orders", 2, {5: 1, 6: 3}, 1) == ["0 qo2%5 1", "0 qo2%6 3", "0 2 1"]


# Receipts that nobody was given


def _forged(lab: PopLab, **changes: Any) -> Receipt:
    """A receipt in the form of an honest one."""
    usual = Receipt(0, lab.clock.now_ms(), 60_000, 0, "0", "broker-a", 0, 0)
    return usual._replace(**changes)


@pytest.mark.parametrize("revive_queue_id", [0, 999])
@pytest.mark.parametrize("ago_ms", [0, 1, 3_600_000])
def test_an_invented_receipt_takes_no_message_from_the_group(tmp_path: Path, revive_queue_id: int, ago_ms: int) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c", "d")
        first = await lab.pop(maxMsgNums=1)
        for offset in range(1, 6):
            for start in (0, offset):
                forged = _forged(
                    lab,
                    start_offset=start,
                    pop_time=lab.clock.now_ms() - ago_ms,
                    invisible_time=60_000 + ago_ms,
                    revive_queue_id=revive_queue_id,
                    queue_offset=offset,
                )
                refused = (ResponseCode.NO_MESSAGE, ResponseCode.MESSAGE_ILLEGAL)
                assert (await lab.ack_receipt(forged)).code in refused
                assert (await lab.batch_ack(Popped(_message(lab), forged, 0))).code in refused
                await lab.change(forged, 3_600_000)
        await lab.pass_time(1)
        assert not lab.revive_records()
        rest = await lab.pop()
        assert rest.bodies == ["b", "c", "d"]
        assert await lab.ack(*rest.messages) == [0, 0, 0]
        assert first.bodies == ["a"]

    run(tmp_path, scenario)


@pytest.mark.parametrize("revive_queue_id", [0, 999])
def test_an_invented_receipt_does_not_move_a_group_that_pulls(tmp_path: Path, revive_queue_id: int) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a", "b", "c")
        lab.offsets.commit(GROUP, TOPIC, 0, 1)
        for offset in (1, 2, 3):
            forged = _forged(lab, start_offset=1, revive_queue_id=revive_queue_id, queue_offset=offset)
            assert (await lab.ack_receipt(forged)).code != 0
        assert lab.committed() == 1

    run(tmp_path, scenario)


def test_acks_of_check_points_that_may_yet_come_are_bounded_in_number_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flaremq.broker.pop.revive_log._EARLY_ACKS_MAX", 10)

    async def scenario(lab: PopLab) -> None:
        await lab.send(*map(str, range(40)))
        lab.offsets.commit(GROUP, TOPIC, 0, 40)
        lab.clock.advance(1000)
        now, log = lab.clock.now_ms(), lab.service.log
        for number in range(12):
            old = now - 2000 - number
            for offset in range(33):
                await lab.ack_receipt(_forged(lab, pop_time=old, invisible_time=60_000, queue_offset=offset))
            await lab.ack_receipt(_forged(lab, pop_time=old - 100, invisible_time=2**60, queue_offset=1))
            await lab.ack_receipt(_forged(lab, pop_time=now + number, queue_offset=1))
        assert 0 < len(log._early_acks) <= 10
        assert all(len(offsets) <= 32 for _, offsets in log._early_acks.values())
        assert len(lab.revive_records()) <= 320
        await lab.pass_time(400_000)
        assert not log._early_acks

    run(tmp_path, scenario)


def _message(lab: PopLab) -> MessageExt:
    return lab.messages_of(TOPIC)[0]
