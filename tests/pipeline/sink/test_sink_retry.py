"""A task that dies after some of its rows and is tried again: Spark does that in local[n, f], so by one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flaremq.clock import SystemClock
from flaremq.testing import ephemeral_broker
from tests.pipeline.sink_lab import stored_bodies

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = '''
import sys
from pyspark import TaskContext
from pyspark.sql.functions import udf
from flaremq.pipeline.jobs.session import spark_session

name_server, place = sys.argv[1:]
settings = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.sql.warehouse.dir": place}
settings["spark.sql.execution.arrow.maxRecordsPerBatch"] = "100"
settings["spark.driver.extraJavaOptions"] = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={place}"
spark = spark_session("local[2,4]", name="sink-retry", settings=settings)


@udf("string")
def row(number):
    """The last row of a partition kills the first two attempts at it."""
    if number % 500 == 499 and TaskContext.get().attemptNumber() < 2:
        raise RuntimeError("this attempt dies")
    return f"row-{number}-" + "x" * 20_000


spark.range(0, 1000, 1, 2).write.mode("overwrite").parquet(place + "/in")
stream = spark.readStream.schema("id long").option("maxFilesPerTrigger", 10).parquet(place + "/in")
query = (
    stream.select(row("id").alias("body")).writeStream.format("flaremq")
    .options(nameServer=name_server, topic="T", checkpointLocation=place + "/checkpoint")
    .trigger(availableNow=True).start()
)
query.awaitTermination()
spark.stop()
'''


@pytest.mark.slow
@pytest.mark.spark
def test_rows_of_tasks_that_died_and_were_tried_again_are_stored_once(tmp_path: Path) -> None:
    with ephemeral_broker(clock=SystemClock()) as broker:
        paths = os.pathsep.join((str(ROOT / "tests" / "pipeline" / "preloaded"), str(ROOT / "src"), str(ROOT)))
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, broker.name_server, str(tmp_path)],
            env=os.environ | {"PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        found = stored_bodies(broker)
        assert sorted(found) == sorted(f"row-{number}-" + "x" * 20_000 for number in range(1000))
