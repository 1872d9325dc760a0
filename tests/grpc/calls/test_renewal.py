"""What a push consumer holds stays hidden while it is alive, and its first handle settles it however much later."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flaremq.clock import ManualClock
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.connection import RequestTimeoutError
from tests.grpc.door_lab import DoorLab, consumer_settings, open_door, resource


def held_test(scenario: Any) -> Any:
    """A door whose clock stands still, a message, and a push consumer that holds it."""

    def run() -> None:
        async def within() -> None:
            async with open_door(clock=ManualClock()) as lab:
                lab.topic("T", queues=1)
                await (await lab.telemetry(consumer_settings("G", "T"))).next()
                await lab.send("T", b"held")
                given = await lab.receive_soon("T", "G", renew=True)
                assert len(lab.service.renewal) == 1
                await scenario(lab, given)

        asyncio.run(within())

    run.__name__ = run.__qualname__ = scenario.__name__
    return run


async def passes(lab: DoorLab, seconds: float) -> None:
    """Time passes, and the door looks every five seconds."""
    while seconds > 0:
        step = min(5.0, seconds)
        await lab.broker.advanced(seconds=step)
        await lab.service.renewal.run_due()
        seconds -= step


async def forward(lab: DoorLab, given: Any) -> int:
    request = classes.ForwardMessageToDeadLetterQueueRequest(
        group=resource("G"),
        topic=resource("T"),
        receipt_handle=given.system_properties.receipt_handle,
        message_id=given.system_properties.message_id,
    )
    return int((await lab.call("ForwardMessageToDeadLetterQueue", request)).status.code)


@held_test
async def test_it_stays_hidden_and_the_first_handle_acknowledges_it(lab: DoorLab, given: Any) -> None:
    await passes(lab, 600)
    assert await lab.finds_nothing("T", "G")
    assert await lab.ack("T", "G", given) == Code.OK
    assert len(lab.service.renewal) == 0
    await passes(lab, 4000)
    assert await lab.finds_nothing("T", "G")


@held_test
async def test_without_renewal_the_handle_expires_and_the_message_comes_again(lab: DoorLab, given: Any) -> None:
    await lab.broker.advanced(seconds=61)
    assert await lab.ack("T", "G", given, client="c2") == Code.INVALID_RECEIPT_HANDLE  # another client's
    again = await lab.receive_soon("T", "G", client="c2")
    assert again.system_properties.delivery_attempt == 2


@held_test
async def test_a_change_ends_the_renewal_and_its_handle_is_the_right_one(lab: DoorLab, given: Any) -> None:
    await passes(lab, 300)
    reply = await lab.change("T", "G", given, 30)
    assert reply.status.code == Code.OK
    assert len(lab.service.renewal) == 0
    handle = reply.receipt_handle
    assert handle != given.system_properties.receipt_handle
    await passes(lab, 20)
    assert await lab.finds_nothing("T", "G")
    reply = await lab.change("T", "G", given, 30, handle=handle)  # once more, by the new one
    assert reply.status.code == Code.OK
    given.system_properties.receipt_handle = reply.receipt_handle
    assert await lab.ack("T", "G", given) == Code.OK
    await passes(lab, 100)
    assert await lab.finds_nothing("T", "G")


@held_test
async def test_a_changed_message_comes_again_when_its_time_is_over(lab: DoorLab, given: Any) -> None:
    await passes(lab, 300)
    assert (await lab.change("T", "G", given, 30)).status.code == Code.OK
    await lab.broker.advanced(seconds=31)
    again = await lab.receive_soon("T", "G", client="c2")
    assert again.system_properties.delivery_attempt == 2


@held_test
async def test_it_may_be_given_up_however_late(lab: DoorLab, given: Any) -> None:
    await passes(lab, 300)
    assert await forward(lab, given) == Code.OK
    assert len(lab.service.renewal) == 0
    assert (await lab.receive_soon("%DLQ%G", "reader")).body == b"held"
    await passes(lab, 4000)
    assert await lab.finds_nothing("T", "G")


@held_test
async def test_after_three_hours_others_get_it(lab: DoorLab, given: Any) -> None:
    for _ in range(240):
        await lab.broker.advanced(seconds=60)
        await lab.service.renewal.run_due()
    assert len(lab.service.renewal) == 0
    assert (await lab.receive_soon("T", "G", client="c2")).body == b"held"


@pytest.mark.parametrize("way", ["termination", "silence", "broken stream"])
def test_what_a_client_held_that_is_gone_is_for_others_soon(way: str) -> None:
    async def within() -> None:
        async with open_door(clock=ManualClock()) as lab:
            lab.topic("T", queues=1)
            stream = await lab.telemetry(consumer_settings("G", "T"))
            await stream.next()
            await lab.send("T", b"held")
            await lab.receive_soon("T", "G", renew=True)
            now = asyncio.get_running_loop().time()
            if way == "termination":
                await lab.call("NotifyClientTermination", classes.NotifyClientTerminationRequest())
            elif way == "silence":
                lab.service.sessions.expire(now + 121)
            else:
                await stream.close()
                lab.service.sessions.expire(now + 16)
            await asyncio.sleep(0.05)
            await lab.broker.advanced(seconds=1.1)
            assert (await lab.receive_soon("T", "G", client="c2")).body == b"held"
            assert len(lab.service.renewal) == 0

    asyncio.run(within())


@held_test
async def test_a_renewal_that_fails_is_tried_again(lab: DoorLab, given: Any) -> None:
    ask, failures = lab.backend.ask, [RequestTimeoutError("slow")]

    async def failing(broker: str, request: RemotingCommand, *rest: Any, **more: Any) -> RemotingCommand:
        if failures:
            raise failures.pop()
        return await ask(broker, request, *rest, **more)

    lab.backend.ask = failing  # type: ignore[method-assign]
    await passes(lab, 120)
    assert not failures
    assert len(lab.service.renewal) == 1
    assert await lab.ack("T", "G", given) == Code.OK


@held_test
async def test_a_group_that_cannot_be_read_stops_no_other_renewal(lab: DoorLab, given: Any) -> None:
    for _ in range(3):
        await lab.send("T", b"more")
    assert len(await lab.receive("T", "G", renew=True)) == 3

    async def fails(name: str) -> Any:
        raise RequestTimeoutError("slow")

    for held in list(lab.service.renewal._held.values())[:2]:
        held.first_pop_ms -= 3 * 3600_000  # their time is up
    lab.backend.find_group = fails  # type: ignore[method-assign]
    await passes(lab, 60)
    assert len(lab.service.renewal) == 2
    await passes(lab, 600)
    assert len(lab.service.renewal) == 2


@held_test
async def test_a_handle_the_broker_no_longer_takes_is_renewed_no_more(lab: DoorLab, given: Any) -> None:
    async def refuses(broker: str, request: RemotingCommand, *rest: Any, **more: Any) -> RemotingCommand:
        return RemotingCommand.response(ResponseCode.MESSAGE_ILLEGAL, "no such message")

    lab.backend.ask = refuses  # type: ignore[method-assign]
    await passes(lab, 60)
    assert len(lab.service.renewal) == 0


@held_test
async def test_a_consumer_that_never_sent_settings_is_renewed_too(lab: DoorLab, given: Any) -> None:
    await lab.send("T", b"other")
    other = await lab.receive_soon("T", "G", renew=True, client="without-settings")
    await passes(lab, 100)
    assert await lab.ack("T", "G", other, client="without-settings") == Code.OK
