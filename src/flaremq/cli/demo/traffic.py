"""The traffic of the demo: a small shop. What brokers acknowledged is what all later counts must equal.

=============  ==========================================================================  ==========
topic          messages                                                                    share
=============  ==========================================================================  ==========
``clicks``     no keys, four tags                                                          the rest
``orders``     one key each, three tags                                                    3 of 10
``payments``   the key of the order it pays, two tags                                      1 of 10
``refunds``    consumed by group ``billing``, which fails each tenth once: retries         a thousand
``reminders``  delayed by five seconds                                                     500
``transfers``  half messages; each fourth is rolled back and must never be seen            400
=============  ==========================================================================  ==========

With fewer messages than usual the last three shrink in proportion.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from flaremq import Admin, Consumer, Message, Producer, ProducerOptions, TransactionState

QUEUES = {"clicks": 8, "orders": 8, "payments": 4, "refunds": 4, "reminders": 2, "transfers": 2}
STREAMED = ("clicks", "orders", "payments")  # what the Spark stream reads
GROUP = "billing"
RETRY_TOPIC = f"%RETRY%{GROUP}"
USUAL_MESSAGES = 1_000_000
_BATCH = 250
_SENDERS = 4
_DELAY_LEVEL = 2  # five seconds
_RETRY_LEVEL = 1  # one second
_TAGS = {
    "clicks": ("home", "search", "product", "cart"),
    "orders": ("paid", "shipped", "cancelled"),
    "payments": ("card", "transfer"),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How many messages of each kind."""

    clicks: int
    orders: int
    payments: int
    refunds: int
    reminders: int
    transfers: int

    @classmethod
    def of(cls, messages: int) -> Plan:
        scale = min(messages / USUAL_MESSAGES * 10, 1.0)
        refunds, reminders, transfers = int(1_000 * scale), int(500 * scale), int(400 * scale)
        orders, payments = messages * 3 // 10, messages // 10
        visible_transfers = transfers - rolled_back(transfers)
        clicks = messages - orders - payments - refunds - reminders - visible_transfers
        return cls(clicks, orders, payments, refunds, reminders, transfers)


def rolled_back(transfers: int) -> int:
    return len(range(3, transfers, 4))


@dataclass(slots=True)
class Tally:
    """What brokers acknowledged and consumers got."""

    stored: Counter[str] = field(default_factory=Counter)  # by topic
    tags: Counter[tuple[str, str]] = field(default_factory=Counter)
    half: int = 0
    rolled_back: int = 0
    refunds_done: int = 0
    refunds_failed_once: int = 0


async def create_topics(name_server: str) -> None:
    async with Admin(name_server) as admin:
        for topic, queues in QUEUES.items():
            await admin.create_topic(topic, read_queues=queues, write_queues=queues)
        await admin.create_group(GROUP)


async def bulk_wave(
    name_server: str, plan: Plan, wave: int, waves: int, tally: Tally, tick: Callable[[int], None]
) -> None:
    """One part of clicks, orders and payments, in batches, several at a time; counts what is acknowledged."""
    options = ProducerOptions(send_msg_timeout=30_000)
    async with Producer(name_server, group="shop", options=options) as producer:
        for topic, total in (("clicks", plan.clicks), ("orders", plan.orders), ("payments", plan.payments)):
            numbers = iter(range(total * wave // waves, total * (wave + 1) // waves))
            work = [_send_batches(producer, topic, numbers, tally, tick) for _ in range(_SENDERS)]
            await asyncio.gather(*work)


async def _send_batches(
    producer: Producer, topic: str, numbers: Iterator[int], tally: Tally, tick: Callable[[int], None]
) -> None:
    tags = _TAGS[topic]
    while batch := list(islice(numbers, _BATCH)):
        await producer.send_batch([_message(topic, tags, number) for number in batch])
        tally.stored[topic] += len(batch)
        for number in batch:
            tally.tags[topic, tags[number % len(tags)]] += 1
        tick(len(batch))


def _message(topic: str, tags: tuple[str, ...], number: int) -> Message:
    tag = tags[number % len(tags)]
    body = b'{"id":%d,"kind":"%s","customer":%d,"amount":%d.%02d,"note":"%s"}' % (
        number,
        tag.encode(),
        number * 7919 % 100_003,
        number % 997,
        number % 100,
        b"as agreed by telephone, please deliver to the back door",
    )
    if topic == "clicks":
        return Message(topic, body, tags=tag)
    return Message(topic, body, tags=tag, keys=[f"o-{number}"])


async def refunds(name_server: str, plan: Plan, tally: Tally) -> None:
    """Group ``billing`` consumes while refunds are sent; each tenth fails the first time and comes again."""
    done = asyncio.Event()

    async def consume() -> None:
        seen: set[bytes] = set()
        async with Consumer(name_server, group=GROUP, subscribe={"refunds": "*"}, start_from="first") as consumer:
            ready.set()
            if not plan.refunds:
                return
            async for message in consumer:
                if int(message.body) % 10 == 0 and message.delivery_attempt == 1:
                    tally.refunds_failed_once += 1
                    message.retry(delay_level=_RETRY_LEVEL)
                    continue
                seen.add(message.body)
                tally.refunds_done = len(seen)
                if len(seen) == plan.refunds:
                    message.ack()
                    done.set()
                    return

    ready = asyncio.Event()
    consuming = asyncio.create_task(consume())
    async with Producer(name_server, group="shop") as producer:
        await ready.wait()
        for start in range(0, plan.refunds, _BATCH):
            numbers = range(start, min(start + _BATCH, plan.refunds))
            await producer.send_batch([Message("refunds", b"%d" % number, keys=[f"r-{number}"]) for number in numbers])
            tally.stored["refunds"] += len(numbers)
    await consuming


async def reminders(name_server: str, plan: Plan, tally: Tally) -> None:
    async with Producer(name_server, group="shop") as producer:
        sends = (
            producer.send_delayed(Message("reminders", b"call %d" % number), level=_DELAY_LEVEL)
            for number in range(plan.reminders)
        )
        tally.stored["reminders"] += len(await asyncio.gather(*sends))


class _EachFourthFails:
    """The local half of a transfer."""

    def execute(self, message: Message, argument: object) -> TransactionState:
        assert isinstance(argument, int)
        return TransactionState.ROLLBACK if argument % 4 == 3 else TransactionState.COMMIT

    def check(self, message: object) -> TransactionState:
        return TransactionState.UNKNOWN


async def transfers(name_server: str, plan: Plan, tally: Tally) -> None:
    async with Producer(name_server, group="bank", listener=_EachFourthFails()) as producer:
        for start in range(0, plan.transfers, 50):
            numbers = range(start, min(start + 50, plan.transfers))
            results = await asyncio.gather(
                *(producer.transaction(Message("transfers", b"transfer %d" % number), number) for number in numbers)
            )
            tally.half += len(results)
            failed = sum(result.state is TransactionState.ROLLBACK for result in results)
            tally.rolled_back += failed
            tally.stored["transfers"] += len(results) - failed


async def delivered(name_server: str, topic: str) -> int:
    """Messages of a topic that consumers can see."""
    async with Admin(name_server) as admin:
        return sum(offset.max_offset - offset.min_offset for offset in (await admin.topic_status(topic)).values())
