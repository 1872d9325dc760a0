"""Masters and slaves as processes under traffic, with faults of processes, links and disks: nothing promised is lost.

A failure prints the command that repeats it; the seed decides the faults and their order, not the timing of processes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.interop.replication.combinations import require_group

_ROOT = Path(__file__).parents[2]
_SOAK_EPISODES = int(os.environ.get("FLAREMQ_REPLICATION_EPISODES", "200"))
_OURS = "flaremq>flaremq"
_MIXED = ("flaremq>rocketmq-5.5.0", "flaremq>rocketmq-4.9.7", "rocketmq-5.5.0>flaremq", "rocketmq-4.9.7>flaremq")
_WITH_JAVA = "flaremq+rocketmq-5.5.0"  # of two, each is the master in turn
_SLICE = 10  # episodes of one group: a store of some hundred megabytes


def _run(
    kinds: str, seed: int, episodes: int, record_property: Callable[[str, object], None], *more: str
) -> Sequence[int]:
    command = [sys.executable, "-m", "tests.replication_episodes", "--kinds", kinds]
    command += ["--episodes", str(episodes), "--seed", str(seed), *more]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path])}
    done = subprocess.run(
        command, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=240 + 60 * episodes
    )
    assert done.returncode == 0, f"repeat: {' '.join(command)}\n{done.stdout[-500:]}\n{done.stderr[-8000:]}"
    counts = re.match(r"(\d+) episodes of seed \d+, (\d+) acknowledged, (\d+) delivered", done.stdout)
    assert counts is not None and int(counts[2]) > 0 and int(counts[3]) > 0, f"nothing was tested: {done.stdout}"
    record_property("replication episodes", episodes)
    return [int(number) for number in counts.groups()]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_what_a_sync_master_acknowledged_survives_faults(
    seed: int, record_property: Callable[[str, object], None]
) -> None:
    _run(_OURS, seed, 6, record_property)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 100 + max(1, _SOAK_EPISODES // 2 // _SLICE)))
def test_what_a_sync_master_acknowledged_survives_many_faults(
    seed: int, record_property: Callable[[str, object], None]
) -> None:
    _run(_OURS, seed, _SLICE, record_property, "--small-disks")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2])
def test_what_was_acknowledged_under_a_controller_survives_faults(
    seed: int, record_property: Callable[[str, object], None]
) -> None:
    _run("flaremq+flaremq", seed, 3, record_property, "--controller", "flaremq")


@pytest.mark.soak
@pytest.mark.parametrize("kinds", ["flaremq+flaremq", "flaremq+flaremq+flaremq"])
@pytest.mark.parametrize("seed", range(200, 200 + max(1, _SOAK_EPISODES // 4 // _SLICE)))
def test_what_was_acknowledged_under_a_controller_survives_many_faults(
    kinds: str, seed: int, record_property: Callable[[str, object], None]
) -> None:
    _run(kinds, seed, _SLICE, record_property, "--controller", "flaremq")


@pytest.mark.soak
@pytest.mark.parametrize("kinds", _MIXED)
@pytest.mark.parametrize("seed", range(300, 300 + max(1, _SOAK_EPISODES // 4 // _SLICE // len(_MIXED))))
def test_what_a_sync_master_acknowledged_survives_faults_beside_real_brokers(
    kinds: str, seed: int, record_property: Callable[[str, object], None]
) -> None:
    require_group(kinds)
    _run(kinds, seed, _SLICE, record_property)


@pytest.mark.soak
@pytest.mark.parametrize("controller", ["flaremq", "rocketmq-5.5.0"])
@pytest.mark.parametrize("seed", range(400, 400 + max(1, _SOAK_EPISODES // 10 // _SLICE)))
def test_what_was_acknowledged_under_either_controller_survives_faults_beside_a_real_broker(
    controller: str, seed: int, record_property: Callable[[str, object], None]
) -> None:
    require_group(_WITH_JAVA)
    _run(_WITH_JAVA, seed, _SLICE, record_property, "--controller", controller)
