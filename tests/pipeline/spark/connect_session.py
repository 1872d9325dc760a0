"""Everything once through Spark Connect: reads, a stream, the sink, tables and the jobs.

``python -m tests.pipeline.spark.connect_session URL FOLDER``: prints a JSON object with what each gave. A process of
its own, because PySpark keeps one kind of session a process.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flaremq
from flaremq.errors import FlareMQError
from flaremq.pipeline.jobs.archive import archive
from flaremq.pipeline.jobs.rebuild.job import rebuild
from flaremq.pipeline.jobs.replay import replay
from flaremq.pipeline.jobs.report.job import report
from flaremq.pipeline.jobs.session import master_of, spark_session
from flaremq.pipeline.jobs.sql.job import SqlViews
from flaremq.pipeline.jobs.tasks import parallelism, run_tasks
from flaremq.pipeline.jobs.verify.job import verify
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions
from tests.pipeline.conftest import SIZES, fill_store
from tests.support import planted

COUNT = 120


class Steps:
    """What each step gave, and how long it took."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def run(self, name: str, step: Callable[[], Any]) -> None:
        began = time.monotonic()
        try:
            self.found[name] = step()
        except Exception as error:  # told of with what the other steps gave
            self.found[name] = f"{type(error).__name__}: {str(error).partition('JVM stacktrace')[0]}"
        print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.stderr)


def main(url: str, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    store = fill_store(folder / "store", count=COUNT)
    options = {"path": str(store.root), "maxHashSlotNum": "200", "maxIndexNum": "800"}
    with MessageStore.open(folder / "target", StoreOptions.from_properties(SIZES)) as _:
        pass  # an empty store, to write to
    target = {"path": str(folder / "target"), **SIZES}
    spark = spark_session(url)
    steps = Steps()
    progress: list[tuple[str, int, int]] = []

    def read(**more: str) -> Any:
        return spark.read.format("flaremq").options(**{**options, **more}).load()

    def stream() -> Any:
        frame = spark.readStream.format("flaremq").options(**options, topic="orders", startingOffsets="earliest").load()
        query = (
            frame.select("keys", "body")
            .writeStream.format("flaremq")
            .options(**target, topic="streamed", checkpointLocation=str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return spark.read.format("flaremq").options(**target, topic="streamed").load().count()

    def sink() -> Any:
        rows = read(topic="users").select("keys", "body")
        rows.write.format("flaremq").mode("append").options(**target, topic="sunk").save()
        return spark.read.format("flaremq").options(**target, topic="sunk").load().count()

    def table() -> Any:
        written = ", ".join(f"{name} '{value}'" for name, value in options.items())
        spark.sql(f"CREATE TABLE kept USING flaremq OPTIONS ({written}, topic 'users')")
        return spark.sql("SELECT count(*) AS n FROM kept").first()["n"]

    def views() -> Any:
        with SqlViews(spark, options) as found:
            return [
                list(row) for row in found.run("SELECT topic, count(*) FROM messages GROUP BY 1 ORDER BY 1").collect()
            ]

    def pruned() -> Any:
        frame: Any = flaremq.table(spark, store.root, topic="orders", maxHashSlotNum=200, maxIndexNum=800)
        paid = frame.where("tags = 'paid'").groupBy("queueId").count()
        keys = frame.select("keys").cache()
        frame.createOrReplaceTempView("pruned_orders")
        found = {
            "columns": {"paid": _scanned(paid), "count": _scanned(frame.groupBy().count()), "all": _scanned(frame)},
            "paid": sum(row["count"] for row in paid.collect()),
            "counts": [frame.count(), keys.count(), keys.where("keys IS NOT NULL").count()],
            "cached": "InMemoryTableScan" in keys.where("keys IS NOT NULL")._explain_string(),
            "joined": frame.alias("a").join(frame.alias("b"), ["queueId", "queueOffset"]).select("a.keys").count(),
            "sql": spark.sql("SELECT count(tags) AS n FROM pruned_orders").first()["n"],
        }
        keys.unpersist()
        return found

    def told(name: str, done: int, total: int) -> None:
        progress.append((name, done, total))

    steps.run("master", lambda: master_of(spark))
    steps.run("parallelism", lambda: parallelism(spark))
    steps.run("tasks", lambda: run_tasks(spark, range(5), abs, what="abs", on_progress=told))
    steps.run("refused", lambda: run_tasks(spark, [7], _refusal(), what="refuse"))
    steps.run("batch", lambda: sorted(map(list, read().groupBy("topic").count().collect())))
    steps.run("missing", lambda: _error(lambda: read(topic="ordres").count()))
    steps.run("secret", lambda: _error(lambda: read(accessKey="app", secretKey=planted.CLIENT).count()))
    steps.run("sink", sink)
    steps.run("stream", stream)
    steps.run("table", table)
    steps.run("archive", lambda: archive(spark, options, str(folder / "archive"), on_progress=told).to_json())
    steps.run("verify", lambda: verify(spark, path=str(store.root), properties=SIZES).to_json()["verdict"])
    steps.run(
        "rebuild", lambda: rebuild(spark, path=str(store.root), out=str(folder / "rebuilt"), properties=SIZES).to_json()
    )
    steps.run(
        "replay",
        lambda: replay(
            spark, options | {"topic": "orders"}, to_path=target["path"], to_topic="again", to_options=SIZES
        ).to_json(),
    )
    steps.run("report", lambda: report(spark, options, out=str(folder / "report.html")).to_json())
    steps.run("sql", views)
    steps.run("pruned", pruned)
    steps.found["progress"] = progress
    print(json.dumps(steps.found))
    spark.stop()


def _scanned(frame: Any) -> list[str]:
    """The columns of the scan, as the server plans it."""
    found = re.search(r"BatchScan [^\[]*\[([^\]]*)\]", frame._explain_string())
    return [] if found is None else [name.partition("#")[0].strip() for name in found[1].split(",")]


def _refusal() -> Callable[[int], int]:
    """By value: the server does not have this module."""

    def refuse(number: int) -> int:
        from flaremq.errors import InvalidArgumentError

        raise InvalidArgumentError(f"task {number} is refused")

    return refuse


def _error(ask: Callable[[], Any]) -> str:
    from flaremq.pipeline.jobs.tasks import translated_errors

    try:
        with translated_errors():
            return str(ask())
    except FlareMQError as error:
        return str(error)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
