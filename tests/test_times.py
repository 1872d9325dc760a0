"""Points in time as people write them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from flaremq.times import milliseconds_of, parse_moment

NOW = 1_800_000_000_000


@pytest.fixture(autouse=True)
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("now", NOW),
        ("2h", NOW - 7_200_000),
        ("-2h", NOW - 7_200_000),
        ("90m ago", NOW - 5_400_000),
        ("250ms", NOW - 250),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20.123+00:00", 1_700_000_000_123),
        ("2023-11-15 06:13:20", 1_700_000_000_000),  # local
        ("2023-11-15", 1_699_977_600_000),
        (" 2h ", NOW - 7_200_000),
    ],
)
def test_every_form_is_read(text: str, expected: int) -> None:
    assert parse_moment(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "soon", "2 h", "2w", "2023-13-01", "-5", "earliest", "0001-01-01T00:00+23:59x"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_moment(text, NOW)


def test_no_time_is_before_the_first_message() -> None:
    assert parse_moment("999999999d", NOW) == 0


def test_milliseconds_are_exact() -> None:
    first = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    for ms in range(1000):
        assert milliseconds_of(first + timedelta(milliseconds=ms)) == 1_700_000_000_000 + ms


def test_dates_are_local_unless_they_have_a_zone() -> None:
    assert milliseconds_of(datetime(2023, 11, 15, 6, 13, 20)) == 1_700_000_000_000
    assert milliseconds_of(datetime(2023, 11, 14, 23, 13, 20, tzinfo=timezone(timedelta(hours=1)))) == 1_700_000_000_000
    assert milliseconds_of(date(2023, 11, 15)) == 1_699_977_600_000
