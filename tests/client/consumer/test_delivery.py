"""Messages from queues to loops, and verdicts back."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable

import pytest

from flaremq.client.consumer.delivery import BatchDeliveries, Deliveries, Delivery
from flaremq.client.consumer.process_queue import ProcessQueue
from flaremq.client.consumer.received import ReceivedMessage
from flaremq.client.options import ConsumerOptions
from flaremq.clock import ManualClock
from flaremq.protocol.bodies.client import SubscriptionData
from flaremq.protocol.bodies.queue import MessageQueue


class Lab:
    """A delivery, its queues and the messages that failed."""

    def __init__(self, *, orderly: bool = False) -> None:
        self.clock = ManualClock()
        self.failed: list[ReceivedMessage] = []
        self.delivery = Delivery(self.failed.append, self.clock.monotonic, is_orderly=orderly)

    def queue(self, number: int = 0, count: int = 0) -> ProcessQueue:
        queue = MessageQueue("T", "broker-a", number)
        held = ProcessQueue(queue, SubscriptionData(topic="T"), 0, ConsumerOptions(), self.delivery)
        held.locked_until = 30.0
        self.fill(held, count)
        return held

    def fill(self, held: ProcessQueue, count: int) -> None:
        start = held.next_offset
        messages = []
        for offset in range(start, start + count):
            message = ReceivedMessage(bytes(100), held.queue, held)
            message.queue_offset = offset
            messages.append(message)
        held.add(messages, start + count)
        self.delivery.offer(held)


def play(test: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(20):
            await test()

    asyncio.run(run())


def test_message_is_done_when_the_next_one_is_asked_for() -> None:
    async def test() -> None:
        lab = Lab()
        held = lab.queue(count=3)
        loop = Deliveries(lab.delivery)
        first = await anext(loop)
        assert (first.queue_offset, held.commit_offset) == (0, 0)
        await anext(loop)
        assert held.commit_offset == 1
        await anext(loop)
        assert held.commit_offset == 2

    play(test)


def test_message_marked_for_retry_is_not_done() -> None:
    async def test() -> None:
        lab = Lab()
        held = lab.queue(count=2)
        loop = Deliveries(lab.delivery)
        first = await anext(loop)
        first.retry(5)
        await anext(loop)
        assert lab.failed == [first]
        assert (first.retry_level, held.commit_offset) == (5, 0)

    play(test)


def test_acknowledged_message_is_done_once() -> None:
    async def test() -> None:
        lab = Lab()
        held = lab.queue(count=2)
        loop = Deliveries(lab.delivery)
        first = await anext(loop)
        first.ack()
        assert held.commit_offset == 1
        await anext(loop)
        assert held.commit_offset == 1

    play(test)


def test_message_of_a_loop_that_was_left_has_failed_unless_it_was_acknowledged() -> None:
    async def test() -> None:
        lab = Lab()
        lab.queue(count=3)
        async for _message in Deliveries(lab.delivery):
            break
        gc.collect()
        assert [message.queue_offset for message in lab.failed] == [0]
        async for message in Deliveries(lab.delivery):
            message.ack()
            break
        gc.collect()
        assert len(lab.failed) == 1

    play(test)


def test_waiting_loop_gets_what_comes() -> None:
    async def test() -> None:
        lab = Lab()
        held = lab.queue()
        task = asyncio.ensure_future(anext(Deliveries(lab.delivery)))
        await asyncio.sleep(0)
        lab.fill(held, 1)
        assert (await task).queue_offset == 0

    play(test)


def test_cancelled_wait_loses_no_message_and_no_wake_up() -> None:
    async def test() -> None:
        lab = Lab()
        held = lab.queue()
        first = asyncio.ensure_future(anext(Deliveries(lab.delivery)))
        second = asyncio.ensure_future(anext(Deliveries(lab.delivery)))
        await asyncio.sleep(0)
        lab.fill(held, 1)
        first.cancel()  # already woken, not run yet
        assert (await second).queue_offset == 0
        with pytest.raises(asyncio.CancelledError):
            await first

    play(test)


def test_queues_take_turns() -> None:
    async def test() -> None:
        lab = Lab()
        lab.queue(0, count=200)
        lab.queue(1, count=200)
        loop = Deliveries(lab.delivery)
        seen = [(await anext(loop)).queue.queue_id for _ in range(128)]
        assert 40 < seen.count(0) < 90

    play(test)


def test_long_run_of_messages_lets_other_tasks_run() -> None:
    async def test() -> None:
        lab = Lab()
        lab.queue(count=1000)
        ran = 0

        async def other() -> None:
            nonlocal ran
            while True:
                ran += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        loop = Deliveries(lab.delivery)
        for _ in range(1000):
            await anext(loop)
        task.cancel()
        assert ran > 20

    play(test)


def test_orderly_queue_offers_one_message_at_a_time() -> None:
    async def test() -> None:
        lab = Lab(orderly=True)
        lab.queue(0, count=3)
        lab.queue(1, count=1)
        first, second = Deliveries(lab.delivery), Deliveries(lab.delivery)
        assert (await anext(first)).queue.queue_id == 0
        assert (await anext(second)).queue.queue_id == 1
        third = asyncio.ensure_future(anext(Deliveries(lab.delivery)))
        await asyncio.sleep(0.01)
        assert not third.done()
        again = await anext(first)  # which settles the message of queue 0, so its next one is free
        assert (again.queue.queue_id, again.queue_offset) == (0, 1)
        third.cancel()

    play(test)


def test_orderly_queue_whose_lock_was_lost_offers_nothing() -> None:
    async def test() -> None:
        lab = Lab(orderly=True)
        held = lab.queue(0, count=1)
        lab.clock.advance(30_000)
        assert lab.delivery.take() is None
        held.locked_until = 60.0
        lab.delivery.offer(held)
        assert lab.delivery.take() is not None

    play(test)


def test_message_given_back_comes_first_and_counts_its_attempts() -> None:
    async def test() -> None:
        lab = Lab(orderly=True)
        held = lab.queue(0, count=2)
        message = lab.delivery.take()
        assert message is not None
        lab.delivery.give_back(message)
        held.suspended_until = 1.0
        lab.delivery.offer(held)
        assert lab.delivery.take() is None
        lab.clock.advance(1000)
        lab.delivery.offer(held)
        assert lab.delivery.take() is message
        assert message.delivery_attempt == 2

    play(test)


def test_batches_hold_what_is_there_and_settle_together() -> None:
    async def test() -> None:
        lab = Lab()
        held = lab.queue(count=5)
        loop = BatchDeliveries(lab.delivery, 3)
        batch = await anext(loop)
        assert [message.queue_offset for message in batch] == [0, 1, 2]
        batch[1].retry()
        assert [message.queue_offset for message in await anext(loop)] == [3, 4]
        assert lab.failed == [batch[1]]
        assert held.commit_offset == 1

    play(test)


def test_large_batches_take_turns_between_queues_and_keep_the_order_of_each() -> None:
    async def test() -> None:
        lab = Lab()
        lab.queue(0, count=300)
        lab.queue(1, count=300)
        loop = BatchDeliveries(lab.delivery, 200)
        seen = [await anext(loop) for _ in range(3)]
        assert [len(batch) for batch in seen] == [200] * 3
        assert {message.queue.queue_id for batch in seen[:2] for message in batch} == {0, 1}
        for number in (0, 1):
            offsets = [message.queue_offset for batch in seen for message in batch if message.queue.queue_id == number]
            assert offsets == list(range(300))

    play(test)


def test_orderly_batches_hold_one_message_of_each_queue() -> None:
    async def test() -> None:
        lab = Lab(orderly=True)
        lab.queue(0, count=3)
        lab.queue(1, count=3)
        loop = BatchDeliveries(lab.delivery, 10)
        for offset in range(3):
            batch = await anext(loop)
            assert sorted((m.queue.queue_id, m.queue_offset) for m in batch) == [(0, offset), (1, offset)]

    play(test)


def test_paused_and_dropped_queues_offer_nothing() -> None:
    async def test() -> None:
        lab = Lab()
        paused, dropped = lab.queue(0, count=1), lab.queue(1, count=1)
        paused.is_paused = True
        dropped.drop()
        assert lab.delivery.take() is None

    play(test)


def test_closing_ends_every_loop() -> None:
    async def test() -> None:
        lab = Lab()

        async def collect() -> list[ReceivedMessage]:
            return [message async for message in Deliveries(lab.delivery)]

        tasks = [asyncio.create_task(collect()) for _ in range(3)]
        await asyncio.sleep(0)
        lab.delivery.close()
        assert await asyncio.gather(*tasks) == [[], [], []]

    play(test)
