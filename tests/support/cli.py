"""Running the command line inside the test's own process, with its output caught."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass

from flaremq.cli.main import run


@dataclass(frozen=True, slots=True)
class Outcome:
    """Exit code and what was printed."""

    code: int
    out: str
    err: str


def flaremq(*arguments: object) -> Outcome:
    """``flaremq ARGUMENTS`` as in a pipe."""
    out, err = io.BytesIO(), io.BytesIO()
    with (
        contextlib.redirect_stdout(io.TextIOWrapper(out, encoding="utf-8")) as stdout,
        contextlib.redirect_stderr(io.TextIOWrapper(err, encoding="utf-8")) as stderr,
    ):
        code = run([str(argument) for argument in arguments])
        stdout.flush()
        stderr.flush()
        return Outcome(code, out.getvalue().decode(), err.getvalue().decode())
