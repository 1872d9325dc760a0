"""Our client: ``submit`` with many in flight, ``send_batch``, ``send`` one at a time, ``batches`` of a consumer."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

from benchmarks.clients.load import BODY, LOOK_EVERY, WARM_SENDS, Meter, key, run, window_1
from benchmarks.timing import Row

if TYPE_CHECKING:
    from flaremq import Producer, SendResult

_IN_FLIGHT = 8_192
_BATCH = 128  # of 1 KB: as much as the client itself sends together
_BATCHES_IN_FLIGHT = 8
_A_LOOP = 1_000  # messages handed over at a time, as confluent's consume(1000)


def many(*, address: str, topic: str, seconds: float, servers: list[int]) -> Row:
    return run(_many(address, topic, seconds, servers))


def batches(*, address: str, topic: str, seconds: float, servers: list[int]) -> Row:
    return run(_batches(address, topic, seconds, servers))


def one(*, address: str, topic: str, seconds: float, servers: list[int]) -> Row:
    return run(_one(address, topic, seconds, servers))


def fill(*, address: str, topic: str, messages: int) -> Row:
    return run(_fill(address, topic, messages))


def consume(*, address: str, topic: str, messages: int, servers: list[int]) -> Row:
    return run(_consume(address, topic, messages, servers))


async def _many(address: str, topic: str, seconds: float, servers: list[int]) -> Row:
    from flaremq import Producer

    async with Producer(address, group="bench") as producer:
        await _submit(producer, topic, count=WARM_SENDS)
        meter = Meter(servers)
        sent = await _submit(producer, topic, meter=meter, seconds=seconds)
        return meter.describe(sent)


async def _submit(
    producer: Producer, topic: str, *, count: int = 0, meter: Meter | None = None, seconds: float = 0.0
) -> int:
    """So many, or for so long; returns when all of them are acknowledged."""
    from flaremq import Message

    waiting: deque[asyncio.Future[SendResult]] = deque()
    submit, note, number = producer.submit, waiting.append, 0
    while number < count if meter is None else (number & LOOK_EVERY or meter.elapsed < seconds):
        note(submit(Message(topic, BODY, keys=key(number))))
        number += 1
        if len(waiting) >= _IN_FLIGHT:
            while len(waiting) > _IN_FLIGHT // 2:
                await waiting.popleft()
    await producer.flush()
    for future in waiting:
        future.result()
    return number


async def _batches(address: str, topic: str, seconds: float, servers: list[int]) -> Row:
    from flaremq import Message, Producer

    async with Producer(address, group="bench") as producer:
        await _submit(producer, topic, count=WARM_SENDS)
        sent = 0

        async def work() -> None:
            nonlocal sent
            while meter.elapsed < seconds:
                first, sent = sent, sent + _BATCH
                await producer.send_batch([Message(topic, BODY, keys=key(first + at)) for at in range(_BATCH)])

        meter = Meter(servers)
        await asyncio.gather(*(work() for _ in range(_BATCHES_IN_FLIGHT)))
        return meter.describe(sent)


async def _one(address: str, topic: str, seconds: float, servers: list[int]) -> Row:
    from flaremq import Message, Producer

    async with Producer(address, group="bench") as producer:
        return await window_1(lambda n: producer.send(Message(topic, BODY, keys=key(n))), seconds, servers)


async def _fill(address: str, topic: str, messages: int) -> Row:
    from flaremq import Producer

    async with Producer(address, group="bench") as producer:
        return {"messages": await _submit(producer, topic, count=messages)}


async def _consume(address: str, topic: str, messages: int, servers: list[int]) -> Row:
    """A new group; the clock starts with the first message, when the consumer has its queues."""
    from flaremq import Consumer

    seen = size = before = 0
    meter: Meter | None = None
    async with Consumer(address, group=f"bench-{time.time_ns()}", subscribe={topic: "*"}) as consumer:
        async for batch in consumer.batches(_A_LOOP):
            if meter is None:
                meter, before = Meter(servers), len(batch)
                continue  # what came before the clock started
            for message in batch:
                size += len(message.body)
            seen += len(batch)
            if before + seen >= messages * 9 // 10:  # the rest may wait for the slowest queue
                row = meter.describe(seen)
                break
    if size != seen * len(BODY):
        raise RuntimeError(f"{seen} messages with {size} bytes")
    return row
