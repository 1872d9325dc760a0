"""Forgetting old states: what is needed stays, by whoever needs it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.pipeline.jobs.runner import TaskRunner
from flaremq.pipeline.jobs.table.compact import compact
from flaremq.pipeline.jobs.table.expire import expire
from flaremq.pipeline.jobs.table.leftovers import remove_killed
from flaremq.pipeline.tables.leases import Lease, leased, leases
from tests.pipeline.tables.lab import HOUR_MS, TableLab

LONG_AGO = 1_600_000_000


def aged(lab: TableLab) -> None:
    """All files as if they were written long ago; what a log says of them is of today."""
    for path in lab.lake.rglob("*"):
        if path.is_file():
            os.utime(path, (LONG_AGO, LONG_AGO))


def compacted(lab: TableLab) -> None:
    for _ in range(3):
        lab.put(8)
        lab.run()
    compact(None, lab.target())
    aged(lab)


def test_files_of_forgotten_states_are_removed_and_no_row_with_them(lab: TableLab) -> None:
    compacted(lab)
    assert len(lab.data_files()) == 4
    would = expire(lab.target(), retention_ms=0, dry_run=True)
    assert len(lab.data_files()) == 4 and would.is_dry_run
    result = expire(lab.target(), retention_ms=0)
    assert len(lab.data_files()) == 1
    assert len(result.files) >= 3 and result.file_bytes > 0
    assert result.snapshots == (3 if lab.kind == "iceberg" else 0)
    assert lab.offsets() == lab.expected_offsets()
    assert expire(lab.target(), retention_ms=0).files == ()


def test_states_within_the_retention_time_can_still_be_read(lab: TableLab) -> None:
    compacted(lab)
    expire(lab.target(), retention_ms=HOUR_MS)
    assert len(lab.data_files()) == 4, "the state before the merge is some seconds old"


def test_files_that_were_merged_within_the_retention_time_stay_though_their_states_are_forgotten(
    lab: TableLab,
) -> None:
    compacted(lab)
    lab.open().trim(1)  # as `--follow` does
    expire(lab.target(), retention_ms=HOUR_MS)
    assert len(lab.data_files()) == 4, "a reader that planned before the merge has them still"
    expire(lab.target(), retention_ms=0)
    assert len(lab.data_files()) == 1 and lab.offsets() == lab.expected_offsets()
    assert list(lab.lake.rglob("_flaremq/replaced/*")) == []


def test_newest_states_are_kept_as_many_as_wanted(lab: TableLab) -> None:
    compacted(lab)
    if lab.kind == "delta":
        pytest.skip("a state of Delta's is kept by time alone")
    assert expire(lab.target(), retention_ms=0, keep=2).snapshots == 2
    assert len(lab.data_files()) == 4


def test_files_of_a_writer_at_work_are_not_removed_however_old(lab: TableLab) -> None:
    compacted(lab)
    folder = lab.data_files()[0].parent
    orphans = [folder / "0123456789abcdef-00000-0000.parquet", folder / "fedcba9876543210-00000-0000.parquet"]
    for orphan in orphans:
        orphan.write_bytes(b"half a file")
        os.utime(orphan, (LONG_AGO, LONG_AGO))
    with leased(lab.open().root, "0123456789abcdef"):
        expire(lab.target(), retention_ms=0)
    assert [orphan.exists() for orphan in orphans] == [True, False]


def test_files_that_nobody_names_stay_until_they_are_old(lab: TableLab) -> None:
    compacted(lab)
    young = lab.data_files()[0].parent / "part-of-another-engine.parquet"
    young.write_bytes(b"not committed yet")
    expire(lab.target(), retention_ms=0)
    assert young.exists(), "less than ten minutes old"
    day_ago = time.time() - 86_400
    os.utime(young, (day_ago, day_ago))
    expire(lab.target(), retention_ms=2 * 86_400_000)
    assert young.exists(), "younger than the retention time"
    expire(lab.target(), retention_ms=HOUR_MS)
    assert not young.exists()


def test_what_is_not_of_the_table_alone_is_left(lab: TableLab) -> None:
    compacted(lab)
    mark = Path(lab.open().root.full_path("_flaremq/writers/kept.txt"))
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text("a note")
    os.utime(mark, (LONG_AGO, LONG_AGO))
    expire(lab.target(), retention_ms=0)
    assert mark.exists()


@pytest.mark.parametrize(("retention_ms", "keep"), [(-1, 1), (0, 0)])
def test_impossible_times_and_counts_are_refused(lab: TableLab, retention_ms: int, keep: int) -> None:
    with pytest.raises(InvalidArgumentError):
        expire(lab.target(), retention_ms=retention_ms, keep=keep)


def test_commits_keep_the_list_of_states_short_and_readers_of_old_ones_go_on(lab: TableLab) -> None:
    if lab.kind == "delta":
        pytest.skip("Delta's log keeps itself short")
    lab.put(8)
    lab.run(keep_snapshots=2)
    from flaremq.pipeline.tables.iceberg.catalog import open_catalog

    reader = open_catalog(lab.target()).load_table(lab.target().parts)
    for _ in range(4):
        lab.put(4)
        lab.run(keep_snapshots=2)
    newest = open_catalog(lab.target()).load_table(lab.target().parts)
    assert len(newest.metadata.snapshots) == 2
    assert reader.scan().to_arrow().num_rows == 8, "its lists and files are still there"
    assert lab.offsets() == lab.expected_offsets()


def test_half_written_files_are_those_of_their_writer(lab: TableLab) -> None:
    """On a local disk a file has a hidden name until it is whole, which begins with a dot."""
    lab.put(8)
    lab.run()
    table = lab.open()
    hidden = lab.data_files()[0].parent / ".0123456789abcdef-00000-0000.parquet.fedcba.tmp"
    hidden.write_bytes(b"half a file")
    os.utime(hidden, (LONG_AGO, LONG_AGO))
    with leased(table.root, "0123456789abcdef"):
        expire(lab.target(), retention_ms=0)
        assert hidden.exists()
        (mark,) = leases(table.root)
        elsewhere = {"run": mark.run, "machine": "another", "pid": 1, "beatMs": mark.beat_ms}
        table.root.write_bytes(mark.path, orjson.dumps(elsewhere))
        remove_killed(table, mark.beat_ms + 2 * HOUR_MS)
    assert not hidden.exists()


@pytest.mark.parametrize("work", ["table", "compact"])
def test_writer_that_slept_too_long_commits_nothing(lab: TableLab, monkeypatch: pytest.MonkeyPatch, work: str) -> None:
    """Others, on other machines, may have removed its files as those of one that was killed."""
    for _ in range(2):
        lab.put(8)
        lab.run()
    version = lab.open().version()
    lab.put(8)
    real = time.time
    start = real()
    run = TaskRunner.run

    def slept(self: Any, *arguments: Any) -> Any:
        found = run(self, *arguments)
        monkeypatch.setattr(time, "time", lambda: start + 1_900)
        return found

    monkeypatch.setattr(TaskRunner, "run", slept)
    with pytest.raises(UnavailableError, match="was away for 31 minutes"):
        if work == "table":
            lab.run()
        else:
            compact(None, lab.target())
    monkeypatch.setattr(time, "time", real)
    assert lab.open().version() == version


def test_process_number_alone_says_nothing_about_a_writer(lab: TableLab) -> None:
    nobody = Lease("0123456789abcdef", "", 2**22 + 1, beat_ms=HOUR_MS)
    assert nobody.is_live(HOUR_MS + 1) and not nobody.is_live(3 * HOUR_MS)


def test_files_that_others_name_in_their_way_are_needed(lab: TableLab) -> None:
    if lab.kind == "delta":
        pytest.skip("Delta's files are named by paths below the table")
    from flaremq.pipeline.tables.iceberg.catalog import open_catalog

    lab.put(8)
    lab.run()
    path = lab.data_files()[0].parent / "of-another-engine.parquet"
    pq.write_table(lab.table_of(), path)
    found = open_catalog(lab.target()).load_table(lab.target().parts)
    found.add_files([f"file:{path}"])
    aged(lab)
    expire(lab.target(), retention_ms=0)
    assert path.exists() and len(lab.rows("orders", "queueId")) == 16
