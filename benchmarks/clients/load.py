"""What every client does: 1 KB with a key of its own, for some seconds or until a backlog is read."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from benchmarks.messages import KEY, make_body
from benchmarks.process_tree import Load
from benchmarks.timing import Row, percentiles

SIZE = 1024
BODY = make_body(SIZE)
LOOK_EVERY = 255  # a mask: so often the clock is looked at
WARM_SENDS = 2_000
WARM_WINDOW_1 = 200


def key(number: int) -> str:
    return KEY % number


class Meter:
    """Rate and processor time from construction on; ``servers`` are this side's other processes."""

    def __init__(self, servers: list[int]) -> None:
        self._load = Load([os.getpid(), *servers])
        self._processor = time.process_time()
        self._began = time.perf_counter()

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self._began

    def describe(self, messages: int) -> Row:
        elapsed, client = self.elapsed, time.process_time() - self._processor
        return {
            "messages": messages,
            "seconds": round(elapsed, 3),
            "msg_s": round(messages / elapsed),
            "client_us": round(1e6 * client / messages, 3),
            **self._load.describe(),
        }


async def window_1(send: Callable[[int], Awaitable[object]], seconds: float, servers: list[int]) -> Row:
    """Each send waits for its acknowledgement."""
    for number in range(WARM_WINDOW_1):
        await send(number)
    meter, taken, clock = Meter(servers), [], time.perf_counter_ns
    while meter.elapsed < seconds:
        began = clock()
        await send(len(taken))
        taken.append(clock() - began)
    return meter.describe(len(taken)) | percentiles(taken)


def run(main: Coroutine[Any, Any, Row]) -> Row:
    """On uvloop where there is one, for whoever uses asyncio."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    row: Row = uvloop.run(main)
    return row
