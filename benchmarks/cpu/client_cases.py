"""What the Python client takes of the processor, without its broker: that one is pretended by another process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cpu.broker_cases import new_loop
from benchmarks.cpu.cases import Slice
from benchmarks.cpu.fake_broker import QUEUES, TOPIC
from benchmarks.messages import KEY, make_body

if TYPE_CHECKING:
    from flaremq import SendResult

_BODY = make_body(1024)
_IN_FLIGHT = 8_192
_BATCH = 128
_BATCHES_IN_FLIGHT = 8
_A_LOOP = 1_000


class Lab:
    """An event loop that runs only while a slice does, and the address of the broker."""

    def __init__(self) -> None:
        self.loop = new_loop()
        line = [sys.executable, "-P", "-m", "benchmarks.cpu.fake_broker"]
        self._broker = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._broker.stdout is not None
        self.address = f"127.0.0.1:{self._broker.stdout.readline().strip()}"

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def slice(self, work: Callable[[int], Coroutine[Any, Any, int]], count: int) -> Slice:
        """``work`` is told how many messages are wanted and answers how many there were."""
        self.run(work(count))

        def once() -> float:
            began = time.process_time()
            done = self.run(work(count))
            return (time.process_time() - began) / done * 1e6

        return once


def submit(folder: Path, *, count: int) -> Slice:
    """Many in flight, handed over one by one."""
    from flaremq import Message, Producer

    lab = Lab()
    producer = lab.run(_entered(lambda: Producer(lab.address, group="bench")))

    async def work(wanted: int) -> int:
        waiting: deque[asyncio.Future[SendResult]] = deque()
        for number in range(wanted):
            waiting.append(producer.submit(Message(TOPIC, _BODY, keys=KEY % number)))
            if len(waiting) >= _IN_FLIGHT:
                while len(waiting) > _IN_FLIGHT // 2:
                    await waiting.popleft()
        await producer.flush()
        for future in waiting:
            future.result()
        return wanted

    return lab.slice(work, count)


def send_batches(folder: Path, *, count: int) -> Slice:
    from flaremq import Message, Producer

    lab = Lab()
    producer = lab.run(_entered(lambda: Producer(lab.address, group="bench")))

    async def work(wanted: int) -> int:
        sent = 0

        async def send() -> None:
            nonlocal sent
            while sent < wanted:
                first, sent = sent, sent + _BATCH
                await producer.send_batch([Message(TOPIC, _BODY, keys=KEY % (first + at)) for at in range(_BATCH)])

        await asyncio.gather(*(send() for _ in range(_BATCHES_IN_FLIGHT)))
        return sent

    return lab.slice(work, count)


def send(folder: Path, *, count: int) -> Slice:
    """One at a time."""
    from flaremq import Message, Producer

    lab = Lab()
    producer = lab.run(_entered(lambda: Producer(lab.address, group="bench")))

    async def work(wanted: int) -> int:
        for number in range(wanted):
            await producer.send(Message(TOPIC, _BODY, keys=KEY % number))
        return wanted

    return lab.slice(work, count)


def consume(folder: Path, *, count: int, batches: bool) -> Slice:
    """Eight queues of which each pull brings as much as it asks for; every body is looked at."""
    from flaremq import Consumer, MessageQueue

    lab = Lab()

    async def begin() -> Any:
        consumer = await _entered(lambda: Consumer(lab.address, group="bench"))
        await consumer.assign([MessageQueue(TOPIC, "broker-a", number) for number in range(QUEUES)])
        return aiter(consumer.batches(_A_LOOP) if batches else consumer)

    messages = lab.run(begin())

    async def work(wanted: int) -> int:
        seen = size = 0
        while seen < wanted:
            if batches:
                found = await anext(messages)
                for message in found:
                    size += len(message.body)
                seen += len(found)
            else:
                size += len((await anext(messages)).body)
                seen += 1
        if size != seen * len(_BODY):
            raise RuntimeError(f"{seen} messages with {size} bytes")
        return seen

    return lab.slice(work, count)


async def _entered(make: Callable[[], Any]) -> Any:
    return await make().__aenter__()


CASES: dict[str, dict[str, Callable[[Path], Slice]]] = {
    "produce": {
        "client: submit, 8,192 in flight": lambda folder: submit(folder, count=30_000),
        "client: send_batch of 128": lambda folder: send_batches(folder, count=40_960),
        "client: send one at a time": lambda folder: send(folder, count=2_000),
    },
    "consume": {
        "client: batches of 1,000": lambda folder: consume(folder, count=60_000, batches=True),
        "client: one by one": lambda folder: consume(folder, count=40_000, batches=False),
    },
}
