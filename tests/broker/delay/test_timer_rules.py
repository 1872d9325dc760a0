"""Where messages with a time of their own go, and how they are taken back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flaremq.broker.delay.message_rules import (
    MessageKind,
    TimerRules,
    parse_recall_handle,
    prepare,
    recall_handle,
    slot_start_ms,
)
from flaremq.broker.options import BrokerOptions
from flaremq.broker.requests.recall import RecallHandler
from flaremq.errors import InvalidArgumentError
from flaremq.message.properties import parse_properties
from flaremq.message.stored_form import StoredForm
from flaremq.message.topics import TIMER_TOPIC
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from tests.broker.waiting_lab import HOST, FakeConnection, WaitingLab, run, timer

DAY_MS = 86_400_000
RULES = TimerRules()


@pytest.mark.parametrize(
    ("properties", "due_in_ms"),
    [
        ({"TIMER_DELAY_SEC": "3"}, 3000),
        ({"TIMER_DELAY_MS": "2500"}, 2500),
        ({"TIMER_DELIVER_MS": "1700000007250"}, 7250),
        ({"TIMER_DELAY_SEC": "3", "TIMER_DELAY_MS": "9", "TIMER_DELIVER_MS": "1"}, 3000),
    ],
)
def test_timed_message_waits_in_the_timer_topic_for_the_slot_its_time_lies_in(
    properties: dict[str, str], due_in_ms: int
) -> None:
    lab = WaitingLab()
    now_ms = 1_700_000_000_000
    kind, form = prepare(lab.form(b"a", queue_id=2, **properties), now_ms=now_ms, timer=RULES)
    assert kind is MessageKind.TIMED
    assert (form.topic, form.queue_id) == (TIMER_TOPIC, 0)
    found = parse_properties(form.properties)
    assert (found["REAL_TOPIC"], found["REAL_QID"]) == ("orders", "2")
    assert int(found["TIMER_OUT_MS"]) == slot_start_ms(now_ms + due_in_ms, 1000)


def test_time_on_the_edge_of_a_slot_belongs_to_the_slot_that_ends_there() -> None:
    assert slot_start_ms(5000, 1000) == 4000
    assert slot_start_ms(5001, 1000) == 5000
    assert slot_start_ms(5999, 1000) == 5000


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({"TIMER_DELAY_SEC": "259201"}, 13),
        ({"TIMER_DELIVER_MS": str(1_700_000_000_000 + 3 * DAY_MS + 1)}, 13),
        ({"TIMER_DELAY_MS": "soon"}, 13),
        ({"TIMER_DELAY_MS": "9" * 40}, 13),
        ({"TIMER_DELIVER_MS": "1", "TIMER_DEL_UNIQKEY": "orders+a"}, 13),
    ],
)
def test_impossible_time_is_refused(properties: dict[str, str], code: int) -> None:
    lab = WaitingLab()
    with pytest.raises(RequestError) as caught:
        prepare(lab.form(b"a", "orders", 0, **properties), now_ms=1_700_000_000_000, timer=RULES)
    assert caught.value.code == code
    with pytest.raises(RequestError):
        prepare(lab.form(b"a", "orders", 0, TRAN_MSG="true", **properties), now_ms=1_700_000_000_000, timer=RULES)


def test_switched_off_timer_is_refused() -> None:
    lab = WaitingLab()
    with pytest.raises(RequestError) as caught:
        prepare(lab.form(b"a", TIMER_DELAY_SEC="1"), now_ms=0, timer=TimerRules(enabled=False))
    assert caught.value.code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("properties", [{"TIMER_DELAY_MS": "0"}, {"TIMER_DELAY_MS": "-5"}, {"TIMER_DELIVER_MS": "5"}])
def test_time_that_has_passed_means_at_once(properties: dict[str, str]) -> None:
    form = WaitingLab().form(b"a", "orders", 0, **properties)
    assert prepare(form, now_ms=1_700_000_000_000, timer=RULES) == (MessageKind.PLAIN, form)


def test_delay_level_wins_over_a_time() -> None:
    form = WaitingLab().form(b"a", TIMER_DELAY_SEC="3", TIMER_DELIVER_MS="9", DELAY="4")
    kind, prepared = prepare(form, now_ms=0, timer=RULES)
    assert (kind, prepared.topic, prepared.delay_level) == (MessageKind.DELAYED, "orders", 4)
    assert parse_properties(prepared.properties) == {"UNIQ_KEY": "a", "DELAY": "4"}


def test_message_that_came_from_the_timer_does_not_go_there_again() -> None:
    form = WaitingLab().form(b"a", TIMER_DELAY_SEC="3", TIMER_OUT_MS="1700000000000")
    assert prepare(form, now_ms=0, timer=RULES) == (MessageKind.PLAIN, form)


def test_recall_handle_is_the_recorded_one() -> None:
    form = StoredForm(
        topic=TIMER_TOPIC,
        queue_id=0,
        body=b"timer",
        properties=b"TIMER_OUT_MS\x011794823187000\x02REAL_TOPIC\x01GoldDelay\x02"
        b"UNIQ_KEY\x01C00002027A154E0E2F2A4F5B5C7F003A\x02",
        born_host=HOST,
    )
    recorded = "djEgR29sZERlbGF5IGJyb2tlci1hIDE3OTQ4MjMxODcwMDEgQzAwMDAyMDI3QTE1NEUwRTJGMkE0RjVCNUM3RjAwM0E="
    assert recall_handle(form, "broker-a") == recorded
    handle = parse_recall_handle(recorded)
    assert (handle.topic, handle.broker_name, handle.due_ms) == ("GoldDelay", "broker-a", 1794823187001)
    assert recall_handle(replace(form, topic="GoldDelay"), "broker-a") is None


@pytest.mark.parametrize("text", ["", "x", "====", "djI=", "djEgYSBiIGMgZA==", "é", "A" * 5000])
def test_garbage_is_no_recall_handle(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_recall_handle(text)


# Taking back


def recall(lab: WaitingLab, handle: str, topic: str = "orders", **options: object) -> RemotingCommand:
    settings = BrokerOptions(recall_message_enable=True, **options)  # type: ignore[arg-type]
    topics = lab.topics(settings)
    topics.create_on_send_back("orders", 4)
    handler = RecallHandler(settings, lab.clock, lab.access, topics)
    request = RemotingCommand.request(370, {"topic": topic, "recallHandle": handle, "producerGroup": "GP"})
    return run(handler.recall(FakeConnection().connection, request))


def handle_of(lab: WaitingLab, number: int = -1) -> str:
    record = lab.messages(TIMER_TOPIC)[number]
    handle = recall_handle(replace(StoredForm.of_record(record)), "broker-a")
    assert handle is not None
    return handle


def test_nothing_is_recalled_from_a_topic_that_clients_may_not_send_to() -> None:
    lab = WaitingLab()
    lab.send(b"waits", UNIQ_KEY="K1", TIMER_DELAY_SEC="5")
    assert recall(lab, handle_of(lab), TIMER_TOPIC).code == ResponseCode.NO_PERMISSION
    assert len(lab.messages(TIMER_TOPIC)) == 1


def test_recalled_message_is_not_delivered_but_its_neighbours_are() -> None:
    lab = WaitingLab()
    service = timer(lab)
    lab.send(b"taken back", UNIQ_KEY="K1", TIMER_DELAY_SEC="5")
    handle = handle_of(lab)
    lab.send(b"kept", UNIQ_KEY="K2", TIMER_DELAY_SEC="5")
    lab.send(b"namesake", "bills", UNIQ_KEY="K1", TIMER_DELAY_SEC="5")
    run(service.run_due())
    lab.clock.advance(2000)
    reply = recall(lab, handle)
    assert (reply.code, reply.ext) == (0, {"MSG_REGION": "DefaultRegion", "msgId": "K1"})
    lab.clock.advance(3000)
    run(service.run_due())
    assert (lab.bodies(), lab.bodies("bills")) == ([b"kept"], [b"namesake"])
    assert service.waiting_count == 0


def test_recall_survives_a_restart_in_the_middle_of_its_slot() -> None:
    lab = WaitingLab()
    service = timer(lab)
    lab.clock.advance(100)
    due_ms = lab.clock.now_ms() + 5500
    lab.send(b"taken back", UNIQ_KEY="K1", TIMER_DELIVER_MS=str(due_ms))
    assert recall(lab, handle_of(lab)).code == 0
    lab.clock.advance(5400)  # the slot has begun, the message is not due yet
    run(service.run_due())
    assert service.waiting_count == 1
    run(service.persist())
    service.close()
    lab = lab.restart()
    service = timer(lab)
    lab.clock.advance(2000)
    run(service.run_due())
    assert lab.bodies() == []
    assert service.waiting_count == 0


def test_recall_that_cannot_be_is_refused_with_the_code_that_says_why() -> None:
    lab = WaitingLab()
    lab.send(b"a", UNIQ_KEY="K1", TIMER_DELAY_SEC="5")
    handle = handle_of(lab)
    forbidden = RecallHandler(BrokerOptions(), lab.clock, lab.access, lab.topics(BrokerOptions()))
    request = RemotingCommand.request(370, {"topic": "orders", "recallHandle": handle})
    reply = run(forbidden.recall(FakeConnection().connection, request))
    # As recorded from RocketMQ 5.5.0.
    assert (reply.code, reply.remark) == (16, "recall failed, operation is forbidden")
    assert reply.ext == {"MSG_REGION": "DefaultRegion"}
    assert recall(lab, handle, "nowhere").code == ResponseCode.TOPIC_NOT_EXIST
    assert recall(lab, "nonsense").code == ResponseCode.ILLEGAL_OPERATION
    assert recall(lab, handle, "TBW102").code == ResponseCode.ILLEGAL_OPERATION
    assert recall(lab, handle, broker_name="broker-b").code == ResponseCode.ILLEGAL_OPERATION
    assert recall(lab, handle, broker_permission=4).code == ResponseCode.SERVICE_NOT_AVAILABLE
    lab.clock.advance(5000)
    assert recall(lab, handle).code == ResponseCode.ILLEGAL_OPERATION
