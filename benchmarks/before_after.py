"""Two trees of this project side by side: ``python -m benchmarks.before_after TREE [--rounds N] [--only put,wire]``.

TREE is another checkout, the one before a change. Each measurement runs in a fresh interpreter of each tree in turns,
with that tree's own benchmarks; a ratio above 1 means that this tree is better. What Python clients see over the wire
and the time of ``flaremq --help`` are measured too. Kernels of both trees are loaded once before anything counts.
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
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks import child, put, query, recover, scan, startup
from benchmarks.rounds import Figure, Measurement, median_of, scratch
from benchmarks.settings import FULL, QUICK, Settings
from benchmarks.timing import Row

_PLANS = {"put": put.plan, "scan": scan.plan, "query": query.plan, "recover": recover.plan, "startup": startup.plan}
_NAMES = (*_PLANS, "wire", "help")
_TIMEOUT_S = 900
_HELP_RUNS = 20
_SEND = Figure(label="send", unit="msg/s", ours="messagesPerSecond")
_WIRE = {
    "send, 512 in flight, ASYNC": ["send", "--messages", "200000", "--flush", "ASYNC_FLUSH"],
    "send, 512 in flight, SYNC": ["send", "--messages", "100000"],
    "send, 1 in flight, ASYNC": ["send", "--messages", "20000", "--in-flight", "1", "--flush", "ASYNC_FLUSH"],
    "consume a backlog": ["consume", "--messages", "400000"],
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One thing to run in both trees, and the numbers of its answer that are compared."""

    name: str
    run: Callable[[Path], Row]
    figures: tuple[Figure, ...]


def main(argv: list[str] | None = None) -> int:
    arguments = _parse(argv)
    settings = replace(QUICK if arguments.quick else FULL, recover_bytes=QUICK.recover_bytes)
    trees = {"before": Path(arguments.tree).resolve(), "after": child.PROJECT}
    for tree in trees.values():
        _python(tree, "-c", "import flaremq.cli.main")
    print(f"load {os.getloadavg()[0]:.2f} at the start", file=sys.stderr)
    print(f"{'':44} {'unit':>8} {'before':>12} {'after':>12} {'ratio':>7}")
    worst = 1.0
    for comparison in _comparisons(arguments.only, settings, arguments.dir):
        rows: dict[str, list[Row]] = {side: [] for side in trees}
        for number in range(arguments.rounds):
            sides = list(trees) if number % 2 == 0 else list(trees)[::-1]
            for side in sides:
                os.sync()  # what the run before left to be written must not slow down this one
                rows[side].append(comparison.run(trees[side]))
        for figure in comparison.figures:
            ratio = _print_line(figure, rows)
            worst = worst if ratio is None else min(worst, ratio)
    print(f"the worst ratio is {worst:.2f}; load {os.getloadavg()[0]:.2f} at the end")
    return 0


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
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    line = [sys.executable, *arguments]
    done = subprocess.run(
        line, cwd=tree, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
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
    parser.add_argument("--rounds", type=int, default=3, help="how often the two take turns")
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(_NAMES), metavar="NAME,...")
    parser.add_argument("--dir", help="where stores are made and removed; default: the temporary folder")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
