"""Log lines: one a record, whatever strangers put into it."""

from __future__ import annotations

import io
import json
import logging

import pytest

from flaremq.log_lines import JsonFormatter, LimitedLog, LineFormatter, set_level


@pytest.fixture
def written() -> io.StringIO:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter())
    log = logging.getLogger("flaremq.test_log_lines")
    log.handlers, log.propagate = [handler], False
    return stream


LOG = logging.getLogger("flaremq.test_log_lines")


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x85", "\u2028", "\u2029", "\x1c"])
def test_line_end_in_a_client_id_starts_no_line_of_its_own(written: io.StringIO, end: str) -> None:
    forged = f"client{end}2026-01-01 00:00:00,000 CRITICAL flaremq.broker: the store is lost"
    LOG.warning("the heartbeat of %s is ignored", forged)
    text = written.getvalue()
    assert text.endswith("the store is lost is ignored\n") and len(text.splitlines()) == 1
    assert " WARNING flaremq.test_log_lines: the heartbeat of client\\" in text


def test_escape_commands_no_terminal(written: io.StringIO) -> None:
    LOG.warning("topic %s", "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eabc")
    text = written.getvalue()
    assert not set(text) & set("\x1b\x07\x9b\u202e")
    assert "\\u001b]0;owned\\u0007" in text


def test_text_that_can_be_seen_stays_as_it_is(written: io.StringIO) -> None:
    LOG.warning("topic %s", "заказы 订单 a\\b 'x'")
    assert written.getvalue().endswith("topic заказы 订单 a\\b 'x'\n")


def test_no_line_of_a_traceback_looks_like_a_record(written: io.StringIO) -> None:
    try:
        raise ValueError("bad\n2026-01-01 00:00:00,000 CRITICAL flaremq: the store is lost\x1b[2J")
    except ValueError:
        LOG.exception("request %d failed", 10)
    first, *rest = written.getvalue().splitlines()
    assert first.endswith("request 10 failed")
    assert rest and all(line.startswith("  ") for line in rest)
    assert "\x1b" not in written.getvalue()


def test_a_record_as_json_is_one_line_of_ascii_that_says_the_same() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    log = logging.getLogger("flaremq.test_log_lines.json")
    log.handlers, log.propagate = [handler], False
    log.warning("the heartbeat of %s is ignored", "订单\u2028\x1b[2J\n{}")
    try:
        raise ValueError("bad")
    except ValueError:
        log.exception("request %d failed", 10)
    text = stream.getvalue()
    assert text.isascii() and len(text.splitlines()) == 2
    first, second = map(json.loads, text.splitlines())
    assert first["level"] == "WARNING" and first["logger"] == "flaremq.test_log_lines.json"
    assert first["message"] == "the heartbeat of 订单\u2028\x1b[2J\n{} is ignored" and first["time"].endswith("Z")
    assert second["message"] == "request 10 failed" and "ValueError: bad" in second["error"]


def test_the_level_can_be_changed_and_given_back() -> None:
    log = logging.getLogger("flaremq.test_log_lines.level")
    before = log.getEffectiveLevel()
    set_level("debug")
    try:
        assert log.getEffectiveLevel() == logging.DEBUG
    finally:
        set_level("")
    assert log.getEffectiveLevel() == before


def test_lines_of_one_kind_are_written_so_many_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    log = LimitedLog(logging.getLogger("limited"), seconds=1000, lines_max=2)
    for number in range(5):
        log.warning("line %d", number)
    assert [record.message for record in caplog.records] == ["line 0", "line 1"]
    log._until = 0.0
    log.warning("line %d", 5)
    log.warning("line %d", 6)
    assert [record.message for record in caplog.records[2:]] == [
        "line 5 (3 lines like this were left out)",
        "line 6",
    ]


def test_lines_that_nobody_reads_do_not_count(caplog: pytest.LogCaptureFixture) -> None:
    log = LimitedLog(logging.getLogger("limited"), seconds=1000)
    with caplog.at_level("WARNING"):
        log.info("of no interest")
    log.warning("of interest")
    assert [record.message for record in caplog.records] == ["of interest"]
