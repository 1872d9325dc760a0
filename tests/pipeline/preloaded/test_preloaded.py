"""Python passes over errors in a sitecustomize: what it does would be lost without a word."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_daemon_of_spark_starts_with_all_that_its_workers_need() -> None:
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "pyspark.daemon", "pyspark.worker"],
        env={**os.environ, "PYTHONPATH": paths, "PYTHONPROFILEIMPORTTIME": "1"},
        stdin=subprocess.DEVNULL,  # closed: Spark needs it no more
        capture_output=True,
        check=False,
    )
    assert b"flaremq.pipeline.spark.writer" in done.stderr and b"Error in sitecustomize" not in done.stderr
