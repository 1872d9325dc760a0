"""The Spark side of the demo: a live stream as a consumer group, then archive, proof, SQL and report over the files."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from flaremq.cli import failure
from flaremq.cli.demo.lake import orders_as_table
from flaremq.cli.demo.summary import Summary
from flaremq.cli.demo.traffic import RETRY_TOPIC, STREAMED, Tally
from flaremq.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable

STREAM_GROUP = "spark-demo"
_NEEDLE = "o-4242"


class DemoSpark:
    """One session. Its steps may be asked of several threads, each step of one."""

    def __init__(self, summary: Summary, path: str, master: str) -> None:
        self._summary = summary
        self._master = master
        self._path = path
        self._store = os.path.join(path, "store")
        self._archive = os.path.join(path, "archive")
        self._report = os.path.join(path, "report.html")
        self._certificate = os.path.join(path, "certificate.json")
        self._checkpoint = os.path.join(path, "checkpoint")
        self._spark: Any = None
        self._query: Any = None
        self._error: BaseException | None = None
        self._batches: dict[int, Counter[tuple[str, str]]] = {}

    def start(self) -> None:
        """Meant for a thread of its own; ``raise_if_failed`` raises what went wrong."""
        from flaremq.pipeline.jobs.session import hush, spark_session

        try:
            self._spark = spark_session(self._master, name="flaremq-demo", quiet=not failure.wants_traceback())
            hush(self._spark)
            logging.getLogger("py4j").setLevel(logging.ERROR)
        except BaseException as error:  # raised where it is waited for
            self._error = error

    def raise_if_failed(self) -> None:
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()
        if self._spark is not None:
            self._spark.stop()

    # Live

    def start_stream(self, name_server: str) -> None:
        stream = (
            self._spark.readStream.format("flaremq")
            .option("nameServer", name_server)
            .option("topic", ",".join(STREAMED))
            .option("startingOffsets", "earliest")
            .option("consumerGroup", STREAM_GROUP)
            .option("columns", "topic,tags")
            .load()
        )
        writer = stream.writeStream.foreachBatch(self._count).option("checkpointLocation", self._checkpoint)
        self._query = writer.trigger(processingTime="1 second").start()

    def wait_for_first_batch(self) -> None:
        """Return when the stream has begun to consume."""
        from flaremq.pipeline.jobs.tasks import translated_errors

        while not self._batches:
            if not self._query.isActive:
                with translated_errors():
                    self._query.awaitTermination()  # raises what ended it
                raise UnavailableError("the Spark stream ended before it read anything")
            time.sleep(0.1)

    def _count(self, batch: Any, number: int) -> None:
        # By batch number: a batch that is run again replaces its count, it does not add to it.
        rows: Iterable[Any] = batch.groupBy("topic", "tags").count().collect()
        self._batches[number] = Counter({(row["topic"], row["tags"]): row["count"] for row in rows})

    def finish_stream(self, name_server: str, tally: Tally) -> None:
        from flaremq.pipeline.jobs.tasks import translated_errors

        with translated_errors():
            self._query.processAllAvailable()
        self._query.stop()
        self._query = None
        counted: Counter[tuple[str, str]] = Counter()
        for batch in self._batches.values():
            counted += batch
        summary = self._summary
        summary.numbers["streamBatches"] = len(self._batches)
        summary.step(f"The Spark stream consumed {counted.total():,} messages in {len(self._batches)} micro-batches.")
        for topic in STREAMED:
            found = sum(count for (name, _), count in counted.items() if name == topic)
            summary.check(f"{topic}: streamed by Spark", found, tally.stored[topic])
        summary.check("all tags as sent", counted == tally.tags, True)
        summary.check(f"lag of group {STREAM_GROUP}", asyncio.run(_lag(name_server, STREAM_GROUP)), 0)

    # On the files

    def archive(self, tally: Tally) -> None:
        from flaremq.pipeline.jobs.archive import archive

        began = self._summary.elapsed
        result = archive(self._spark, {"path": self._store}, self._archive)
        seconds = self._summary.elapsed - began
        outcome = result.to_json()
        self._summary.numbers["archive"] = outcome
        self._summary.step(f"Archived {result.rows:,} messages as Parquet in {seconds:.1f} s.")
        self._summary.check("messages in the archive", result.rows, _visible(tally))

    def verify(self, tally: Tally) -> None:
        from flaremq.pipeline.jobs.verify.job import verify

        result = verify(self._spark, path=self._store, archive=self._archive, certificate=self._certificate)
        self._summary.numbers["verify"] = {"verdict": result.verdict, "records": result.records}
        self._summary.step(f"Verified {result.records:,} records, queues, index and archive: {result.verdict}.")
        self._summary.check("findings of verify", len(result.findings), 0)
        self._summary.check("differences between log and archive", len(result.differences), 0)
        self._summary.check("messages equal in log and archive", result.archived_equal, _visible(tally))

    def sql(self, tally: Tally) -> None:
        from flaremq.pipeline.jobs.sql.job import SqlViews

        with SqlViews(self._spark, {"path": self._store}) as views:
            self._ask(partial(views.run, once=True), tally)

    def _ask(self, run: Any, tally: Tally) -> None:
        rows = run("SELECT topic, count(*) AS messages FROM messages GROUP BY topic").collect()
        counted = {row["topic"]: row["messages"] for row in rows}
        for topic in sorted(tally.stored):
            self._summary.check(f"{topic}: counted by SQL", counted.get(topic, 0), tally.stored[topic])
        self._summary.check(f"{RETRY_TOPIC}: retries", counted.get(RETRY_TOPIC, 0), tally.refunds_failed_once)
        found = run(f"SELECT topic FROM messages WHERE keys = '{_NEEDLE}'").collect()
        expected = sum(tally.stored[topic] > int(_NEEDLE[2:]) for topic in ("orders", "payments"))
        self._summary.check(f"messages with key {_NEEDLE}", len(found), expected)
        self._summary.step("Asked in SQL: messages by topic, and one order by its key.")

    def report(self, tally: Tally) -> None:
        from flaremq.pipeline.jobs.report.job import report

        result = report(self._spark, {"path": self._store}, out=self._report)
        self._summary.numbers["report"] = self._report
        self._summary.check("messages in the report", result.document["summary"]["messages"], tally.stored.total())
        self._summary.step(f"Wrote the report to {self._report}.")

    def table(self, tally: Tally) -> None:
        orders_as_table(self._summary, self._spark, self._path, tally)


def _visible(tally: Tally) -> int:
    """Messages of topics that are not the broker's own: what was acknowledged, and what came again as a retry."""
    return tally.stored.total() + tally.refunds_failed_once


async def _lag(name_server: str, group: str) -> int:
    from flaremq import Admin

    async with Admin(name_server) as admin:
        progress = await admin.group_progress(group)
        return sum(offsets.broker_offset - offsets.consumer_offset for offsets in progress.offset_table.values())
