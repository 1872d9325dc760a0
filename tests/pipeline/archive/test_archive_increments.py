"""Bringing an archive up to the log: what is taken, what a crash leaves, what a gap means."""

from __future__ import annotations

import os
import re
import zlib
from pathlib import Path

import orjson
import pytest

from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.pipeline.archive.manifest import Manifest
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.archive.row_digest import RowDigest, digest_batch
from flaremq.pipeline.jobs.archive.buffer import day_text
from flaremq.pipeline.jobs.archive.increment import check_archive_options
from flaremq.pipeline.model.columns import SCHEMA
from flaremq.pipeline.model.source import ReadRequest
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.options import ScanOptions
from flaremq.pipeline.sources.archive import ArchiveSource
from tests.pipeline.memory_source import (
    DAY_MS,
    EVERYTHING,
    NOON,
    CrashError,
    MemorySource,
    rows_of,
    run_increment,
)

A0, A1 = QueueRef("orders", "broker-a", 0), QueueRef("orders", "broker-a", 1)
LENIENT = ScanOptions(path="a-store", fail_on_data_loss=False)
RETRY = QueueRef("%RETRY%billing", "broker-a", 0)


def filled(*queues: QueueRef, count: int = 20) -> MemorySource:
    source = MemorySource()
    for queue in queues:
        source.put(queue, count)
    return source


def data_files(out: Path) -> list[str]:
    return sorted(
        path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file() and "_flaremq" not in path.parts
    )


def test_archive_holds_every_row_of_every_column(tmp_path: Path) -> None:
    source = filled(A0, A1, RETRY)
    run_increment(source, tmp_path / "archive")
    with ArchiveSource(str(tmp_path / "archive")) as archive:
        assert rows_of(archive) == rows_of(source)


def test_second_run_takes_only_what_is_new(tmp_path: Path) -> None:
    source = filled(A0, A1)
    run_increment(source, tmp_path)
    assert run_increment(source, tmp_path).spans == []
    source.put(A1, 5)
    assert run_increment(source, tmp_path).spans == [Span(A1, 20, 25)]
    with ArchiveSource(str(tmp_path)) as archive:
        assert rows_of(archive) == rows_of(source)


def test_rows_lie_under_the_utc_day_they_were_stored_on(tmp_path: Path) -> None:
    source = MemorySource()
    source.put(A0, 3, time_ms=NOON)
    source.put(A0, 2, time_ms=NOON + DAY_MS)
    source.put(A0, 4, time_ms=NOON)  # the clock went back
    source.put(RETRY, 1, time_ms=NOON)
    run_increment(source, tmp_path)
    assert [path.rsplit("/", 1)[0] for path in data_files(tmp_path)] == [
        "topic=%25RETRY%25billing/day=2023-11-14",
        "topic=orders/day=2023-11-14",
        "topic=orders/day=2023-11-15",
    ]
    runs = [segment.run for segment in Manifest.load(str(tmp_path)).segments(A0)]
    assert [(run.start, run.end, run.messages) for run in runs] == [(0, 3, 3), (3, 5, 2), (5, 9, 4)]
    with ArchiveSource(str(tmp_path)) as archive:
        assert rows_of(archive) == rows_of(source)


def test_offsets_without_a_message_are_covered_and_counted_as_none(tmp_path: Path) -> None:
    source = MemorySource()
    source.skip(A0, 4)
    source.put(A0, 3)
    source.skip(A0, 2)
    source.put(A0, 1)
    source.skip(A0, 5)
    source.skip(A1, 6)
    run_increment(source, tmp_path)
    manifest = Manifest.load(str(tmp_path))
    assert manifest.missing(Span(A0, 0, 15)) == [] and manifest.missing(Span(A1, 0, 6)) == []
    assert sum(segment.run.messages for segment in manifest.segments(A0)) == 4
    assert run_increment(source, tmp_path).spans == []
    with ArchiveSource(str(tmp_path)) as archive:
        assert rows_of(archive) == rows_of(source)


@pytest.mark.parametrize("finished", [0, 1, 3, 4])
def test_run_killed_before_its_commit_loses_no_finished_task(tmp_path: Path, finished: int) -> None:
    source = filled(A0, RETRY, count=40)
    source.row_bytes = 1 << 20  # four tasks
    with pytest.raises(CrashError):
        run_increment(source, tmp_path, crash_after_tasks=finished, parallelism=2)
    source.put(A0, 3)
    again = run_increment(source, tmp_path)
    covered = sum(run.end - run.start for file in again.recovered for run in file.runs)
    assert sum(span.end - span.start for span in again.spans) == 83 - covered
    assert (covered > 0) == (finished > 0)
    with ArchiveSource(str(tmp_path)) as archive:
        assert rows_of(archive) == rows_of(source)
    assert data_files(tmp_path) == sorted(file.path for file in Manifest.load(str(tmp_path)).files if file.path)
    assert not os.listdir(tmp_path / "_flaremq" / "pending")


def test_crash_between_commit_and_cleaning_changes_nothing(tmp_path: Path) -> None:
    source = filled(A0)
    run_increment(source, tmp_path, crash_before_cleaning=True)
    before = data_files(tmp_path)
    again = run_increment(source, tmp_path)
    assert (again.recovered, again.spans, data_files(tmp_path)) == ([], [], before)


def test_files_that_no_commit_names_are_removed(tmp_path: Path) -> None:
    source = filled(A0)
    with pytest.raises(CrashError):
        run_increment(source, tmp_path, crash_after_tasks=1)
    receipt = next((tmp_path / "_flaremq" / "pending").glob("*.receipt.json"))
    receipt.unlink()  # the task died after its file and before its receipt
    (tmp_path / data_files(tmp_path)[0]).with_name(".half.parquet.0.tmp").write_bytes(b"half")
    source.put(A0)  # so that the next run writes under other names
    run_increment(source, tmp_path)
    assert data_files(tmp_path) == [file.path for file in Manifest.load(str(tmp_path)).files]


def test_repeated_task_writes_the_same_bytes_however_the_source_cuts_batches(tmp_path: Path) -> None:
    contents = []
    for at, batch_rows in enumerate((3, 7, 1000)):
        source = MemorySource(batch_rows=batch_rows)
        source.put(A0, 50)
        source.put(A1, 50)
        run_increment(source, tmp_path / str(at), buffer_bytes=8000)
        files = Manifest.load(str(tmp_path / str(at))).files
        assert len(files) > 3, "the buffer was full several times"
        contents.append(sorted((file.path, file.sha256, file.runs) for file in files))
    assert contents[0] == contents[1] == contents[2]


def test_digest_of_the_runs_is_that_of_the_rows(tmp_path: Path) -> None:
    source = filled(A0, A1, count=33)
    run_increment(source, tmp_path, buffer_bytes=5000)
    manifest = Manifest.load(str(tmp_path))
    for queue in (A0, A1):
        runs = [segment.run for segment in manifest.segments(queue)]
        total = sum((RowDigest.from_text(run.messages, run.digest) for run in runs), RowDigest())
        read = (digest_batch(batch) for batch in source.read([Span(queue, 0, 33)], EVERYTHING))
        assert total == sum(read, RowDigest())


def test_retention_that_overtook_the_archive_is_an_error(tmp_path: Path) -> None:
    source = filled(A0)
    run_increment(source, tmp_path)
    source.put(A0, 20)
    source.delete_below(A0, 30)
    with pytest.raises(UnavailableError, match=r"begins at 30, but the archive lacks 20 to 30.*failOnDataLoss=false"):
        run_increment(source, tmp_path)


def test_gap_is_recorded_once_when_data_loss_is_allowed(tmp_path: Path) -> None:
    source = filled(A0)
    run_increment(source, tmp_path)
    source.put(A0, 20)
    source.delete_below(A0, 30)
    lenient = ScanOptions(path="a-store", fail_on_data_loss=False)
    assert run_increment(source, tmp_path, lenient).spans == [Span(A0, 30, 40)]
    source.put(A0, 1)
    assert run_increment(source, tmp_path).spans == [Span(A0, 40, 41)], "a gap that is on record is no error again"
    assert [gap.span for gap in Manifest.load(str(tmp_path)).gaps] == [Span(A0, 20, 30)]


def test_messages_that_cannot_be_read_are_a_recorded_gap(tmp_path: Path) -> None:
    source = filled(A0, count=20)
    source.skip(A0, 3)
    source.put(A0, 7)
    source.damaged = {(A0, 0), (A0, 1), (A0, 9), (A0, 29)}
    increment = run_increment(source, tmp_path, LENIENT)
    manifest = Manifest.load(str(tmp_path))
    gaps = [(gap.span[1:], gap.reason) for gap in manifest.gaps]
    assert sorted(gaps) == [((0, 2), "unreadable"), ((9, 10), "unreadable"), ((29, 30), "unreadable")]
    runs = [(run.start, run.end, run.messages) for file in increment.files for run in file.runs]
    assert sorted(runs) == [(2, 9, 7), (10, 29, 16)]  # offsets that never had a message are covered
    with ArchiveSource(str(tmp_path)) as archive:
        with pytest.raises(UnavailableError, match=r"offsets 9 to 10 of queue .* failOnDataLoss"):
            rows_of(archive)
        spans = [Span(A0, 0, 30)]
        assert rows_of(archive, spans, ReadRequest(SCHEMA, fail_on_data_loss=False)) == rows_of(source, spans)
    again = run_increment(source, tmp_path, LENIENT)
    assert (again.spans, len(Manifest.load(str(tmp_path)).gaps)) == ([], 3)
    source.put(A0, 1)
    assert run_increment(source, tmp_path).spans == [Span(A0, 30, 31)]  # what is recorded stops nobody any more


def test_gap_of_a_run_that_was_killed_is_recorded_by_the_next(tmp_path: Path) -> None:
    source = filled(A0, count=10)
    source.damaged = {(A0, 4)}
    with pytest.raises(CrashError):
        run_increment(source, tmp_path, LENIENT, crash_after_tasks=1)
    run_increment(source, tmp_path, LENIENT)
    assert [gap.span for gap in Manifest.load(str(tmp_path)).gaps] == [Span(A0, 4, 5)]


@pytest.mark.parametrize("length", [11, 15])
def test_topic_that_was_made_anew_and_grew_past_its_archive_is_another_one(tmp_path: Path, length: int) -> None:
    source = filled(A0, count=10)
    run_increment(source, tmp_path)
    anew = MemorySource()
    anew.put(A0, length)
    for value in anew.rows[A0].values():
        value["physicalOffset"] += 50_000
    anew.put(A1, 3)
    with pytest.raises(UnavailableError, match=r"message 9 of queue .* deleted and made anew, or this is not"):
        run_increment(anew, tmp_path)
    assert run_increment(anew, tmp_path, LENIENT).spans == [Span(A1, 0, 3)]
    source.put(A0, 5)
    assert run_increment(source, tmp_path).spans == [Span(A0, 10, 15)]


def test_archive_from_before_places_were_kept_is_held_against_times(tmp_path: Path) -> None:
    source = filled(A0, count=10)
    run_increment(source, tmp_path)
    for path in (tmp_path / "_flaremq").glob("manifest-*"):
        *lines, _ = path.read_bytes().splitlines()
        kept = [re.sub(rb',"last(Queue|Physical)Offset":\d+', b"", line) for line in lines]
        content = b"\n".join(kept) + b"\n"
        end = {"end": len(kept) - 1, "crc32": zlib.crc32(content)}
        path.write_bytes(content + orjson.dumps(end) + b"\n")
    source.put(A0, 1)
    assert run_increment(source, tmp_path).spans == [Span(A0, 10, 11)]
    anew = MemorySource()
    anew.put(A0, 20, time_ms=NOON + 1_000_000)
    with pytest.raises(UnavailableError, match="message 10 of queue"):
        run_increment(anew, tmp_path)


def test_queue_that_shrank_is_refused(tmp_path: Path) -> None:
    run_increment(filled(A0), tmp_path)
    with pytest.raises(UnavailableError, match="ends at 5, but the archive holds it up to 20"):
        run_increment(filled(A0, count=5), tmp_path)


def test_two_writers_at_a_time_are_refused(tmp_path: Path) -> None:
    with ArchiveRoot(str(tmp_path)).locked(), pytest.raises(UnavailableError, match="by another process"):
        run_increment(filled(A0), tmp_path)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"keys": "k"}, "keys"),
        ({"columns": "topic"}, "columns"),
        ({"sub_expression": "A || B"}, "subExpression"),
        ({"starting_offsets": "latest"}, "latest"),
        ({"archive": "out/"}, "into itself"),
    ],
)
def test_options_that_would_archive_a_part_are_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidArgumentError, match=told):
        check_archive_options(ScanOptions(path="a-store", **given), "out")


def test_a_day_beyond_every_calendar_is_a_folder_too() -> None:
    """A record's store time is in no checksum: one that is off must not end the archive of all others."""
    assert (day_text(0), day_text(19_723), day_text(-1)) == ("1970-01-01", "2024-01-01", "1969-12-31")
    assert day_text(3_000_000) == "10183-09-21"
    assert day_text(-1_000_000) == "-768-02-04"
