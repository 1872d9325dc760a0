"""What users do first, on the Spark of the environment that runs this: reading, streaming, writing, a job.

``make spark-versions`` runs it on each Spark that FlareMQ is for. Each step that went well is a line.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

import flaremq
from flaremq import Message, MessageStore
from flaremq.pipeline.jobs.archive import archive
from flaremq.pipeline.jobs.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT = 300


def main() -> None:
    expected = sys.argv[1]
    assert pyspark.__version__ == expected, f"this is Spark {pyspark.__version__}, not {expected}"
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        with MessageStore.open(place / "store") as store:
            for number in range(COUNT):
                store.put(Message("orders", b"%d" % number, keys=[f"o-{number}"]), queue_id=number % 3)
        spark = spark_session("local[2]", settings={"spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "2"})
        try:
            for step in (read, table, stream, stream_into_sink, write, archive_and_read):
                step(spark, place)
                print(f"Spark {expected}: {step.__name__} ok", flush=True)
        finally:
            spark.stop()


def read(spark: SparkSession, place: Path) -> None:
    messages = spark.read.format("flaremq").load(str(place / "store"))
    assert numbers(messages) == list(range(COUNT))
    assert messages.where("queueId = 1 AND keys = 'o-4'").selectExpr("string(body)").collect() == [("4",)]
    narrow = spark.read.format("flaremq").option("columns", "queueId,queueOffset").load(str(place / "store"))
    assert narrow.groupBy("queueId").count().orderBy("queueId").collect() == [(queue, COUNT // 3) for queue in range(3)]


def table(spark: SparkSession, place: Path) -> None:
    orders = flaremq.table(spark, place / "store", topic="orders")
    assert numbers(orders) == list(range(COUNT))
    assert columns_read(orders.select("keys")) == {"keys"}
    assert columns_read(orders.groupBy().count()) == {"queueId"}
    assert columns_read(orders.where("keys = 'o-4'").select("queueOffset")) == {"keys", "queueOffset"}
    assert orders.where("keys = 'o-4'").select("queueId", "queueOffset").collect() == [(1, 1)]
    orders.createOrReplaceTempView("smoke")
    query = "SELECT max(queueOffset) FROM smoke WHERE queueId = (SELECT max(queueId) FROM smoke)"
    assert spark.sql(query).collect() == [(COUNT // 3 - 1,)]
    joined = orders.alias("a").join(orders.alias("b"), ["queueId", "queueOffset"]).select("a.keys", "b.body")
    assert joined.count() == COUNT
    keys = orders.select("keys").cache()
    assert keys.count() == keys.where("keys IS NOT NULL").count() == COUNT
    keys.unpersist()


def columns_read(frame: DataFrame) -> set[str]:
    """What the scan of a query delivers."""
    plan: Any = frame._jdf
    scan = plan.queryExecution().optimizedPlan().collectLeaves().head().scan()
    return set(scan.readSchema().fieldNames())


def stream(spark: SparkSession, place: Path) -> None:
    for _ in range(2):  # the second run finds nothing new
        query = source(spark, place / "store").writeStream.format("parquet")
        run(query.option("path", str(place / "copy")), place / "stream")
    assert numbers(spark.read.parquet(str(place / "copy"))) == list(range(COUNT))


def stream_into_sink(spark: SparkSession, place: Path) -> None:
    rows = source(spark, place / "store").selectExpr("body", "keys")
    for _ in range(2):
        query = rows.writeStream.format("flaremq").option("topic", "streamed").option("path", str(place / "other"))
        run(query, place / "sink")
    assert numbers(messages_of(spark, place / "other", "streamed")) == list(range(COUNT))


def write(spark: SparkSession, place: Path) -> None:
    rows = spark.range(40).selectExpr("string(id) AS body", "'t' AS tags")
    for _ in range(2):
        writer = rows.write.format("flaremq").mode("append").option("topic", "written").option("writeId", "once")
        writer.save(str(place / "other"))
    assert numbers(messages_of(spark, place / "other", "written")) == list(range(40))


def archive_and_read(spark: SparkSession, place: Path) -> None:
    assert archive(spark, {"path": str(place / "store")}, str(place / "archive")).rows == COUNT
    both = spark.read.format("flaremq").option("archive", str(place / "archive")).option("path", str(place / "store"))
    assert numbers(both.load()) == list(range(COUNT))


def source(spark: SparkSession, store: Path) -> DataFrame:
    return spark.readStream.format("flaremq").option("startingOffsets", "earliest").load(str(store))


def run(writer: Any, checkpoint: Path) -> None:
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()


def messages_of(spark: SparkSession, store: Path, topic: str) -> DataFrame:
    return spark.read.format("flaremq").option("topic", topic).load(str(store))


def numbers(rows: DataFrame) -> list[int]:
    return sorted(int(row[0]) for row in rows.selectExpr("string(body)").collect())


if __name__ == "__main__":
    main()
