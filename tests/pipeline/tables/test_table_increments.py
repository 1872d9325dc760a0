"""Bringing a table up to its topic: every message once, by whole commits."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.jobs.table import table
from flaremq.pipeline.jobs.table.increment import TableLossError
from flaremq.pipeline.jobs.table.job import TableSettings
from flaremq.pipeline.model.spans import QueueRef
from flaremq.pipeline.scan import scan
from flaremq.pipeline.tables.model.coverage import Covered, coverage_from_text, coverage_text
from tests.pipeline.tables.lab import HOUR_MS, TableLab


def test_table_holds_every_message_of_every_column(lab: TableLab) -> None:
    lab.put()
    result = lab.run()
    assert (result.rows, result.commits, result.covered, result.dead_letters) == (40, 1, 40, 0)
    want = scan(**{"path": f"broker-a={lab.root}"}, topic="orders", maxHashSlotNum="200", maxIndexNum="800")
    place = ("queueId", "queueOffset")
    wanted = sorted(want.read_all().to_pylist(), key=lambda row: [row[name] for name in place])
    got = sorted(lab.rows(), key=lambda row: [row[name] for name in place])
    assert [{name: row[name] for name in wanted[0]} for row in got] == wanted


def test_second_run_adds_what_is_new_and_nothing_twice(lab: TableLab) -> None:
    lab.put(30)
    lab.run()
    assert lab.run().commits == 0
    lab.put(10)
    assert lab.run().rows == 10
    assert len(lab.offsets()) == len(set(lab.offsets())) == 40


def test_files_are_parted_by_day_and_sorted_by_queue_and_offset(lab: TableLab) -> None:
    lab.put(48, step_ms=HOUR_MS)  # two days and a bit
    lab.run()
    files = lab.data_files()
    assert [file.parent.name for file in files] == ["day=2023-11-14", "day=2023-11-15", "day=2023-11-16"]
    for file in files:
        places = pq.read_table(file, columns=["queueId", "queueOffset"], partitioning=None).to_pylist()
        assert places == sorted(places, key=lambda row: (row["queueId"], row["queueOffset"]))


def test_partitions_may_be_more_than_days(lab: TableLab) -> None:
    lab.put(24)
    lab.run(partition_by="day(bornTimestamp),tags")
    folders = {file.parent.name for file in lab.data_files()}
    assert folders == {"tags=paid", "tags=shipped", "tags=None"}
    assert len(lab.offsets()) == 24


def test_files_end_at_the_target_size(lab: TableLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flaremq.pipeline.tables.files.ROW_GROUP_BYTES", 20_000)
    lab.put(bodies=[bytes(str(at) * 500, "ascii") for at in range(200)])
    assert lab.run(target_bytes=8_000).files > 1
    assert lab.offsets() == lab.expected_offsets()


def test_large_work_is_committed_in_several_parts(lab: TableLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flaremq.pipeline.jobs.table.increment._FEW_MESSAGES", 0)
    lab.put(200)
    result = lab.run(commit_bytes=10_000)
    assert result.commits > 2 and result.rows == 200
    assert lab.offsets() == lab.expected_offsets()


def test_all_topics_may_have_a_table_each(lab: TableLab) -> None:
    lab.put(8, topic="orders")
    lab.put(4, topic="users-eu")
    results = lab.run_all("{topic}", topic="")
    assert [(result.table.rpartition("/")[2].rpartition(".")[2], result.rows) for result in results] == [
        ("orders", 8),
        ("users_eu", 4),
    ]
    assert {row["topic"] for row in lab.rows("users_eu")} == {"users-eu"}


def test_all_topics_may_share_a_table(lab: TableLab) -> None:
    lab.put(8, topic="orders")
    lab.put(4, topic="users")
    assert lab.run("everything", topic="").rows == 12
    lab.put(4, topic="users")
    assert lab.run("everything", topic="users").rows == 4
    assert lab.run("everything", topic="").rows == 0


def test_topic_that_was_made_anew_is_refused(lab: TableLab, tmp_path: Path) -> None:
    lab.put(20)
    lab.run()
    lab.root = tmp_path / "another"
    lab.put(8)
    with pytest.raises(TableLossError, match="deleted and made anew"):
        lab.run()
    assert len(lab.offsets()) == 20


def made_anew(lab: TableLab, place: Path) -> None:
    """The same topic in a new store, of messages of the same sizes, longer than the table."""
    lab.put(20)
    lab.run()
    lab.root = place / "another"
    lab.put(24)


def test_topic_that_was_made_anew_is_refused_when_it_is_longer_than_the_table(lab: TableLab, tmp_path: Path) -> None:
    made_anew(lab, tmp_path)
    with pytest.raises(TableLossError, match="another one than the table holds: the topic was deleted and made anew"):
        lab.run()
    options = lab.options(failOnDataLoss="false")
    assert [result.rows for result in table(None, options, lab.target(), TableSettings())] == [0]
    assert len(lab.offsets()) == 20


def test_table_of_a_version_without_signs_goes_on(
    lab: TableLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("flaremq.pipeline.jobs.table.increment.signs_before", lambda source, ends: {})
        made_anew(lab, tmp_path)
        without = lab.open().coverage([QueueRef("orders", "broker-a", 0)])
    assert [covered.sign for covered in without.values()] == [0]
    assert lab.run().rows == 4, "as far as its end tells it is the same topic"
    lab.put(4)
    assert lab.run().rows == 4


def test_coverage_without_signs_can_be_read() -> None:
    queue = QueueRef("orders", "broker-a", 0)
    assert coverage_from_text('{"orders":{"broker-a":{"0":[2,9]}}}') == {queue: Covered(2, 9)}
    signed = {queue: Covered(2, 9, 77)}
    assert coverage_from_text(coverage_text(signed)) == signed


@pytest.mark.parametrize(("name", "text"), [("keys", "k-1"), ("columns", "body"), ("subExpression", "paid")])
def test_parts_of_messages_or_queues_are_refused(lab: TableLab, name: str, text: str) -> None:
    lab.put(4)
    with pytest.raises(InvalidArgumentError, match="a table holds whole"):
        table(None, lab.options(**{name: text}), lab.target(), TableSettings())


def test_single_queues_may_have_a_table_a_topic_too(lab: TableLab) -> None:
    lab.put(8, topic="orders")
    lab.put(8, topic="users")
    assign = json.dumps({"orders": [0], "users": [1]})
    results = table(None, lab.options("", assign=assign), lab.target("{topic}"))
    held = {row["topic"]: row["queueId"] for name in ("orders", "users") for row in lab.rows(name)}
    assert len(results) == 2 and held == {"orders": 0, "users": 1}


def test_following_asks_a_delta_table_once_what_it_covers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question is answered from all of the log since the last checkpoint."""
    lab, stop = TableLab(tmp_path, "delta"), threading.Event()
    asked: list[object] = []
    counts: list[int] = []
    for name in ("transaction_version", "history"):
        real = getattr(DeltaTable, name)
        monkeypatch.setattr(DeltaTable, name, lambda *given, real=real: asked.append(given[1:]) or real(*given))

    def more(_: object) -> None:
        counts.append(len(asked))
        if len(counts) == 4:
            stop.set()
        else:
            lab.put(8)

    lab.put(8)
    table(None, lab.options(), lab.target(), follow=True, interval=0.001, stop=stop, on_commit=more)
    assert counts[0] > 0 and counts == counts[:1] * len(counts)
    assert lab.offsets() == lab.expected_offsets()
