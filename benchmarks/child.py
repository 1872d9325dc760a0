"""Runs one of our measurements in a fresh interpreter: ``python -m benchmarks.child MODULE:FUNCTION JSON``.

The function's keyword arguments come as JSON and its answer goes to standard output as one line of JSON. ``run`` is
the caller's side; ``start`` leaves the process running after its answer, for those who want to kill it.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

from benchmarks.timing import Row

PROJECT = Path(__file__).resolve().parent.parent
_ERROR_LENGTH_MAX = 4000


def run(function: str, *, timeout_s: float = 900, python: str = sys.executable, **arguments: object) -> Row:
    """Call ``MODULE:FUNCTION`` of this package in a process of its own, of another Python if told; its answer."""
    done = subprocess.run(
        command(function, arguments, python),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{function} {arguments} ended with {done.returncode}\n{done.stderr[-_ERROR_LENGTH_MAX:]}")
    return answer(done.stdout)


def command(function: str, arguments: dict[str, object], python: str = sys.executable) -> list[str]:
    return [python, "-m", "benchmarks.child", function, json.dumps(arguments)]


def answer(output: str) -> Row:
    row: Row = json.loads(output.strip().splitlines()[-1])
    return row


def main(argv: list[str]) -> int:
    module, _, name = argv[0].partition(":")
    function = getattr(importlib.import_module(f"benchmarks.{module}"), name)
    print(json.dumps(function(**json.loads(argv[1]))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
