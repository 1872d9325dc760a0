"""Runs measurements in turns: ours, RocketMQ 4.9.7, RocketMQ 5.5.0, then again in another order.

A ``Measurement`` names what to run on both sides; its ``Figure`` s say which numbers of the two answers belong
together, which direction is better and what we want. Who was measured is decided here, what it means in ``report``.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks import child, peer_rocketmq
from benchmarks.timing import Row

VERSIONS = ("4.9.7", "5.5.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table. ``ours`` and ``theirs`` are names in the two answers."""

    label: str
    unit: str
    ours: str
    theirs: str = ""  # "" if RocketMQ has nothing to compare with
    beside: str = ""  # compare with this name of our own answer instead: other systems measured from Python
    less_is_better: bool = False
    wanted_ratio: float | None = None  # how many times better than theirs we want to be
    wanted_bound: float | None = None  # or the value itself: at least, or at most if less is better


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """``ours`` is a function for ``child.run`` and its arguments, ``theirs`` a mode for ``run_peer`` and its."""

    name: str
    ours: tuple[str, dict[str, Any]]
    theirs: tuple[str, dict[str, Any]] | None = None
    figures: tuple[Figure, ...]
    rounds: int = 1
    # Several rows come back from RocketMQ's driver; this makes one of them.
    merge: Callable[[list[Row]], Row] = lambda rows: rows[-1]


@dataclass(slots=True)
class Outcome:
    """Every row of every round, by side."""

    measurement: Measurement
    ours: list[Row] = field(default_factory=list)
    theirs: dict[str, list[Row]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


def run_all(measurements: list[Measurement], versions: tuple[str, ...], folder: str | None) -> Iterator[Outcome]:
    for measurement in measurements:
        yield run_one(measurement, versions if measurement.theirs else (), folder)


def run_one(measurement: Measurement, versions: tuple[str, ...], folder: str | None) -> Outcome:
    outcome = Outcome(measurement)
    sides: list[str] = ["ours", *versions]
    for number in range(measurement.rounds):
        for side in sides[number % len(sides) :] + sides[: number % len(sides)]:
            os.sync()  # what the run before left to be written must not slow down this one
            begin = time.monotonic()
            try:
                if side == "ours":
                    outcome.ours.append(_run_ours(measurement, folder))
                else:
                    outcome.theirs.setdefault(side, []).append(_run_theirs(measurement, side, folder))
                verdict = "done"
            except Exception as error:
                # One broken side must not cost the figures of all others.
                outcome.errors.append(f"{measurement.name}, {side}: {error}")
                verdict = "failed"
            elapsed = time.monotonic() - begin
            print(f"  {measurement.name}, round {number + 1}, {side}: {verdict} in {elapsed:.1f} s", file=sys.stderr)
    return outcome


def _run_ours(measurement: Measurement, folder: str | None) -> Row:
    function, arguments = measurement.ours
    with scratch(folder) as path:
        return child.run(function, folder=path, **arguments)


def _run_theirs(measurement: Measurement, version: str, folder: str | None) -> Row:
    assert measurement.theirs is not None
    mode, arguments = measurement.theirs
    return measurement.merge(peer_rocketmq.run_peer(version, mode, folder=folder, **arguments))


@contextmanager
def scratch(folder: str | None) -> Iterator[str]:
    """A folder for one store, gone afterwards whatever happens."""
    with tempfile.TemporaryDirectory(prefix="flaremq-bench-", dir=folder, ignore_cleanup_errors=True) as path:
        yield path


def median_of(rows: list[Row], name: str) -> float | None:
    values = [row[name] for row in rows if isinstance(row.get(name), (int, float))]
    return statistics.median(values) if values else None
