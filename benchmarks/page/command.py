"""``python -m benchmarks report [RESULT.json ...]``: writes ``docs/performance.md`` from results.

Without names from those in ``benchmarks/results``, which are kept with the page.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.child import PROJECT
from benchmarks.page import limits, merge, page
from benchmarks.parts import PARTS

RESULTS = PROJECT / "benchmarks" / "results"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks report", description=__doc__)
    parser.add_argument("results", nargs="*", type=Path, metavar="RESULT.json", help="of each line the newest counts")
    default = PROJECT / "docs" / "performance.md"
    parser.add_argument("--to", type=Path, default=default, metavar="FILE", help="- for standard output")
    arguments = parser.parse_args(argv)
    try:
        text, unknown = make(arguments.results or kept())
    except (OSError, ValueError, KeyError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 2
    for line in unknown:
        print(f"report: {limits.PATH.name} speaks of {line!r}, which was not measured", file=sys.stderr)
    if str(arguments.to) == "-":
        sys.stdout.write(text)
    else:
        arguments.to.write_text(text, encoding="utf-8")
        print(f"{arguments.to} written", file=sys.stderr)
    return 0


def kept() -> list[Path]:
    """The results that the page in ``docs`` is made from."""
    return sorted(path for path in RESULTS.glob("*.json") if not path.name.endswith(".local.json"))


def make(results: list[Path]) -> tuple[str, list[str]]:
    """The page, and lines that ``limits.toml`` speaks of but no result has."""
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in results]
    sections = merge.merged(documents)
    words = limits.read()
    text = page.render(sections, {name: (part.title, part.about) for name, part in PARTS.items()}, words)
    return text, page.unknown_limits(sections, words)
