"""The cases on Kafka's side: ``format("kafka")`` as its users write it, the better way where there are two."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.lakehouse.bodies import FIELDS
from benchmarks.spark.latency import LatencyQuery
from benchmarks.spark.output import cleared, parquet_bytes, run_to_end
from benchmarks.spark.rows import TOPIC
from benchmarks.timing import Row

_KEPT = ("topic", "partition", "offset", "timestamp", "key", "value")  # what goes to Parquet


def cases(spark: Any, settings: dict[str, Any]) -> dict[str, Callable[..., Row]]:
    from pyspark.sql import functions as F

    scratch = Path(settings["scratch"])
    latency = LatencyQuery(spark, scratch / "latency-kafka")

    def read(**options: object) -> Any:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", settings["bootstrap"])
        reader = reader.option("subscribe", TOPIC)
        for name, value in options.items():
            reader = reader.option(name, str(value))
        return reader.load()

    def count() -> Row:
        return {"check": read().count()}

    def columns() -> Row:
        row = read().select("partition", "offset").agg(F.count("*"), F.max("offset"), F.sum("partition")).first()
        return {"check": list(row)}

    def bodies() -> Row:
        return {"check": read().select(F.sum(F.length("value"))).first()[0]}

    def needle(key: str) -> Row:
        found = read().where(F.col("key") == F.lit(key.encode())).select("offset", F.length("value")).collect()
        return {"check": [list(row) for row in found]}

    def minute(begin_ms: int, end_ms: int, how: str) -> Row:
        if how == "options":
            table = read(startingTimestamp=begin_ms, endingTimestamp=end_ms)
        else:
            begin, end = (F.timestamp_millis(F.lit(each)) for each in (begin_ms, end_ms))
            table = read().where((F.col("timestamp") >= begin) & (F.col("timestamp") < end))
        return {"check": list(table.select(F.count("*"), F.sum(F.length("value"))).first())}

    def to_parquet() -> Row:
        out = cleared(scratch / "kafka.parquet")
        read().select(*_KEPT).write.parquet(str(out))
        return {"out_bytes": parquet_bytes(out)}

    def append() -> Row:
        out = cleared(scratch / "kafka.parquet")
        read().select(*_KEPT).write.mode("append").parquet(str(out))
        return {"out_bytes": parquet_bytes(out)}

    def json_fields() -> Row:
        body = F.from_json(F.col("value").cast("string"), FIELDS)
        rows = read().select(body.alias("json")).select("json.*")
        return {"check": list(rows.select(F.count("id"), F.sum("amount"), F.max("id")).first())}

    def available_now() -> Row:
        out = cleared(scratch / "kafka-stream")
        stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", settings["bootstrap"])
        stream = stream.option("subscribe", TOPIC).option("startingOffsets", "earliest").load().select(*_KEPT)
        return run_to_end(stream, out)

    def sink(topic: str) -> Row:
        rows = spark.read.parquet(settings["sink"]).selectExpr("keys AS key", "body AS value")
        writer = rows.write.format("kafka").option("kafka.bootstrap.servers", settings["bootstrap"])
        writer.option("topic", topic).option("kafka.acks", "1").save()
        return {}

    def latency_start(topic: str) -> Row:
        stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", settings["bootstrap"])
        latency.start(stream.option("subscribe", topic).option("startingOffsets", "latest").load().select("value"))
        return {}

    return {
        "count": count,
        "columns": columns,
        "bodies": bodies,
        "needle": needle,
        "minute": minute,
        "archive": to_parquet,
        "append": append,
        "json_fields": json_fields,
        "available_now": available_now,
        "sink": sink,
        "latency_start": latency_start,
        "latency_stop": latency.stop,
    }
