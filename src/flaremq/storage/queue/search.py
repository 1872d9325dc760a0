"""Searches over the units of a queue, which a damaged unit must not lead astray.

Halves need an answer at every place. A unit that says nothing (all zero, a filler, a place no log has) is passed over,
and the next one that does say something answers for it: one wrong unit in the middle would otherwise cost everything
on one side of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flaremq.storage.queue.consume_queue import UnitPlace

STEPS_ON = 16  # successors that are asked one by one in place of a unit that says nothing
_STEPS_BACK = 64  # units at the end of a queue that are looked at one by one before halves are taken
_LOOK_AHEAD_UNITS = 512  # more than two pages


# First offset of a unit, the offset behind it, and whether it lies at or behind the point that is looked for.
Answer = tuple[int, int, bool]
Ask = Callable[[int, int], Answer | None]  # the first answer of the offsets [low, high)


def by_halves(ask: Ask, low: int, high: int) -> int:
    """The first offset in [low, high) from which on the next answer is that it lies behind; ``high`` without one."""
    top = high
    while low < high:
        middle = (low + high) // 2
        answer = ask(middle, top)
        if answer is None:
            high = middle
            continue
        start, end, is_behind = answer
        if is_behind:
            high = middle if start >= middle else max(start, low)  # the first message of its batch
        else:
            low = min(end, high)
    return low


def first_behind(ask: Ask, low: int, high: int) -> int:
    """The same in a queue of which some units may be damaged and say what is wrong."""
    found = by_halves(ask, low, high)
    # One damaged unit may have sent the search the wrong way: nothing behind the point may stand just before it.
    while any(_is_behind(ask, place) for place in range(max(found - 3, low), found)):
        found -= 1
    return found


def _is_behind(ask: Ask, place: int) -> bool:
    answer = ask(place, place + 1)
    return answer is not None and answer[2]


def last_whole(
    probe: Callable[[int], UnitPlace | None], is_before_log: Callable[[int], bool], low: int, high: int
) -> UnitPlace | None:
    """The last unit below ``high`` that ``probe`` confirms."""
    for offset in range(high - 1, max(low, high - _STEPS_BACK) - 1, -1):
        if (found := probe(offset)) is not None:
            return found
    # Many units without a record: the log was cut, or its start has passed the whole queue. Halves find the cut.
    best = None
    high_bound = high - _STEPS_BACK
    while low < high_bound:
        middle = (low + high_bound) // 2
        found = next(filter(None, map(probe, range(middle, min(middle + STEPS_ON, high_bound)))), None)
        if found is None and is_before_log(middle):
            low = middle + 1
        elif found is None:
            high_bound = middle
        else:
            best, low = found, max(found.end, middle + 1)
    return best


def written_units(read: Callable[[int, int], bytes], start: int, count: int, unit_size: int) -> int:
    """How many of the ``count`` units from position ``start`` on are written, by halves: writers go forward only.

    Zeros may also be damage: an end counts only if nothing follows close behind it.
    """
    low = 0
    while low < count:
        high = count  # units below low are written, from high on they are not
        while low < high:
            middle = (low + high) // 2
            if read(start + middle * unit_size, unit_size).strip(b"\0"):
                low = middle + 1
            else:
                high = middle
        behind = read(start + low * unit_size, min(_LOOK_AHEAD_UNITS, count - low) * unit_size).rstrip(b"\0")
        if not behind:
            break
        low = min(low + -(-len(behind) // unit_size), count)
    return low
