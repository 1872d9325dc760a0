"""A scan reads what is asked for and little else."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.pipeline.model.source import TopicSelector
from flaremq.storage.files.handles import OpenFiles
from tests.support.store_lab import StoreLab
from tests.support.store_rows import (
    UNIT_COLUMNS,
    read_rows,
    source_of,
    spans_of,
)


def count_reads(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[int]:
    sizes: list[int] = []
    plain = OpenFiles.read

    def counting(self: OpenFiles, path: str, file_offset: int, length: int) -> bytes:
        data = plain(self, path, file_offset, length)
        if path.startswith(str(folder)):
            sizes.append(len(data))
        return data

    monkeypatch.setattr(OpenFiles, "read", counting)
    return sizes


def test_unit_columns_touch_no_page_of_the_log(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.open()
    lab.put_many(50)
    lab.store.tick()
    read = count_reads(monkeypatch, lab.root / "commitlog")
    with source_of(lab.root) as source:
        spans = spans_of(source)
        read.clear()
        assert len(read_rows(source, spans, UNIT_COLUMNS)) == 50
        assert read_rows(source, spans, tags=["nobody has it"]) == []
    assert read == []


def test_without_body_large_bodies_are_not_read(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.open(mapped_file_size_commit_log=4 << 20, max_message_size=1 << 20)
    for _ in range(10):
        lab.put(b"b" * 300_000, properties={"a": "b"}, tags="T")
    lab.store.tick()
    read = count_reads(monkeypatch, lab.root / "commitlog")
    with source_of(lab.root) as source:
        spans = spans_of(source)
        read.clear()
        rows = read_rows(source, spans, ["queueOffset", "properties", "storeTimestamp"], tags=["T"])
    assert [row["properties"]["a"] for row in rows] == ["b"] * 10
    assert sum(read) < 10_000


def test_a_time_is_found_by_halves_and_nothing_else_is_searched(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.open()
    for _ in range(500):
        lab.put(b"x")
    lab.store.tick()
    with source_of(lab.root) as source:
        (extent,) = source.extents(TopicSelector())
        (when,) = {row["storeTimestamp"] for row in read_rows(source, spans_of(source), ["storeTimestamp"])[:1]}
        read = count_reads(monkeypatch, lab.root)
        assert source.offset_by_time(extent.queue, int(when.timestamp() * 1000) + 1_000_000) == 500
    assert len(read) <= 2 * 10  # a unit and a record at each of log2(500) places


def test_cost_follows_the_bytes_asked_for_not_the_bytes_stored(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.open(mapped_file_size_commit_log=1 << 20)
    for number in range(200):
        lab.put(b"wanted", topic="thin") if number % 20 == 0 else lab.put(b"x" * 3500, topic="thick")
    lab.store.tick()
    read = count_reads(monkeypatch, lab.root / "commitlog")
    with source_of(lab.root) as source:
        spans = spans_of(source, TopicSelector(("thin",)))
        read.clear()
        assert len(read_rows(source, spans, ["body"])) == 10
    assert sum(read) < 10 * 500


def test_a_needle_reads_little_of_the_log(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.open()
    lab.put(b"needle", keys="k2", topic="a")
    lab.fill_files(20, topic="a", keys="filler")
    lab.store.tick()
    read = count_reads(monkeypatch, lab.root / "commitlog")
    with source_of(lab.root) as source:
        spans = spans_of(source)
        read.clear()
        assert len(read_rows(source, spans, ["body"], keys=["k2"])) == 1
    assert sum(read) < 8192
