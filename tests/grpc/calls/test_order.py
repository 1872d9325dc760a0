"""Groups in order: a queue is shut while a batch of it is out, and each message of the batch is settled by itself."""

from __future__ import annotations

import asyncio
from typing import Any

from flaremq.clock import ManualClock
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code
from tests.grpc.door_lab import DoorLab, consumer_settings, open_door, resource


def ordered_test(scenario: Any) -> Any:
    """A door whose clock stands still, and four messages of one message group in one queue."""

    def run() -> None:
        async def within() -> None:
            async with open_door(clock=ManualClock()) as lab:
                lab.topic("F", "FIFO", queues=1)
                lab.group("G", consume_message_orderly=True)
                for number in range(4):
                    await lab.send("F", b"%d" % number, message_group="one")
                await scenario(lab)

        asyncio.run(within())

    run.__name__ = run.__qualname__ = scenario.__name__
    return run


def bodies(given: list[Any]) -> list[bytes]:
    return [each.body for each in given]


@ordered_test
async def test_a_call_that_is_repeated_is_let_in_and_counts_as_the_same_attempt(lab: DoorLab) -> None:
    first = await lab.receive("F", "G", count=2, attempt="one")
    assert bodies(first) == [b"0", b"1"]
    assert await lab.finds_nothing("F", "G")  # somebody else
    again = await lab.receive("F", "G", count=2, attempt="one")  # its answer was lost on the way
    assert bodies(again) == [b"0", b"1"]
    assert [each.system_properties.delivery_attempt for each in again] == [1, 1]


@ordered_test
async def test_what_is_not_settled_comes_again_from_its_queue_and_counts(lab: DoorLab) -> None:
    assert bodies(await lab.receive("F", "G", count=2, invisible=30)) == [b"0", b"1"]
    await lab.broker.advanced(seconds=31)
    again = await lab.receive("F", "G", count=2)
    assert bodies(again) == [b"0", b"1"]
    assert [each.system_properties.delivery_attempt for each in again] == [2, 2]


@ordered_test
async def test_the_handle_of_a_change_is_good_as_long_as_the_change(lab: DoorLab) -> None:
    (given,) = await lab.receive("F", "G", count=1, invisible=30)
    await lab.broker.advanced(seconds=20)
    reply = await lab.change("F", "G", given, 15)  # less than has passed since the pop
    assert reply.status.code == Code.OK
    await lab.broker.advanced(seconds=12)
    assert await lab.finds_nothing("F", "G")
    given.system_properties.receipt_handle = reply.receipt_handle
    assert await lab.ack("F", "G", given) == Code.OK
    assert bodies(await lab.receive("F", "G", count=1)) == [b"1"]


@ordered_test
async def test_a_message_in_order_is_held_for_a_push_consumer_that_lives(lab: DoorLab) -> None:
    await (await lab.telemetry(consumer_settings("G", "F"))).next()
    first, second = await lab.receive("F", "G", count=2, renew=True)
    for _ in range(60):
        await lab.broker.advanced(seconds=5)
        await lab.service.renewal.run_due()
    assert await lab.finds_nothing("F", "G")
    assert await lab.ack("F", "G", first) == Code.OK
    assert await lab.finds_nothing("F", "G")  # the other one is out
    assert await lab.ack("F", "G", second) == Code.OK
    assert bodies(await lab.receive("F", "G", count=1)) == [b"2"]


@ordered_test
async def test_a_message_that_is_given_up_stands_in_nobody_s_way(lab: DoorLab) -> None:
    await (await lab.telemetry(consumer_settings("G", "F"))).next()
    (given,) = await lab.receive("F", "G", count=1, renew=True)
    request = classes.ForwardMessageToDeadLetterQueueRequest(
        group=resource("G"),
        topic=resource("F"),
        receipt_handle=given.system_properties.receipt_handle,
        message_id=given.system_properties.message_id,
    )
    assert (await lab.call("ForwardMessageToDeadLetterQueue", request)).status.code == Code.OK
    assert bodies(await lab.receive("F", "G", count=1)) == [b"1"]
    (letter,) = await lab.receive("%DLQ%G", "reader")
    assert (letter.body, letter.system_properties.message_group) == (b"0", "one")
