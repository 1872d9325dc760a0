"""All histories of up to three operations, crashed everywhere; see ``bounded``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation import bounded

_CHUNKS = 16
_SHORT = [sequence for sequence in bounded.sequences(2)]
_LONG = [sequence for sequence in bounded.sequences(3) if len(sequence) == 3]
# Each in one of the two modes, by turns, so that every pair of operations is met in both.
_LONG_IN_TURN = [(sequence, bounded.MODES[number.bit_count() % 2]) for number, sequence in enumerate(_LONG)]


@pytest.mark.parametrize("mode", bounded.MODES)
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_histories_of_up_to_two_operations_survive_a_crash_before_every_disk_call(
    mode: str, chunk: int, record_property: Callable[[str, object], None]
) -> None:
    images = 0
    for sequence in _SHORT[chunk::_CHUNKS]:
        images += bounded.check_sequence(sequence, mode, subset_bits=3, random_count=2)
    record_property("crash images", images)


@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_histories_of_three_operations_survive_a_crash_before_every_disk_call(
    chunk: int, record_property: Callable[[str, object], None]
) -> None:
    """All of them, but half of the images of the soak test below, which takes each in both modes."""
    images = 0
    for sequence, mode in _LONG_IN_TURN[chunk::_CHUNKS]:
        images += bounded.check_sequence(sequence, mode, subset_bits=0, random_count=1)
    record_property("crash images", images)


@pytest.mark.soak
@pytest.mark.parametrize("mode", bounded.MODES)
@pytest.mark.parametrize("chunk", range(4 * _CHUNKS))
def test_histories_of_three_operations_survive_every_small_page_subset(
    mode: str, chunk: int, record_property: Callable[[str, object], None]
) -> None:
    images = 0
    for sequence in _LONG[chunk :: 4 * _CHUNKS]:
        images += bounded.check_sequence(sequence, mode, subset_bits=5, random_count=8)
    record_property("crash images", images)
