"""Merging small files: the same rows in fewer files, whoever writes meanwhile and whenever it is killed."""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flaremq.pipeline.archive.row_digest import RowDigest, digest_batch
from flaremq.pipeline.jobs.table.compact import CompactResult, compact
from flaremq.pipeline.model.columns import SCHEMA
from flaremq.pipeline.model.spans import QueueRef
from tests.pipeline.tables.lab import HOUR_MS, TableLab


def filled(lab: TableLab, runs: int = 3, **settings: Any) -> None:
    """A file a run."""
    for _ in range(runs):
        lab.put(8)
        lab.run(**settings)


def merged(lab: TableLab, name: str = "orders", **settings: Any) -> CompactResult:
    return compact(None, lab.target(name), **settings)


def digest(lab: TableLab, name: str = "orders") -> RowDigest:
    table = lab.table_of(name).select(SCHEMA.names).cast(SCHEMA)
    return sum((digest_batch(batch) for batch in table.to_batches()), RowDigest())


def live(lab: TableLab, name: str = "orders") -> list[str]:
    return [file.location for file in lab.open(name).live_files()]


def test_small_files_become_one_with_the_same_rows(lab: TableLab) -> None:
    filled(lab)
    before = digest(lab)
    result = merged(lab)
    assert (result.files_before, result.files_after, result.merged, result.rows) == (3, 1, 3, 24)
    assert digest(lab) == before and before.count == 24
    assert lab.offsets() == lab.expected_offsets()


def test_merged_files_are_sorted_by_queue_and_offset(lab: TableLab) -> None:
    filled(lab)
    merged(lab)
    (location,) = live(lab)
    columns = ["brokerName", "queueId", "queueOffset"]
    rows = pq.read_table(location.removeprefix("file://"), columns=columns, partitioning=None).to_pylist()
    assert rows == sorted(rows, key=lambda row: tuple(row[name] for name in columns))
    assert len(rows) == 24


def test_what_is_large_or_alone_is_left_as_it_is(lab: TableLab) -> None:
    filled(lab)
    merged(lab)
    before = live(lab)
    assert merged(lab).commits == 0
    lab.put(8)
    lab.run()
    assert merged(lab, target_bytes=10).commits == 0
    assert set(before) < set(live(lab))


def test_merge_takes_its_room_where_the_table_is(lab: TableLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.put()
    lab.run()
    lab.put()
    lab.run()
    monkeypatch.setattr(tempfile, "tempdir", str(lab.lake / "no such folder"))
    assert compact(None, lab.target()).files_after == 1


@pytest.mark.parametrize("lacking", ["files without a name", "maps"])
def test_merge_takes_its_room_elsewhere_where_the_tables_file_system_cannot(
    lab: TableLab, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    filled(lab)
    theirs: list[int] = []
    real_file, real_map = tempfile.TemporaryFile, mmap.mmap

    def file(*arguments: Any, dir: str | None = None, **named: Any) -> Any:
        if dir is not None and lacking != "maps":
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        made = real_file(*arguments, dir=dir, **named)
        if dir is not None:
            theirs.append(os.fstat(made.fileno()).st_ino)
        return made

    def mapped(descriptor: int, *arguments: Any, **named: Any) -> Any:
        if os.fstat(descriptor).st_ino in theirs:
            raise OSError(errno.ENODEV, "No such device")
        return real_map(descriptor, *arguments, **named)

    monkeypatch.setattr(tempfile, "TemporaryFile", file)
    monkeypatch.setattr(mmap, "mmap", mapped)
    assert merged(lab).files_after == 1
    assert lab.offsets() == lab.expected_offsets()
    assert lab.offsets() == lab.expected_offsets()


def test_partitions_are_kept_apart(lab: TableLab) -> None:
    for _ in range(2):
        lab.put(24, step_ms=HOUR_MS)
        lab.run(partition_by="day(storeTimestamp),tags")
    before = digest(lab)
    result = merged(lab)
    assert result.files_after < result.files_before
    folders = {tuple(location.split("/")[-3:-1]) for location in live(lab)}
    assert len(folders) == result.files_after
    assert digest(lab) == before


def test_table_knows_what_it_covers_after_it_was_compacted(lab: TableLab) -> None:
    filled(lab)
    merged(lab)
    queue = QueueRef("orders", "broker-a", 0)
    assert lab.open().coverage([queue])[queue][:2] == (0, 6)
    assert lab.run().commits == 0
    lab.put(4)
    assert lab.run().rows == 4
    assert lab.offsets() == lab.expected_offsets()


def test_rows_written_meanwhile_stay(lab: TableLab, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(lab)
    table = type(lab.open())
    real = table.replace
    pending = [lambda: (lab.put(8), lab.run())]

    def replace(self: Any, *arguments: Any) -> bool:
        if pending:
            pending.pop()()
        return bool(real(self, *arguments))

    monkeypatch.setattr(table, "replace", replace)
    assert merged(lab).rows == 24
    assert lab.offsets() == lab.expected_offsets()


def test_slower_of_two_compactions_changes_nothing(lab: TableLab, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(lab)
    before = digest(lab)
    table = type(lab.open())
    real = table.replace
    pending = [lambda: merged(lab)]

    def replace(self: Any, *arguments: Any) -> bool:
        if pending:
            pending.pop()()
        return bool(real(self, *arguments))

    monkeypatch.setattr(table, "replace", replace)
    assert merged(lab).commits == 0
    assert digest(lab) == before
    held = {path for path in lab.open().root.list("", recursive=True) if path.endswith(".parquet")}
    assert len(held) == 4, "the file of the slower one is removed"


def test_columns_that_came_later_are_null_in_rows_from_before(lab: TableLab) -> None:
    def run(ddl: str) -> None:
        from flaremq.pipeline.jobs.table import table

        table(None, lab.options("orders", bodyFormat="json", bodySchema=ddl), lab.target())

    lab.put(bodies=[b'{"id": "a", "at": {"city": "Paris"}}'])
    run("id string, at struct<city: string>")
    lab.put(bodies=[b'{"id": "b", "at": {"city": "Rome", "zip": 42}, "more": 1}'])
    run("id string, at struct<city: string, zip: bigint>, more int")
    before = lab.rows("orders", "id", "at", "more", "queueId", "queueOffset")
    assert merged(lab).files_after == 1
    assert lab.rows("orders", "id", "at", "more", "queueId", "queueOffset") == before
    assert before[0]["at"] == {"city": "Paris", "zip": None}


def test_rows_of_overlapping_files_are_sorted_too(lab: TableLab) -> None:
    """Files of another engine may hold any rows: here all odd and all even ones."""
    filled(lab, runs=2)
    order = job_order(lab)
    assert order == sorted(order)


def job_order(lab: TableLab) -> list[int]:
    from flaremq.pipeline.jobs.table.merge import _Order

    order = _Order()
    batches = []
    for offsets in ([0, 2, 4], [1, 3, 5]):
        columns = [pa.repeat("t", 3), pa.repeat("b", 3), pa.array([1] * 3, pa.int32()), pa.array(offsets, pa.int64())]
        batches.append(pa.RecordBatch.from_arrays(columns, ["topic", "brokerName", "queueId", "queueOffset"]))
        order.add(batches[-1])
    found: list[int] = []
    for batch, first, count in order.pieces():
        found += batches[batch].column("queueOffset").to_pylist()[first : first + count]
    assert len(found) == 6
    return found


def test_commit_in_parts_when_there_is_much(lab: TableLab) -> None:
    filled(lab, partition_by="tags")
    result = merged(lab, commit_bytes=1)
    assert result.commits == 3 and lab.offsets() == lab.expected_offsets()


def test_iceberg_readers_of_changes_are_told_that_no_row_changed(lab: TableLab) -> None:
    filled(lab, runs=2)
    merged(lab)
    if lab.kind == "delta":
        from deltalake import DeltaTable

        added = DeltaTable(str(lab.lake / "orders")).history(1)[0]
        assert added["flaremq.run"]
        return
    snapshot = lab.open()._table.current_snapshot()  # type: ignore[attr-defined]
    assert snapshot.summary.operation.value == "replace"
    assert snapshot.summary["total-records"] == "16"
