"""Calls that are answered in the read that brought them: the same messages and replies as the ordinary way, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flaremq.grpc.framing import PREFIX_SIZE, prefixed
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code, MessageType
from flaremq.grpc.plain import wire
from flaremq.storage.runtime.health import RunningFlag
from tests.grpc.door_lab import PEER, DoorLab, lab_test, message, open_door, resource

compiled = pytest.mark.skipif(not wire.IS_COMPILED, reason="interpreted, sends have no short way")


def at_once(lab: DoorLab, method: str, request: Any, client: str = "p1") -> Any:
    """The reply; None: it takes the ordinary way."""
    reply = lab.service.at_once[method](prefixed(request.SerializeToString()), client, PEER)
    if reply is None:
        return None
    assert reply[:PREFIX_SIZE] == prefixed(reply[PREFIX_SIZE:])[:PREFIX_SIZE]
    return getattr(classes, method.replace("Message", "MessageResponse")).FromString(reply[PREFIX_SIZE:])


def send(lab: DoorLab, topic: str, body: bytes = b"hello", client: str = "p1", **fields: Any) -> Any:
    fields = {"message_type": MessageType.NORMAL} | fields
    return at_once(lab, "SendMessage", classes.SendMessageRequest(messages=[message(topic, body, **fields)]), client)


def stored(lab: DoorLab) -> int:
    return lab.state.store_loop.driver.appended


def async_test(scenario: Callable[[DoorLab], Awaitable[None]]) -> Callable[[], None]:
    """With a broker that acknowledges from memory."""

    async def within() -> None:
        async with open_door(flushDiskType="ASYNC_FLUSH") as lab:
            await scenario(lab)

    def run() -> None:
        asyncio.run(within())

    run.__name__ = run.__qualname__ = scenario.__name__
    return run


@compiled
@async_test
async def test_a_message_is_the_same_whichever_way_it_came(lab: DoorLab) -> None:
    topic = lab.topic("T", queues=1)
    fields: dict[str, Any] = {"tag": "paid", "keys": ["a", "b"], "properties": {"colour": "red"}, "born_host": "vm"}
    await lab.receive(topic, "G")
    entry = await lab.send(topic, b"one", message_type=MessageType.NORMAL, **fields)
    reply = send(lab, topic, b"two", **fields)
    assert (reply.status.code, reply.status.message) == (Code.OK, "OK")
    assert len(reply.entries) == 1
    assert reply.entries[0].status == reply.status
    assert (entry.offset, reply.entries[0].offset) == (0, 1)
    assert reply.entries[0].transaction_id == reply.entries[0].message_id
    first, second = await lab.receive(topic, "G", count=2)
    assert (bytes(first.body), bytes(second.body)) == (b"one", b"two")
    assert second.system_properties.message_id == reply.entries[0].message_id
    for found in (first, second):
        for name in (
            "message_id",
            "queue_offset",
            "store_timestamp",
            "born_timestamp",
            "receipt_handle",
            "body_digest",
        ):
            found.system_properties.ClearField(name)
        found.body = b""
    assert first == second


@compiled
@async_test
async def test_the_first_send_to_a_topic_takes_the_ordinary_way(lab: DoorLab) -> None:
    topic = lab.topic("T")
    assert send(lab, topic) is None
    await lab.send(topic)
    assert send(lab, topic) is not None


async def ends(lab: DoorLab, topic: str, count: int) -> list[int]:
    """What each of four queues has when they have ``count`` messages together."""
    store = lab.state.store_loop.store
    async with asyncio.timeout(10):
        while sum(offsets := [store.max_offset(topic, queue) for queue in range(4)]) < count:
            await asyncio.sleep(0.01)
    return offsets


@compiled
@async_test
async def test_queues_take_turns(lab: DoorLab) -> None:
    topic = lab.topic("T", queues=4)
    await lab.send(topic)
    for _ in range(7):
        assert send(lab, topic) is not None
    assert await ends(lab, topic, 8) == [2, 2, 2, 2]


@compiled
def test_a_send_that_takes_the_ordinary_way_after_all_takes_one_turn() -> None:
    async def scenario() -> None:
        # With this option no topic is plain.
        async with open_door(flushDiskType="ASYNC_FLUSH", startAcceptSendRequestTimeStamp=1) as lab:
            topic = lab.topic("T", queues=4)
            for _ in range(8):
                assert send(lab, topic) is None
                await lab.send(topic)
            assert await ends(lab, topic, 8) == [2, 2, 2, 2]

    asyncio.run(scenario())


@compiled
@async_test
async def test_what_the_ordinary_way_refuses_is_not_stored(lab: DoorLab) -> None:
    topic, orders = lab.topic("T"), lab.topic("O", "FIFO")
    closed = lab.topic("C", perm=4)
    await lab.send(topic)
    before = stored(lab)
    assert send(lab, topic, client=" ") is None
    assert send(lab, topic, client="c" * 2000) is None
    assert send(lab, topic, b"") is None
    assert send(lab, topic, tag="a|b") is None
    assert send(lab, orders) is None
    assert send(lab, closed) is None
    assert send(lab, "unknown") is None
    assert send(lab, "rmq_sys_x") is None
    assert send(lab, "a b") is None
    assert stored(lab) == before


@compiled
@async_test
async def test_a_broker_that_takes_no_messages_stores_none(lab: DoorLab) -> None:
    topic = lab.topic("T")
    await lab.send(topic)
    before = stored(lab)
    lab.state.role.hold_writes("for a test")
    assert send(lab, topic) is None
    assert stored(lab) == before
    lab.state.role.resume_writes()
    await lab.send(topic)
    assert send(lab, topic) is not None


@compiled
@async_test
async def test_a_message_that_a_full_disk_refuses_is_counted_once(lab: DoorLab) -> None:
    topic = lab.topic("T")
    await lab.send(topic)
    store = lab.state.store_loop.store
    lab.state.store_loop.driver._health.set(RunningFlag.DISK_FULL, "the disk is full")
    assert send(lab, topic) is None
    assert (await lab.send(topic)).status.code == Code.INTERNAL_SERVER_ERROR
    assert store.statistics()["putMessageFailedTimes"] == 1
    lab.state.store_loop.driver._health.clear(RunningFlag.DISK_FULL)
    assert send(lab, topic) is not None


@compiled
@async_test
async def test_a_topic_that_is_gone_takes_nothing(lab: DoorLab) -> None:
    topic = lab.topic("T")
    await lab.send(topic)
    assert send(lab, topic) is not None
    lab.state.topics.delete(topic)
    assert send(lab, topic) is None


@compiled
@lab_test
async def test_who_waits_for_a_disk_is_not_answered_at_once(lab: DoorLab) -> None:
    topic = lab.topic("T")
    await lab.send(topic)
    before = stored(lab)
    assert send(lab, topic) is None
    assert stored(lab) == before


def ack(lab: DoorLab, topic: str, given: Any, handle: str = "") -> Any:
    system = given.system_properties
    entry = classes.AckMessageEntry(message_id=system.message_id, receipt_handle=handle or system.receipt_handle)
    request = classes.AckMessageRequest(group=resource("G"), topic=resource(topic), entries=[entry])
    handler: Any = lab.service.handlers["AckMessage"]
    return handler(request, lab.new_call("AckMessage"))


@lab_test
async def test_an_acknowledgement_is_answered_without_a_task(lab: DoorLab) -> None:
    topic = lab.topic("T", queues=1)
    await lab.receive(topic, "G")
    await lab.send(topic)
    given = await lab.receive_soon(topic, "G")
    foreign = ack(lab, topic, given, handle=given.system_properties.receipt_handle + "x")
    assert foreign.status.code == foreign.entries[0].status.code == Code.INVALID_RECEIPT_HANDLE
    reply = ack(lab, topic, given)
    assert isinstance(reply, classes.AckMessageResponse)
    assert (reply.status.code, reply.entries[0].status.code) == (Code.OK, Code.OK)
    assert reply.entries[0].receipt_handle == given.system_properties.receipt_handle


@lab_test
async def test_a_message_that_is_just_being_renewed_is_acknowledged_after_that(lab: DoorLab) -> None:
    topic = lab.topic("T", queues=1)
    await lab.receive(topic, "G")
    await lab.send(topic)
    (given,) = [await lab.receive_soon(topic, "G", renew=True)]
    (held,) = lab.service.renewal._held.values()
    held.under_way = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(ack(lab, topic, given))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    under_way, held.under_way = held.under_way, None
    under_way.set_result(None)
    assert (await waiting).status.code == Code.OK
    assert len(lab.service.renewal) == 0
