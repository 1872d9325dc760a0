"""Failed proofs in a server's log: enough to see an attack by, too little to fill a disk."""

from __future__ import annotations

import logging

import pytest

from flaremq.access.attempts import Attempts
from flaremq.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000)


def lines(log: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in log.records if record.name == "flaremq.access.attempts"]


def test_an_address_has_one_line_a_minute_with_their_number(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = Attempts(clock.monotonic)
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            attempts.failed("10.0.0.7", "wrong signature ('app', request 10)")
        assert lines(caplog) == [
            "1 requests from 10.0.0.7 were refused, the last one: wrong signature ('app', request 10)"
        ]
        clock.advance(61_000)
        attempts.failed("10.0.0.7", "unknown account ('x', request 11)")
    assert lines(caplog)[1:] == [
        "100 requests from 10.0.0.7 were refused, the last one: unknown account ('x', request 11)"
    ]


def test_addresses_do_not_share_a_line(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    attempts = Attempts(clock.monotonic)
    with caplog.at_level(logging.WARNING):
        for number in range(5):
            attempts.failed(f"10.0.0.{number}", "wrong signature ('app', request 10)")
    assert len(lines(caplog)) == 5
    assert attempts.total == 5


def test_what_is_remembered_of_addresses_has_an_end(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    attempts = Attempts(clock.monotonic)
    with caplog.at_level(logging.ERROR, "flaremq.access.attempts"):
        for number in range(30_000):
            attempts.failed(f"fe80::{number:x}", "wrong signature")
    assert attempts.total == 30_000
    assert attempts.addresses <= 10_000
