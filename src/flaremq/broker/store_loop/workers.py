"""Workers: the threads of a broker that work which may block runs on.

What clients ask for at any rate (cold pulls, queries) has threads of its own, so that what the broker itself depends on
(saving state, delivering) never queues behind thousands of them. Property filters take turns by group on one thread;
whole tables that a client asks for are rendered on another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from flaremq.broker.filter.lane import FilterLane
from flaremq.errors import UnavailableError

_T = TypeVar("_T")
_WORKERS = 4
_COLD_WORKERS = 4


class Workers:
    """Four ways off the event loop. Use from the loop; ``close_workers`` when nothing is asked any more."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(_WORKERS, thread_name_prefix="flaremq-store")
        self._cold_executor = ThreadPoolExecutor(_COLD_WORKERS, thread_name_prefix="flaremq-cold")
        self._long_executor = ThreadPoolExecutor(1, thread_name_prefix="flaremq-long")
        self._filter_lane = FilterLane()
        self._is_closed = False

    async def run(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Run blocking work of the broker itself: saving state, delivering."""
        return await self._run_in(self._executor, function, *arguments)

    async def run_cold(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Run a read that a client asked for; thousands may wait, for each other only."""
        return await self._run_in(self._cold_executor, function, *arguments)

    async def run_long(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Run a long computation that a client asked for, such as rendering a whole table; one at a time."""
        return await self._run_in(self._long_executor, function, *arguments)

    async def run_filter(self, group: str, function: Callable[..., _T], *arguments: Any) -> _T:
        """Run a read that evaluates a property filter of a group; groups take turns."""
        return await self._filter_lane.run(group, function, *arguments)

    async def _run_in(self, executor: ThreadPoolExecutor, function: Callable[..., _T], *arguments: Any) -> _T:
        if self._is_closed:
            raise UnavailableError("the store is closing")
        return await self._loop.run_in_executor(executor, function, *arguments)

    async def close_workers(self) -> None:
        """Refuse new work and wait for the end of what runs."""
        self._is_closed = True
        for executor in (self._executor, self._cold_executor, self._long_executor):
            await self._loop.run_in_executor(None, executor.shutdown)
        await self._filter_lane.close()
