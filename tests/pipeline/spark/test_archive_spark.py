"""The archive job in a real Spark, and its result in Spark, DuckDB and Polars."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars
import pytest

from flaremq.errors import CorruptionError, NotFoundError
from flaremq.pipeline.archive.manifest import Manifest
from flaremq.pipeline.jobs.archive import archive
from flaremq.pipeline.jobs.archive.job import ArchiveResult
from tests.pipeline.conftest import FilledStore, fill_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACE = ("topic", "queueId", "queueOffset", "body")


@pytest.fixture(scope="module")
def archived(
    spark: SparkSession, orders_store: FilledStore, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, ArchiveResult]:
    out = tmp_path_factory.mktemp("archive") / "orders"
    return out, archive(spark, orders_store.options, str(out))


def places(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((row[0], row[1], row[2], bytes(row[3])) for row in frame.select(*PLACE).collect())


def test_result_tells_rows_and_ranges(archived: tuple[Path, ArchiveResult], orders_store: FilledStore) -> None:
    out, result = archived
    told = result.to_json()
    assert (told["rows"], told["increments"], told["gaps"]) == (600, 1, [])
    assert told["archive"] == str(out)
    assert sum(entry["messages"] for entry in told["ranges"]) == 600
    assert {(entry["topic"], entry["brokerName"]) for entry in told["ranges"]} == {
        ("orders", "broker-a"),
        ("users", "broker-a"),
        ("%RETRY%billing", "broker-a"),
    }


def test_spark_duckdb_and_polars_read_the_files_as_they_are(
    spark: SparkSession, archived: tuple[Path, ArchiveResult], orders_store: FilledStore
) -> None:
    out, _ = archived
    expected = orders_store.offsets(*PLACE)
    frame = spark.read.parquet(str(out))
    assert places(frame) == expected
    assert {"topic", "day", "brokerName", "properties", "storeTimestamp"} <= set(frame.columns)
    assert frame.where("topic = '%RETRY%billing'").count() == 120
    files = f"{out}/**/*.parquet"
    query = "select topic, queueId, queueOffset, body from read_parquet(?, hive_partitioning = true) order by all"
    assert duckdb.execute(query, [files]).fetchall() == expected
    table = polars.scan_parquet(files, hive_partitioning=True).select(*PLACE).collect()
    assert sorted(table.rows()) == expected


def test_rows_of_a_file_are_sorted_by_queue_and_offset(archived: tuple[Path, ArchiveResult]) -> None:
    out, _ = archived
    for file in Manifest.load(str(out)).files:
        rows = duckdb.execute("select brokerName, queueId, queueOffset from read_parquet(?)", [f"{out}/{file.path}"])
        assert (found := rows.fetchall()) == sorted(found)


def test_archive_is_a_table_of_its_own(
    spark: SparkSession, archived: tuple[Path, ArchiveResult], orders_store: FilledStore
) -> None:
    reader = spark.read.format("flaremq").option("archive", str(archived[0]))
    assert places(reader.load()) == orders_store.offsets(*PLACE)
    paid = (
        reader.option("topic", "orders").option("subExpression", "paid").option("columns", "queueId,queueOffset").load()
    )
    assert sorted(tuple(row) for row in paid.collect()) == orders_store.offsets(
        "queueId", "queueOffset", topic="orders", tags="paid"
    )
    keyed = spark.read.format("flaremq").option("archive", str(archived[0])).option("keys", "k-17").load()
    assert [row["keys"] for row in keyed.collect()] == ["k-17 shared-17"]


def test_one_table_and_one_stream_over_archive_and_log(
    spark: SparkSession, fresh_store: FilledStore, tmp_path: Path
) -> None:
    archive(spark, fresh_store.options, str(tmp_path / "archive"))
    more = fill_store(fresh_store.root, count=200, first=600)
    expected = sorted(fresh_store.offsets(*PLACE) + more.offsets(*PLACE))
    both = fresh_store.options | {"archive": str(tmp_path / "archive")}
    assert places(spark.read.format("flaremq").options(**both).load()) == expected
    stream = spark.readStream.format("flaremq").options(**both, startingOffsets="earliest", maxOffsetsPerTrigger="150")
    query = (
        stream.load()
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "copy"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert places(spark.read.parquet(str(tmp_path / "copy"))) == expected


def test_follow_picks_up_new_rows_until_it_is_stopped(
    spark: SparkSession, fresh_store: FilledStore, tmp_path: Path
) -> None:
    class Waits(threading.Event):
        """The log grows while the job waits; at the second wait it is told to stop."""

        rounds = 0

        def wait(self, timeout: float | None = None) -> bool:
            self.rounds += 1
            if self.rounds == 1:
                fill_store(fresh_store.root, count=30, first=600)
            return self.rounds == 2

    stop = Waits()
    result = archive(spark, fresh_store.options, str(tmp_path / "archive"), follow=True, interval=0.01, stop=stop)
    assert (result.rows, result.increments) == (630, 2)
    again = archive(spark, fresh_store.options, str(tmp_path / "archive"))
    assert (again.rows, again.increments) == (0, 0)


def test_damaged_file_is_told_by_name_through_spark(
    spark: SparkSession, orders_store: FilledStore, tmp_path: Path
) -> None:
    from flaremq.pipeline.jobs.tasks import translated_errors

    archive(spark, orders_store.options | {"topic": "users"}, str(tmp_path))
    path = next(tmp_path.rglob("*.parquet"))
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptionError, match=path.name), translated_errors():
        spark.read.format("flaremq").option("archive", str(tmp_path)).load().collect()


def test_directory_that_is_no_archive_is_told_on_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    from flaremq.pipeline.jobs.tasks import translated_errors

    with pytest.raises(NotFoundError, match="is no archive"), translated_errors():
        spark.read.format("flaremq").option("archive", str(tmp_path)).load().collect()
