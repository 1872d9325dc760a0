"""Replica groups on a simulated network; FLAREMQ_GROUPS and FLAREMQ_FIRST_SEED say how many and from where.

Most have their logs in memory; one in fifty has real stores on simulated disks.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulation import many_groups, replica_group
from tests.simulation.many_groups import run_seeds
from tests.simulation.replica_group_mutants import GROUP_MUTANTS, GroupMutant, hunt
from tests.support.admin_cli import until

_CHUNKS = 40
_FIRST = int(os.environ.get("FLAREMQ_FIRST_SEED", "1"))
_GROUPS = int(os.environ.get("FLAREMQ_GROUPS", "20000"))
_SOAK_GROUPS = int(os.environ.get("FLAREMQ_GROUPS", "1000000"))
_HISTORIES_MAX = 1500  # in which a deliberate bug may hide; most are found in the first twenty


def _run(first: int, count: int, record_property: Callable[[str, object], None]) -> None:
    tally = run_seeds(first, count)
    record_property("group histories", tally.histories)
    record_property("answered messages", tally.answered)
    record_property("elections", tally.elections)
    record_property("cuts of replicas", tally.cuts)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_groups_keep_every_promise(chunk: int, record_property: Callable[[str, object], None]) -> None:
    share = -(-_GROUPS // _CHUNKS)
    _run(_FIRST + chunk * share, share, record_property)


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(10 * _CHUNKS))
def test_many_groups_keep_every_promise(chunk: int, record_property: Callable[[str, object], None]) -> None:
    share = -(-_SOAK_GROUPS // (10 * _CHUNKS))
    _run(1_000_000 + _FIRST + chunk * share, share, record_property)


def test_a_stopped_run_goes_on_with_the_chunks_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = tmp_path / "done.jsonl"
    done.write_text('{"first": 1, "histories": 3}\n{"first": 7, "failure": "seed 8"}\n{"first": 4, "hist')
    monkeypatch.setattr(many_groups, "CHUNK", 3)
    monkeypatch.setattr(sys, "argv", ["many", str(done), "--first=1", "--count=9", "--workers=1"])
    assert many_groups.main() == 0
    assert "6 histories" in capsys.readouterr().out
    assert many_groups.chunks_done(done) == {1, 4, 7}


def test_no_worker_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.simulation.many_groups", str(tmp_path / "done.jsonl"), "--workers=2"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as run:
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
        until(lambda: len(children.read_text().split()) == 2)
        workers = [Path("/proc") / pid for pid in children.read_text().split()]
        run.kill()
    until(lambda: not any(is_running(worker) for worker in workers))


def test_a_worker_that_begins_after_its_run_was_killed_ends() -> None:
    code = "from tests.simulation.many_groups import begin_worker; begin_worker(0); print('at work')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"the run is gone\n")


def is_running(process: Path) -> bool:
    try:
        return process.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_broken_promise_is_told_and_the_other_histories_still_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = tmp_path / "done.jsonl"
    monkeypatch.setattr(many_groups, "CHUNK", 3)
    monkeypatch.setattr(replica_group.Group, "check_cut", None)  # the first history with a cut cannot go on
    monkeypatch.setattr(sys, "argv", ["many", str(done), "--first=1", "--count=30", "--workers=1"])
    assert many_groups.main() == 1
    assert "python -m tests.simulation.replay group" in capsys.readouterr().out
    assert 0 < len(many_groups.chunks_done(done)) < 10


def test_a_seed_is_a_history() -> None:
    """The same seed gives the same events, messages and elections."""
    assert replica_group.run_history(7) == replica_group.run_history(7)


@pytest.mark.parametrize("mutant", GROUP_MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_deliberate_bug_in_replication_is_found(mutant: GroupMutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.infect(monkeypatch)
    histories = 0
    with pytest.raises(Exception) as found:
        for _ in hunt(mutant):
            histories += 1
            assert histories <= _HISTORIES_MAX, f"still alive after {histories} histories"
    assert "still alive" not in str(found.value)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(2004719, id="a-slave-as-long-as-the-log-that-its-master-wrote-anew-hears-of-it-later"),
        pytest.param(2030995, id="the-same-filler-of-a-deposed-master-and-of-its-successor-is-no-shared-history"),
    ],
)
def test_no_promise_is_broken_where_it_looked_like_it(seed: int) -> None:
    replica_group.run_history(seed)


def test_a_proposal_is_not_settled_by_silence_while_a_copy_of_it_is_under_way() -> None:
    replica_group.run_history(1014759)
