"""Several runs at once, of which one is always slower: each message is in the table once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from flaremq.pipeline.jobs.table import increment, table
from tests.pipeline.tables.lab import TableLab


def interrupted_once(monkeypatch: pytest.MonkeyPatch, rival: Callable[[], Any]) -> None:
    """The next commit is preceded by what somebody else does between planning and committing."""
    real = increment._commit
    pending = [rival]

    def commit(*arguments: Any) -> bool:
        if pending:
            pending.pop()()
        return real(*arguments)

    monkeypatch.setattr(increment, "_commit", commit)


def test_slower_of_two_runs_adds_nothing_twice(lab: TableLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.put(20)
    interrupted_once(monkeypatch, lab.run)
    assert lab.run().rows == 0
    assert lab.offsets() == lab.expected_offsets()
    assert len(lab.data_files()) == 1, "the files of the slower run are removed"


def test_slower_run_adds_what_the_faster_one_lacked(lab: TableLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.put(20)
    lab.run()
    lab.put(4)

    def rival() -> None:
        lab.run()
        lab.put(8)

    interrupted_once(monkeypatch, rival)
    assert lab.run().rows == 8
    assert lab.offsets() == lab.expected_offsets()


def test_dead_letters_of_the_slower_run_are_not_added_again(lab: TableLab, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> int:
        return table(None, lab.options("orders", bodyFormat="json", bodySchema="id string"), lab.target())[0].rows

    lab.put(bodies=[b'{"id": "a"}', b"no json"])
    run()
    lab.put(bodies=[b'{"id": "b"}', b"no json"])
    interrupted_once(monkeypatch, run)
    assert run() == 0
    assert lab.offsets("orders_dead_letters") == [(1, 0), (1, 1)]
    assert len(lab.data_files("orders_dead_letters")) == 2, "the file of the slower run is removed"


def test_runs_of_different_topics_do_not_hinder_each_other(lab: TableLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.put(8, topic="orders")
    lab.put(12, topic="users")
    lab.run("both", "orders")
    lab.put(4, topic="orders")
    interrupted_once(monkeypatch, lambda: lab.run("both", "users"))
    result = lab.run("both", "orders")
    assert (result.rows, result.commits) == (4, 1)
    assert len(lab.rows("both", "topic")) == 24


def _two_topics_in_iceberg(place: Path) -> TableLab:
    lab = TableLab(place, "iceberg")
    lab.put(8, topic="orders")
    lab.put(12, topic="users")
    lab.run("both", "orders")
    lab.put(4, topic="orders")
    return lab


def test_state_that_was_planned_from_may_be_removed_before_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = _two_topics_in_iceberg(tmp_path)

    def rival() -> None:
        lab.run("both", "users")
        lab.open("both").expire(1 << 62, keep=1)

    interrupted_once(monkeypatch, rival)
    assert lab.run("both", "orders").rows == 4
    assert len(lab.rows("both", "topic")) == 24


def test_others_may_write_to_another_branch_before_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = _two_topics_in_iceberg(tmp_path)

    def rival() -> None:
        catalog = SqlCatalog("lake", uri=f"sqlite:///{lab.lake}/catalog.db", warehouse=f"file://{lab.lake}")
        opened = catalog.load_table("sales.both")
        opened.manage_snapshots().create_branch(opened.metadata.snapshots[-1].snapshot_id, "audit").commit()
        files = [task.file for task in opened.scan().plan_files()]
        with opened.transaction() as transaction, transaction.update_snapshot(branch="audit").fast_append() as append:
            append.append_data_file(files[0])

    interrupted_once(monkeypatch, rival)
    assert lab.run("both", "orders").rows == 4
    assert len(lab.rows("both", "topic")) == 12


def test_commit_that_cannot_be_written_fails_with_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = _two_topics_in_iceberg(tmp_path)

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("flaremq.pipeline.tables.iceberg.append.Append.append_data_file", full)
    with pytest.raises(OSError, match="No space left"):
        lab.run("both", "orders")


def test_commit_whose_answer_was_lost_is_not_made_again(lab: TableLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.put(8)
    lab.run()
    lab.put(8)
    real = type(lab.open()).commit

    def twice(self: Any, commit: Any) -> bool:
        assert real(self, commit)
        return real(self, commit)  # as somebody would who does not know

    monkeypatch.setattr(type(lab.open()), "commit", twice)
    assert lab.run().rows == 8
    assert lab.offsets() == lab.expected_offsets()


def test_many_runs_at_once_leave_every_message_once(lab: TableLab) -> None:
    lab.put(40)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            lab.run()
        except BaseException as error:  # told by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert lab.offsets() == lab.expected_offsets()
