"""A store held against its archive: the same messages, or which range is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.pipeline.archive.entries import UNREADABLE, ArchiveGap
from flaremq.pipeline.archive.manifest import Manifest
from flaremq.pipeline.jobs.verify.job import VerifyResult, verify
from flaremq.pipeline.model.source import SourceSpec
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.options import ScanOptions
from flaremq.pipeline.sources.store import StoreSource
from tests.pipeline.memory_source import OPTIONS, run_increment
from tests.support.proof_lab import SIZES, corpus
from tests.support.store_lab import StoreLab


@pytest.fixture
def lab(tmp_path: Path) -> StoreLab:
    return corpus(tmp_path / "store", 6, foreign=False)


def archive(lab: StoreLab, out: Path, options: ScanOptions = OPTIONS) -> None:
    with StoreSource(SourceSpec(paths=(("broker-a", str(lab.root)),), geometry=SIZES)) as source:
        run_increment(source, out, options)  # type: ignore[arg-type]  # any source will do


def held_against(lab: StoreLab, out: Path) -> VerifyResult:
    return verify(None, path=str(lab.root), archive=str(out), properties=SIZES)


def test_a_store_agrees_with_its_archive(lab: StoreLab, tmp_path: Path) -> None:
    archive(lab, tmp_path / "archive")
    result = held_against(lab, tmp_path / "archive")
    assert (result.verdict, result.differences) == ("sound", ())
    assert result.archived_equal
    assert result.archived_equal > 80


def test_system_topics_that_were_archived_are_held_against_it_too(lab: StoreLab, tmp_path: Path) -> None:
    lab.open()
    lab.put_many(5, topic="SCHEDULE_TOPIC_XXXX", queue_id=2)
    lab.close()
    archive(lab, tmp_path / "archive", ScanOptions(path="a-store", subscribe_pattern=".*"))
    result = held_against(lab, tmp_path / "archive")
    assert (result.verdict, result.differences) == ("sound", ())
    queues = [str(queue) for queue in Manifest.load(str(tmp_path / "archive")).queues]
    assert "SCHEDULE_TOPIC_XXXX/broker-a/2" in queues


def test_a_gap_that_the_archive_records_is_told(lab: StoreLab, tmp_path: Path) -> None:
    archive(lab, tmp_path / "archive")
    queue = QueueRef("bills", "broker-a", 7)
    gaps = [ArchiveGap(Span(queue, 0, 4), 0), ArchiveGap(Span(queue, 4, 5), 0, UNREADABLE)]
    Manifest.load(str(tmp_path / "archive")).commit([], gaps)
    result = held_against(lab, tmp_path / "archive")
    assert result.verdict == "sound"
    deleted, unreadable = result.differences
    assert (str(deleted.state), deleted.where, deleted.offset) == ("lost", "bills/broker-a/7", 0)
    assert "[0, 4) are missing in the archive: deleted before" in deleted.detail
    assert "[4, 5) are missing in the archive: unreadable when" in unreadable.detail


def test_what_is_not_archived_yet_is_behind(lab: StoreLab, tmp_path: Path) -> None:
    archive(lab, tmp_path / "archive")
    lab.open()
    lab.put_many(3)
    lab.close()
    result = held_against(lab, tmp_path / "archive")
    assert result.verdict == "sound"
    assert [str(difference.state) for difference in result.differences] == ["behind"]


def test_a_message_that_changed_in_the_log_is_found_by_its_queue(lab: StoreLab, tmp_path: Path) -> None:
    archive(lab, tmp_path / "archive")
    at = lab.log_files()[0].read_bytes().index(b"a\x01b") + 2
    lab.overwrite(lab.log_files()[0], at, b"c")
    result = held_against(lab, tmp_path / "archive")
    assert result.verdict == "differs"
    (changed,) = [difference for difference in result.differences if difference.is_failure]
    assert "bills/broker-a/0" in changed.where
