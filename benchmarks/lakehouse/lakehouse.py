"""Topics as tables, and bodies as columns: ours beside spark-sql-kafka, in the environment of the spark part.

Both hold the same JSON bodies. A topic becomes an Iceberg table on our side and is appended to Parquet files on theirs,
which is what that connector has; a query for two fields of the bodies is held against ``from_json`` over our own source
without ``bodyFormat``, and over Kafka's. What a commit costs as a table grows needs neither Spark nor Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import child
from benchmarks.kafka import jars
from benchmarks.rounds import OURS, Figure, Outcome, scratch, turns
from benchmarks.settings import Settings
from benchmarks.spark import environment
from benchmarks.spark.rows import SPAN_MS
from benchmarks.spark.side import Side
from benchmarks.spark.stored import store_rows
from benchmarks.timing import Row

THEIRS = f"kafka-{jars.KAFKA_VERSION}"
_SIDES = (OURS, THEIRS)
_WARM_ROUNDS = 2  # a JVM is slow at first
_FIRST = 10  # commits, with which later ones are compared; what is made once is over by then
_CONSTANT = 1.5  # times the cost of an early commit, at most


def why_not() -> str | None:
    return jars.why_not() or environment.why_not() or environment.why_no_lakehouse()


def run(settings: Settings, folder: str | None) -> Iterator[Outcome]:
    yield from _commits(settings, folder)
    with scratch(folder) as path, ExitStack() as stack:
        sides = _prepare(settings, Path(path), stack)
        yield _tables(settings, sides)
        yield _fields(settings, sides)


def _prepare(settings: Settings, folder: Path, stack: ExitStack) -> dict[str, Side]:
    rows, base_ms = settings.spark_rows, int(time.time() * 1000) - 2 * SPAN_MS
    made = child.run("lakehouse.bodies:write", folder=str(folder), count=rows)
    store, kafka = store_rows(stack, folder, bodies=made["bodies"], rows=rows, base_ms=base_ms)
    common: dict[str, Any] = {"scratch": str(folder), "sink": ""}
    ours = stack.enter_context(Side("flaremq", {**common, "store": str(store)}, folder))
    theirs = {**common, "bootstrap": kafka.address, "jars": str(jars.connector_jars())}
    kafka_side = stack.enter_context(Side("kafka", theirs, folder))
    kafka_side.servers = [kafka.pid]
    return {OURS: ours, THEIRS: kafka_side}


def _tables(settings: Settings, sides: dict[str, Side]) -> Outcome:
    label = "topic to an Iceberg table, against a Parquet append"
    figures = (
        Figure(label=label, unit="rows/s", ours="rows_s", theirs="rows_s", wanted_ratio=3.0),
        Figure(label="  peak of a Python worker", unit="MB", ours="worker_MB", less_is_better=True, wanted_bound=512),
    )

    def once(side: str) -> Row:
        row = sides[side].run("table" if side == OURS else "append")
        return {**row, "rows_s": round(settings.spark_rows / row["seconds"])}

    return turns(label, figures, settings.spark_rounds, _SIDES, once, warm_rounds=_WARM_ROUNDS)


def _fields(settings: Settings, sides: dict[str, Side]) -> Outcome:
    """Our answer has the time of ``from_json`` on our own source beside its own."""
    figures = (
        Figure(
            label="two fields of 1 KB of JSON, against from_json over our own source",
            unit="rows/s",
            ours="rows_s",
            beside="raw_rows_s",
            wanted_ratio=3.0,
        ),
        Figure(
            label="two fields of 1 KB of JSON, against from_json over Kafka",
            unit="rows/s",
            ours="rows_s",
            theirs="rows_s",
            wanted_ratio=4.0,
        ),
    )
    checks: set[str] = set()

    def once(side: str) -> Row:
        row = sides[side].run("json_fields")
        row["rows_s"] = round(settings.spark_rows / row["seconds"])
        checks.add(repr(row["check"]))
        if side == OURS:
            raw = sides[side].run("json_of_raw")
            row["raw_rows_s"] = round(settings.spark_rows / raw["seconds"])
            checks.add(repr(raw["check"]))
        if len(checks) > 1:
            raise RuntimeError(f"the sides disagree: {checks}")
        return row

    return turns("two fields of JSON", figures, settings.spark_rounds, _SIDES, once, warm_rounds=_WARM_ROUNDS)


def _commits(settings: Settings, folder: str | None) -> Iterator[Outcome]:
    """The first commits are those a table is compared with later."""
    counts = sorted({_FIRST, max(_FIRST, settings.lake_commits // 10), settings.lake_commits})
    for kind in ("iceberg", "delta"):
        figures = tuple(
            Figure(label=f"commit {count} of a {kind} table", unit="ms", ours=f"ms_{count}", less_is_better=True)
            for count in counts
        )
        grown = Figure(
            label=f"  {counts[-1]} commits of {kind}, times the cost of the first {counts[0]}",
            unit="",
            ours="grown",
            less_is_better=True,
            wanted_bound=_CONSTANT,
        )

        def once(_: str, kind: str = kind) -> Row:
            with scratch(folder) as path:
                row = child.run("lakehouse.commits:run", folder=path, kind=kind, commits=counts, timeout_s=1800)
            return {**row, "grown": round(row[f"ms_{counts[-1]}"] / row[f"ms_{counts[0]}"], 2)}

        yield turns(f"commits of {kind}", (*figures, grown), 1, (OURS,), once)
