"""What a consumer holds of a queue, and what it reports of it."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from flaremq.client.consumer.delivery import Delivery
from flaremq.client.consumer.process_queue import ProcessQueue, settle_done
from flaremq.client.consumer.received import ReceivedMessage
from flaremq.client.options import ConsumerOptions
from flaremq.protocol.bodies.client import SubscriptionData
from flaremq.protocol.bodies.queue import MessageQueue

QUEUE = MessageQueue("T", "broker-a", 0)


def make(offset: int = 0, **options: int) -> ProcessQueue:
    delivery = Delivery(lambda message: None, lambda: 0.0)
    settings = ConsumerOptions(**options)  # type: ignore[arg-type]  # names of options
    return ProcessQueue(QUEUE, SubscriptionData(topic="T"), offset, settings, delivery)


def messages(held: ProcessQueue, offsets: list[int], size: int = 100) -> list[ReceivedMessage]:
    made = []
    for offset in offsets:
        message = ReceivedMessage(bytes(size), QUEUE, held)
        message.queue_offset = offset
        made.append(message)
    return made


def take(held: ProcessQueue) -> ReceivedMessage:
    held.in_hand += 1
    return held.waiting.popleft()


@given(
    gaps=st.lists(st.integers(1, 5), min_size=1, max_size=30),
    order=st.randoms(use_true_random=False),
)
def test_reported_offset_is_that_of_the_first_unfinished_message(gaps: list[int], order: object) -> None:
    offsets = []
    at = 7
    for gap in gaps:
        at += gap
        offsets.append(at)
    held = make(7)
    held.add(messages(held, offsets), at + 3)
    taken = [take(held) for _ in offsets]
    assert held.commit_offset == offsets[0]
    unfinished = set(offsets)
    order.shuffle(taken)  # type: ignore[attr-defined]  # a random.Random
    for message in taken:
        held.finish(message)
        unfinished.discard(message.queue_offset)
        assert held.commit_offset == min(unfinished, default=at + 3)
    assert (held.count if not unfinished else None, held.size_bytes, held.in_hand) == (0, 0, 0)


def test_queue_without_messages_reports_where_it_will_pull_next() -> None:
    held = make(5)
    assert held.commit_offset == 5
    held.next_offset = 9  # nothing of what was scanned matched
    assert held.commit_offset == 9


def test_pulls_pause_at_the_limit_of_messages_and_go_on_below_it() -> None:
    async def run() -> None:
        held = make(pull_threshold_for_queue=3)
        held.add(messages(held, [0, 1, 2]), 3)
        assert not held.has_room
        waiting = asyncio.create_task(held.wait_for_room())
        await asyncio.sleep(0)
        assert not waiting.done()
        held.finish(take(held))
        await waiting
        assert held.has_room

    asyncio.run(run())


def test_pulls_pause_at_the_limit_of_bytes_and_of_span() -> None:
    large = make(pull_threshold_size_for_queue=1)
    large.add(messages(large, [0], size=1 << 20), 1)
    assert not large.has_room
    wide = make(consume_concurrently_max_span=10)
    wide.add(messages(wide, [0, 10]), 11)
    assert not wide.has_room


def test_dropped_queue_ends_the_wait_for_room_and_ignores_verdicts() -> None:
    async def run() -> None:
        held = make(pull_threshold_for_queue=1)
        held.add(messages(held, [0]), 1)
        message = take(held)
        waiting = asyncio.create_task(held.wait_for_room())
        await asyncio.sleep(0)
        held.drop()
        await waiting
        held.finish(message)
        assert held.commit_offset == 0

    asyncio.run(run())


@given(st.data())
def test_batches_settled_in_any_order_leave_what_single_messages_leave(data: st.DataObject) -> None:
    """Pulls, hand-outs, batches settled with some to be retried: held against a plain list of what is unfinished."""
    held, unfinished, in_hand, at = make(), list[int](), list[ReceivedMessage](), 0
    for _ in range(data.draw(st.integers(1, 12))):
        gaps = data.draw(st.lists(st.integers(1, 3), max_size=300))
        offsets = [at := at + gap for gap in gaps]
        at += 1
        held.add(messages(held, offsets), at)
        unfinished += offsets
        taken: list[ReceivedMessage] = []
        held.hand_out(taken, data.draw(st.integers(0, 500)))
        in_hand += taken
        data.draw(st.randoms(use_true_random=False)).shuffle(in_hand)
        cut = data.draw(st.integers(0, len(in_hand)))
        batch, in_hand = in_hand[:cut], in_hand[cut:]
        failed = batch[:: data.draw(st.sampled_from([1, 2, 1000]))]
        for message in failed:
            message.retry_level = 0
        assert settle_done(batch) == failed
        for message in failed:  # sent back to the broker
            held.finish(message)
        gone = {message.queue_offset for message in batch}
        unfinished = [offset for offset in unfinished if offset not in gone]
        assert held.commit_offset == min(unfinished, default=at)
        assert held.in_hand == len(in_hand)
        assert held.size_bytes == 100 * len(unfinished)


def test_batch_with_settled_messages_and_those_of_a_dropped_queue_is_settled_once() -> None:
    held, dropped = make(), make()
    for queue in (held, dropped):
        queue.add(messages(queue, [0, 1]), 2)
    batch = [take(held), take(dropped), take(held), take(dropped)]
    batch[0].is_settled = True
    dropped.drop()
    assert settle_done(batch) == []
    assert all(message.is_settled for message in batch)
    assert (held.commit_offset, held.in_hand, dropped.commit_offset) == (0, 1, 0)
    assert settle_done(batch) == []
    assert held.in_hand == 1


def test_settled_batch_ends_the_wait_for_room() -> None:
    async def run() -> None:
        first, second = make(pull_threshold_for_queue=1), make(pull_threshold_for_queue=1)
        for queue in (first, second):
            queue.add(messages(queue, [0]), 1)
        waiting = [asyncio.create_task(queue.wait_for_room()) for queue in (first, second)]
        await asyncio.sleep(0)
        settle_done([take(first), take(second)])
        await asyncio.gather(*waiting)

    asyncio.run(run())
