"""What a power cut leaves of work that was not synced: the decision, apart from the disk that carries it out.

A *chooser* is asked one question per dirty page, changed length and queued name operation. ``SubsetChooser`` answers
by the bits of a number, so that all combinations of a few questions can be tried; ``RandomChooser`` answers by a seed
and knows pages that are neither old nor new: torn, zeroed, garbage.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from typing import Literal, Protocol

PAGE = 4096
SECTOR = 512

PageKind = Literal["old", "new", "zero", "garbage", "torn"]
ALL_KINDS: tuple[PageKind, ...] = ("old", "new", "zero", "garbage", "torn")
# A record altered outside its body is recognised only by the whole-record checksum: without that option no
# store can tell an unacknowledged record from a garbled one, so garbage is left out of those runs.
KINDS_WITHOUT_GARBAGE: tuple[PageKind, ...] = ("old", "new", "zero", "torn")


class Chooser(Protocol):
    """Decides what a crash leaves; asked in an order that depends on the disk's state alone."""

    def page(self, old: bytes, new: bytes) -> bytes: ...

    def length(self, old: int, new: int) -> int: ...

    def done(self, operation: str) -> bool: ...


class RandomChooser:
    """Seeded choices with a mood: some crashes lose nearly everything, some nearly nothing, some shuffle."""

    def __init__(self, seed: int | str, kinds: Iterable[PageKind] = ALL_KINDS) -> None:
        self._random = random.Random(seed)
        self._damage = tuple(kind for kind in kinds if kind not in ("old", "new"))
        self._new = self._random.choice((0.0, 0.2, 0.5, 0.8, 1.0))
        self._damaged = self._random.choice((0.0, 0.3, 0.8)) if self._damage else 0.0

    def page(self, old: bytes, new: bytes) -> bytes:
        if self._random.random() < self._damaged:
            return damaged_page(self._random.choice(self._damage), old, new, self._random)
        return new if self._random.random() < self._new else old

    def length(self, old: int, new: int) -> int:
        return new if self._random.random() < max(self._new, 0.1) else old

    def done(self, operation: str) -> bool:
        return self._random.random() < self._new


class SubsetChooser:
    """Bit i of ``bits`` answers the i-th question, set = done/new; ``asked`` tells how many there were."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self.asked = 0

    def _next(self) -> bool:
        answer = bool(self._bits >> self.asked & 1)
        self.asked += 1
        return answer

    def page(self, old: bytes, new: bytes) -> bytes:
        return new if self._next() else old

    def length(self, old: int, new: int) -> int:
        return new if self._next() else old

    def done(self, operation: str) -> bool:
        return self._next()


def damaged_page(kind: PageKind, old: bytes, new: bytes, chance: random.Random) -> bytes:
    """A page whose write was cut short; bytes that were not being changed keep their value."""
    if kind == "torn":
        unit = chance.choice((1, 1, SECTOR))
        spans = _changed_runs(old, new)
        first, last = (spans[0][0], spans[-1][1]) if chance.random() < 0.7 else (0, PAGE)
        cut = chance.randint(first, last) // unit * unit  # mostly where it hurts
        return new[:cut] + old[cut:] if chance.random() < 0.5 else old[:cut] + new[cut:]
    page = bytearray(new)
    for start in range(0, PAGE, SECTOR):
        before, after = old[start : start + SECTOR], new[start : start + SECTOR]
        choice = chance.random()
        if before == after or choice > 0.85:
            continue
        for first, last in _changed_runs(before, after):
            if choice > 0.4:  # only some of the runs, and only a part of each
                if chance.random() < 0.6:
                    continue
                first = chance.randint(first, last - 1)
                last = chance.randint(first + 1, last)
            if choice < 0.2:
                page[start + first : start + last] = before[first:last]
            elif kind == "zero":
                page[start + first : start + last] = bytes(last - first)
            else:
                page[start + first : start + last] = chance.randbytes(last - first)
    return bytes(page)


_RUN = re.compile(rb"[^\0]+(?:\0{1,3}[^\0]+)*")  # gaps of up to three equal bytes are the middle of a number


def _changed_runs(old: bytes, new: bytes) -> list[tuple[int, int]]:
    difference = int.from_bytes(old, "big") ^ int.from_bytes(new, "big")
    return [match.span() for match in _RUN.finditer(difference.to_bytes(len(new), "big"))]
