"""Does slices of one case when told: ``python -m benchmarks.cpu.worker NAME LABEL FOLDER``.

Once it is ready and for every line on standard input it answers with a line of JSON: ``{"micros": ...}``, processor
time a unit of one slice, or ``{"error": ...}``. ``Worker`` is the caller's end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.child import PROJECT
from benchmarks.cpu import broker_cases, cases, client_cases, grpc_cases
from benchmarks.cpu.cases import Slice

CASES = cases.CASES | broker_cases.CASES | client_cases.CASES | grpc_cases.CASES


class Worker:
    """A case on the sources of one tree; to use with ``with``."""

    def __init__(self, tree: Path, name: str, label: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._log = folder / "worker.log"
        with self._log.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "benchmarks.cpu.worker", name, label, str(folder / "store")],
                env=environment(tree),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self) -> float:
        """One slice; the first call waits until the case is ready."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
            row = json.loads(self._process.stdout.readline() or "{}")
        except BrokenPipeError:
            row = {}
        if "micros" not in row:
            raise RuntimeError(row.get("error") or self._log.read_text()[-500:] or "the worker ended")
        return float(row["micros"])


def environment(tree: Path) -> dict[str, str]:
    """FlareMQ from that tree, the benchmarks always from this one: both trees do the same."""
    return os.environ | {"PYTHONPATH": os.pathsep.join((str(tree / "src"), str(PROJECT)))}


def main(argv: list[str]) -> int:
    name, label, folder = argv
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever is printed on the way is no answer
    work: Slice | None = None
    for _ in sys.stdin:
        try:
            if work is None:
                Path(folder).mkdir()
                work = CASES[name][label](Path(folder))
            row: dict[str, object] = {"micros": work()}
        except Exception as error:
            traceback.print_exc()
            row = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(row), file=answers, flush=True)
    os._exit(0)  # nothing in these stores is worth closing them


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
