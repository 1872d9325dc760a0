"""The entry of ``make bench``; see the package for what is measured and how. ``report`` makes the page from results."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from typing import Any

from benchmarks import compare, machine, parts, results, rounds
from benchmarks.page import command as page
from benchmarks.page import table
from benchmarks.parts import PARTS, Context
from benchmarks.quiet import Watch
from benchmarks.results import PartResult
from benchmarks.rounds import tell
from benchmarks.settings import FULL, QUICK, SMOKE, Settings, with_rounds
from benchmarks.store import embedded, peer_rocketmq


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["report"]:
        return page.main(argv[1:])
    arguments = _parse(argv)
    signal.signal(signal.SIGTERM, _stop)
    if arguments.install:
        embedded.install()
    notes: list[str] = ["a smoke run: its figures mean nothing"] if arguments.smoke else []
    mode, settings = _settings(arguments)
    context = Context(
        settings=settings,
        versions=_peers(notes) if not arguments.no_peers else (),
        folder=arguments.dir or tempfile.gettempdir(),
        with_peers=not arguments.no_peers,
    )
    names = arguments.only or list(PARTS)
    if "embedded" in names and (absent := embedded.missing()):
        notes.append(f"not installed, so not measured: {', '.join(absent)} (--install gets them)")
    head = {
        "began": results.now(),
        "mode": mode,
        "machine": machine.describe(context.folder),
        "settings": settings,
        "notes": notes,
    }
    tell(json.dumps(head["machine"], indent=2))
    done = _run_parts(names, context, head, arguments.out)
    print(table.text([line for part in done for line in part.lines]))
    for note in notes:
        print(f"note: {note}")
    return 1 if any(part.errors for part in done) else 0


def _run_parts(names: list[str], context: Context, head: dict[str, Any], out: str | None) -> list[PartResult]:
    """One part after the other; what is known so far is written after every measurement."""
    done: list[PartResult] = []
    for name in names:
        part, notes = PARTS[name], head["notes"]
        if (reason := part.reason_against(context)) is not None:
            notes.append(f"{name} is not measured: {reason}")
            continue
        watch = Watch(is_first=not done)
        result, began = PartResult(name, results.now()), time.monotonic()
        done.append(result)
        try:
            for outcome in part.run(context):
                result.outcomes.append(outcome)
                result.seconds = time.monotonic() - began
                notes += outcome.errors + compare.busy_note(outcome)
                _write(out, head, done)
            result.is_complete = True
        finally:
            result.load = watch.close()
            result.seconds = time.monotonic() - began
            notes += [f"{name}: {reason}" for reason in result.load["reasons"]]
            _write(out, head, done)
    return done


def _write(out: str | None, head: dict[str, Any], done: list[PartResult]) -> None:
    """Whole or not at all: an interrupted run has its figures so far."""
    if out is None:
        return
    with open(f"{out}.partial", "w") as file:
        json.dump(results.document(**head, parts=done), file, indent=1)
    os.replace(f"{out}.partial", out)


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, epilog="python -m benchmarks report --help: the page"
    )
    parser.add_argument("--quick", action="store_true", help="shorter runs, one round: about 15 minutes")
    parser.add_argument("--smoke", action="store_true", help="tiny runs, only to see that everything works")
    choices = ", ".join((*parts.GROUPS, *PARTS))
    parser.add_argument("--only", type=_names, metavar="NAME,...", help=f"some of {choices}")
    parser.add_argument("--rounds", type=_count, help="how often ours and theirs take turns, in every part")
    parser.add_argument("--out", metavar="FILE", help="write machine, load, verdicts and every sample as JSON")
    parser.add_argument("--no-peers", action="store_true", help="do not run RocketMQ and Kafka")
    parser.add_argument("--dir", help="where stores are made and removed; default: the temporary folder")
    parser.add_argument("--install", action="store_true", help="pip install the packages `embedded` compares with")
    return parser.parse_args(argv)


def _names(text: str) -> list[str]:
    try:
        return parts.named(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rounds")
    return int(text)


def _settings(arguments: argparse.Namespace) -> tuple[str, Settings]:
    mode, settings = ("smoke", SMOKE) if arguments.smoke else ("quick", QUICK) if arguments.quick else ("full", FULL)
    return mode, with_rounds(settings, arguments.rounds) if arguments.rounds else settings


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


if __name__ == "__main__":
    sys.exit(main())
