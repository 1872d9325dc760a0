"""The simulator finds every deliberate bug, soon, and finds nothing in the product as it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation import mutants
from tests.simulation.mutants import MUTANTS, Mutant

_IMAGES_MAX = 400  # a bug that hides longer than this from the hunt meant for it is not really tested for


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_deliberate_bug_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.infect(monkeypatch)
    images = 0
    with pytest.raises(Exception) as found:
        for checked in mutant.hunt():
            images += checked
            assert images <= _IMAGES_MAX, f"still alive after {images} images"
    assert "still alive" not in str(found.value)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_same_hunt_finds_nothing_in_the_product(
    mutant: Mutant, record_property: Callable[[str, object], None]
) -> None:
    record_property("crash images", sum(mutant.hunt()))


def test_a_record_from_elsewhere_behind_the_end_is_not_taken_for_a_new_one() -> None:
    mutants.check_misplaced_record()


def test_concurrent_puts_get_dense_queue_offsets() -> None:
    mutants.check_racing_writers()
