"""How far a table is behind its topic, as everybody is told."""

from __future__ import annotations

import json

from flaremq.java_json import parse_java_json
from flaremq.pipeline.jobs.table.status import TableStatus, status
from tests.pipeline.tables.lab import FIRST_MS, TableLab
from tests.support.cli import flaremq


def told(lab: TableLab, *, now_ms: int = FIRST_MS + 60_000, **options: str) -> TableStatus:
    return status(lab.options(**options), lab.target(), now_ms=now_ms)[0]


def test_table_that_has_everything_has_no_lag(lab: TableLab) -> None:
    lab.put(40)
    lab.run()
    found = told(lab)
    assert (found.lag, found.lag_seconds, found.rows, found.files, found.small_files) == (0, 0.0, 40, 1, 1)


def test_lag_is_in_messages_and_in_seconds_since_the_first_that_waits(lab: TableLab) -> None:
    lab.put(40)
    lab.run()
    lab.put(8)  # the first of them was stored 40 seconds after the first of all
    found = told(lab)
    assert (found.lag, found.lag_seconds) == (8, 20.0)
    assert [queue.lag for queue in found.queues] == [2, 2, 2, 2]


def test_group_shows_the_lag_to_everybody(lab: TableLab) -> None:
    lab.put(40)
    lab.run()
    lab.put(8)
    told(lab, consumerGroup="lake-orders")
    table = parse_java_json((lab.root / "config" / "consumerOffset.json").read_text())["offsetTable"]
    assert table == {"orders@lake-orders": {"0": 10, "1": 10, "2": 10, "3": 10}}


def test_commands_tell_it_as_json(lab: TableLab) -> None:
    lab.put(12)
    where = ["--to", lab.target().text, "--path", f"broker-a={lab.root}", "--topic", "orders"]
    sizes = ["--option", "maxHashSlotNum=200", "--option", "maxIndexNum=800"]
    if lab.kind == "iceberg":
        where += ["--warehouse", lab.lake]
    assert flaremq("pipeline", "table", *where, *sizes, "--no-spark").code == 0
    lab.put(8)
    done = flaremq("pipeline", "table", "status", *where, *sizes, "-o", "json")
    found = json.loads(done.out)
    assert (done.code, found["lag"]["messages"], found["rows"]) == (0, 8, 12)
    assert found["lag"]["seconds"] > 0
    assert flaremq("pipeline", "table", *where, *sizes, "--no-spark").code == 0
    upkeep = where[:2] + (where[-2:] if lab.kind == "iceberg" else [])
    done = flaremq("pipeline", "table", "compact", *upkeep, "--no-spark")
    assert (done.code, json.loads(done.out)["filesAfter"]) == (0, 1)
    done = flaremq("pipeline", "table", "expire", *upkeep, "--older-than", "12h", "--dry-run")
    assert (done.code, json.loads(done.out)["files"]) == (0, 0)
    done = flaremq("pipeline", "table", "verify", *where, *sizes, "--no-spark")
    assert (done.code, json.loads(done.out)["verdict"]) == (0, "sound")


def test_options_before_the_name_of_a_command_are_refused() -> None:
    done = flaremq("pipeline", "table", "--to", "delta:x", "status")
    assert done.code == 2 and "put it behind" in done.err
    done = flaremq("pipeline", "table", "--path", "x")
    assert done.code == 2 and "--to" in done.err
    done = flaremq("pipeline", "table", "expire", "--to", "delta:x", "--older-than", "week")
    assert done.code == 2 and "7d" in done.err
