"""Spark with Iceberg's own runtime reads our tables: the same counts and digests as the log has."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flaremq.pipeline.jobs.table.compact import compact
from flaremq.pipeline.tables.iceberg.catalog import open_catalog
from tests.interop import jvm
from tests.pipeline.tables.lab import TableLab
from tests.pipeline.tables.test_table_readers import digests_of, logged

pytestmark = pytest.mark.interop
ROOT = Path(__file__).resolve().parents[2]


def runtime() -> tuple[Path, Path]:
    """A Python with the Spark that Iceberg is published for, and Iceberg's jar."""
    (version,), (spark,) = jvm.pinned_versions("ICEBERG_VERSION"), jvm.pinned_versions("ICEBERG_SPARK_VERSION")
    python = ROOT / ".cache" / "spark-versions" / spark / "bin" / "python"
    jars = list(jvm.fetched(f"iceberg-{version}").glob("*.jar"))
    missing = None
    if not jars:
        missing = "Iceberg's runtime is not there; tests/interop/fetch.sh iceberg fetches it"
    elif not python.exists():
        missing = f"Spark {spark} is not there; .ci/spark-versions python3 {spark} makes an environment with it"
    if missing and os.environ.get("FLAREMQ_INTEROP_REQUIRED") == "1" and not jars:
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    return python, jars[0]


def test_iceberg_on_spark_finds_the_messages_of_the_log(tmp_path: Path) -> None:
    python, jar = runtime()
    lab = TableLab(tmp_path, "iceberg")
    for _ in range(2):
        lab.put(30)
        lab.run(partition_by="day(storeTimestamp),tags")
    compact(None, lab.target())
    lab.put(7)
    lab.run()
    metadata = open_catalog(lab.target()).load_table(lab.target().parts).metadata_location
    program = Path(__file__).parent / "iceberg_reader.py"
    done = subprocess.run(
        [python, program, jar, metadata, tmp_path / "out"],
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = pq.read_table(tmp_path / "out", partitioning=None)
    assert rows.num_rows == 67
    assert digests_of(rows) == logged(lab)
