"""Spark on our store beside Spark on Kafka: the same rows, the same PySpark, two sessions that take turns in one run.

The connector is published for PySpark 4.2.0, not for the newest, so both sides run on that, in an environment of
their own (``environment``). Kafka and the connector come from Maven (``kafka/jars``). Both hold the same rows
(``rows``); a case's answer is compared between the sides before its time counts. Sessions are started and every
case is run once before anything is measured.

Ours reads store files (``path``), as it can; Kafka's reads over loopback, as it must. ``sink`` and ``latency`` go over
the wire on both sides. Our broker has its queue and log files as a user gets them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import child
from benchmarks.kafka import jars
from benchmarks.kafka.server import KafkaServer
from benchmarks.messages import KEY, QUEUES
from benchmarks.rounds import OURS, Figure, Outcome, scratch, turns
from benchmarks.settings import Settings
from benchmarks.spark import environment, scale
from benchmarks.spark.rows import SIZE, SPAN_MS
from benchmarks.spark.side import Side
from benchmarks.spark.stored import store_rows
from benchmarks.timing import Row
from tests.interop.wire import servers

THEIRS = f"kafka-{jars.KAFKA_VERSION}"
_SIDES = (OURS, THEIRS)
_RATE = 1000
_WARM_ROUNDS = 2  # a JVM is slow at first
# how -> wanted and kept ratio of p50, then of p99
_LATENCIES: dict[str, tuple[tuple[float | None, float | None], ...]] = {
    "wire": ((1.5, None), (None, 5.2)),
    "files": ((1.2, None), (None, None)),
}


def why_not() -> str | None:
    """Why nothing can be compared here, or None."""
    return jars.why_not() or environment.why_not()


@dataclass(slots=True)
class Lab:
    """Everything that runs."""

    settings: Settings
    folder: Path
    store: Path
    base_ms: int
    ours: Side
    theirs: Side
    kafka: KafkaServer
    brokers: dict[str, servers.Servers]
    topics: int = 0
    warmed: set[str] = field(default_factory=set)

    def side(self, name: str) -> Side:
        return self.ours if name == OURS else self.theirs

    def fresh_topic(self) -> str:
        self.topics += 1
        return f"bench-{self.topics}"


def run(settings: Settings, folder: str | None) -> Iterator[Outcome]:
    with scratch(folder) as path, ExitStack() as stack:
        lab = _prepare(settings, Path(path), stack)
        for case in _CASES:
            yield case.measure(lab)
        yield from _sinks(lab)
        yield from _latencies(lab)
        yield from scale.run(settings, lab.ours, lab.folder, lab.store, lab.base_ms)


def _prepare(settings: Settings, folder: Path, stack: ExitStack) -> Lab:
    rows, base_ms = settings.spark_rows, int(time.time() * 1000) - 2 * SPAN_MS
    made = child.run("spark.rows:write_bodies", folder=str(folder), count=rows)
    store, kafka = store_rows(stack, folder, bodies=made["bodies"], rows=rows, base_ms=base_ms)
    brokers = {
        flush: stack.enter_context(
            servers.started("flaremq", folder / f"broker-{flush}", options={"flushDiskType": f"{flush}_FLUSH"})
        )
        for flush in ("ASYNC", "SYNC")
    }
    common: dict[str, Any] = {"scratch": str(folder), "sink": made["sink"]}
    theirs = {**common, "bootstrap": kafka.address, "jars": str(jars.connector_jars())}
    lab = Lab(
        settings=settings,
        folder=folder,
        store=store,
        base_ms=base_ms,
        ours=stack.enter_context(Side("flaremq", {**common, "store": str(store)}, folder)),
        theirs=stack.enter_context(Side("kafka", theirs, folder)),
        kafka=kafka,
        brokers=brokers,
    )
    lab.ours.servers = [pid for broker in brokers.values() for pid in broker.pids]
    lab.theirs.servers = [kafka.pid]
    return lab


@dataclass(frozen=True, slots=True)
class _Case:
    """One thing both sides compute; ``theirs`` names Kafka's ways to do it, of which the fastest counts."""

    name: str
    label: str
    wanted: float | None
    ours: Callable[[Lab], dict[str, object]] = lambda lab: {}
    theirs: tuple[dict[str, object], ...] = ({},)
    case: str = ""  # if it differs from the name on our side
    has_check: bool = True
    rows: bool = True  # a rate in rows, else seconds
    kept: float | None = None

    def measure(self, lab: Lab) -> Outcome:
        unit, name = ("rows/s", "rows_s") if self.rows else ("s", "seconds")
        figures = [
            Figure(
                label=self.label,
                unit=unit,
                ours=name,
                theirs=name,
                less_is_better=not self.rows,
                wanted_ratio=self.wanted,
                kept_ratio=self.kept,
            ),
            Figure(
                label="  peak of a Python worker", unit="MB", ours="worker_MB", less_is_better=True, wanted_bound=512
            ),
        ]
        checks: dict[str, object] = {}

        def once(side: str) -> Row:
            ways = ({},) if side == OURS else self.theirs
            arguments = self.ours(lab)
            case = self.case if side == OURS and self.case else self.name
            found = [lab.side(side).run(case, **arguments, **way) for way in ways]
            row = min(found, key=lambda each: each["seconds"])
            row["rows_s"] = round(lab.settings.spark_rows / row["seconds"])
            if self.has_check:
                checks[side] = row["check"]
                if len({repr(check) for check in checks.values()}) > 1:
                    raise RuntimeError(f"the sides disagree: {checks}")
            return row

        rounds = lab.settings.spark_rounds
        return turns(self.label, tuple(figures), rounds, _SIDES, once, warm_rounds=_WARM_ROUNDS)


def _minute(lab: Lab) -> dict[str, object]:
    begin = lab.base_ms + SPAN_MS * 2 // 5
    return {"begin_ms": begin, "end_ms": begin + SPAN_MS // 10}


def _needle(lab: Lab) -> dict[str, object]:
    return {"key": KEY % (lab.settings.spark_rows * 13 // 20)}


_CASES = (
    _Case("count", "count(), no column but an offset", 30.0),
    _Case("count", "count(), all columns", None, case="count_all"),
    _Case("columns", "queue and offset of every row", 30.0),
    _Case("columns", "offset, key and time of every row", 8.0, case="headers", has_check=False),
    _Case("bodies", "sum(length(body)): all bodies to the JVM", 3.0),
    _Case("needle", "one row by its key", None, ours=_needle, rows=False, kept=27.0),
    _Case(
        "minute",
        "one minute of ten, bodies",
        2.0,
        ours=_minute,
        theirs=({"how": "filter"}, {"how": "options"}),
        rows=False,
    ),
    _Case("archive", "archive, against a Parquet write", 3.0, has_check=False),
    _Case("available_now", "stream AvailableNow to Parquet", 1.5, has_check=False),
    # Where tasks write Parquet themselves and no body goes through the JVM.
    _Case("available_now", "archive, against a stream AvailableNow", 2.5, case="archive", has_check=False),
    _Case(
        "available_now",
        "stream AvailableNow, tasks write Parquet",
        2.5,
        case="available_now_by_tasks",
        has_check=False,
    ),
)


def _sinks(lab: Lab) -> Iterator[Outcome]:
    for flush, wanted in (("ASYNC", 1.2), ("SYNC", 1.0)):
        figures = (
            Figure(
                label=f"sink over the wire, {flush}_FLUSH against acks=1",
                unit="rows/s",
                ours="rows_s",
                theirs="rows_s",
                wanted_ratio=wanted,
            ),
        )

        def once(side: str, flush: str = flush) -> Row:
            topic = lab.fresh_topic()
            if side == OURS:
                row = lab.ours.run("sink", topic=topic, name_server=lab.brokers[flush].name_server)
            else:
                lab.kafka.load("topic", topic=topic, partitions=QUEUES)
                row = lab.theirs.run("sink", topic=topic)
            row["rows_s"] = round(lab.settings.spark_rows / row["seconds"])
            return row

        rounds = lab.settings.spark_rounds
        yield turns(f"sink {flush}", figures, rounds, _SIDES, once, warm_rounds=_WARM_ROUNDS)


def _latencies(lab: Lab) -> Iterator[Outcome]:
    seconds, skip = lab.settings.spark_latency_seconds, lab.settings.spark_latency_skip
    for how, goals in _LATENCIES.items():
        figures = tuple(
            Figure(
                label=f"micro-batch latency at {_RATE}/s, {how}, {name}",
                unit="ms",
                ours=f"{name}_ms",
                theirs=f"{name}_ms",
                less_is_better=True,
                wanted_ratio=wanted,
                kept_ratio=kept,
            )
            for name, (wanted, kept) in zip(("p50", "p99"), goals, strict=True)
        )

        def once(side: str, how: str = how) -> Row:
            topic = lab.fresh_topic()
            if side == OURS:
                broker = lab.brokers["SYNC"]  # as it comes
                load: dict[str, Any] = {"topic": topic, "per_second": _RATE}
                child.run("spark.rows:send_at_rate", name_server=broker.name_server, **load, seconds=0.1)
                where = {"name_server": broker.name_server} if how == "wire" else {"store": str(broker.store)}
                lab.ours.run("latency_start", topic=topic, **where)
                sent = child.run("spark.rows:send_at_rate", name_server=broker.name_server, **load, seconds=seconds)
                return lab.ours.run("latency_stop", skip_seconds=skip, expected=sent["sent"])
            lab.kafka.load("topic", topic=topic, partitions=QUEUES)
            lab.theirs.run("latency_start", topic=topic)
            sent = lab.kafka.load("rate", topic=topic, size=SIZE, per_second=_RATE, seconds=seconds)
            return lab.theirs.run("latency_stop", skip_seconds=skip, expected=sent["sent"])

        yield turns(f"latency {how}", figures, lab.settings.spark_latency_rounds, _SIDES, once)
