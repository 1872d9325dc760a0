"""Searches by halves over the units of a queue, which a damaged unit must not lead astray.

A unit that says nothing (all zero, or a place no log has) is asked about its successors instead: one wrong unit in the
middle would otherwise cost everything on one side of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flaremq.storage.at_rest.unit_arrays import ScanQueue, UnitPlace

STEPS_BACK = 64  # units at the end of a queue that are looked at one by one before halves are taken
_STEPS_ON = 16  # successors that are asked in place of a unit that says nothing

Probe = Callable[[int], "UnitPlace | None"]


def first_from(queue: ScanQueue, low: int, high: int, physical: int, log_end: int) -> int:
    """The first offset in [low, high) whose record lies at or behind ``physical``; ``high`` if there is none."""
    top = high
    while low < high:
        middle = (low + high) // 2
        unit = _telling(queue, middle, top, log_end)
        if unit is not None and not unit.is_filler and unit.physical >= physical:
            high = middle
        else:
            low = middle + 1 if unit is None else min(max(unit.end, middle + 1), high)
    return low


def _telling(queue: ScanQueue, offset: int, high: int, log_end: int) -> UnitPlace | None:
    """The unit of this offset, or the next one that can be right."""
    number, step = offset, 1
    while number < high:
        unit = queue.unit_at(number)
        if unit is not None and (unit.is_filler or (unit.is_real and unit.physical < log_end)):
            return unit
        number += step
        if number - offset >= _STEPS_ON:
            step *= 2  # a page of zeros, or a file that is missing
    return None


def last_whole(probe: Probe, is_before_log: Callable[[int], bool], low: int, high: int) -> UnitPlace | None:
    """The last unit below ``high`` that ``probe`` confirms."""
    for offset in range(high - 1, max(low, high - STEPS_BACK) - 1, -1):
        if (found := probe(offset)) is not None:
            return found
    # Many units without a record: the log was cut, or its start has passed the whole queue. Halves find the cut.
    best = None
    high_bound = high - STEPS_BACK
    while low < high_bound:
        middle = (low + high_bound) // 2
        found = next(filter(None, map(probe, range(middle, min(middle + _STEPS_ON, high_bound)))), None)
        if found is None and is_before_log(middle):
            low = middle + 1
        elif found is None:
            high_bound = middle
        else:
            best, low = found, max(found.end, middle + 1)
    return best
