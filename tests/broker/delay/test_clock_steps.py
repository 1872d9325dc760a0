"""Somebody sets the clock back: what waits for a time does not wait longer because of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.broker.delay.clock_steps import ClockSteps
from flaremq.clock import ManualClock
from tests.broker.pop_lab import PopLab
from tests.broker.pop_lab import run as run_pop
from tests.broker.waiting_lab import WaitingLab, run, timer

HOUR_MS = 3_600_000


def test_steps_back_are_told_once_and_small_ones_when_they_add_up() -> None:
    clock = ManualClock()
    steps = ClockSteps(clock)
    clock.advance(60_000)
    assert steps.back_ms() == 0
    clock.jump(-HOUR_MS)
    clock.advance(50)
    assert (steps.back_ms(), steps.back_ms()) == (HOUR_MS, 0)
    clock.jump(2 * HOUR_MS)
    assert (steps.back_ms(), steps.back_ms()) == (-HOUR_MS, 0), "only what was told is undone"
    clock.jump(HOUR_MS)
    assert steps.back_ms() == 0
    clock.jump(-300)
    assert steps.back_ms() == 0
    clock.jump(-300)
    assert (steps.back_ms(), steps.back_ms()) == (600, 0)


@pytest.mark.parametrize("is_saved", [False, True])
@pytest.mark.parametrize("is_read", [False, True])
def test_timer_comes_when_the_time_that_was_left_has_passed(is_read: bool, is_saved: bool) -> None:
    lab = WaitingLab()
    service = timer(lab)
    lab.send(b"a", TIMER_DELAY_SEC="10")
    lab.send(b"b", TIMER_DELIVER_MS=str(lab.clock.now_ms() + 12_000))
    if is_read:
        run(service.run_due())
    if is_saved:
        run(service.persist())
    lab.clock.advance(4_000)
    run(service.run_due()) if is_read else None
    lab.clock.jump(-HOUR_MS)
    assert run(service.run_due()) == 0
    lab.send(b"new", TIMER_DELAY_SEC="30")
    lab.clock.advance(5_999)
    assert run(service.run_due()) == 0
    if is_saved:
        run(service.persist())
    lab.clock.advance(12_000)
    assert run(service.run_due()) == 2
    assert lab.bodies() == [b"a", b"b"]
    lab.clock.advance(12_000)
    assert run(service.run_due()) == 0
    lab.clock.advance(1_000)
    assert run(service.run_due()) == 1


def test_timer_comes_no_earlier_after_a_clock_that_is_set_back_and_right_again() -> None:
    lab = WaitingLab()
    service = timer(lab)
    lab.send(b"a", TIMER_DELAY_SEC=str(2 * 3600))
    run(service.run_due())
    lab.clock.jump(-HOUR_MS)
    assert run(service.run_due()) == 0
    lab.clock.jump(HOUR_MS)
    lab.clock.advance(2 * HOUR_MS - 1)
    assert run(service.run_due()) == 0
    lab.clock.advance(1)
    assert run(service.run_due()) == 1


def test_timer_that_waits_over_a_restart_follows_a_clock_set_back_meanwhile() -> None:
    lab = WaitingLab()
    service = timer(lab)
    lab.send(b"a", TIMER_DELAY_SEC="10")
    run(service.run_due())
    assert run(service.persist())
    lab = lab.restart()
    lab.clock.jump(-HOUR_MS)
    service = timer(lab)
    lab.clock.advance(9_999)
    assert run(service.run_due()) == 0
    assert run(service.persist())
    lab = lab.restart()
    service = timer(lab)
    lab.clock.advance(1)
    assert run(service.run_due()) == 1


def test_message_taken_back_stays_so_when_the_clock_is_set_back() -> None:
    lab = WaitingLab()
    service = timer(lab)
    due_ms = lab.clock.now_ms() + 10_000
    lab.send(b"a", TIMER_DELIVER_MS=str(due_ms), UNIQ_KEY="key")
    lab.send(b"", TIMER_DELIVER_MS=str(due_ms), TIMER_DEL_UNIQKEY="orders+key", UNIQ_KEY="other")
    run(service.run_due())
    lab.clock.jump(-HOUR_MS)
    run(service.run_due())
    lab.clock.advance(20_000)
    run(service.run_due())
    assert lab.bodies() == []
    assert service.waiting_count == 0


def test_many_timers_in_merged_runs_follow_the_clock() -> None:
    lab = WaitingLab()
    service = timer(lab)
    for number in range(20):
        lab.send(b"%02d" % number, TIMER_DELAY_SEC=str(100 + number))
        run(service.run_due())
        run(service.persist())
    lab.clock.jump(-HOUR_MS)
    run(service.run_due())
    for number in range(20, 30):
        lab.send(b"%02d" % number, TIMER_DELAY_SEC=str(100 + number))
        run(service.run_due())
        run(service.persist())
    lab.clock.advance(99_999)
    assert run(service.run_due()) == 0
    for number in range(30):
        lab.clock.advance(1 if number == 0 else 1_000)
        assert run(service.run_due()) == 1
    assert lab.bodies() == [b"%02d" % number for number in range(30)]


@pytest.mark.parametrize("is_orderly", [False, True])
def test_popped_message_comes_back_when_its_invisible_time_has_passed(tmp_path: Path, is_orderly: bool) -> None:
    order = {"order": "true"} if is_orderly else {}

    async def scenario(lab: PopLab) -> None:
        await lab.send("a")
        reply = await lab.pop(invisibleTime=10_000, **order)
        assert reply.bodies == ["a"]
        await lab.pass_time(4_000)
        lab.clock.jump(-HOUR_MS)
        await lab.pass_time(5_999)
        assert (await lab.pop(**order)).code == 210
        await lab.pass_time(1)
        assert (await lab.pop(**order)).bodies == ["a"]

    run_pop(tmp_path, scenario)


def test_popped_message_comes_back_after_a_crash_with_the_clock_set_back(tmp_path: Path) -> None:
    async def scenario(lab: PopLab) -> None:
        await lab.send("a")
        await lab.pop(invisibleTime=60_000)
        await lab.pass_time(20_000)  # its check point is stored by now
        lab.clock.jump(-HOUR_MS)
        await lab.crash()
        await lab.pass_time(60_000)
        assert (await lab.pop()).bodies == ["a"]

    run_pop(tmp_path, scenario)
