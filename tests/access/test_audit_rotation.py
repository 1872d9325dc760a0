"""The files of the audit log: how many, how large, whose, and that nothing in between is lost."""

from __future__ import annotations

from pathlib import Path

import orjson

from flaremq.access.audit import AuditLog
from flaremq.clock import ManualClock

FILE_BYTES = 2_000
FILES = 8


def note(log: AuditLog, number: int) -> None:
    log.change(user="root", address="127.0.0.1", code=17, what=f"topic={number}", result=0)
    log.write()


def numbers(path: Path) -> list[int]:
    return [int(orjson.loads(line)["what"].removeprefix("topic=")) for line in path.read_bytes().splitlines()]


def test_full_files_are_put_away_and_the_oldest_is_dropped(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    log = AuditLog(str(folder / "audit.log"), ManualClock().now_ms, file_bytes_max=FILE_BYTES)
    for number in range(1_000):
        note(log, number)
    names = ["audit.log", *(f"audit.log.{number}" for number in range(1, FILES))]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert all((folder / name).stat().st_size < FILE_BYTES + 200 for name in names), "at most a line too many"
    kept = [number for name in reversed(names) for number in numbers(folder / name)]
    assert kept == list(range(kept[0], 1_000)), "one after the other, none is missing"


def test_the_files_are_their_owners_alone(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "audit" / "audit.log"), ManualClock().now_ms, file_bytes_max=1)
    for number in range(3):
        note(log, number)
    assert (tmp_path / "audit").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "audit").iterdir()} == {0o600}


def test_a_log_goes_on_where_the_last_start_ended(tmp_path: Path) -> None:
    for start in range(3):
        log = AuditLog(str(tmp_path / "audit.log"), ManualClock().now_ms)
        note(log, start)
    assert numbers(tmp_path / "audit.log") == [0, 1, 2]


def test_every_line_says_who_from_where_what_and_what_came_of_it(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "audit.log"), ManualClock(5_000).now_ms)
    log.change(user="root", address="10.0.0.7", code=17, what="topic=orders", result=1)
    log.write()
    assert orjson.loads((tmp_path / "audit.log").read_bytes()) == {
        "time": 5_000,
        "event": "change",
        "user": "root",
        "address": "10.0.0.7",
        "code": 17,
        "what": "topic=orders",
        "result": 1,
    }
