"""Lanes: requests that wait for brokers, each broker's apart: one that does not answer holds up no other's."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

_log = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]


class Lanes:
    """Work for brokers, in its order, a number of it for each broker at a time. Event loop only."""

    def __init__(self, at_once: int) -> None:
        self._at_once: Final = at_once
        self._waiting: dict[str, deque[Work]] = {}
        self._workers: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, broker: str, work: Work) -> None:
        self._waiting.setdefault(broker, deque()).append(work)
        workers = self._workers.get(broker, 0)
        if workers < self._at_once:
            self._workers[broker] = workers + 1
            task = asyncio.get_running_loop().create_task(self._run(broker))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def idle(self) -> None:
        """Return when everything is done, also what is added meanwhile."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def stop(self) -> None:
        """Forget what waits and end what is under way."""
        self._waiting.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, broker: str) -> None:
        while waiting := self._waiting.get(broker):
            try:
                await waiting.popleft()()
            except Exception:
                _log.exception("a message that a client holds at %s was not seen to", broker)
        self._workers[broker] -= 1
        if not self._workers[broker]:
            del self._workers[broker]
            self._waiting.pop(broker, None)
