"""Acknowledgements in the read that brought them, messages without protobuf: what the ordinary way does, or nothing."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from flaremq.clock import ManualClock
from flaremq.errors import UnavailableError
from flaremq.grpc.calls import receiving
from flaremq.grpc.framing import prefixed
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code
from flaremq.grpc.plain import wire
from tests.grpc.door_lab import PEER, DoorLab, open_door, receive_request, resource

pytestmark = pytest.mark.skipif(not wire.IS_COMPILED, reason="interpreted, there are no short ways")
LIVELY = {"popFromRetryProbability": 0}  # no dice: two brokers are to do the same


def ack_request(given: Any, topic: str = "T", group: str = "G", handle: str = "", copies: int = 1) -> Any:
    system = given.system_properties
    entry = classes.AckMessageEntry(message_id=system.message_id, receipt_handle=handle or system.receipt_handle)
    return classes.AckMessageRequest(group=resource(group), topic=resource(topic), entries=[entry] * copies)


def at_once(lab: DoorLab, request: Any, client: str = "c1") -> bytes | None:
    return lab.service.at_once["AckMessage"](prefixed(request.SerializeToString()), client, PEER)


async def ordinary(lab: DoorLab, request: Any, client: str = "c1") -> bytes:
    reply = await lab.call("AckMessage", request, client)
    return prefixed(reply.SerializeToString())


def with_message(scenario: Callable[[DoorLab, Any], Awaitable[None]], **wishes: Any) -> Callable[[], None]:
    """A door whose clock stands still, and a message that was given."""

    async def within() -> None:
        async with open_door(clock=ManualClock(), **LIVELY) as lab:
            lab.topic("T", queues=1)
            await lab.send("T", message_id="ID-1")
            await scenario(lab, await lab.receive_soon("T", "G", **wishes))

    def run() -> None:
        asyncio.run(within())

    run.__name__ = run.__qualname__ = scenario.__name__
    return run


def committed(lab: DoorLab) -> int:
    return lab.state.offsets.find("G", "T", 0)


@with_message
async def test_it_is_acknowledged_and_so_it_is_the_second_time(lab: DoorLab, given: Any) -> None:
    request = ack_request(given)
    assert committed(lab) == 0
    reply = at_once(lab, request)
    assert committed(lab) == 1
    assert reply is not None
    assert at_once(lab, request) is None  # nothing is known of the check point any more
    assert await ordinary(lab, request) == reply


@with_message
async def test_what_the_ordinary_way_refuses_is_not_acknowledged(lab: DoorLab, given: Any) -> None:
    handle = given.system_properties.receipt_handle
    lab.topic("U")
    lab.group("H")
    for request in (
        ack_request(given, handle=handle[:-1] + ("A" if handle[-1] != "A" else "B")),
        ack_request(given, topic="U"),
        ack_request(given, group="H"),
        ack_request(given, topic="a b"),
        ack_request(given, group="CID_RMQ_SYS_X"),
        ack_request(given, copies=2),
        ack_request(given, copies=0),
    ):
        assert at_once(lab, request) is None
    assert at_once(lab, ack_request(given), client=" ") is None
    lab.state.topics.delete("T")
    assert at_once(lab, ack_request(given)) is None
    assert committed(lab) == 0


@with_message
async def test_an_expired_handle_is_refused(lab: DoorLab, given: Any) -> None:
    await lab.broker.advanced(seconds=30)
    assert at_once(lab, ack_request(given)) is None
    assert await lab.ack("T", "G", given) == Code.INVALID_RECEIPT_HANDLE


@with_message
async def test_the_log_is_told_before_the_client_where_it_has_the_check_point(lab: DoorLab, given: Any) -> None:
    await lab.broker.advanced(seconds=15)  # it is stored by now
    assert at_once(lab, ack_request(given)) is None
    before = lab.state.store_loop.driver.appended
    assert await lab.ack("T", "G", given) == Code.OK
    assert lab.state.store_loop.driver.appended > before


@with_message
async def test_a_store_that_closes_is_spoken_of_by_the_ordinary_way(lab: DoorLab, given: Any) -> None:
    def closed(topic: str, queue_id: int) -> int:
        raise UnavailableError("the store is closed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab.state.store_loop.store, "min_offset", closed)
        assert at_once(lab, ack_request(given)) is None
        assert await lab.ack("T", "G", given) == Code.INTERNAL_SERVER_ERROR
    assert committed(lab) == 0


def test_a_push_consumer_holds_it_no_longer() -> None:
    async def scenario(lab: DoorLab, given: Any) -> None:
        assert len(lab.service.renewal) == 1
        assert at_once(lab, ack_request(given), client="c2") is not None  # whoever has the handle may
        assert len(lab.service.renewal) == 1
        await lab.send("T", message_id="ID-2")
        second = await lab.receive_soon("T", "G", renew=True)
        assert at_once(lab, ack_request(second)) is not None
        assert len(lab.service.renewal) == 1

    with_message(scenario, renew=True)()


def test_what_was_renewed_is_acknowledged_by_its_present_receipt() -> None:
    async def scenario(lab: DoorLab, given: Any) -> None:
        await lab.broker.advanced(seconds=55)
        await lab.service.renewal.run_due()
        assert at_once(lab, ack_request(given)) is None
        assert await lab.ack("T", "G", given) == Code.OK
        assert len(lab.service.renewal) == 0
        assert await lab.finds_nothing("T", "G")

    with_message(scenario, renew=True)()


def test_messages_in_order_take_the_ordinary_way() -> None:
    async def scenario() -> None:
        async with open_door(clock=ManualClock(), **LIVELY) as lab:
            lab.topic("T", "FIFO", queues=1)
            lab.group("G", consume_message_orderly=True)
            await lab.send("T", message_group="g")
            given = await lab.receive_soon("T", "G")
            assert at_once(lab, ack_request(given)) is None
            assert await lab.ack("T", "G", given) == Code.OK

    asyncio.run(scenario())


@with_message
async def test_what_is_given_again_is_acknowledged_where_it_lies_then(lab: DoorLab, given: Any) -> None:
    await lab.broker.advanced(seconds=31)
    again = await lab.receive_soon("T", "G")
    assert again.system_properties.delivery_attempt == 2
    assert at_once(lab, ack_request(again)) is not None
    retries = "%RETRY%G_T"
    assert lab.state.offsets.find("G", retries, 0) == lab.state.store_loop.store.max_offset(retries, 0) == 1


@contextlib.contextmanager
def without_plain_records() -> Iterator[None]:
    """Every message is made by the ordinary way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(receiving, "read_plain_record", lambda record: None)
        yield


class Side:
    """One of two brokers that are asked the same. Nothing is given again: in which order that happens is open."""

    def __init__(self, lab: DoorLab, *, is_quick: bool) -> None:
        self.lab = lab
        self.is_quick = is_quick
        self.quick = 0
        self.given: list[Any] = []

    async def ack(self, request: Any) -> bytes:
        reply = at_once(self.lab, request) if self.is_quick else None
        self.quick += reply is not None
        return await ordinary(self.lab, request) if reply is None else reply

    async def do(self, dice: random.Random, number: int) -> object:
        kind = dice.random()
        if kind < 0.3:
            fields = {"tag": "paid"} if dice.random() < 0.5 else {}
            colour = {"colour": "red"} if dice.random() < 0.5 else {}
            return (await self.lab.send("T", message_id=f"ID-{number}", properties=colour, **fields)).offset
        if kind < 0.45:
            if not await self.has_messages():
                return None
            with contextlib.nullcontext() if self.is_quick else without_plain_records():
                found = await self.lab.receive("T", "G", count=dice.randint(1, 8), invisible=40_000)
            self.given += found
            for message in found:
                message.system_properties.ClearField("store_host")  # its port was free just then
            return [message.SerializeToString(deterministic=True) for message in found]
        if kind < 0.5:
            await self.lab.broker.advanced(seconds=dice.choice((1, 11, 31)))
            return None
        if not self.given:
            return None
        given = dice.choice(self.given)
        if kind < 0.55:
            return (await self.lab.change("T", "G", given, 39_000)).status.code
        handle = given.system_properties.receipt_handle
        if kind < 0.6:
            handle = handle.replace(" ", f" {dice.randint(0, 9)}", 1)
        return await self.ack(ack_request(given, handle=handle, copies=2 if dice.random() < 0.1 else 1))

    async def has_messages(self) -> bool:
        return await self.lab.state.pop.taking.has_messages("G", "T", -1, order=False, attempt_id=None)

    def standing(self) -> object:
        """What the broker makes of it."""
        item, _ = self.lab.state.statistics._find_item("GROUP_ACK_NUMS", "T@G")
        acks = None if item is None else (item.count, item.times)
        points = sorted(repr(point) for point in self.lab.state.pop.table._by_key.values())
        return committed(self.lab), points, acks, len(self.lab.service.renewal)


@pytest.mark.parametrize("seed", range(6))
def test_two_brokers_that_are_asked_the_same_answer_the_same_bytes(seed: int) -> None:
    async def scenario() -> None:
        async with (
            open_door(clock=ManualClock(), **LIVELY) as first,
            open_door(clock=ManualClock(), **LIVELY) as second,
        ):
            sides = Side(first, is_quick=True), Side(second, is_quick=False)
            for side in sides:
                side.lab.topic("T", queues=1)
                side.lab.group("G")
            for number in range(300):
                answers = [await side.do(random.Random(seed * 1_000 + number), number) for side in sides]
                assert answers[0] == answers[1], f"step {number}"
                assert sides[0].standing() == sides[1].standing(), f"step {number}"
            assert sides[0].quick > 20
            assert sides[1].quick == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("renew", [False, True])
@pytest.mark.parametrize("fails_at", [0, 1])
def test_what_a_client_that_left_was_not_given_is_for_others_and_no_attempt(fails_at: int, renew: bool) -> None:
    async def scenario() -> None:
        async with open_door(clock=ManualClock(), **LIVELY) as lab:
            lab.topic("T", queues=1)
            for number in range(3):  # the first two are sent together
                await lab.send("T", bytes(40_000), message_id=f"ID-{number}")
            sent = 0

            async def send(reply: Any) -> None:
                nonlocal sent
                if sent == fails_at:
                    raise asyncio.CancelledError
                sent += 1

            handler: Any = lab.service.handlers["ReceiveMessage"]
            request = receive_request("T", "G", renew=renew)
            with pytest.raises(asyncio.CancelledError):
                await handler(request, lab.new_call("ReceiveMessage"), send)
            await asyncio.sleep(0.05)
            assert len(lab.service.renewal) == (2 * fails_at if renew else 0)
            await lab.broker.advanced(seconds=2)
            found = [await lab.receive_soon("T", "G") for _ in range(3 - 2 * fails_at)]
            assert sorted(each.system_properties.message_id for each in found) == [
                f"ID-{number}" for number in range(2 * fails_at, 3)
            ]
            assert {each.system_properties.delivery_attempt for each in found} == {1}

    asyncio.run(scenario())
