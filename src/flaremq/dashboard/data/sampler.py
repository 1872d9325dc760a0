"""The sampler: one for all pages, however many are open.

Each kind of question has a pace of its own, and slows down where its answer takes long: a question is put again no
sooner than after ``_REST`` times its duration, so that a cluster with many topics and groups spends no more on being
watched than a small one. What has no question for all at once is read in slices (:mod:`.slice_steps`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from flaremq.clock import Clock
from flaremq.dashboard.data.broker_steps import BrokerSteps
from flaremq.dashboard.data.reader import ClusterReader
from flaremq.dashboard.data.reasons import DENIED, reason_of
from flaremq.dashboard.data.slice_steps import SliceSteps
from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.data.table_steps import TableSteps
from flaremq.errors import AccessDeniedError, FlareMQError

_log = logging.getLogger(__name__)
_NEWS_MS: Final = 1_000
_REST: Final = 20  # at most a twentieth of the time is spent on one kind of question


@dataclass(slots=True, eq=False)
class _Step:
    name: str
    seconds: float
    run: Callable[[], Awaitable[None]]
    hurry: asyncio.Event = field(default_factory=asyncio.Event)


class Sampler:
    """Keeps a :class:`ClusterState` fresh between ``start`` and ``stop``. Event loop thread only."""

    def __init__(
        self, state: ClusterState, reader: ClusterReader, clock: Clock, *, probe: ClusterReader | None = None
    ) -> None:
        """``probe`` signs nothing: whether it is refused tells whether the cluster asks who one is. None: ``reader``
        signs nothing either."""
        self.state = state
        self._reader = reader
        self._probe = probe
        self._clock = clock
        self._brokers = BrokerSteps(state, reader, clock)
        self._tables = TableSteps(state, reader, clock)
        self.slices = SliceSteps(state, reader, clock)
        self._steps = [
            _Step("brokers", 3.0, self._brokers.list_brokers),
            _Step("runtime", 1.0, self._brokers.ask_brokers),
            _Step("configs", 5.0, self._brokers.read_configs),
            _Step("tables", 5.0, self._tables.read_tables),
            _Step("progress", 0.8, self._tables.read_progress),
            _Step("ends", 0.5, self.slices.read_ends),
            _Step("history", 2.0, self._tables.note_history),
            _Step("members", 1.0, self.slices.read_members),
            _Step("producers", 5.0, self.slices.read_producers),
            _Step("access", 30.0, self._look_for_access_control),
        ]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Look once, then go on in the background. A cluster that is not there yet is no error: pages say so."""
        await self.look()
        failure = self.state.failures.get("brokers")
        if failure is not None and failure.reason == DENIED:
            _log.warning("the cluster does not let this dashboard look; give it an account: %s", failure.detail)
        self._tasks = [asyncio.create_task(self._repeat(step)) for step in self._steps]

    async def look(self) -> None:
        """Everything once, in order."""
        for step in self._steps:
            await self._run(step)

    async def stop(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def look_at_lists(self) -> None:
        """Something was named that is not known: it may have been made since the last look at the lists."""
        if self._clock.now_ms() - self.state.tables_ms > _NEWS_MS:
            await self._run(next(step for step in self._steps if step.name == "tables"))

    def hurry(self) -> None:
        """Something was changed: look at lists and progress now."""
        for step in self._steps:
            if step.name in ("tables", "progress", "ends"):
                step.hurry.set()

    async def _repeat(self, step: _Step) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            step.hurry.clear()
            await self._run(step)
            took = loop.time() - began
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(step.hurry.wait(), max(step.seconds - took, took * _REST, 0.05))

    async def _run(self, step: _Step) -> None:
        try:
            await step.run()
        except FlareMQError as error:
            self.state.failures[step.name] = reason_of(error)
        except Exception:
            _log.exception("reading %s failed", step.name)
        else:
            if step.name not in ("tables", "progress"):  # those keep their own account
                self.state.failures.pop(step.name, None)

    async def _look_for_access_control(self) -> None:
        state = self.state
        asker = self._probe or self._reader
        for broker in state.masters:
            try:
                await asker.runtime(broker.address)
            except AccessDeniedError:
                state.has_access_control = True
                return
            except FlareMQError:
                continue
            state.has_access_control = False
