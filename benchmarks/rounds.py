"""Runs measurements in turns: ours, theirs, then again in another order.

A ``Measurement`` names what to run on both sides; its ``Figure`` s say which numbers of the two answers belong
together, which direction is better and what we want. Who was measured is decided here, what it means in ``compare``.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks import child, memory
from benchmarks.store import peer_rocketmq
from benchmarks.timing import Row

VERSIONS = ("4.9.7", "5.5.0")
OURS = "ours"
_FAILURES_MAX = 2  # of one side in one measurement: after that it will not get better


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table. ``ours`` and ``theirs`` are names in the two answers."""

    label: str
    unit: str
    ours: str
    theirs: str = ""  # "" if nobody has anything to compare with
    peer: str = ""  # compare with this side only, not with the best of all
    beside: str = ""  # compare with this name of our own answer instead: other systems measured from Python
    less_is_better: bool = False
    wanted_ratio: float | None = None  # how many times better than theirs we want to be
    kept_ratio: float | None = None  # or how many times better we were and want to stay
    wanted_bound: float | None = None  # or the value itself: at least, or at most if less is better


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """``ours`` is a function for ``child.run`` and its arguments, ``theirs`` a mode for ``run_peer`` and its."""

    name: str
    ours: tuple[str, dict[str, Any]] = ("", {})
    theirs: tuple[str, dict[str, Any]] | None = None
    figures: tuple[Figure, ...]
    rounds: int = 1
    memory_bytes: int = 0  # of new pages that a run will need; made ready before each run of each side
    # Several rows come back from RocketMQ's driver; this makes one of them.
    merge: Callable[[list[Row]], Row] = lambda rows: rows[-1]


@dataclass(slots=True)
class Outcome:
    """Every row of every round, by side; ``round`` in a row says which it was."""

    measurement: Measurement
    ours: list[Row] = field(default_factory=list)
    theirs: dict[str, list[Row]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def rows(self, side: str) -> list[Row]:
        return self.ours if side == OURS else self.theirs.setdefault(side, [])


def turns(
    name: str,
    figures: tuple[Figure, ...],
    rounds: int,
    sides: Sequence[str],
    measure: Callable[[str], Row],
    *,
    warm_rounds: int = 0,
) -> Outcome:
    """All sides in each round, another one first every time; rounds to warm up do not count."""
    outcome = Outcome(Measurement(name=name, figures=figures, rounds=rounds))
    failures = dict.fromkeys(sides, 0)
    for number in range(-warm_rounds, rounds):
        first = number % len(sides)
        for side in (*sides[first:], *sides[:first]):
            if failures[side] >= _FAILURES_MAX:
                continue
            os.sync()  # what the run before left to be written must not slow down this one
            begin = time.monotonic()
            try:
                row = measure(side)
                if number >= 0:
                    outcome.rows(side).append({"round": number + 1, **row})
                verdict = "done"
            except Exception as error:
                # One broken side must not cost the figures of all others.
                failures[side] += 1
                outcome.errors.append(f"{name}, {side}: {error}")
                verdict = f"failed: {error}"
            tell(f"  {name}, round {number + 1}, {side}: {verdict} in {time.monotonic() - begin:.1f} s")
    return outcome


def run_all(measurements: list[Measurement], versions: tuple[str, ...], folder: str | None) -> Iterator[Outcome]:
    """Measurements of the store: ours in processes of their own, theirs in JVMs of the releases in ``versions``."""
    for measurement in measurements:
        sides = (OURS, *(versions if measurement.theirs else ()))

        def measure(side: str, measurement: Measurement = measurement) -> Row:
            memory.touch(measurement.memory_bytes)
            return _run_ours(measurement, folder) if side == OURS else _run_theirs(measurement, side, folder)

        yield turns(measurement.name, measurement.figures, measurement.rounds, sides, measure)


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


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
