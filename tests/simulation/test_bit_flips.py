"""One wrong bit anywhere in a small store; see ``flips``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation import flips

_CHUNKS = 8
_STRIDE = 61  # of the bits, in the fast run: one byte in eight is hit, each bit position alike; the soak test takes all


def _flip_all(state: str, chunk: int, stride: int, record_property: Callable[[str, object], None]) -> None:
    store = flips.pristine(state)
    bits = flips.interesting_bits(store)[chunk * stride :: _CHUNKS * stride]
    for path, bit in bits:
        try:
            flips.check_flip(store, path, bit)
        except Exception as error:
            raise AssertionError(
                f"{error}\nrepeat: python -m tests.simulation.replay flip {state} {path} {bit}"
            ) from error
    record_property("bit flips", len(bits))


@pytest.mark.parametrize("chunk", range(_CHUNKS))
@pytest.mark.parametrize("state", flips.STATES)
def test_a_flipped_bit_costs_at_most_the_record_it_hit(
    state: str, chunk: int, record_property: Callable[[str, object], None]
) -> None:
    _flip_all(state, chunk, _STRIDE, record_property)


def test_the_flag_of_inner_batches_alone_makes_no_queue_of_batches() -> None:
    """It would hide the queue that all other records of its place are in."""
    store = flips.pristine("killed-unsealed")
    flips.check_flip(store, "/store/commitlog/00000000000000016384", 39 * 8 + 7)


@pytest.mark.parametrize("bit", range(8))
def test_a_record_that_jumps_ahead_in_its_queue_takes_no_place_of_others(bit: int) -> None:
    store = flips.pristine("killed-unsealed")
    flips.check_flip(store, "/store/commitlog/00000000000000016384", 27 * 8 + bit)


def test_a_store_time_before_1970_hides_no_keys_of_others() -> None:
    """The index file takes it for its end, and queries would pass the file over."""
    store = flips.pristine("killed-unsealed")
    flips.check_flip(store, "/store/commitlog/00000000000000016384", 9777 * 8 + 7)


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(_CHUNKS))
@pytest.mark.parametrize("state", flips.STATES)
def test_any_flipped_bit_costs_at_most_the_record_it_hit(
    state: str, chunk: int, record_property: Callable[[str, object], None]
) -> None:
    _flip_all(state, chunk, 1, record_property)
