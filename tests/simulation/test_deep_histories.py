"""Long random histories; FLAREMQ_SEEDS and FLAREMQ_FIRST_SEED say how many and from where."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.simulation import deep

_CHUNKS = 16
_FIRST = int(os.environ.get("FLAREMQ_FIRST_SEED", "1"))
_SEEDS = int(os.environ.get("FLAREMQ_SEEDS", "160"))
_SOAK_SEEDS = int(os.environ.get("FLAREMQ_SEEDS", "12000"))


def _run(first: int, count: int, record_property: Callable[[str, object], None]) -> None:
    tally = deep.Tally()
    for seed in range(first, first + count):
        deep.run_history(seed, tally)
    record_property("crash images", tally.images)
    record_property("crashes during recovery", tally.recoveries_crashed)


@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_random_histories_keep_every_promise(chunk: int, record_property: Callable[[str, object], None]) -> None:
    share = -(-_SEEDS // _CHUNKS)
    _run(_FIRST + chunk * share, share, record_property)


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(8 * _CHUNKS))
def test_many_random_histories_keep_every_promise(chunk: int, record_property: Callable[[str, object], None]) -> None:
    share = -(-_SOAK_SEEDS // (8 * _CHUNKS))
    _run(1_000_000 + _FIRST + chunk * share, share, record_property)
