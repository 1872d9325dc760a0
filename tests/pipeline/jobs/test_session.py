"""Where a job's session comes from, and what is said where Spark cannot find us. No JVM is started here."""

from __future__ import annotations

import importlib
import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError

from flaremq.pipeline.jobs import session


class Builder:
    """Takes down what it is told."""

    def __init__(self) -> None:
        self.masters: list[str] = []
        self.settings: dict[str, str] = {}

    def appName(self, name: str) -> Builder:
        return self

    def master(self, master: str) -> Builder:
        self.masters.append(master)
        return self

    def config(self, key: str, value: str) -> Builder:
        self.settings[key] = value
        return self

    def getOrCreate(self) -> Any:
        return SimpleNamespace(sparkContext=SimpleNamespace(master=self.masters[-1] if self.masters else "local[9]"))


def no_session() -> None:
    raise PySparkRuntimeError("there is none")


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Builder:
    made = Builder()
    monkeypatch.setenv("FLAREMQ_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("pyspark.sql.SparkSession.builder", made)
    monkeypatch.setattr("pyspark.sql.SparkSession.active", no_session)  # other tests may have one
    for name in (
        "PYSPARK_GATEWAY_PORT",
        "PYSPARK_SUBMIT_ARGS",
        "FLAREMQ_SPARK_MASTER",
        "HADOOP_CONF_DIR",
        "YARN_CONF_DIR",
        "SPARK_CONF_DIR",
        "SPARK_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    return made


def test_this_machine_unless_told_otherwise(builder: Builder) -> None:
    session.spark_session()
    assert builder.masters == ["local[*]"]
    assert builder.settings["spark.ui.enabled"] == "false"


@pytest.mark.parametrize(
    ("name", "value"), [("PYSPARK_GATEWAY_PORT", "12345"), ("PYSPARK_SUBMIT_ARGS", "--master yarn pyspark-shell")]
)
def test_master_of_spark_submit_stays(builder: Builder, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    session.spark_session()
    assert builder.masters == []
    assert not {"spark.driver.host", "spark.ui.enabled", "spark.sql.shuffle.partitions"} & set(builder.settings)


def test_master_that_is_asked_for_comes_first(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "12345")
    session.spark_session("local[3]")
    assert builder.masters == ["local[3]"]


LOG_WRITER = "spark.sql.streaming.checkpointFileManagerClass"


@pytest.mark.parametrize(
    ("version", "package"), [("4.0.1", ""), ("4.1.1", ".checkpointing"), ("4.3.0", ".checkpointing")]
)
def test_logs_of_streams_are_written_without_processes(
    builder: Builder, monkeypatch: pytest.MonkeyPatch, version: str, package: str
) -> None:
    monkeypatch.setattr("pyspark.__version__", version)
    session.spark_session("local[2]")
    name = f"org.apache.spark.sql.execution.streaming{package}.FileSystemBasedCheckpointFileManager"
    assert builder.settings[LOG_WRITER] == name


def test_logs_of_streams_are_as_they_were_where_files_may_lie_elsewhere(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_ship", lambda spark: None)
    session.spark_session("spark://head:7077")
    assert LOG_WRITER not in builder.settings
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    session.spark_session("local[2]")
    assert LOG_WRITER not in builder.settings


@pytest.mark.parametrize("name", ["spark.hadoop.fs.defaultFS", "spark.hadoop.fs.s3a.endpoint"])
def test_logs_of_streams_are_as_they_were_where_settings_name_another_file_system(builder: Builder, name: str) -> None:
    session.spark_session("local[2]", settings={name: "hdfs://head:8020"})
    assert LOG_WRITER not in builder.settings


def test_how_logs_of_streams_are_written_is_the_users_to_say(builder: Builder) -> None:
    session.spark_session("local[2]", settings={LOG_WRITER: "org.example.Manager"})
    assert builder.settings[LOG_WRITER] == "org.example.Manager"


def test_logs_of_streams_are_as_they_were_in_a_spark_of_the_user(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    session.spark_session("local[2]")
    assert LOG_WRITER not in builder.settings


def test_logs_of_streams_are_as_they_were_in_a_session_that_runs_already(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.sql.SparkSession.active", object)
    session.spark_session()
    assert LOG_WRITER not in builder.settings


def test_planners_run_the_python_that_runs_us(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    session.spark_session()
    import os

    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_format_that_cannot_be_imported_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark_flaremq

    with monkeypatch.context() as broken:
        broken.setitem(sys.modules, "flaremq.pipeline.spark.datasource", None)
        source = importlib.reload(pyspark_flaremq).DefaultSource
    importlib.reload(pyspark_flaremq)
    assert source.name() == "flaremq"
    for ask in (
        lambda: source({}).schema(),
        lambda: source({}).reader(None),
        lambda: source({}).streamReader(None),
        lambda: source({}).writer(None, False),
        lambda: source({}).streamWriter(None, False),
    ):
        with pytest.raises(ImportError, match=r"flaremq cannot be imported by .*PYSPARK_PYTHON"):
            ask()


def test_warning_has_its_level_and_origin_where_nobody_set_logging_up() -> None:
    code = (
        "import logging; from flaremq.pipeline.sources.log_lines import name_warnings\n"
        "name_warnings(); name_warnings()\n"
        "log = logging.getLogger('flaremq.storage.arrow.units'); log.warning('lost %d', 3); log.info('quiet')\n"
        "logging.basicConfig(format='own: %(message)s'); log.warning('again')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = done.stderr.splitlines()
    assert first.endswith("WARNING flaremq.storage.arrow.units: lost 3")
    assert second == "own: again"


def test_warning_of_a_scan_goes_to_handlers_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    from flaremq.pipeline.sources.log_lines import name_warnings

    name_warnings()
    with caplog.at_level(logging.WARNING):
        logging.getLogger("flaremq.x").warning("once")
    assert [record.message for record in caplog.records] == ["once"]
