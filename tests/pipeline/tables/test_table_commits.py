"""What a commit costs does not grow with the number of commits before it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import ManifestWriter
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from flaremq.pipeline.jobs.table import table
from tests.pipeline.tables.lab import TableLab

_FACTOR = 4  # manifests of a kind that are merged


@pytest.fixture
def iceberg(tmp_path: Path) -> TableLab:
    return TableLab(tmp_path, "iceberg")


def _opened(lab: TableLab) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{lab.lake}/catalog.db", warehouse=f"file://{lab.lake}")
    return catalog.load_table("sales.orders")


def _follow(lab: TableLab, commits: int, on_commit: Callable[[], object] = lambda: None) -> None:
    stop, left = threading.Event(), iter(range(commits))
    lab.put(4)

    def more(_: object) -> None:
        on_commit()
        if next(left) == commits - 1:
            stop.set()
        else:
            lab.put(4)

    table(None, lab.options(), lab.target(), follow=True, interval=0.001, stop=stop, on_commit=more)


def _counting(monkeypatch: pytest.MonkeyPatch, of: type, name: str) -> Callable[[], int]:
    """How often it was called since that was asked last."""
    calls: list[None] = []
    real: Any = getattr(of, name)

    def counted(*arguments: Any, **named: Any) -> Any:
        calls.append(None)
        return real(*arguments, **named)

    def since() -> int:
        count = len(calls)
        calls.clear()
        return count

    monkeypatch.setattr(of, name, counted)
    return since


def test_manifests_are_merged_with_their_like_so_files_are_written_down_anew_a_few_times_only(
    iceberg: TableLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    _follow(iceberg, 1)
    sizes = {"commit.manifest.min-count-to-merge": str(_FACTOR), "commit.manifest.target-size-bytes": "60000"}
    with _opened(iceberg).transaction() as transaction:
        transaction.set_properties(sizes)
    anew = _counting(monkeypatch, ManifestWriter, "existing")
    _follow(iceberg, 40)
    assert 0 < anew() <= 40 * 3, "once for each time the table has grown by the factor"
    manifests = _opened(iceberg).current_snapshot().manifests(_opened(iceberg).io)  # type: ignore[union-attr]
    assert len(manifests) <= 4 * _FACTOR
    assert sum((each.added_files_count or 0) + (each.existing_files_count or 0) for each in manifests) == 41
    assert iceberg.offsets() == iceberg.expected_offsets()


def test_manifests_that_are_too_large_together_are_merged_as_far_as_they_fit(iceberg: TableLab) -> None:
    _follow(iceberg, 1)
    (first,) = _opened(iceberg).current_snapshot().manifests(_opened(iceberg).io)  # type: ignore[union-attr]
    target = first.manifest_length * 7 // 2
    sizes = {"commit.manifest.min-count-to-merge": "4", "commit.manifest.target-size-bytes": str(target)}
    with _opened(iceberg).transaction() as transaction:
        transaction.set_properties(sizes)
    _follow(iceberg, 20)
    manifests = _opened(iceberg).current_snapshot().manifests(_opened(iceberg).io)  # type: ignore[union-attr]
    assert len(manifests) <= 10
    assert all(each.manifest_length <= target for each in manifests)
    assert sum((each.added_files_count or 0) + (each.existing_files_count or 0) for each in manifests) == 21
    assert iceberg.offsets() == iceberg.expected_offsets()


def test_catalog_is_asked_as_often_for_a_late_commit_as_for_an_early_one(
    iceberg: TableLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = _counting(monkeypatch, SqlCatalog, "load_table")
    counts: list[int] = []
    _follow(iceberg, 8, lambda: counts.append(loads()))
    assert counts[1:] == [3] * 7, "what the table covers, whether there are dead letters, and the commit itself"


def test_commit_copies_what_is_known_of_earlier_ones_once(iceberg: TableLab, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = _counting(monkeypatch, Snapshot, "__deepcopy__")
    counts: list[int] = []
    _follow(iceberg, 8, lambda: counts.append(copies()))
    assert counts == [1, 2, 3, 4, 5, 6, 7, 8], "by the catalog, which PyIceberg brings along"


def test_old_parts_of_deltas_log_are_looked_for_behind_checkpoints_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = TableLab(tmp_path, "delta")
    real: Any = DeltaTable.create_write_transaction
    looked: list[int] = []

    def write(self: DeltaTable, *arguments: Any, post_commithook_properties: Any = None, **named: Any) -> None:
        if post_commithook_properties is None or post_commithook_properties.cleanup_expired_logs is None:
            looked.append(self.version() + 1)
        real(self, *arguments, post_commithook_properties=post_commithook_properties, **named)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", write)
    _follow(lab, 42)
    log = lab.lake / "orders" / "_delta_log"
    checkpoints = [int(path.name.partition(".")[0]) for path in log.glob("*.checkpoint.parquet")]
    assert sorted(checkpoints) == [19, 39]
    assert looked == [20, 40]
    assert lab.offsets() == lab.expected_offsets()
