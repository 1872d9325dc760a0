"""Bodies that cannot be inflated in a real Spark: batch, stream, SQL, archive, replay, report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flaremq.pipeline.jobs.archive import archive
from flaremq.pipeline.jobs.report.job import report
from flaremq.pipeline.jobs.sql.job import run_sql
from flaremq.pipeline.jobs.verify.job import verify
from tests.support.forged_bodies import INFLATED_MAX, ONE_OF_EACH, TOPIC, forged_store
from tests.support.proof_lab import SIZES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
MEANT = [sent.meant for sent in ONE_OF_EACH]
BAD = sum(sent.is_bad for sent in ONE_OF_EACH)


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("forged") / "store"
    forged_store(root, ONE_OF_EACH)
    return {"path": str(root), "brokerName": "broker-a", "maxInflatedBytes": str(INFLATED_MAX), **SIZES}


def test_batch_reads_every_row(spark: SparkSession, options: dict[str, str]) -> None:
    frame = spark.read.format("flaremq").options(**options).load().orderBy("queueOffset")
    assert [None if row.body is None else bytes(row.body) for row in frame.collect()] == MEANT
    columns = spark.read.format("flaremq").options(**options, badBodies="raw", columns="body,bodyError").load()
    assert columns.where("bodyError is not null and body is not null").count() == BAD
    with pytest.raises(Exception, match=r"orders/0, queue offset 1, physical offset \d+.*badBodies=null"):
        spark.read.format("flaremq").options(**options, badBodies="fail").load().collect()


def test_stream_goes_on(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> None:
    rows = spark.readStream.format("flaremq").options(**options, startingOffsets="earliest").load()
    query = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "check"))
    query.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    read = spark.read.parquet(str(tmp_path / "out"))
    assert (read.count(), read.where("body is null").count()) == (len(ONE_OF_EACH), BAD)


def test_sql_and_report_answer(spark: SparkSession, options: dict[str, str]) -> None:
    found = run_sql(spark, "SELECT count(*), count(body) FROM messages", options).collect()
    assert tuple(found[0]) == (len(ONE_OF_EACH), len(ONE_OF_EACH) - BAD)
    assert report(spark, options).to_json()["summary"]["messages"] == len(ONE_OF_EACH)


def test_archive_holds_all_and_is_proved(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> None:
    place = {name: text for name, text in options.items() if name != "maxInflatedBytes"}
    archive(spark, place, out=str(tmp_path))
    found = spark.read.format("flaremq").options(archive=str(tmp_path), columns="body,bodyError").load()
    small_bombs = 4  # under the default limit they are honest
    assert (found.count(), found.where("bodyError is not null").count()) == (len(ONE_OF_EACH), BAD - small_bombs)
    assert spark.read.parquet(f"{tmp_path}/topic={TOPIC}").where("bodyError is not null and body is not null").count()
    result = verify(spark, path=options["path"], properties=SIZES, archive=str(tmp_path), broker_name="broker-a")
    assert (result.verdict, result.archived_equal) == ("sound", len(ONE_OF_EACH))
