"""Everything once on a cluster: reads, a stream, the sink and the jobs. ``jobs.py ARGUMENTS-AS-JSON``."""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession
from steps import ROW, Steps, look, rows_digest

STORE_OPTIONS = ("maxHashSlotNum", "maxIndexNum")


def main(given: dict[str, Any]) -> None:
    spark = SparkSession.builder.getOrCreate()
    steps = Steps()
    out = given["out"]
    by_path = {"path": given["store"], **{name: given[name] for name in STORE_OPTIONS}}
    by_wire = {"nameServer": given["name_server"]}
    topics = given["topics"]

    def read(**options: str) -> Any:
        return spark.read.format("flaremq").options(**options).load()

    def stream_once() -> Any:
        stream = spark.readStream.format("flaremq").options(**by_wire, topic=given["live_topic"])
        rows = stream.option("startingOffsets", "earliest").option("columns", ",".join(ROW)).load()
        writer = rows.writeStream.format("parquet").option("path", f"{out}/stream")
        query = writer.option("checkpointLocation", f"{out}/checkpoint").trigger(availableNow=True).start()
        query.awaitTermination()
        return rows_digest(spark.read.parquet(f"{out}/stream"))

    def send_more() -> None:
        from flaremq import Message
        from flaremq.sync import Producer

        with Producer(given["name_server"], group="cluster-test") as producer:
            for number in range(given["more"]):
                producer.send(Message(given["live_topic"], b"more %d" % number, keys=f"more-{number}"))

    def archive() -> Any:
        from flaremq.pipeline.jobs.archive import archive

        return archive(spark, {**by_path, "topic": topics}, f"{out}/archive").to_json()

    def verify() -> Any:
        from flaremq.pipeline.jobs.verify.job import verify

        return verify(spark, path=given["store"], properties=_geometry(given)).to_json()

    def rebuild() -> Any:
        from flaremq.pipeline.jobs.rebuild.job import rebuild

        return rebuild(spark, path=given["store"], out=f"{out}/rebuilt", properties=_geometry(given)).to_json()

    def sink() -> Any:
        rows = read(**by_path, topic=topics).select("keys", "body")
        rows.write.format("flaremq").mode("append").options(**by_wire, topic="sunk").save()
        return sorted(row[0] for row in read(**by_wire, topic="sunk", columns="keys").collect())

    steps.run("look", lambda: spark.sparkContext.parallelize(range(4), 4).map(look).collect())
    steps.run("by path", lambda: rows_digest(read(**by_path, topic=topics, minPartitions="5")))
    steps.run("count", lambda: read(**by_path, topic=topics, columns="queueOffset").count())
    steps.run("by wire", lambda: rows_digest(read(**by_wire, topic=given["live_topic"])))
    steps.run("stream", stream_once)
    steps.run("send more", send_more)
    steps.run("stream again", stream_once)
    steps.run("archive", archive)
    steps.run("archive read back", lambda: rows_digest(read(archive=f"{out}/archive", topic=topics)))
    steps.run("verify", verify)
    steps.run("rebuild", rebuild)
    steps.run("sink", sink)
    spark.stop()


def _geometry(given: dict[str, Any]) -> dict[str, str]:
    return {name: given[name] for name in STORE_OPTIONS}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
