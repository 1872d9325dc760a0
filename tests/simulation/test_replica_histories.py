"""Histories of a replica, crashed and disturbed at the calls of its disk; see ``replica_world``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.replica_world import check_errors, check_history


@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("seed", range(4))
def test_a_replica_survives_crashes_all_over_its_history(
    seed: int, flush: str, hold: bool, record_property: Callable[[str, object], None]
) -> None:
    record_property("crash images", check_history(seed, flush=flush, hold=hold, length=14, step=9))


@pytest.mark.soak
@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("seed", range(100, 130))
def test_a_replica_survives_a_crash_at_every_call(
    seed: int, flush: str, hold: bool, record_property: Callable[[str, object], None]
) -> None:
    record_property("crash images", check_history(seed, flush=flush, hold=hold, length=20, step=1))


@pytest.mark.parametrize("kind", ["eio", "enospc", "short"])
@pytest.mark.parametrize("seed", range(2))
def test_a_replica_survives_errors_of_its_disk(seed: int, kind: str) -> None:
    assert check_errors(seed, flush="SYNC_FLUSH", kind=kind, length=14, step=7) > 10
