"""Spark Connect: everything goes through a real server whose Python has never heard of FlareMQ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flaremq.errors import UnavailableError
from flaremq.pipeline.jobs import session
from flaremq.pipeline.jobs.tasks import translated_errors
from flaremq.pipeline.model.columns import NAMES
from flaremq.pipeline.spark import shipped
from tests.pipeline.cluster.standalone import bare_python
from tests.pipeline.conftest import ROOT
from tests.pipeline.spark.connect_server import ConnectServer
from tests.pipeline.spark.connect_session import COUNT
from tests.support.planted import found_in

_COUNTS = [["%RETRY%billing", COUNT // 5], ["orders", COUNT // 5 * 3], ["users", COUNT // 5]]


@pytest.mark.spark
@pytest.mark.slow
def test_source_stream_sink_tables_and_every_job_work_through_a_server(tmp_path: Path) -> None:
    with ConnectServer(tmp_path / "server", bare_python(tmp_path / "python")) as server:
        done = subprocess.run(
            [sys.executable, "-m", "tests.pipeline.spark.connect_session", server.url, str(tmp_path / "work")],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["master"] == "Spark Connect"
    assert found["parallelism"] == 2
    assert found["tasks"] == [0, 1, 2, 3, 4]
    assert found["refused"] == "InvalidArgumentError: task 7 is refused"
    assert found["batch"] == found["sql"] == _COUNTS
    assert "did you mean orders?" in found["missing"]
    assert "change that secret, and write secretKey 'env:NAME'" in found["secret"]
    assert not found_in(json.dumps(found))
    assert found["sink"] == COUNT // 5
    assert found["stream"] == COUNT // 5 * 3
    assert found["table"] == COUNT // 5
    assert found["archive"]["rows"] == COUNT
    assert found["verify"] == "sound"
    assert found["rebuild"]["records"] == COUNT
    assert found["replay"]["sent"] == COUNT // 5 * 3
    assert found["report"]["summary"]["messages"] == COUNT // 5 * 4  # dead letters and retries apart
    orders = COUNT // 5 * 3
    pruned = found["pruned"]
    assert pruned["columns"] == {"paid": ["queueId", "tags"], "count": ["queueId"], "all": list(NAMES)}
    assert pruned["counts"] == [orders] * 3 and pruned["joined"] == orders
    assert pruned["cached"] and pruned["paid"] == pruned["sql"] // 2
    _check_progress([tuple(told) for told in found["progress"]])


def _check_progress(progress: list[tuple[str, int, int]]) -> None:
    """Of each job from nothing to all of it, never backwards."""
    for name, total in (("abs", 5), ("archive", None)):
        done = [at for what, at, _ in progress if what == name]
        assert done[0] == 0 and done == sorted(done)
        assert done[-1] == (total or progress[-1][2])


def test_a_worker_without_flaremq_says_what_to_do() -> None:
    with pytest.raises(UnavailableError, match=r"install it there, or call .*ship\(spark\)"), translated_errors():
        raise RuntimeError("Traceback …\nModuleNotFoundError: No module named 'flaremq'")


def test_a_remote_session_without_its_client_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    class Builder:
        def appName(self, name: str) -> Builder:
            return self

        def remote(self, url: str) -> Builder:
            raise ImportError("grpcio >= 1.67.0 must be installed")

    monkeypatch.setattr("pyspark.sql.SparkSession", SimpleNamespace(builder=Builder()))
    with pytest.raises(UnavailableError, match=r"sc://h:1 needs .*pip install 'pyspark\[connect\]' \(grpcio"):
        session.spark_session("sc://h:1")


_UNPICKLE = (
    "import pickle, sys; thing = pickle.loads(sys.stdin.buffer.read()); print(thing.colour, type(thing).__name__)"
)


class Kept:
    """Something with a colour."""

    def __init__(self) -> None:
        self.colour = "red"

    def __reduce__(self) -> tuple[Any, ...]:
        return shipped.reduced(self)


def test_what_was_shipped_is_found_where_nothing_is_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pickle

    assert pickle.loads(pickle.dumps(Kept())).colour == "red"  # installed: nothing is added
    folder = tmp_path / "unpacked"
    folder.mkdir()
    for name in ("flaremq", "tests"):
        (folder / name).symlink_to(ROOT / "src" / name if name == "flaremq" else ROOT / name)
    import flaremq

    monkeypatch.setattr(flaremq, "__shipped__", "flaremq.zip", raising=False)
    monkeypatch.setattr(flaremq, "__path__", [str(folder / "flaremq")])
    data = pickle.dumps(Kept())
    done = subprocess.run(
        [str(bare_python(tmp_path / "python")), "-c", _UNPICKLE],
        input=data,
        capture_output=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.stdout.split() == [b"red", b"Kept"], done.stderr
