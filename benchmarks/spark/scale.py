"""What needs no Kafka: the same queries on a store ten times larger, and how fast ``verify`` and ``rebuild`` go.

Cost must grow with the bytes that are asked for, not with those that are stored: the same offsets, the same minute and
the same key are read from the store of the comparison and from one that holds ten times as much, and the times
should be alike. ``verify`` and ``rebuild`` run on the larger store.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import child
from benchmarks.messages import KEY, QUEUES
from benchmarks.rounds import OURS, Figure, Measurement, Outcome
from benchmarks.settings import Settings
from benchmarks.spark.rows import SPAN_MS
from benchmarks.timing import Row

if TYPE_CHECKING:
    from benchmarks.spark.side import Side

_TIMES = 10
_ALIKE = 0.7  # a session on two cores is not more regular than that
_WANTED_JOB_GB_S = 2.5


def run(settings: Settings, ours: Side, folder: Path, store: Path, base_ms: int) -> Iterator[Outcome]:
    large = folder / "large"
    rows = settings.spark_rows
    filled = child.run(
        "spark.rows:fill_store",
        folder=str(large),
        bodies=str(folder / "bodies"),
        count=rows,
        base_ms=base_ms,
        times=_TIMES,
        timeout_s=3600,
    )
    print(f"  stored in the larger one {filled}", file=sys.stderr, flush=True)
    a_tenth = rows // QUEUES // 10
    begin = base_ms + SPAN_MS * 2 // 5
    asked: tuple[tuple[str, str, dict[str, object]], ...] = (
        ("a tenth of the smaller one's bodies, by offset", "part", {"start": 5 * a_tenth, "end": 6 * a_tenth}),
        ("one minute of bodies, by time", "minute", {"begin_ms": begin, "end_ms": begin + SPAN_MS // 10}),
        ("one row by its key", "needle", {"key": KEY % (rows * 13 // 20)}),
    )
    for label, case, arguments in asked:
        yield _alike(settings, ours, label, case, arguments, store, large)
    for job in ("verify", "rebuild"):
        yield _job(settings, ours, job, large, int(filled["log_bytes"]))
    shutil.rmtree(large, ignore_errors=True)


def _alike(
    settings: Settings, ours: Side, label: str, case: str, arguments: dict[str, object], small: Path, large: Path
) -> Outcome:
    """Ours on the larger store, "theirs" ours on the smaller."""
    figure = Figure(
        label=f"{label}: store {_TIMES} times larger",
        unit="s",
        ours="seconds",
        theirs="seconds",
        less_is_better=True,
        wanted_ratio=_ALIKE,
    )
    outcome = Outcome(Measurement(name=figure.label, figures=(figure,), rounds=settings.spark_rounds))
    stores = {"larger": large, "smaller": small}
    answers: dict[str, object] = {}
    for number in range(-1, settings.spark_rounds):
        for name, store in stores.items():
            row = _tried(outcome, name, lambda store=store: ours.run(case, store=str(store), **arguments))  # type: ignore[misc]
            if row is None:
                return outcome
            answers[name] = row["check"]
            if number >= 0:
                outcome.rows(OURS if name == "larger" else name).append({"round": number + 1, **row})
    if len({repr(answer) for answer in answers.values()}) > 1:
        outcome.errors.append(f"{label}: the two stores disagree: {answers}")
    return outcome


def _job(settings: Settings, ours: Side, job: str, store: Path, log_bytes: int) -> Outcome:
    figures = (
        Figure(label=f"{job} of the larger store", unit="GB/s", ours="GB_s", wanted_bound=_WANTED_JOB_GB_S),
        Figure(label="  peak of a Python worker", unit="MB", ours="worker_MB", less_is_better=True, wanted_bound=512),
    )
    outcome = Outcome(Measurement(name=job, figures=figures, rounds=settings.spark_rounds))
    for number in range(-1, settings.spark_rounds):
        os.sync()
        row = _tried(outcome, job, lambda: ours.run(job, store=str(store)))
        if row is None:
            break
        row["GB_s"] = round(log_bytes / row["seconds"] / 1e9, 3)
        if row.get("verdict", "sound") != "sound":
            outcome.errors.append(f"{job}: the store is {row['verdict']}")
        if number >= 0:
            outcome.ours.append({"round": number + 1, **row})
    return outcome


def _tried(outcome: Outcome, name: str, measure: Callable[[], Row]) -> Row | None:
    begin = time.monotonic()
    try:
        row = measure()
        verdict = "done"
    except Exception as error:
        outcome.errors.append(f"{outcome.measurement.name}, {name}: {error}")
        row, verdict = None, f"failed: {error}"
    elapsed = time.monotonic() - begin
    print(f"  {outcome.measurement.name}, {name}: {verdict} in {elapsed:.1f} s", file=sys.stderr, flush=True)
    return row
