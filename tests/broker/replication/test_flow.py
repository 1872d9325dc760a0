"""Rates are measured over whole seconds, limits are kept by waiting, and log lines are few."""

from __future__ import annotations

import pytest

from flaremq.broker.replication.flow import FlowControl, RateMeter


def test_rate_is_that_of_the_last_second() -> None:
    meter = RateMeter(0.0)
    meter.count(1000, 0.1)
    assert meter.per_second(0.5) == 0
    assert meter.per_second(1.0) == 1000
    meter.count(4000, 1.5)
    assert meter.per_second(2.0) == 4000
    assert meter.per_second(9.0) == 0
    assert meter.total == 5000


def test_without_a_limit_nothing_waits() -> None:
    flow = FlowControl(0.0)
    flow.spend(10**9)
    assert flow.wait_seconds(0.0) == 0


def test_bytes_a_second_stay_below_the_limit() -> None:
    flow = FlowControl(0.0, 1000)
    now = sent = 0.0
    while now < 10:
        wait = flow.wait_seconds(now)
        if wait:
            now += wait
        else:
            flow.spend(300)
            sent += 300
    assert 9_500 <= sent <= 10_500


def test_idle_time_saves_up_a_tenth_of_a_second() -> None:
    flow = FlowControl(0.0, 1000)
    assert flow.wait_seconds(100.0) == 0
    flow.spend(100)
    assert flow.wait_seconds(100.0) == 0
    flow.spend(100)
    assert flow.wait_seconds(100.0) == pytest.approx(0.1)
