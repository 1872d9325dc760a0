"""A core that is not compiled: everything works, and one line says so where a person sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from flaremq import interpreted
from tests.support.server_process import SMALL, server


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "FLAREMQ_INTERPRETED": "1"}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True, env=environment)


def test_version_tells_what_the_core_is() -> None:
    assert _run("-m", "flaremq", "--version").stdout.endswith("(core interpreted: FLAREMQ_INTERPRETED is set)\n")


def test_modules_of_the_core_are_sources_when_asked_for() -> None:
    look = "import sys, flaremq.core.record as r; print(r.__file__.endswith('.py'), 'cython' in sys.modules)"
    assert _run("-c", look).stdout == "True True\n"


def test_a_program_that_imports_the_library_is_told_nothing() -> None:
    done = _run("-c", "import flaremq; flaremq.MessageStore; flaremq.Producer")
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize("why", ["1", ""])
def test_a_server_says_it_in_one_line_when_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    monkeypatch.setenv("FLAREMQ_INTERPRETED", why)
    with server("broker", "--data", tmp_path / "data", "--listen", "127.0.0.1:0", *SMALL, cwd=tmp_path) as broker:
        broker.ready()
        assert broker.stop() == 0
        told = broker.errors
    expected = interpreted.notice()
    assert told.splitlines() == ([] if expected is None else [f"flaremq: {expected}"])
    assert bool(why) <= ("interpreted" in told)


@pytest.fixture
def core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("FLAREMQ_INTERPRETED", raising=False)
    (tmp_path / "record.py").touch()
    return tmp_path


def test_without_machine_code_the_reason_says_how_to_get_it(core: Path) -> None:
    assert "make core" in (interpreted.reason(core) or "")


def test_machine_code_of_another_python_is_named(core: Path) -> None:
    (core / "record.cpython-38-riscv64-linux-gnu.so").touch()
    assert "compiled for cpython-38-riscv64-linux-gnu" in (interpreted.reason(core) or "")


def test_machine_code_of_older_sources_is_told(core: Path) -> None:
    compiled = core / f"record{EXTENSION_SUFFIXES[0]}"
    compiled.touch()
    assert interpreted.reason(core) is None and interpreted.notice(core) is None
    os.utime(compiled, (1, 1))
    assert interpreted.reason(core) is None
    assert "newer than its machine code" in (interpreted.notice(core) or "")
