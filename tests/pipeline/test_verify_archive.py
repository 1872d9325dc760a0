"""A store held against its archive: the same messages, or which range is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from flaremq.pipeline.jobs.verify import VerifyResult, verify
from flaremq.pipeline.source import SourceSpec
from flaremq.pipeline.store_source import StoreSource
from tests.pipeline.memory_source import run_increment
from tests.support.proof_lab import SIZES, corpus
from tests.support.store_lab import StoreLab


@pytest.fixture
def lab(tmp_path: Path) -> StoreLab:
    return corpus(tmp_path / "store", 6, foreign=False)


def archive(lab: StoreLab, out: Path) -> None:
    with StoreSource(SourceSpec(paths=(("broker-a", str(lab.root)),), geometry=SIZES)) as source:
        run_increment(source, out)  # type: ignore[arg-type]  # any source will do


def held_against(lab: StoreLab, out: Path) -> VerifyResult:
    return verify(None, path=str(lab.root), archive=str(out), properties=SIZES)


def test_a_store_agrees_with_its_archive(lab: StoreLab, tmp_path: Path) -> None:
    archive(lab, tmp_path / "archive")
    result = held_against(lab, tmp_path / "archive")
    assert (result.verdict, result.differences) == ("sound", ())
    assert result.archived_equal
    assert result.archived_equal > 80


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
