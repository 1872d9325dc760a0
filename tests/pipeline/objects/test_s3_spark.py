"""Spark's own configuration leads jobs to an object store; a reader is told by its options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from flaremq.pipeline.jobs.archive import archive
from flaremq.pipeline.jobs.table import table
from flaremq.pipeline.jobs.verify.job import verify
from flaremq.pipeline.tables.model.target import parse_target
from flaremq.pipeline.tables.open import open_table
from tests.pipeline.conftest import FilledStore
from tests.support.s3_lab import BUCKET, BUSY, CUT, Fault, S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def access(server: S3Server, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """In the session as Hadoop has it, and nowhere in the environment."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    settings = {
        "fs.s3a.endpoint": server.endpoint,
        "fs.s3a.access.key": "test",
        "fs.s3a.secret.key": "testsecret",
    }
    server.fail()
    for name, value in settings.items():
        spark.conf.set(f"spark.hadoop.{name}", value)
    yield settings
    for name in settings:
        spark.conf.unset(f"spark.hadoop.{name}")


def test_archive_is_written_checked_and_read(
    spark: SparkSession, server: S3Server, access: dict[str, str], orders_store: FilledStore
) -> None:
    place = f"s3a://{BUCKET}/spark-archive"
    server.fail(Fault("PUT", "part-", BUSY), Fault("PUT", "manifest-", CUT))
    result = archive(spark, orders_store.options, place)
    assert server.left == [] and result.rows == len(orders_store.rows)
    assert archive(spark, orders_store.options, place).rows == 0
    found = verify(spark, path=str(orders_store.root), archive=place, broker_name="broker-a")
    assert found.verdict == "sound" and found.archived_equal == len(orders_store.rows)
    reader = spark.read.format("flaremq").options(**access, archive=place, columns="topic,queueId,queueOffset")
    rows = sorted(tuple(row) for row in reader.load().collect())
    assert rows == sorted((row["topic"], row["queueId"], row["queueOffset"]) for row in orders_store.rows)
    plan = reader.load()._jdf.queryExecution().toString()
    assert "testsecret" not in plan


def test_table_is_written_by_tasks(
    spark: SparkSession, server: S3Server, access: dict[str, str], orders_store: FilledStore
) -> None:
    target = parse_target(f"delta:s3a://{BUCKET}/spark-table")
    (result,) = table(spark, orders_store.options | {"topic": "orders"}, target)
    told = parse_target(f"delta:s3a://{BUCKET}/spark-table", options=access)
    assert result.rows == sum(batch.num_rows for batch in open_table(told).read(["queueOffset"])) == 360
