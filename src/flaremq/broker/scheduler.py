"""Scheduler: a broker's periodic work, by the broker's clock.

One timer of the event loop looks every few hundredths of a second which tasks are due by the given clock and runs
them; a task that is still running is not started again. With a manual clock the same tasks run when the clock was
moved: ``run_due`` returns when they are done, so a test never sleeps.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable

from flaremq.clock import Clock

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.05
_WATCHER_MS = 100  # what runs at least this often looks whether something is due
_ROUNDING = 1e-6  # seconds: ten tenths of a second are one second, whatever binary fractions make of it

Work = Callable[[], Awaitable[object] | object]


class _Task:
    __slots__ = ("due", "interval_ms", "name", "running", "work")

    def __init__(self, name: str, interval_ms: Callable[[], int], work: Work, due: float) -> None:
        self.name = name
        self.interval_ms = interval_ms
        self.work = work
        self.due = due
        self.running: asyncio.Task[None] | None = None


class Scheduler:
    """Periodic tasks of one broker. Event loop only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: list[_Task] = []
        self._timer: asyncio.TimerHandle | None = None

    def every(self, name: str, interval_ms: int | Callable[[], int], work: Work) -> None:
        """Run ``work`` at this interval, the first time after one interval; a function is asked for it each time."""
        interval = interval_ms if callable(interval_ms) else lambda: interval_ms
        self._tasks.append(_Task(name, interval, work, self._clock.monotonic() + interval() / 1000))

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)
        self._start_due()

    def _start_due(self, *, watchers: bool = False) -> list[asyncio.Task[None]]:
        now = self._clock.monotonic()
        started = []
        for task in self._tasks:
            due = task.due <= now + _ROUNDING or (watchers and task.interval_ms() <= _WATCHER_MS)
            if not due or task.running is not None:
                continue
            task.due = now + task.interval_ms() / 1000
            try:
                outcome = task.work()
            except Exception:
                _log.exception("periodic task %s failed", task.name)
                continue
            if isawaitable(outcome):
                task.running = asyncio.ensure_future(self._finish(task, outcome))
                started.append(task.running)
        return started

    async def _finish(self, task: _Task, outcome: Awaitable[object]) -> None:
        try:
            await outcome
        except asyncio.CancelledError:
            raise
        except Exception:
            _log.exception("periodic task %s failed", task.name)
        finally:
            task.running = None

    async def run_due(self) -> None:
        """Run what is due by the clock now and return when it is done.

        Tasks that watch for something to become due, many times a second, look in any case: who moved the clock by a
        millisecond has not missed what is due since then.
        """
        running = [task.running for task in self._tasks if task.running is not None]
        started = self._start_due(watchers=True)
        await asyncio.gather(*running, *started, return_exceptions=True)

    async def stop(self) -> None:
        """Start nothing more and wait for what is running."""
        if self._timer is not None:
            self._timer.cancel()
        running = [task.running for task in self._tasks if task.running is not None]
        if running:
            await asyncio.wait(running, timeout=5.0)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
