"""The entry of ``make bench``; see the package for what is measured and how."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace

from benchmarks import embedded, machine, peer_rocketmq, put, query, recover, report, rounds, scan, spark, startup, wire
from benchmarks.rounds import Outcome
from benchmarks.settings import FULL, QUICK, SMOKE, Settings

_PLANS = {
    "put": put.plan,
    "scan": scan.plan,
    "query": query.plan,
    "recover": recover.plan,
    "embedded": embedded.plan,
    "startup": startup.plan,
}
_NAMES = (*_PLANS, "wire", "spark")


def main(argv: list[str] | None = None) -> int:
    arguments = _parse(argv)
    folder = arguments.dir or tempfile.gettempdir()
    settings = _settings(arguments)
    names = arguments.only or list(_NAMES)
    notes: list[str] = ["a smoke run: its figures mean nothing"] if arguments.smoke else []
    signal.signal(signal.SIGTERM, _stop)
    if arguments.install:
        embedded.install()
    versions = _peers(notes) if not arguments.no_peers else ()
    if "embedded" in names and (absent := embedded.missing()):
        notes.append(f"not installed, so not measured: {', '.join(absent)} (--install gets them)")
    described = machine.describe(folder)
    _tell(json.dumps(described, indent=2))

    outcomes = []
    if "wire" in names and (reason := _why_no_wire(arguments)):
        notes.append(f"nothing is measured over the wire: {reason}")
        names.remove("wire")
    if "spark" in names and (reason := _why_no_spark(arguments)):
        notes.append(f"nothing is measured on Spark: {reason}")
        names.remove("spark")
    for outcome in _run(names, settings, versions, folder):
        outcomes.append(outcome)
        notes += outcome.errors + report.busy_note(outcome)
        if arguments.out:  # kept up to date: an interrupted run has its figures so far
            document = report.document(described, settings, outcomes, notes)
            with open(arguments.out, "w") as file:
                json.dump(document, file, indent=2)
    print(report.table([figure for outcome in outcomes for figure in report.figures_of(outcome)]))
    for note in notes:
        print(f"note: {note}")
    return 1 if any(outcome.errors for outcome in outcomes) else 0


def _run(names: list[str], settings: Settings, versions: tuple[str, ...], folder: str) -> Iterator[Outcome]:
    measurements = [measurement for name in names if name in _PLANS for measurement in _PLANS[name](settings)]
    yield from rounds.run_all(measurements, versions, folder)
    if "wire" in names:
        yield from wire.run(settings, folder)
    if "spark" in names:
        yield from spark.run(settings, folder)


def _why_no_wire(arguments: argparse.Namespace) -> str | None:
    return "its load is RocketMQ's client" if arguments.no_peers else wire.why_not()


def _why_no_spark(arguments: argparse.Namespace) -> str | None:
    return "it is compared with Kafka's" if arguments.no_peers else spark.why_not()


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter runs, one round: about 10 minutes")
    parser.add_argument("--smoke", action="store_true", help="tiny runs, only to see that everything works")
    parser.add_argument("--only", type=_names, metavar="NAME,...", help=f"some of {', '.join(_NAMES)}")
    parser.add_argument("--rounds", type=int, help="how often ours and theirs take turns")
    parser.add_argument("--out", metavar="FILE", help="write every figure as JSON")
    parser.add_argument("--no-peers", action="store_true", help="do not run RocketMQ")
    parser.add_argument("--dir", help="where stores are made and removed; default: the temporary folder")
    parser.add_argument("--install", action="store_true", help="pip install the packages `embedded` compares with")
    return parser.parse_args(argv)


def _names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in _NAMES:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(_NAMES)}")
    return names


def _settings(arguments: argparse.Namespace) -> Settings:
    settings = SMOKE if arguments.smoke else QUICK if arguments.quick else FULL
    return replace(settings, rounds=arguments.rounds) if arguments.rounds else settings


def _peers(notes: list[str]) -> tuple[str, ...]:
    """The releases that can run here; why not for the others."""
    found = []
    for version in rounds.VERSIONS:
        reason = peer_rocketmq.why_not(version)
        if reason is None:
            found.append(version)
        else:
            notes.append(f"RocketMQ {version} is not measured: {reason}")
    return tuple(found)


def _stop(number: int, _frame: object) -> None:
    """As Ctrl-C does: unwind, so that processes end and stores are removed."""
    raise SystemExit(128 + number)


def _tell(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
