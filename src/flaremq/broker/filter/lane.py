"""FilterLane: where property filters are evaluated, one pull at a time, each group in its turn.

Evaluating is work of the interpreter, so a second thread would only take from the event loop, not add speed. A group
with many or expensive pulls waits for its own: the next turn is another group's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from flaremq.errors import UnavailableError

_T = TypeVar("_T")
_Work = tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]]


class FilterLane:
    """One worker thread and those who wait for it. Event loop only."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="flaremq-filter")
        self._waiting: dict[str, deque[_Work]] = {}  # by group, the next one first
        self._is_running = False
        self._is_closed = False

    async def run(self, group: str, function: Callable[..., _T], *arguments: Any) -> _T:
        """Run a filtered read on the lane's thread when it is the group's turn."""
        if self._is_closed:
            raise UnavailableError("the store is closing")
        done: asyncio.Future[_T] = self._loop.create_future()
        self._waiting.setdefault(group, deque()).append((done, function, arguments))
        self._begin()
        return await done

    def _begin(self) -> None:
        while self._waiting and not self._is_running:
            group, works = next(iter(self._waiting.items()))
            done, function, arguments = works.popleft()
            del self._waiting[group]
            if works:
                self._waiting[group] = works  # behind all others
            if done.cancelled():
                continue
            self._is_running = True
            running = self._loop.run_in_executor(self._executor, function, *arguments)
            running.add_done_callback(lambda running, done=done: self._ended(running, done))  # type: ignore[misc]

    def _ended(self, running: asyncio.Future[Any], done: asyncio.Future[Any]) -> None:
        self._is_running = False
        if not done.done():
            error = running.exception()
            if error is None:
                done.set_result(running.result())
            else:
                done.set_exception(error)
        self._begin()

    async def close(self) -> None:
        """Let the running call end; calls that wait for the lane fail."""
        self._is_closed = True
        waiting, self._waiting = self._waiting, {}
        for works in waiting.values():
            for done, _, _ in works:
                if not done.done():
                    done.set_exception(UnavailableError("the store is closing"))
        await self._loop.run_in_executor(None, self._executor.shutdown)
