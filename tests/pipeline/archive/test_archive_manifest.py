"""The manifest: commits, snapshots, and what damage to it looks like."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.errors import CorruptionError, InvalidArgumentError, NotFoundError, UnavailableError
from flaremq.pipeline.archive.entries import ArchiveFile, QueueRun
from flaremq.pipeline.archive.manifest import Manifest
from flaremq.pipeline.archive.root import METADATA, ArchiveRoot
from flaremq.pipeline.model.spans import QueueRef, Span

A0 = QueueRef("orders", "broker-a", 0)


def file_of(start: int, end: int, queue: QueueRef = A0) -> ArchiveFile:
    run = QueueRun(queue, start, end, end - start, 100, 1, 2, 1, 2, "0" * 32)
    return ArchiveFile(
        queue.topic, "2023-11-14", f"topic={queue.topic}/{start}.parquet", end - start, 9, "", 0, 0, (run,)
    )


def committed(root: ArchiveRoot, *ranges: tuple[int, int]) -> Manifest:
    manifest = Manifest.load_or_new(root)
    for start, end in ranges:
        manifest.commit([file_of(start, end)])
    return manifest


def test_directory_without_manifest_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="is no archive"):
        Manifest.load(str(tmp_path))


def test_what_is_committed_is_loaded_again(tmp_path: Path) -> None:
    root = ArchiveRoot(str(tmp_path))
    written = committed(root, (0, 10), (20, 30), (10, 15))
    loaded = Manifest.load(root)
    assert loaded.sequence == 3 and loaded.files == written.files
    assert loaded.missing(Span(A0, 5, 40)) == [Span(A0, 15, 20), Span(A0, 30, 40)]
    assert [segment.run.start for segment in loaded.segments(A0, 12, 21)] == [10, 20]
    assert [segment.run.start for segment in loaded.segments(A0, 10, 20)] == [10]


def test_many_commits_end_in_a_snapshot_and_old_ones_go(tmp_path: Path) -> None:
    root = ArchiveRoot(str(tmp_path))
    committed(root, *((at, at + 1) for at in range(150)))
    names = [path.rpartition("/")[2] for path in root.list(METADATA)]
    assert len(names) < 70 and sum("snapshot" in name for name in names) == 2
    loaded = Manifest.load(root)
    assert loaded.missing(Span(A0, 0, 150)) == [] and loaded.sequence == 150


def test_manifest_for_one_topic_skips_the_others_and_takes_no_commit(tmp_path: Path) -> None:
    root = ArchiveRoot(str(tmp_path))
    other = QueueRef('odd"topic', "broker-a", 0)
    Manifest.load_or_new(root).commit([file_of(0, 1), file_of(0, 2, other)])
    loaded = Manifest.load(root, ['odd"topic'])
    assert loaded.queues == [other]
    with pytest.raises(InvalidArgumentError, match="some topics only"):
        loaded.commit([file_of(5, 6)])


def test_offsets_cannot_be_committed_twice(tmp_path: Path) -> None:
    manifest = committed(ArchiveRoot(str(tmp_path)), (0, 10))
    with pytest.raises(InvalidArgumentError, match=r"\[9, 12\) is archived already, as \[0, 10\)"):
        manifest.commit([file_of(9, 12)])


def test_commit_on_an_old_state_is_refused(tmp_path: Path) -> None:
    root = ArchiveRoot(str(tmp_path))
    first, second = Manifest.load_or_new(root), Manifest.load_or_new(root)
    first.commit([file_of(0, 1)])
    assert second.is_stale
    with pytest.raises(UnavailableError, match="changed by another writer"):
        second.commit([file_of(0, 1)])


def test_commit_cut_short_or_changed_is_told_as_damage(tmp_path: Path) -> None:
    root = ArchiveRoot(str(tmp_path))
    committed(root, (0, 10))
    path = tmp_path / METADATA / "manifest-0000000001.delta.jsonl"
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole.replace(b'"to":10', b'"to":11'), b""):
        path.write_bytes(damaged)
        with pytest.raises(CorruptionError, match="manifest-0000000001"):
            Manifest.load(root)


def test_commit_that_is_missing_is_told(tmp_path: Path) -> None:
    root = ArchiveRoot(str(tmp_path))
    committed(root, (0, 10), (10, 20), (20, 30))
    root.delete(f"{METADATA}/manifest-0000000002.delta.jsonl")
    with pytest.raises(CorruptionError, match="a commit of the archive is missing"):
        Manifest.load(root)
