"""The promises of a broker over SIGKILL, as its clients see them (see broker_kill.py)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_SOAK_KILLS = int(os.environ.get("FLAREMQ_BROKER_KILLS", "100"))


def _kill(folder: Path, kills: int, seed: int, record_property: Callable[[str, object], None]) -> None:
    command = [sys.executable, "-m", "tests.simulation.broker_kill", str(folder / "store")]
    command += ["--kills", str(kills), "--seed", str(seed)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path])}
    done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=180 + 20 * kills)
    assert done.returncode == 0, f"repeat: {' '.join(command)}\n{done.stdout[-500:]}\n{done.stderr[-4000:]}"
    counts = re.match(r"(\d+) kills, (\d+) acknowledged, (\d+) delivered", done.stdout)
    assert counts is not None and int(counts[2]) > 0 and int(counts[3]) > 0, f"nothing was tested: {done.stdout}"
    record_property("kills", kills)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_broker_keeps_all_it_promised_its_clients(
    tmp_path: Path, seed: int, record_property: Callable[[str, object], None]
) -> None:
    _kill(tmp_path, 4, seed, record_property)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 104))
def test_broker_killed_many_times_keeps_all_it_promised_its_clients(
    tmp_path: Path, seed: int, record_property: Callable[[str, object], None]
) -> None:
    _kill(tmp_path, _SOAK_KILLS // 4, seed, record_property)
