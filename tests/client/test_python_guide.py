"""The examples of docs/python.md: those that show an output print it, those that are tests pass."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from flaremq.clock import SystemClock
from flaremq.testing import EphemeralBroker, ephemeral_broker

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
# Pieces between fences: those at odd places are code or output, what follows a piece of output's code stands between.
_PIECES = re.split(r"^```", PAGE, flags=re.MULTILINE)
_BLOCKS = [(piece.partition("\n"), after) for piece, after in zip(_PIECES[1::2], _PIECES[2::2], strict=True)]
SHOWN = [
    (code[2], output[2])
    for ((code, between), (output, _)) in pairwise(_BLOCKS)
    if (code[0], between.strip(), output[0]) == ("python", "", "text")
]
TESTS = [code[2] for code, _ in _BLOCKS if code[0] == "python" and "def test_" in code[2]]


@pytest.mark.parametrize(("code", "output"), [pair for pair in SHOWN if "/run/secrets" not in pair[0]])
def test_an_example_prints_what_the_page_shows(
    code: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # what an example leaves, 100 MB, goes with the test
    with ephemeral_broker(clock=SystemClock(), flushDiskType="ASYNC_FLUSH") as broker:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code.replace("127.0.0.1:9876", broker.name_server), {"__name__": "example"})
        assert printed.getvalue().replace(broker.name_server, "127.0.0.1:9876") == output


@pytest.mark.parametrize("code", TESTS)
def test_an_example_that_is_a_test_passes(code: str, flaremq_broker: EphemeralBroker) -> None:
    names: dict[str, Any] = {}
    exec(code, names)
    (run,) = (value for name, value in names.items() if name.startswith("test_"))
    run(flaremq_broker) if run.__code__.co_argcount else run()


def test_the_page_has_an_example_of_each_kind() -> None:
    assert len(SHOWN) >= 6 and len(TESTS) == 2
