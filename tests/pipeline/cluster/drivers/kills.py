"""The same with an executor that is killed while it works: in a read, in ``archive``, in a stream into the sink."""

import json
import os
import sys
from typing import Any

from pyspark.sql import SparkSession
from steps import ROW, Steps, die_once, dying_map, rows_digest

from flaremq.pipeline.jobs.package import ship


def main(given: dict[str, Any]) -> None:
    spark = SparkSession.builder.getOrCreate()
    ship(spark)  # instead of PYTHONPATH
    steps = Steps()
    out = given["out"]
    by_path = {name: given[name] for name in ("maxHashSlotNum", "maxIndexNum")} | {"path": given["store"]}
    by_wire = {"nameServer": given["name_server"]}
    topics = given["topics"]

    def read(**options: str) -> Any:
        return spark.read.format("flaremq").options(**options).load()

    def killed_read() -> Any:
        table = read(**by_path, topic=topics, minPartitions="6", columns=",".join(ROW))
        answer = rows_digest(table.mapInArrow(dying_map(f"{out}/died-reading"), table.schema))
        return {**answer, "died": os.path.exists(f"{out}/died-reading")}

    def killed_archive() -> Any:
        from flaremq.pipeline.jobs.archive import increment, job

        # Several tasks of a small store; planned here, on the driver.
        increment.TASK_BYTES = given["archive_task_bytes"]
        run_task, marker = job.run_archive_task, f"{out}/died-archiving"

        def dying(task: Any) -> Any:
            answer = run_task(task)
            die_once(marker)  # its files are written, nobody knows yet
            return answer

        job.run_archive_task = dying
        result = job.archive(spark, {**by_path, "topic": topics}, f"{out}/archive")
        return {"rows": result.rows, "files": result.files, "died": os.path.exists(marker)}

    def killed_sink() -> Any:
        """Two micro-batches, an executor killed in the first."""
        stream = spark.readStream.format("flaremq").options(**by_path, topic=topics, columns="keys,body")
        rows = stream.option("startingOffsets", "earliest").option("minPartitions", "4").load()
        marker = f"{out}/died-sinking"
        rows = rows.mapInArrow(dying_map(marker), rows.schema)
        writer = rows.writeStream.format("flaremq").options(**by_wire, topic="sunk-stream")
        query = writer.option("checkpointLocation", f"{out}/checkpoint").trigger(availableNow=True).start()
        query.awaitTermination()
        keys = [row[0] for row in read(**by_wire, topic="sunk-stream", columns="keys").collect()]
        return {"rows": len(keys), "distinct": len(set(keys)), "died": os.path.exists(marker)}

    steps.run("read", killed_read)
    steps.run("archive", killed_archive)
    steps.run("archive read back", lambda: rows_digest(read(archive=f"{out}/archive", topic=topics)))
    steps.run("sink", killed_sink)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
