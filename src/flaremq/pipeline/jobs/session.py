"""The Spark session of a job: any master, ``local[*]`` by default, settings that suit our tasks."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from flaremq.errors import UnavailableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}


def spark_session(
    master: str | None = None, *, name: str = "flaremq", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The running session, or a new one on ``master``."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UnavailableError("PySpark is not installed; `pip install 'flaremq[spark]'` brings it") from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    chosen = master or os.environ.get("FLAREMQ_SPARK_MASTER") or DEFAULT_MASTER
    builder = builder.master(chosen)
    merged = dict(_SETTINGS)
    if chosen.startswith("local"):
        # Everything is on this machine: no host name to resolve, nothing open to the network.
        merged |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for key, value in {**merged, **(settings or {})}.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        if "JAVA_GATEWAY_EXITED" in str(error) or "JAVA_HOME" in str(error):
            raise UnavailableError("Spark needs Java 17 or newer: install it, or set JAVA_HOME") from error
        raise
