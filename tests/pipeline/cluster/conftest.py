"""One cluster for all tests of this folder, the zip that its drivers ship, and what they read."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.ports import free_ports
from tests.support.server_process import SMALL, server

if TYPE_CHECKING:
    from tests.pipeline.cluster.standalone import StandaloneCluster
    from tests.pipeline.cluster.stores import Data

MESSAGES = 3_000
LIVE_MESSAGES = 400


@pytest.fixture(scope="session")
def cluster_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="session")
def shipped(cluster_folder: Path) -> list[Path]:
    """For --py-files: the package as a zip, and the module our drivers share."""
    from flaremq.pipeline.jobs.package import package
    from tests.pipeline.cluster.standalone import DRIVERS

    out = cluster_folder / "flaremq.zip"
    package(out)
    return [out, DRIVERS / "steps.py"]


@pytest.fixture(scope="session")
def executor_python(cluster_folder: Path) -> Path:
    """Python with all packages but ours."""
    from tests.pipeline.cluster.standalone import bare_python

    return bare_python(cluster_folder / "python")


@pytest.fixture(scope="session")
def cluster(cluster_folder: Path, executor_python: Path) -> Iterator[StandaloneCluster]:
    from tests.pipeline.cluster.standalone import StandaloneCluster

    with StandaloneCluster(cluster_folder / "spark", executor_python) as started:
        yield started


@pytest.fixture(scope="session")
def data(cluster_folder: Path) -> Iterator[Data]:
    from tests.pipeline.cluster.stores import Data, fill_store, send_live

    store = cluster_folder / "closed-store"
    rows = fill_store(store, MESSAGES)
    port = free_ports(2)
    listen = ["--listen", f"127.0.0.1:{port}", "--broker-listen", f"127.0.0.1:{port + 10}"]
    with server("up", "--data", cluster_folder / "broker", *listen, *SMALL, cwd=cluster_folder) as running:
        found = re.search(r"127\.0\.0\.1:\d+", running.ready())
        assert found is not None
        name_server = f"127.0.0.1:{port}"
        yield Data(store, rows, name_server, send_live(name_server, LIVE_MESSAGES))
