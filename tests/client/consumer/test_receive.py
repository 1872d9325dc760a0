"""receive(), batches() and retry() in both worlds: what a one-thread test with a moved clock sees."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from flaremq import sync
from flaremq.client.admin.admin import Admin
from flaremq.client.consumer.consumer import Consumer
from flaremq.client.options import ConsumerOptions
from flaremq.client.producer.producer import Producer
from flaremq.errors import InvalidArgumentError
from flaremq.message.message import Message
from flaremq.testing import EphemeralBroker, ephemeral_broker

SOON = 20.0  # seconds: only a failure waits so long


@pytest.fixture
def broker() -> Iterator[EphemeralBroker]:
    with ephemeral_broker() as started:
        with sync.Admin(started.name_server) as admin:
            admin.create_topic("T", read_queues=1, write_queues=1)
        yield started


def send(broker: EphemeralBroker, *bodies: bytes) -> None:
    with sync.Producer(broker.name_server) as producer:
        for body in bodies:
            producer.send(Message("T", body))


def consumer_of(broker: EphemeralBroker) -> sync.Consumer:
    return sync.Consumer(broker.name_server, group="g", subscribe="T", start_from="first")


def progress(broker: EphemeralBroker) -> int:
    return broker.broker.state.offsets.find("g", "T", 0)


def test_message_comes_or_none_does(broker: EphemeralBroker) -> None:
    send(broker, b"1", b"2")
    with consumer_of(broker) as consumer:
        bodies = []
        while (message := consumer.receive(timeout=SOON if len(bodies) < 2 else 0.05)) is not None:
            bodies.append(message.body)
        assert bodies == [b"1", b"2"]
        assert consumer.receive(timeout=0) is None
    assert progress(broker) == 2


def test_last_message_is_done_when_the_consumer_closes_without_an_error(broker: EphemeralBroker) -> None:
    send(broker, b"1")
    with consumer_of(broker) as consumer:
        assert consumer.receive(timeout=SOON) is not None
    assert progress(broker) == 1


def test_last_message_comes_again_when_the_consumer_closes_with_an_error(broker: EphemeralBroker) -> None:
    send(broker, b"1")
    with pytest.raises(ZeroDivisionError), consumer_of(broker) as consumer:
        assert consumer.receive(timeout=SOON) is not None
        raise ZeroDivisionError
    broker.advance(seconds=11)
    with consumer_of(broker) as consumer:
        message = consumer.receive(timeout=SOON)
        assert message is not None and (message.body, message.delivery_attempt) == (b"1", 2)


def test_one_thread_sees_the_retry_of_its_message(broker: EphemeralBroker) -> None:
    send(broker, b"again")
    with consumer_of(broker) as consumer:
        first = consumer.receive(timeout=SOON)
        assert first is not None
        first.retry()
        broker.advance(seconds=11)  # the first retry comes after ten
        second = consumer.receive(timeout=SOON)
        assert second is not None and (second.body, second.topic, second.delivery_attempt) == (b"again", "T", 2)
        second.retry(-1)
        assert broker.broker.store.max_offset("%DLQ%g", 0) == 1


def test_one_event_loop_sees_the_retry_of_its_message() -> None:
    async def run() -> None:
        async with ephemeral_broker() as broker, Producer(broker.name_server) as producer:
            async with Admin(broker.name_server) as admin:
                await admin.create_topic("T", read_queues=1, write_queues=1)
            await producer.send(Message("T", b"again"))
            async with Consumer(broker.name_server, group="g", subscribe="T", start_from="first") as consumer:
                for attempt, seconds in ((1, 11), (2, 31)):
                    message = await consumer.receive(timeout=SOON)
                    assert message is not None and message.delivery_attempt == attempt
                    if attempt == 1:
                        message.retry()  # nobody waits for it
                    else:
                        await message.retry()
                    await broker.advanced(seconds=seconds)
                message = await consumer.receive(timeout=SOON)
                assert message is not None and message.delivery_attempt == 3

    asyncio.run(run())


def test_retry_and_ack_are_final(broker: EphemeralBroker) -> None:
    send(broker, b"1", b"2")
    with consumer_of(broker) as consumer:
        first = consumer.receive(timeout=SOON)
        second = consumer.receive(timeout=SOON)
        assert first is not None and second is not None
        first.retry()  # too late: asking for the second said that it is done
        second.ack()
        second.retry()
    assert progress(broker) == 2 and broker.broker.store.max_offset("SCHEDULE_TOPIC_XXXX", 2) == 0


def test_two_tasks_cannot_wait_in_one_receive() -> None:
    async def run() -> None:
        async with ephemeral_broker() as broker:
            async with Admin(broker.name_server) as admin:
                await admin.create_topic("T", read_queues=1, write_queues=1)
            async with Consumer(broker.name_server, group="g", subscribe="T") as consumer:
                waiting = asyncio.create_task(consumer.receive())
                await asyncio.sleep(0)
                with pytest.raises(InvalidArgumentError, match="another task waits"):
                    await consumer.receive(timeout=1)
            assert await waiting is None, "closed"

    asyncio.run(run())


def test_blocking_batches_are_done_as_a_whole(broker: EphemeralBroker) -> None:
    send(broker, *(str(number).encode() for number in range(5)))
    bodies: list[bytes] = []
    with consumer_of(broker) as consumer:
        for batch in consumer.batches(count_max=3):
            assert 1 <= len(batch) <= 3
            bodies += [message.body for message in batch]
            if len(bodies) == 5:
                for message in batch:
                    message.ack()
                break
        with pytest.raises(InvalidArgumentError):
            consumer.batches(0)
    assert bodies == [b"0", b"1", b"2", b"3", b"4"] and progress(broker) == 5


@pytest.mark.parametrize("use", ["receive", "batches", "iter", "send"])
def test_blocking_client_that_is_not_started_is_told_of_with(use: str) -> None:
    consumer = sync.Consumer("127.0.0.1:1", group="g", subscribe="T")
    producer = sync.Producer("127.0.0.1:1")
    actions = {
        "receive": lambda: consumer.receive(timeout=0),
        "batches": lambda: consumer.batches(),
        "iter": lambda: iter(consumer),
        "send": lambda: producer.send(Message("T", b"x")),
    }
    with pytest.raises(InvalidArgumentError, match="inside `with`"):
        actions[use]()


def test_unknown_topic_of_a_consumer_names_the_remedy(broker: EphemeralBroker) -> None:
    from flaremq.errors import NotFoundError

    with pytest.raises(NotFoundError, match="flaremq topic create rpc"):
        sync.Consumer(broker.name_server, group="g", subscribe="rpc").start()


def test_message_sent_directly_to_a_consumer_that_nobody_reads_is_answered(
    broker: EphemeralBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("flaremq.client.consumer.requests._DIRECT_SECONDS", 0.05)
    caplog.set_level(logging.ERROR)
    with sync.Producer(broker.name_server) as producer:
        sent = producer.send(Message("T", b"1"))
    with consumer_of(broker) as consumer, sync.Admin(broker.name_server) as admin:
        result = admin.consume_directly("g", consumer.client_id, sent.offset_message_id, topic="T")
        assert result.consume_result == "CR_LATER" and "nobody takes messages" in (result.remark or "")


def test_orderly_retry_comes_though_its_timer_rings_before_the_clock_says_so(broker: EphemeralBroker) -> None:
    pause = ConsumerOptions().suspend_current_queue_time_millis / 1000
    send(broker, b"1")

    async def play() -> None:
        loop = asyncio.get_running_loop()
        call_later = loop.call_later

        def ring_early(delay: float, callback: Any, *arguments: Any) -> asyncio.TimerHandle:
            return call_later(delay / 2 if delay == pause else delay, callback, *arguments)

        loop.call_later = ring_early  # type: ignore[method-assign, assignment]  # as uvloop's timers may, by a little
        async with Consumer(broker.name_server, group="g", subscribe="T", start_from="first", orderly=True) as consumer:
            for attempt in (1, 2):
                message = await consumer.receive(SOON / 4)  # the regular look at all queues comes later
                assert message is not None
                assert message.delivery_attempt == attempt
                await message.retry()

    asyncio.run(play())
