"""A certificate finds what changed and what is gone, and forgives growth, retention and a rebuild."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.pipeline.jobs.rebuild.job import rebuild
from flaremq.pipeline.jobs.verify.job import VerifyResult, verify
from tests.support.proof_lab import SIZES, corpus
from tests.support.store_lab import StoreLab

BLOCK = 5_000


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store and its certificate."""
    folder = tmp_path_factory.mktemp("template")
    lab = corpus(folder / "store", 12, foreign=False)
    (lab.root / "config").mkdir()
    (lab.root / "config" / "topics.json").write_text("{}")
    result = verify(
        None, path=str(lab.root), certificate=str(folder / "cert.json"), properties=SIZES, piece_bytes=BLOCK
    )
    assert result.verdict == "sound"
    return folder


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def lab(folder: Path) -> StoreLab:
    return StoreLab(folder / "store")


def recheck(folder: Path, *, store: str = "store") -> VerifyResult:
    return verify(None, path=str(folder / store), against=str(folder / "cert.json"), properties=SIZES)


def states(result: VerifyResult, what: str) -> set[str]:
    return {str(difference.state) for difference in result.differences if difference.what == what}


def test_a_certificate_tells_ranges_counts_and_digests(template: Path) -> None:
    fields = json.loads((template / "cert.json").read_text())
    assert (fields["kind"], fields["verdict"], fields["algorithm"]) == ("flaremq-certificate", "sound", "sha256")
    log = fields["log"]
    assert log["files"][0]["start"] == log["minOffset"] == 0
    assert log["files"][-1]["end"] == log["maxOffset"] == fields["summary"]["maxOffset"]
    assert sum(file["records"] for file in log["files"]) == fields["summary"]["records"]
    for file in log["files"]:
        bounds = [(start, end) for start, end, _ in file["blocks"]]
        assert bounds[0][0] == file["start"]
        assert bounds[-1][1] == file["end"]
        assert all(a[1] == b[0] for a, b in pairwise(bounds))
        assert all(len(digest) == 64 for _, _, digest in file["blocks"])
    assert sum(queue["maxOffset"] - queue["minOffset"] for queue in fields["queues"]) == fields["summary"]["units"]
    assert sum(index["entries"] for index in fields["indexes"]) == fields["summary"]["indexEntries"]
    assert list(fields["config"]) == ["topics.json"]


def test_an_unchanged_store_agrees_with_its_certificate(folder: Path) -> None:
    result = recheck(folder)
    assert (result.verdict, result.differences) == ("sound", ())


def test_a_changed_byte_that_no_checksum_covers_is_found(folder: Path, lab: StoreLab) -> None:
    # The last digit of a property value: the record stays valid, queue and index still agree with it.
    data = lab.log_files()[0].read_bytes()
    at = data.index(b"a\x01b") + 2
    lab.overwrite(lab.log_files()[0], at, b"c")
    result = recheck(folder)
    assert not result.is_damaged
    assert result.verdict == "differs"
    (changed,) = [difference for difference in result.differences if difference.is_failure]
    assert (changed.state, changed.what, changed.offset) == ("changed", "log", at // BLOCK * BLOCK)


def test_a_removed_log_file_is_found(folder: Path, lab: StoreLab) -> None:
    lab.log_files()[-1].unlink()
    result = recheck(folder)
    assert "missing" in states(result, "log")
    assert result.verdict == "damaged"


def test_a_truncated_queue_is_found(folder: Path, lab: StoreLab) -> None:
    path = lab.queue_files()[-1]
    path.write_bytes(bytes(path.stat().st_size))
    result = recheck(folder)
    assert states(result, "queue") == {"missing"}
    assert result.verdict == "damaged"


def test_a_removed_queue_is_found(folder: Path, lab: StoreLab) -> None:
    shutil.rmtree(lab.root / "consumequeue" / "bills")
    assert states(recheck(folder), "queue") == {"missing"}


def test_a_wrong_index_slot_is_found(folder: Path, lab: StoreLab) -> None:
    path = sorted((lab.root / "index").iterdir())[0]
    lab.overwrite(path, 40, b"\0\0\0\7")
    result = recheck(folder)
    assert result.verdict == "damaged"
    assert "index-slot-wrong" in {finding.kind for finding in result.findings}


def test_a_removed_index_file_is_found(folder: Path, lab: StoreLab) -> None:
    sorted((lab.root / "index").iterdir())[1].unlink()
    result = recheck(folder)
    assert states(result, "index") == {"missing"}
    assert result.verdict != "sound"


def test_growth_is_no_difference(folder: Path, lab: StoreLab) -> None:
    lab.open()
    lab.fill_files(4, keys=["more", "and more"])
    lab.close()
    result = recheck(folder)
    assert (result.verdict, result.differences) == ("sound", ())


def test_retention_is_told_but_no_failure(folder: Path, lab: StoreLab) -> None:
    lab.log_files()[0].unlink()
    lab.open()
    lab.close()
    result = recheck(folder)
    assert result.verdict == "sound"
    assert states(result, "log") == {"expired"}
    assert states(result, "queue") <= {"expired"}


def test_a_rebuild_is_no_failure_even_after_retention(folder: Path, lab: StoreLab) -> None:
    lab.log_files()[0].unlink()
    lab.open()
    lab.close()
    rebuild(None, path=str(lab.root), in_place=True, properties=SIZES)
    result = recheck(folder)
    assert result.verdict == "sound"
    assert states(result, "index") <= {"rebuilt", "expired"}


def test_a_deleted_topic_is_no_failure(folder: Path, lab: StoreLab) -> None:
    lab.open()
    lab.put()
    lab.store.delete_topics(["bills"])
    lab.close()
    result = recheck(folder)
    assert result.verdict == "sound"
    assert states(result, "queue") == {"deleted"}


def test_config_changes_are_told_but_no_failure(folder: Path, lab: StoreLab) -> None:
    (lab.root / "config" / "topics.json").write_text('{"topicConfigTable": {"orders": {}, "bills": {}}}')
    result = recheck(folder)
    assert states(result, "config") == {"updated"}
    assert not any(difference.is_failure for difference in result.differences)


def test_a_certificate_that_was_changed_is_refused(folder: Path) -> None:
    path = folder / "cert.json"
    path.write_text(path.read_text().replace('"verdict": "sound"', '"verdict": "SOUND"'))
    with pytest.raises(InvalidArgumentError, match="is no certificate: it was changed"):
        recheck(folder)
    path.write_text("root:x:0:0")
    with pytest.raises(InvalidArgumentError, match="is no certificate: it is not JSON"):
        recheck(folder)
    path.write_text("{}")
    with pytest.raises(InvalidArgumentError, match="no certificate"):
        recheck(folder)
    path.unlink()
    with pytest.raises(NotFoundError, match="does not exist"):
        recheck(folder)


def test_a_new_certificate_can_be_made_while_checking_an_old_one(folder: Path, lab: StoreLab) -> None:
    lab.open()
    lab.put_many(30, keys="k")
    lab.close()
    second = str(folder / "second.json")
    verify(None, path=str(lab.root), against=str(folder / "cert.json"), certificate=second, properties=SIZES)
    result = verify(None, path=str(lab.root), against=second, properties=SIZES)
    assert (result.verdict, result.differences) == ("sound", ())


# Replica


def test_a_copy_agrees_with_its_master(folder: Path, lab: StoreLab) -> None:
    shutil.copytree(lab.root, folder / "replica")
    result = verify(None, path=str(lab.root), replica=str(folder / "replica"), properties=SIZES, piece_bytes=BLOCK)
    assert (result.verdict, result.differences) == ("sound", ())


def test_a_replica_that_lags_is_behind_and_one_that_lies_differs(folder: Path, lab: StoreLab) -> None:
    shutil.copytree(lab.root, folder / "replica")
    lab.open()
    lab.put_many(20)
    lab.close()
    result = verify(None, path=str(lab.root), replica=str(folder / "replica"), properties=SIZES, piece_bytes=BLOCK)
    assert result.verdict == "sound"
    assert states(result, "replica") == {"behind"}
    replica = StoreLab(folder / "replica")
    at = replica.log_files()[0].read_bytes().index(b"a\x01b") + 2
    replica.overwrite(replica.log_files()[0], at, b"c")
    result = verify(None, path=str(lab.root), replica=str(folder / "replica"), properties=SIZES, piece_bytes=BLOCK)
    assert result.verdict == "differs"
    assert [difference.offset for difference in result.differences if difference.is_failure] == [at]


def test_a_replica_with_another_queue_unit_differs(folder: Path, lab: StoreLab) -> None:
    shutil.copytree(lab.root, folder / "replica")
    replica = StoreLab(folder / "replica")
    replica.overwrite(replica.queue_files()[0], 5 * 20 + 19, b"\x55")
    result = verify(None, path=str(lab.root), replica=str(folder / "replica"), properties=SIZES)
    assert [(d.where, d.offset) for d in result.differences] == [("orders@0", 5)]


def test_verify_runs_on_spark(spark: object, folder: Path) -> None:
    result = verify(
        spark,  # type: ignore[arg-type]
        path=str(folder / "store"),
        against=str(folder / "cert.json"),
        replica=str(folder / "store"),
        properties=SIZES,
    )
    assert (result.verdict, result.differences) == ("sound", ())
    assert result.to_json()["summary"]["records"] == result.records > 0
