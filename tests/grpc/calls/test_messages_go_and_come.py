"""The ways of a message: sent, received, acknowledged, put off, given up."""

from __future__ import annotations

import asyncio
import time

from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code, MessageType
from tests.grpc.door_lab import DoorLab, lab_test, message, resource


@lab_test
async def test_a_message_is_received_as_it_was_sent(lab: DoorLab) -> None:
    lab.topic("T")
    entry = await lab.send("T", b"body", tag="A", keys=["k1", "k2"], properties={"colour": "red"}, trace_context="t")
    assert entry.status.code == Code.OK
    assert entry.transaction_id == entry.message_id
    assert not entry.recall_handle
    (given,) = await lab.receive("T", "G")
    system = given.system_properties
    assert (given.topic.name, given.body) == ("T", b"body")
    assert dict(given.user_properties) == {"colour": "red", "TRACE_CONTEXT": "t"}  # as the original shows it
    assert system.message_id == entry.message_id
    assert (system.tag, list(system.keys), system.trace_context) == ("A", ["k1", "k2"], "t")
    assert (system.born_host, system.born_timestamp.seconds) == ("client-host", 1_700_000_000)
    assert (system.delivery_attempt, system.body_encoding) == (1, 1)
    assert system.message_type == MessageType.NORMAL
    assert system.body_digest.checksum == "841A2D689AD86BD1611447453C22C6FC"
    assert system.queue_offset == entry.offset
    assert await lab.ack("T", "G", given) == Code.OK
    assert await lab.receive("T", "G") == []


@lab_test
async def test_a_message_that_is_not_acknowledged_comes_again_with_its_next_attempt(lab: DoorLab) -> None:
    lab.topic("T", queues=1)
    await lab.send("T", properties={"a": "b"})
    given = await lab.receive_soon("T", "G")
    changed = await lab.change("T", "G", given, 0.5)
    assert changed.status.code == Code.OK
    again = await lab.receive_soon("T", "G")
    assert again.topic.name == "T"
    assert again.system_properties.message_id == given.system_properties.message_id
    assert again.system_properties.delivery_attempt == 2
    assert dict(again.user_properties) == {"a": "b"}
    assert await lab.ack("T", "G", again) == Code.OK


@lab_test
async def test_the_handle_of_a_change_settles_the_message(lab: DoorLab) -> None:
    lab.topic("T", queues=1)
    for _ in range(3):
        await lab.send("T")
    given = await lab.receive("T", "G")
    assert len(given) == 3
    handles = []
    for each in given:
        reply = await lab.change("T", "G", each, 1)
        assert reply.status.code == Code.OK
        handles.append(reply.receipt_handle)
    for each, handle in zip(given, handles, strict=True):
        each.system_properties.receipt_handle = handle
        assert await lab.ack("T", "G", each) == Code.OK
    await asyncio.sleep(1.3)
    assert await lab.receive("T", "G", poll=0.5) == []


@lab_test
async def test_a_handle_of_another_group_settles_nothing(lab: DoorLab) -> None:
    lab.topic("T")
    await lab.send("T")
    (given,) = await lab.receive("T", "G")
    assert await lab.ack("T", "H", given) == Code.INVALID_RECEIPT_HANDLE
    assert (await lab.change("T", "H", given, 1)).status.code == Code.INVALID_RECEIPT_HANDLE
    handle = given.system_properties.receipt_handle
    given.system_properties.receipt_handle = handle.replace(" 30000 ", " 40000 ")
    assert await lab.ack("T", "G", given) == Code.INVALID_RECEIPT_HANDLE
    given.system_properties.receipt_handle = handle
    assert await lab.ack("T", "G", given) == Code.OK


@lab_test
async def test_messages_of_a_group_keep_their_order(lab: DoorLab) -> None:
    lab.topic("F", "FIFO")
    lab.group("G", consume_message_orderly=True)
    for number in range(6):
        entry = await lab.send("F", b"%d" % number, message_group="one")
        assert entry.status.code == Code.OK
    given = await lab.receive("F", "G", count=3)
    assert [each.body for each in given] == [b"0", b"1", b"2"]
    assert given[0].system_properties.message_group == "one"
    assert given[0].system_properties.message_type == MessageType.FIFO
    assert await lab.receive("F", "G") == []  # the queue is shut
    for each in given:
        assert await lab.ack("F", "G", each) == Code.OK
    assert [each.body for each in await lab.receive("F", "G")] == [b"3", b"4", b"5"]


@lab_test
async def test_a_message_in_order_comes_again_from_its_place(lab: DoorLab) -> None:
    lab.topic("F", "FIFO", queues=1)
    lab.group("G", consume_message_orderly=True)
    for number in range(2):
        await lab.send("F", b"%d" % number, message_group="one")
    first, second = await lab.receive("F", "G")
    assert (await lab.change("F", "G", first, 0)).status.code == Code.OK
    assert (await lab.change("F", "G", second, 0)).status.code == Code.OK
    again = await lab.receive("F", "G")
    assert [(each.body, each.system_properties.delivery_attempt) for each in again] == [(b"0", 2), (b"1", 2)]


@lab_test
async def test_a_delayed_message_waits_and_can_be_recalled(lab: DoorLab) -> None:
    lab.topic("D", "DELAY")
    due = int(time.time() * 1000) + 1500
    entry = await lab.send("D", delivery_timestamp=due, message_type=MessageType.DELAY)
    assert entry.status.code == Code.OK
    assert entry.recall_handle
    assert await lab.receive("D", "G") == []
    given = await lab.receive_soon("D", "G")
    assert time.time() * 1000 >= due
    assert given.system_properties.message_type == MessageType.DELAY
    assert given.system_properties.delivery_timestamp.seconds == due // 1000


@lab_test
async def test_several_messages_have_a_result_each(lab: DoorLab) -> None:
    lab.topic("T")
    request = classes.SendMessageRequest(messages=[message("T", b"1"), message("T", b"2"), message("T", b"3")])
    reply = await lab.call("SendMessage", request)
    assert reply.status.code == Code.OK
    assert [entry.message_id for entry in reply.entries] == [
        each.system_properties.message_id for each in request.messages
    ]
    assert {each.body for each in await lab.receive("T", "G")} == {b"1", b"2", b"3"}


@lab_test
async def test_a_message_given_up_is_a_dead_letter(lab: DoorLab) -> None:
    lab.topic("T")
    entry = await lab.send("T", b"bad", tag="A")
    (given,) = await lab.receive("T", "G")
    reply = await lab.call(
        "ForwardMessageToDeadLetterQueue",
        classes.ForwardMessageToDeadLetterQueueRequest(
            group=resource("G"),
            topic=resource("T"),
            receipt_handle=given.system_properties.receipt_handle,
            message_id=given.system_properties.message_id,
            delivery_attempt=17,
            max_delivery_attempts=17,
        ),
    )
    assert reply.status.code == Code.OK
    letter = await lab.receive_soon("%DLQ%G", "reader")
    assert (letter.body, letter.system_properties.tag) == (b"bad", "A")
    assert letter.system_properties.message_id == entry.message_id
    assert await lab.ack("T", "G", given) == Code.OK


@lab_test
async def test_filters_by_tag_and_by_sql(lab: DoorLab) -> None:
    lab.topic("T")
    for tag, size in (("A", "1"), ("B", "2"), ("C", "3")):
        await lab.send("T", tag=tag, properties={"size": size})
    assert {each.system_properties.tag for each in await lab.receive("T", "G1", tag="A || C")} == {"A", "C"}


def test_a_property_filter_chooses_messages() -> None:
    async def scenario() -> None:
        from tests.grpc.door_lab import open_door

        async with open_door(enablePropertyFilter=True) as lab:
            lab.topic("T")
            for size in ("1", "2", "3"):
                await lab.send("T", properties={"size": size})
            given = await lab.receive("T", "G", sql="size > 1")
            assert {each.user_properties["size"] for each in given} == {"2", "3"}

    asyncio.run(scenario())


@lab_test
async def test_a_poll_is_answered_when_a_message_comes(lab: DoorLab) -> None:
    lab.topic("T")
    waiting = asyncio.create_task(lab.receive("T", "G", poll=8))
    await asyncio.sleep(0.2)
    began = time.monotonic()
    await lab.send("T", b"late")
    assert [each.body for each in await waiting] == [b"late"]
    assert time.monotonic() - began < 3
