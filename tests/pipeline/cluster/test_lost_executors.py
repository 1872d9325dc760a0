"""An executor is killed (SIGKILL) in the middle of a task; Spark runs the task again, nothing is wrong or double."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.cluster.standalone import DRIVERS, StandaloneCluster, answer
from tests.pipeline.cluster.stores import Data, digest

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("cluster")]
ARCHIVE_TASK_BYTES = 600_000  # so that there are a few


@pytest.fixture(scope="module")
def done(cluster: StandaloneCluster, shipped: list[Path], data: Data, cluster_folder: Path) -> dict[str, Any]:
    arguments = data.arguments(cluster_folder / "kills") | {"archive_task_bytes": ARCHIVE_TASK_BYTES}
    return cluster.submit(DRIVERS / "kills.py", arguments, py_files=shipped)


def test_read_gives_every_row_once(done: dict[str, Any], data: Data) -> None:
    found = answer(done, "read")
    assert found.pop("died")
    assert found == digest(data.rows)


def test_archive_holds_every_row_once(done: dict[str, Any], data: Data) -> None:
    found = answer(done, "archive")
    assert found["died"]
    assert found["rows"] == len(data.rows)
    assert answer(done, "archive read back") == digest(data.rows)


def test_stream_into_the_sink_stores_every_row_once(done: dict[str, Any], data: Data) -> None:
    found = answer(done, "sink")
    assert found["died"]
    assert (found["rows"], found["distinct"]) == (len(data.rows), len(data.rows))
