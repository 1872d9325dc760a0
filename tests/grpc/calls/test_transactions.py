"""Transactions: decided by their producer, or asked about until they are."""

from __future__ import annotations

import asyncio
from typing import Any

from flaremq.clock import ManualClock
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code, MessageType, TransactionResolution, TransactionSource
from tests.grpc.door_lab import DoorLab, lab_test, open_door, producer_settings, resource

COMMIT, ROLLBACK = TransactionResolution.COMMIT, TransactionResolution.ROLLBACK


async def half(lab: DoorLab, **fields: Any) -> Any:
    entry = await lab.send("TX", b"money", message_type=MessageType.TRANSACTION, tag="A", **fields)
    assert entry.status.code == Code.OK
    assert entry.transaction_id == entry.message_id
    return entry


async def end(lab: DoorLab, transaction_id: str, resolution: int, **more: Any) -> int:
    request = classes.EndTransactionRequest(
        topic=resource("TX"), message_id=transaction_id, transaction_id=transaction_id, resolution=resolution, **more
    )
    return int((await lab.call("EndTransaction", request, "p1")).status.code)


@lab_test
async def test_a_committed_message_is_received_and_one_rolled_back_is_not(lab: DoorLab) -> None:
    lab.topic("TX", "TRANSACTION")
    kept, lost = await half(lab), await half(lab)
    assert await lab.receive("TX", "G") == []
    assert await end(lab, kept.transaction_id, COMMIT) == Code.OK
    assert await end(lab, lost.transaction_id, ROLLBACK) == Code.OK
    given = await lab.receive_soon("TX", "G")
    assert given.system_properties.message_id == kept.message_id
    assert given.system_properties.message_type == MessageType.TRANSACTION
    assert (given.topic.name, given.body, given.system_properties.tag) == ("TX", b"money", "A")
    assert given.user_properties["__transactionId__"] == kept.message_id  # as the original shows it
    assert await lab.receive("TX", "G") == []


@lab_test
async def test_the_same_word_twice_is_heard_and_another_one_is_not(lab: DoorLab) -> None:
    lab.topic("TX", "TRANSACTION")
    entry = await half(lab)
    assert await end(lab, entry.transaction_id, COMMIT) == Code.OK
    assert await end(lab, entry.transaction_id, COMMIT) == Code.OK
    assert await end(lab, entry.transaction_id, ROLLBACK) == Code.INTERNAL_SERVER_ERROR
    assert len(await lab.receive("TX", "G")) == 1


@lab_test
async def test_a_transaction_that_nobody_knows_is_an_error(lab: DoorLab) -> None:
    lab.topic("TX", "TRANSACTION")
    assert await end(lab, " ", COMMIT) == Code.INVALID_TRANSACTION_ID
    assert await end(lab, "nothing", COMMIT) == Code.INTERNAL_SERVER_ERROR
    entry = await half(lab)
    request = classes.EndTransactionRequest(
        topic=resource("other"), transaction_id=entry.transaction_id, resolution=COMMIT
    )
    assert (await lab.call("EndTransaction", request)).status.code == Code.INTERNAL_SERVER_ERROR
    assert await end(lab, entry.transaction_id, TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED) == Code.OK
    assert await lab.receive("TX", "G") == []


def test_a_producer_is_asked_again_until_it_knows() -> None:
    async def scenario() -> None:
        async with open_door(clock=ManualClock(), transactionCheckInterval=10_000) as lab:
            lab.topic("TX", "TRANSACTION")
            stream = await lab.telemetry(producer_settings("TX"), "p1")
            await stream.next()
            entry = await half(lab, properties={"own": "v"})
            for _ in range(2):  # it does not know the first time
                await lab.broker.advanced(seconds=21)
                command = (await stream.next()).recover_orphaned_transaction_command
                assert command.transaction_id == entry.transaction_id
                assert (command.message.topic.name, command.message.body) == ("TX", b"money")
                assert command.message.system_properties.message_id == entry.message_id
                assert command.message.system_properties.tag == "A"
                assert command.message.user_properties["own"] == "v"
            source = TransactionSource.SOURCE_SERVER_CHECK
            assert await end(lab, command.transaction_id, COMMIT, source=source) == Code.OK
            assert (await lab.receive_soon("TX", "G")).body == b"money"
            await lab.broker.advanced(seconds=60)
            assert stream.sent.empty()

    asyncio.run(scenario())


def test_another_producer_of_the_topic_is_asked_when_the_first_is_gone() -> None:
    async def scenario() -> None:
        async with open_door(clock=ManualClock(), transactionCheckInterval=10_000) as lab:
            lab.topic("TX", "TRANSACTION")
            first = await lab.telemetry(producer_settings("TX"), "p1")
            await first.next()
            entry = await half(lab)
            await lab.call("NotifyClientTermination", classes.NotifyClientTerminationRequest(), "p1")
            second = await lab.telemetry(producer_settings("TX"), "p2")
            await second.next()
            await lab.broker.advanced(seconds=21)
            command = (await second.next()).recover_orphaned_transaction_command
            assert command.transaction_id == entry.transaction_id
            assert await end(lab, command.transaction_id, ROLLBACK) == Code.OK
            assert await lab.finds_nothing("TX", "G")

    asyncio.run(scenario())


def test_a_door_that_was_opened_anew_learns_of_a_transaction_by_asking() -> None:
    async def scenario() -> None:
        async with open_door(clock=ManualClock(), transactionCheckInterval=10_000) as lab:
            lab.topic("TX", "TRANSACTION")
            entry = await half(lab)
            lab.service.transactions._places.clear()
            assert await end(lab, entry.transaction_id, COMMIT) == Code.INTERNAL_SERVER_ERROR
            stream = await lab.telemetry(producer_settings("TX"), "p1")
            await stream.next()
            await lab.broker.advanced(seconds=21)
            await stream.next()
            assert await end(lab, entry.transaction_id, COMMIT) == Code.OK
            assert (await lab.receive_soon("TX", "G")).body == b"money"

    asyncio.run(scenario())
