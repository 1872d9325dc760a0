"""The cases on our side: ``format("flaremq")`` on store files (and over the wire where it says so), and the jobs."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.lakehouse.bodies import FIELDS
from benchmarks.messages import QUEUES
from benchmarks.spark.latency import LatencyQuery
from benchmarks.spark.output import cleared, parquet_bytes, run_to_end
from benchmarks.spark.rows import TOPIC
from benchmarks.timing import Row

_KEPT = "topic,queueId,queueOffset,storeTimestamp,keys,body"  # the same as on Kafka's side


def cases(spark: Any, settings: dict[str, Any]) -> dict[str, Callable[..., Row]]:
    from pyspark.sql import functions as F

    scratch = Path(settings["scratch"])
    latency = LatencyQuery(spark, scratch / "latency-flaremq")

    def read(store: str | None = None, **options: object) -> Any:
        reader = spark.read.format("flaremq")
        options.setdefault("topic", TOPIC)
        if "nameServer" not in options:
            options["path"] = store or settings["store"]
        for name, value in options.items():
            reader = reader.option(name, str(value))
        return reader.load()

    def count() -> Row:
        return {"check": read(columns="queueOffset").count()}

    def count_all() -> Row:
        return {"check": read().count()}

    def columns() -> Row:
        table = read(columns="queueId,queueOffset")
        return {"check": list(table.agg(F.count("*"), F.max("queueOffset"), F.sum("queueId")).first())}

    def headers() -> Row:
        table = read(columns="queueOffset,keys,storeTimestamp")
        return {"check": list(table.agg(F.count("*"), F.max("queueOffset")).first())}

    def bodies(store: str | None = None, wire: str | None = None, topic: str = TOPIC) -> Row:
        where = {"nameServer": wire} if wire else {}
        table = read(store, columns="body", topic=topic, **where)
        return {"check": table.select(F.sum(F.length("body"))).first()[0]}

    def needle(key: str, store: str | None = None) -> Row:
        found = read(store, keys=key, columns="queueOffset,body").select("queueOffset", F.length("body")).collect()
        return {"check": [list(row) for row in found]}

    def minute(begin_ms: int, end_ms: int, store: str | None = None) -> Row:
        table = read(store, startingTimestamp=begin_ms, endingTimestamp=end_ms, columns="body")
        return {"check": list(table.select(F.count("*"), F.sum(F.length("body"))).first())}

    def part(start: int, end: int, store: str | None = None) -> Row:
        """The same offsets of every queue, with bodies."""
        broker = Path(store or settings["store"]).name
        starting, ending = (
            json.dumps({TOPIC: {broker: {str(queue): each for queue in range(QUEUES)}}}) for each in (start, end)
        )
        table = read(store, startingOffsets=starting, endingOffsets=ending, columns="body")
        return {"check": list(table.select(F.count("*"), F.sum(F.length("body"))).first())}

    def archive_job() -> Row:
        from flaremq.pipeline.jobs.archive import archive

        out = cleared(scratch / "flaremq-archive")
        result = archive(spark, {"path": settings["store"], "topic": TOPIC}, str(out))
        return {"rows": result.rows, "out_bytes": parquet_bytes(out)}

    def table_job() -> Row:
        from flaremq.pipeline.jobs.table import table
        from flaremq.pipeline.tables.model.target import parse_target

        out = cleared(scratch / "flaremq-lake")
        target = parse_target("iceberg:lake.bench.rows", warehouse=str(out))
        (result,) = table(spark, {"path": settings["store"], "topic": TOPIC}, target)
        return {"rows": result.rows, "out_bytes": result.file_bytes}

    def two_fields(rows: Any) -> Row:
        found = rows.select(F.count("id"), F.sum("amount"), F.max("id")).first()
        return {"check": list(found)}

    def json_fields() -> Row:
        return two_fields(read(columns="id,amount", bodyFormat="json", bodySchema=FIELDS))

    def json_of_raw() -> Row:
        body = F.from_json(F.col("body").cast("string"), FIELDS)
        return two_fields(read(columns="body").select(body.alias("json")).select("json.*"))

    def available_now(*, by_tasks: bool = False) -> Row:
        out = cleared(scratch / "flaremq-stream")
        stream = spark.readStream.format("flaremq").option("path", settings["store"]).option("topic", TOPIC)
        stream = stream.option("startingOffsets", "earliest").option("columns", _KEPT)
        if by_tasks:  # Spark's own sink gets the list of files
            stream = stream.option("parquetPath", str(out / "rows" / "messages"))
        return run_to_end(stream.load(), out)

    def sink(topic: str, name_server: str) -> Row:
        rows = spark.read.parquet(settings["sink"])
        rows.write.format("flaremq").mode("append").option("nameServer", name_server).option("topic", topic).save()
        return {}

    def latency_start(topic: str, name_server: str = "", store: str = "") -> Row:
        stream = spark.readStream.format("flaremq").option("topic", topic).option("columns", "body")
        stream = stream.option("startingOffsets", "latest")
        stream = stream.option("nameServer", name_server) if name_server else stream.option("path", store)
        latency.start(stream.load())
        return {}

    def verify_job(store: str) -> Row:
        from flaremq.pipeline.jobs.verify.job import verify

        begin = time.perf_counter()
        result = verify(spark, path=store)
        return {"seconds": round(time.perf_counter() - begin, 3), "verdict": result.verdict, "rows": result.records}

    def rebuild_job(store: str) -> Row:
        from flaremq.pipeline.jobs.rebuild.job import rebuild

        out = cleared(scratch / "rebuilt")
        begin = time.perf_counter()
        rebuild(spark, path=store, out=str(out), in_place=False)
        row: Row = {"seconds": round(time.perf_counter() - begin, 3)}
        shutil.rmtree(out, ignore_errors=True)
        return row

    return {
        "count": count,
        "count_all": count_all,
        "columns": columns,
        "headers": headers,
        "bodies": bodies,
        "needle": needle,
        "minute": minute,
        "part": part,
        "archive": archive_job,
        "table": table_job,
        "json_fields": json_fields,
        "json_of_raw": json_of_raw,
        "available_now": available_now,
        "available_now_by_tasks": lambda: available_now(by_tasks=True),
        "sink": sink,
        "latency_start": latency_start,
        "latency_stop": latency.stop,
        "verify": verify_job,
        "rebuild": rebuild_job,
    }
