"""Killed with SIGKILL anywhere, a run leaves whole commits; the next one brings what is missing and nothing twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.tables.lab import FORMATS

ROOT = Path(__file__).resolve().parents[3]


def run_killed(folder: Path, kind: str, limit: int, work: str = "table") -> str:
    command = [sys.executable, "-m", "tests.pipeline.tables.killed_runs", str(folder), kind, str(limit), work]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", FORMATS)
def test_run_killed_at_some_places_loses_nothing_and_adds_nothing_twice(tmp_path: Path, kind: str) -> None:
    assert "0 failed" in run_killed(tmp_path, kind, 6)


@pytest.mark.slow
@pytest.mark.parametrize("work", ["compact", "expire"])
@pytest.mark.parametrize("kind", FORMATS)
def test_upkeep_killed_at_some_places_changes_no_row(tmp_path: Path, kind: str, work: str) -> None:
    assert "0 failed" in run_killed(tmp_path, kind, 3, work)


@pytest.mark.soak
@pytest.mark.parametrize("work", ["compact", "expire"])
@pytest.mark.parametrize("kind", FORMATS)
def test_upkeep_killed_in_any_function_changes_no_row(tmp_path: Path, kind: str, work: str) -> None:
    assert "0 failed" in run_killed(tmp_path, kind, 400, work)


@pytest.mark.soak
@pytest.mark.parametrize("kind", FORMATS)
def test_run_killed_in_any_function_loses_nothing_and_adds_nothing_twice(tmp_path: Path, kind: str) -> None:
    """At the first and last call and return of every function, as far as 400 places go."""
    assert "0 failed" in run_killed(tmp_path, kind, 400)
