"""Scheduler: periodic work by the broker's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from flaremq.broker.scheduler import Scheduler
from flaremq.clock import ManualClock, SystemClock
from tests.support.broker_lab import until


def run(scenario: Callable[[Scheduler, ManualClock], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = ManualClock()
        scheduler = Scheduler(clock)
        await asyncio.wait_for(scenario(scheduler, clock), 60)
        await scheduler.stop()

    asyncio.run(main())


def test_task_runs_after_each_interval_of_the_clock() -> None:
    async def scenario(scheduler: Scheduler, clock: ManualClock) -> None:
        done: list[int] = []
        scheduler.every("often", 200, lambda: done.append(1))
        scheduler.every("seldom", 1000, lambda: done.append(2))
        await scheduler.run_due()
        assert done == []
        for _ in range(10):
            clock.advance(100)
            await scheduler.run_due()
        assert done.count(1) == 5 and done.count(2) == 1

    run(scenario)


def test_time_that_was_slept_through_is_not_made_up_for() -> None:
    async def scenario(scheduler: Scheduler, clock: ManualClock) -> None:
        done: list[int] = []
        scheduler.every("often", 200, lambda: done.append(1))
        clock.advance(3_600_000)
        await scheduler.run_due()
        await scheduler.run_due()
        assert done == [1]

    run(scenario)


def test_wall_clock_that_jumps_starts_nothing() -> None:
    async def scenario(scheduler: Scheduler, clock: ManualClock) -> None:
        done: list[int] = []
        scheduler.every("often", 200, lambda: done.append(1))
        clock.jump(10 * 365 * 86_400_000)
        await scheduler.run_due()
        clock.jump(-20 * 365 * 86_400_000)
        await scheduler.run_due()
        assert done == []
        clock.advance(200)
        await scheduler.run_due()
        assert done == [1]

    run(scenario)


def test_watching_task_looks_whenever_time_was_moved() -> None:
    async def scenario(scheduler: Scheduler, clock: ManualClock) -> None:
        done: list[int] = []
        scheduler.every("watcher", 50, lambda: done.append(1))
        clock.advance(1)
        await scheduler.run_due()
        assert done == [1]

    run(scenario)


def test_interval_may_change_while_running() -> None:
    async def scenario(scheduler: Scheduler, clock: ManualClock) -> None:
        done: list[int] = []
        interval = 200
        scheduler.every("changing", lambda: interval, lambda: done.append(1))
        clock.advance(200)
        await scheduler.run_due()
        interval = 1000
        counts = []
        for _ in range(8):
            clock.advance(200)
            await scheduler.run_due()
            counts.append(len(done))
        assert counts == [2] * 5 + [3] * 3, "the next run was settled, the one after it follows the new interval"

    run(scenario)


def test_task_that_fails_is_logged_and_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(scheduler: Scheduler, clock: ManualClock) -> None:
        done: list[str] = []

        def fail() -> None:
            done.append("sync")
            raise ZeroDivisionError("at once")

        async def fail_later() -> None:
            await asyncio.sleep(0)
            done.append("async")
            raise ZeroDivisionError("later")

        scheduler.every("failing", 1000, fail)
        scheduler.every("failing later", 1000, fail_later)
        scheduler.every("unharmed", 1000, lambda: done.append("unharmed"))
        for _ in range(2):
            clock.advance(1000)
            await scheduler.run_due()
        assert sorted(done) == ["async"] * 2 + ["sync"] * 2 + ["unharmed"] * 2

    run(scenario)
    assert "periodic task failing failed" in caplog.text and "periodic task failing later failed" in caplog.text


def test_task_that_is_still_running_is_not_started_again() -> None:
    async def scenario(scheduler: Scheduler, clock: ManualClock) -> None:
        begun = 0
        gate = asyncio.Event()

        async def slow() -> None:
            nonlocal begun
            begun += 1
            await gate.wait()

        scheduler.every("slow", 1000, slow)
        clock.advance(1000)
        running = asyncio.ensure_future(scheduler.run_due())
        await until(lambda: begun == 1)
        clock.advance(1000)
        again = asyncio.ensure_future(scheduler.run_due())
        await asyncio.sleep(0)
        assert begun == 1
        gate.set()
        await asyncio.gather(running, again)
        clock.advance(1000)
        await scheduler.run_due()
        assert begun == 2

    run(scenario)


def test_started_scheduler_looks_by_itself_and_stops_when_told() -> None:
    async def main() -> None:
        scheduler = Scheduler(SystemClock())
        done: list[int] = []
        scheduler.every("often", 1, lambda: done.append(1))
        scheduler.start()
        await until(lambda: len(done) >= 3)
        await scheduler.stop()
        before = len(done)
        await asyncio.sleep(0.2)
        assert len(done) == before

    asyncio.run(main())


def test_stop_waits_for_what_is_running() -> None:
    async def main() -> None:
        clock = ManualClock()
        scheduler = Scheduler(clock)
        done: list[int] = []

        async def slow() -> None:
            await asyncio.sleep(0.05)
            done.append(1)

        scheduler.every("slow", 1, slow)
        scheduler.start()
        clock.advance(10)
        await until(lambda: any(task.running is not None for task in scheduler._tasks))
        await scheduler.stop()
        assert done == [1]

    asyncio.run(main())
