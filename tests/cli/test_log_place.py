"""A broker.conf of one store used with another: the log it names is not written, and not read, by mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.message.message import Message
from flaremq.pipeline.options import parse_options
from flaremq.pipeline.sink.options import parse_sink_options
from flaremq.pipeline.sink.store import check_store
from flaremq.pipeline.sources.open import source_spec
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from tests.support.cli import flaremq

SMALL = {"mappedFileSizeCommitLog": "65536", "maxHashSlotNum": "20", "maxIndexNum": "80"}


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """The configuration of store "first"; stores "first" (1 message) and "second" (2) lie beside it."""
    for count, name in enumerate(("first", "second"), start=1):
        with MessageStore.open(tmp_path / name, StoreOptions.from_properties(SMALL), threads=False) as store:
            for _ in range(count):
                assert store.put(Message("T", b"body", keys=["k"])).ok
    lines = [
        f"storePathRootDir={tmp_path}/first",
        f"storePathCommitLog={tmp_path}/first/commitlog",
        *(f"{key}={value}" for key, value in SMALL.items()),
    ]
    path = tmp_path / "broker.conf"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    "line",
    [
        "up --data {}",
        "broker --data {}",
        "broker --set storePathRootDir={}",
        "broker --data {} --processes 2",
        "store info {}",
        "store dump {}",
        "store verify {}",
        "store query {} --topic T --key k",
        "store recover {}",
        "store recover {} --dry-run",
        "store rescue {} --to {}-rescued",
        "pipeline verify --path {}",
        "pipeline rebuild --path {} --to {}-rebuilt",
        "pipeline rebuild --path {} --in-place",
    ],
)
def test_a_log_outside_of_the_given_store_is_refused_as_wrong_usage(tmp_path: Path, conf: Path, line: str) -> None:
    second = tmp_path / "second"
    before = sorted(tmp_path.rglob("*"))
    outcome = flaremq(*line.replace("{}", str(second)).split(), "-c", conf)
    assert outcome.code == 2 and not outcome.out
    assert f"{tmp_path}/first/commitlog, outside of {second}" in outcome.err
    assert f"--set storePathCommitLog={second}/commitlog" in outcome.err
    assert sorted(tmp_path.rglob("*")) == before


def test_read_only_log_folders_outside_are_refused_too(tmp_path: Path, conf: Path) -> None:
    conf.write_text(f"storePathRootDir={tmp_path}/first\nreadOnlyCommitLogStorePaths={tmp_path}/first/commitlog\n")
    outcome = flaremq("store", "info", tmp_path / "second", "-c", conf)
    assert outcome.code == 2 and "readOnlyCommitLogStorePaths" in outcome.err


def test_the_store_that_the_file_is_of_is_read_with_it_under_every_name(tmp_path: Path, conf: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "first")
    for path in (tmp_path / "first", tmp_path / "link", tmp_path / "second" / ".." / "first"):
        outcome = flaremq("store", "dump", path, "-c", conf)
        assert outcome.code == 0 and len(outcome.out.splitlines()) == 1


def test_a_log_outside_is_taken_when_the_line_itself_says_so(tmp_path: Path, conf: Path) -> None:
    assigned = f"storePathCommitLog={tmp_path}/second/commitlog"
    outcome = flaremq("store", "info", tmp_path / "second", "-c", conf, "--set", assigned)
    assert outcome.code == 0
    assert json.loads(outcome.out)["commitLog"]["paths"] == [f"{tmp_path}/second/commitlog"]
    outcome = flaremq("store", "info", tmp_path / "second", "--set", f"storePathCommitLog={tmp_path}/first/commitlog")
    assert json.loads(outcome.out)["commitLog"]["paths"] == [f"{tmp_path}/first/commitlog"]


def test_spark_takes_a_log_below_the_path_only(tmp_path: Path, conf: Path) -> None:
    given = {"path": str(tmp_path / "second"), "storePathCommitLog": str(tmp_path / "first" / "commitlog")}
    with pytest.raises(InvalidArgumentError, match="outside of path"):
        source_spec(parse_options(given))
    with pytest.raises(InvalidArgumentError, match="outside of path"):
        check_store(parse_sink_options(given))
    given["storePathCommitLog"] = str(tmp_path / "second" / "commitlog")
    source_spec(parse_options(given))
    check_store(parse_sink_options(given))
