"""Two trees of this project side by side: ``python -m benchmarks.before_after TREE [--only put,ingest]``.

TREE is another checkout, the one before a change. By default short slices of work take turns between a process of each
tree and their processor time is compared, which holds on a machine that others use too; less than two minutes for
everything, a few seconds for one name. The ratio is the median over pairs of slices that ran right after each other,
with the middle half of all pairs beside it: above 1 means that this tree needs less. Where that half reaches from
below 1 to above 1 nothing is shown either way.

``--wall`` compares rates by the clock instead, each measurement in fresh interpreters: for a quiet machine, and for
what Python clients see over the wire. FlareMQ comes from each tree's ``src``; the benchmarks are always this tree's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks import child
from benchmarks.cpu.worker import CASES, Worker, environment
from benchmarks.rounds import Figure, Measurement, median_of, scratch
from benchmarks.settings import FULL, QUICK, Settings
from benchmarks.store import put, query, recover, scan, startup
from benchmarks.timing import Row

_PLANS = {"put": put.plan, "scan": scan.plan, "query": query.plan, "recover": recover.plan, "startup": startup.plan}
_WALL_NAMES = (*_PLANS, "wire", "help")
_TIMEOUT_S = 900
_HELP_RUNS = 20
_SLICES_MIN, _SLICES_MAX = 8, 40  # of each tree, as many as fit into
_SLICES_S = 3.0
_WALL_ROUNDS = 3
# Bytecode is written, and what a tree compiles at first use is compiled, before anything counts.
_LOAD_ALL = """
import importlib, pkgutil, flaremq, flaremq.cli.main
for module in pkgutil.walk_packages(flaremq.__path__, "flaremq."):
    if "kernels" in module.name:
        importlib.import_module(module.name)
"""
_SEND = Figure(label="send", unit="msg/s", ours="messagesPerSecond")
_WIRE = {
    "send, 512 in flight, ASYNC": ["send", "--messages", "200000", "--flush", "ASYNC_FLUSH"],
    "send, 512 in flight, SYNC": ["send", "--messages", "100000"],
    "send, 1 in flight, ASYNC": ["send", "--messages", "20000", "--in-flight", "1", "--flush", "ASYNC_FLUSH"],
    "consume a backlog": ["consume", "--messages", "400000"],
}


def main(argv: list[str] | None = None) -> int:
    arguments = _parse(argv)
    trees = {"before": Path(arguments.tree).resolve(), "after": child.PROJECT}
    for tree in trees.values():
        if not (tree / "src" / "flaremq").is_dir():
            print(f"{tree} has no src/flaremq", file=sys.stderr)
            return 2
    for tree in trees.values():
        _python(tree, "-c", _LOAD_ALL)
    print(f"load {os.getloadavg()[0]:.2f} at the start", file=sys.stderr)
    ratios = list((_compare_by_wall if arguments.wall else _compare_by_processor)(trees, arguments))
    print(f"the worst ratio is {min(ratios, default=1.0):.2f}; load {os.getloadavg()[0]:.2f} at the end")
    return 0


# By processor time


def _compare_by_processor(trees: dict[str, Path], arguments: argparse.Namespace) -> Iterator[float]:
    print(f"{'processor time a message or key':36} {'unit':>4} {'before':>10} {'after':>10} {'ratio':>7}  half of all")
    for name in arguments.only or CASES:
        for label in CASES[name]:
            try:
                pairs = _pairs(trees, name, label, arguments.rounds, arguments.dir)
            except RuntimeError as error:
                print(f"{label:36} not compared: {error}", flush=True)
                continue
            before, after = (statistics.median(side) for side in zip(*pairs, strict=True))
            ratio, low, high = spread([first / second for first, second in pairs])
            print(f"{label:36} {'us':>4} {before:10.4g} {after:10.4g} {ratio:7.2f}  {low:.2f}-{high:.2f}", flush=True)
            yield ratio


def _pairs(
    trees: dict[str, Path], name: str, label: str, slices: int | None, folder: str | None
) -> list[tuple[float, float]]:
    """Before and after, slice by slice, each first every other time."""
    pairs: list[tuple[float, float]] = []
    with scratch(folder) as path, ThreadPoolExecutor(2) as pool:
        workers = {side: Worker(tree, name, label, Path(path) / side) for side, tree in trees.items()}
        with workers["before"] as before, workers["after"] as after:
            for _ in range(2):  # made ready side by side; a slice that does not count is part of it
                list(pool.map(Worker.run, (before, after)))
            began = time.monotonic()
            while not _is_enough(len(pairs), time.monotonic() - began, slices):
                if len(pairs) % 2 == 0:
                    pairs.append((before.run(), after.run()))
                else:
                    second = after.run()
                    pairs.append((before.run(), second))
    return pairs


def _is_enough(pairs: int, seconds: float, wanted: int | None) -> bool:
    if wanted is not None:
        return pairs >= wanted
    return pairs >= _SLICES_MAX or (pairs >= _SLICES_MIN and seconds > _SLICES_S)


def spread(values: list[float]) -> tuple[float, float, float]:
    """Median, lower and upper quartile."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, low, high


# By the clock


@dataclass(frozen=True, slots=True)
class Comparison:
    """One thing to run in both trees, and the numbers of its answer that are compared."""

    name: str
    run: Callable[[Path], Row]
    figures: tuple[Figure, ...]


def _compare_by_wall(trees: dict[str, Path], arguments: argparse.Namespace) -> Iterator[float]:
    settings = replace(QUICK if arguments.quick else FULL, recover_bytes=QUICK.recover_bytes)
    print(f"{'':44} {'unit':>8} {'before':>12} {'after':>12} {'ratio':>7}")
    for comparison in _comparisons(arguments.only or _WALL_NAMES, settings, arguments.dir):
        rows: dict[str, list[Row]] = {side: [] for side in trees}
        for number in range(arguments.rounds or _WALL_ROUNDS):
            sides = list(trees) if number % 2 == 0 else list(trees)[::-1]
            for side in sides:
                os.sync()  # what the run before left to be written must not slow down this one
                rows[side].append(comparison.run(trees[side]))
        for figure in comparison.figures:
            ratio = _print_line(figure, rows)
            if ratio is not None:
                yield ratio


def _comparisons(names: list[str], settings: Settings, folder: str | None) -> Iterator[Comparison]:
    for name in names:
        for measurement in _PLANS[name](settings) if name in _PLANS else ():
            figures = tuple(figure for figure in measurement.figures if not figure.beside)
            yield Comparison(measurement.name, partial(_measure, measurement, folder), figures)
        if name == "wire":
            for label, line in _WIRE.items():
                yield Comparison(label, partial(_bench, line), (replace(_SEND, label=label),))
        if name == "help":
            figure = Figure(label="flaremq --help", unit="s", ours="seconds", less_is_better=True)
            yield Comparison("help", _help, (figure,))


def _measure(measurement: Measurement, folder: str | None, tree: Path) -> Row:
    function, arguments = measurement.ours
    with scratch(folder) as path:
        return child.answer(_python(tree, *child.command(function, {**arguments, "folder": path})[1:]))


def _bench(line: list[str], tree: Path) -> Row:
    row: Row = json.loads(_python(tree, "-m", "flaremq", "bench", *line))
    return row


def _help(tree: Path) -> Row:
    seconds = []
    for _ in range(_HELP_RUNS):
        began = time.perf_counter()
        _python(tree, "-m", "flaremq", "--help")
        seconds.append(time.perf_counter() - began)
    return {"seconds": statistics.median(seconds)}


def _python(tree: Path, *arguments: str) -> str:
    line = [sys.executable, "-P", *arguments]
    done = subprocess.run(line, env=environment(tree), capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{tree}: {arguments} ended with {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def _print_line(figure: Figure, rows: dict[str, list[Row]]) -> float | None:
    before, after = median_of(rows["before"], figure.ours), median_of(rows["after"], figure.ours)
    if not before or not after:
        return None
    ratio = before / after if figure.less_is_better else after / before
    print(f"{figure.label:44} {figure.unit:>8} {before:12.6g} {after:12.6g} {ratio:7.2f}", flush=True)
    return ratio


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before_after", description=__doc__)
    parser.add_argument("tree", help="the other checkout")
    parser.add_argument("--rounds", type=int, help="how often the two take turns")
    parser.add_argument("--wall", action="store_true", help="rates by the clock: for a quiet machine")
    parser.add_argument("--quick", action="store_true", help="with --wall: shorter runs")
    names = f"some of {', '.join(CASES)}; with --wall of {', '.join(_WALL_NAMES)}"
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="NAME,...", help=names)
    parser.add_argument("--dir", help="where stores are made and removed; default: the temporary folder")
    arguments = parser.parse_args(argv)
    known = _WALL_NAMES if arguments.wall else tuple(CASES)
    for name in arguments.only or ():
        if name not in known:
            parser.error(f"--only: {name!r} is not one of {', '.join(known)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
