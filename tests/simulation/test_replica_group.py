"""Replica groups on a simulated network; FLAREMQ_GROUPS and FLAREMQ_FIRST_SEED say how many and from where.

Most have their logs in memory; one in fifty has real stores on simulated disks.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.simulation import replica_group, replica_group_store
from tests.simulation.replica_group_mutants import GROUP_MUTANTS, GroupMutant, hunt

_CHUNKS = 40
_FIRST = int(os.environ.get("FLAREMQ_FIRST_SEED", "1"))
_GROUPS = int(os.environ.get("FLAREMQ_GROUPS", "20000"))
_SOAK_GROUPS = int(os.environ.get("FLAREMQ_GROUPS", "1000000"))
_ONE_STORE_IN = 50
_HISTORIES_MAX = 1500  # in which a deliberate bug may hide; most are found in the first twenty


def _run(first: int, count: int, record_property: Callable[[str, object], None]) -> None:
    tally = replica_group.Tally()
    for seed in range(first, first + count):
        if seed % _ONE_STORE_IN:
            replica_group.run_history(seed, tally)
        else:
            replica_group_store.run_store_history(seed, tally)
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


def test_a_proposal_is_not_settled_by_silence_while_a_copy_of_it_is_under_way() -> None:
    replica_group.run_history(1014759)
