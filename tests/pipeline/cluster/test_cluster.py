"""Reads, streams, the sink and the jobs on a real standalone cluster whose executors have no FlareMQ of their own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.cluster.standalone import DRIVERS, StandaloneCluster, answer
from tests.pipeline.cluster.stores import Data, digest

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("cluster")]
MORE = 100


@pytest.fixture(scope="module")
def done(cluster: StandaloneCluster, shipped: list[Path], data: Data, cluster_folder: Path) -> dict[str, Any]:
    """What one driver did, step by step: starting one for each test would take ten times as long."""
    arguments = data.arguments(cluster_folder / "jobs") | {"more": MORE}
    return cluster.submit(DRIVERS / "jobs.py", arguments, py_files=shipped, python_path=shipped[:1])


def test_python_of_the_executors_has_no_flaremq(executor_python: Path) -> None:
    tried = subprocess.run([executor_python, "-I", "-c", "import pyarrow, flaremq"], capture_output=True, text=True)
    assert "No module named 'flaremq'" in tried.stderr


def test_workers_run_what_was_shipped(done: dict[str, Any], cluster: StandaloneCluster) -> None:
    seen = answer(done, "look")
    assert len({each["pid"] for each in seen}) == 2
    assert all(each["file"].startswith(str(cluster.unpacked)) for each in seen)


def test_batch_read_by_path_gives_every_row_once(done: dict[str, Any], data: Data) -> None:
    assert answer(done, "by path") == digest(data.rows)


def test_count_without_bodies_is_exact(done: dict[str, Any], data: Data) -> None:
    assert answer(done, "count") == len(data.rows)


def test_executors_read_over_the_wire(done: dict[str, Any], data: Data) -> None:
    assert answer(done, "by wire") == digest(data.live_rows)


def test_stream_goes_on_from_its_checkpoint(done: dict[str, Any], data: Data) -> None:
    assert answer(done, "stream") == digest(data.live_rows)
    assert answer(done, "send more") is None
    assert answer(done, "stream again")["rows"] == len(data.live_rows) + MORE


def test_archive_holds_the_same_rows(done: dict[str, Any], data: Data) -> None:
    assert answer(done, "archive")["rows"] == len(data.rows)
    assert answer(done, "archive read back") == digest(data.rows)


def test_verify_finds_nothing(done: dict[str, Any], data: Data) -> None:
    found = answer(done, "verify")
    assert found["verdict"] == "sound"


def test_rebuilt_queues_are_byte_identical(done: dict[str, Any], data: Data, cluster_folder: Path) -> None:
    answer(done, "rebuild")
    rebuilt = cluster_folder / "jobs" / "rebuilt" / "consumequeue"
    files = [path for path in (data.store / "consumequeue").rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert (rebuilt / path.relative_to(data.store / "consumequeue")).read_bytes() == path.read_bytes()


def test_sink_stores_every_row(done: dict[str, Any], data: Data) -> None:
    assert answer(done, "sink") == sorted(row[3] for row in data.rows)
