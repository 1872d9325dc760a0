"""Merging the small files of an archive: the same rows under the same offsets, killed wherever it may be."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from flaremq.errors import CorruptionError, UnavailableError
from flaremq.pipeline.archive.manifest import Manifest
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.jobs.archive import compact as module
from flaremq.pipeline.jobs.archive.compact import ArchiveCompaction, compact_archive
from flaremq.pipeline.jobs.archive.job import archived_ranges
from flaremq.pipeline.model.spans import QueueRef
from flaremq.pipeline.sources.archive import ArchiveSource
from tests.pipeline.memory_source import DAY_MS, NOON, CrashError, MemorySource, rows_of, run_increment

A0, A1 = QueueRef("orders", "broker-a", 0), QueueRef("orders", "broker-a", 1)
USERS = QueueRef("users", "broker-a", 0)


def grown(out: Path, increments: int = 4) -> MemorySource:
    """A file a topic and increment, over two days."""
    source = MemorySource()
    for number in range(increments):
        for queue in (A0, A1, USERS):
            source.put(queue, 10, time_ms=NOON + number // 2 * DAY_MS)
        source.skip(A0, 3)
        run_increment(source, out)
    return source


def merged(out: Path, **settings: Any) -> ArchiveCompaction:
    return compact_archive(None, str(out), **settings)


def data_files(out: Path) -> list[Path]:
    return sorted(path for path in out.rglob("*.parquet"))


def archived(out: Path) -> list[dict[str, Any]]:
    with ArchiveSource(str(out)) as archive:
        return rows_of(archive)


def test_small_files_of_a_day_become_one_with_the_same_rows(tmp_path: Path) -> None:
    source = grown(tmp_path)
    before, ranges = archived(tmp_path), archived_ranges(Manifest.load(str(tmp_path)))
    result = merged(tmp_path)
    assert (result.files_before, result.files_after, result.merged, result.written) == (8, 4, 8, 4)
    assert len(data_files(tmp_path)) == 4
    assert archived(tmp_path) == before == rows_of(source)
    assert archived_ranges(Manifest.load(str(tmp_path))) == ranges


def test_merged_files_are_sorted_and_their_runs_are_one(tmp_path: Path) -> None:
    grown(tmp_path)
    merged(tmp_path)
    for path in data_files(tmp_path):
        rows = pq.read_table(path, columns=["queueId", "queueOffset"], partitioning=None).to_pylist()
        assert rows == sorted(rows, key=lambda row: (row["queueId"], row["queueOffset"]))
    manifest = Manifest.load(str(tmp_path))
    assert [len(manifest.segments(queue)) for queue in (A0, A1, USERS)] == [2, 2, 2]


def test_archive_goes_on_behind_what_was_merged(tmp_path: Path) -> None:
    source = grown(tmp_path)
    merged(tmp_path)
    assert merged(tmp_path).commits == 0
    source.put(A1, 5)
    run_increment(source, tmp_path)
    assert archived(tmp_path) == rows_of(source)


def test_only_topics_that_are_named_are_merged(tmp_path: Path) -> None:
    grown(tmp_path)
    assert merged(tmp_path, topics=["users"]).merged == 4
    assert len(data_files(tmp_path / "topic=orders")) == 4


def test_files_end_where_they_are_full_and_commits_where_they_are_large(tmp_path: Path) -> None:
    source = grown(tmp_path, increments=8)
    size = max(module._cost(file) for file in Manifest.load(str(tmp_path)).files)
    result = merged(tmp_path, file_bytes=2 * size, commit_bytes=1)
    assert result.commits == 8 and result.files_after == 8
    assert archived(tmp_path) == rows_of(source)


def test_reader_that_planned_before_still_finds_its_files(tmp_path: Path) -> None:
    source = grown(tmp_path)
    with ArchiveSource(str(tmp_path)) as archive:
        archive.manifest(None)
        merged(tmp_path)
        assert rows_of(archive) == rows_of(source)


def test_files_that_were_set_aside_go_when_readers_have_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grown(tmp_path)
    merged(tmp_path)
    assert len(list(tmp_path.rglob("*.replaced"))) == 8
    merged(tmp_path)
    assert len(list(tmp_path.rglob("*.replaced"))) == 8
    monkeypatch.setattr(module, "_SET_ASIDE_MS", -1000)
    merged(tmp_path)
    assert list(tmp_path.rglob("*.replaced")) == []


def test_merging_is_refused_while_another_job_writes(tmp_path: Path) -> None:
    grown(tmp_path)
    with ArchiveRoot(str(tmp_path)).locked(), pytest.raises(UnavailableError, match="being written"):
        merged(tmp_path)


def test_damaged_file_is_told_and_nothing_is_merged(tmp_path: Path) -> None:
    grown(tmp_path)
    files = data_files(tmp_path)
    data = bytearray(files[0].read_bytes())
    data[40] ^= 0xFF
    files[0].write_bytes(data)
    sequence = Manifest.load(str(tmp_path)).sequence
    with pytest.raises(CorruptionError):
        merged(tmp_path)
    assert Manifest.load(str(tmp_path)).sequence == sequence
    assert set(files) <= set(data_files(tmp_path))


STEPS = (
    (module, "begin"),
    (module, "run_archive_task"),
    (module, "_check"),
    (Manifest, "replace"),
    (ArchiveRoot, "set_aside"),
    (module, "clear_traces"),
    (ArchiveRoot, "write_bytes"),
    (ArchiveRoot, "create_bytes"),
)


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize(("owner", "name"), STEPS, ids=[name for _, name in STEPS])
def test_run_that_ends_at_any_step_loses_nothing(
    tmp_path: Path, owner: Any, name: str, is_done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = grown(tmp_path)
    real = getattr(owner, name)
    pending = [True]

    def crash(*arguments: Any, **named: Any) -> Any:
        if not pending:
            return real(*arguments, **named)
        pending.clear()
        if is_done:
            real(*arguments, **named)
        raise CrashError

    with monkeypatch.context() as patched, pytest.raises(CrashError):
        patched.setattr(owner, name, crash)
        merged(tmp_path)
    assert archived(tmp_path) == rows_of(source)
    shutil.copytree(tmp_path, tmp_path / "copy")
    source.put(A0, 4)
    run_increment(source, tmp_path / "copy")
    assert archived(tmp_path / "copy") == rows_of(source), "the next run goes on"
    merged(tmp_path / "copy")
    assert len(list(tmp_path.glob("copy/**/*.replaced"))) >= 8, "who planned before finds them for a day"
    assert list(tmp_path.glob("copy/_flaremq/pending/*")) == []
    named = {file.path for file in Manifest.load(str(tmp_path / "copy")).files}
    assert {path.relative_to(tmp_path / "copy").as_posix() for path in data_files(tmp_path / "copy")} == named
    assert archived(tmp_path / "copy") == rows_of(source)
