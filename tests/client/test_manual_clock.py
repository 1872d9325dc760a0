"""Time that the test moves: delays, retries and check-backs without waiting."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from flaremq.client.admin.admin import Admin
from flaremq.client.consumer.consumer import Consumer
from flaremq.client.producer.producer import Producer
from flaremq.client.producer.transactions import TransactionState
from flaremq.errors import InvalidArgumentError
from flaremq.message.message import Message
from flaremq.protocol.codes import RequestCode
from flaremq.testing import ephemeral_broker
from tests.support.client_scenarios import Ledger, quick, take, until
from tests.support.fake_cluster import fake_cluster


def test_delayed_messages_arrive_when_they_are_due_and_not_before() -> None:
    async def run() -> None:
        async with ephemeral_broker() as broker, Producer(broker.name_server, clock=broker.clock) as producer:
            async with Admin(broker.name_server) as admin:
                await admin.create_topic("T", read_queues=1, write_queues=1)
            at = datetime.fromtimestamp(broker.clock.now_ms() / 1000, UTC) + timedelta(hours=2)
            await producer.send_delayed(Message("T", b"level"), level=5)  # a minute
            await producer.send_delayed(Message("T", b"seconds"), seconds=600)
            await producer.send_delayed(Message("T", b"at"), at=at)
            async with Consumer(broker.name_server, group="g", subscribe="T", options=quick()) as consumer:
                (queue,) = await consumer.queues("T")
                now = 0
                for due, body in ((60, b"level"), (600, b"seconds"), (7200, b"at")):
                    await broker.advanced(seconds=due - 5 - now)
                    before = await consumer.max_offset(queue)
                    now = due + 1
                    await broker.advanced(seconds=6)
                    (message,) = await take(consumer, 1)
                    assert (message.body, message.queue_offset) == (body, before)

    asyncio.run(run())


def test_broker_asks_back_about_a_transaction_of_unknown_state() -> None:
    async def run() -> None:
        ledger = Ledger()
        async with (
            ephemeral_broker() as broker,
            Producer(broker.name_server, group="p", listener=ledger) as producer,
            Admin(broker.name_server) as admin,
        ):
            await admin.create_topic("T")
            await producer.transaction(Message("T", b"x"), TransactionState.UNKNOWN)

            async def is_checked() -> bool:
                await broker.advanced(seconds=30)
                return bool(ledger.checked)

            await until(is_checked, "a check-back")
            async with Consumer(broker.name_server, group="g", subscribe="T", options=quick()) as consumer:
                assert [message.body for message in await take(consumer, 1)] == [b"x"]

    asyncio.run(run())


@pytest.mark.parametrize("version", [407, 513])
def test_delay_that_an_old_broker_does_not_know_is_refused(version: int) -> None:
    async def run() -> None:
        async with fake_cluster() as cluster, Producer(cluster.address) as producer:
            broker = cluster.broker()

            def beat(request: object) -> object:
                from flaremq.protocol.command import RemotingCommand

                reply = RemotingCommand.response()
                reply.version = version
                return reply

            broker.answers[RequestCode.HEART_BEAT] = beat  # type: ignore[assignment]  # an Answer
            message = Message("T", b"x")
            await producer.send_delayed(message, seconds=30)
            if version < 413:
                assert "DELAY\x014\x02" in broker.sends[0].field("i")
                with pytest.raises(InvalidArgumentError, match="delivered at once"):
                    await producer.send_delayed(message, seconds=7)
                with pytest.raises(InvalidArgumentError, match="delivered at once"):
                    await producer.send_delayed(message, at=1_800_000_000_000)
            else:
                assert "TIMER_DELAY_MS\x0130000\x02" in broker.sends[0].field("i")
                await producer.send_delayed(message, at=1_800_000_000_000)
                assert "TIMER_DELIVER_MS\x011800000000000\x02" in broker.sends[1].field("i")

    asyncio.run(run())
