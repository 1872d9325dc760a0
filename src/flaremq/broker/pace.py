"""Pace: long computations on worker threads that leave the event loop its turn.

A thread that computes keeps the interpreter lock up to 5 ms each time the event loop wants it back, which is several
times for one request. Whoever computes for long lets go of it every millisecond instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import monotonic, sleep
from typing import Final, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")
_T = TypeVar("_T")
_SLICE_SECONDS: Final = 0.001
_PAUSE_SECONDS: Final = 0.0005


class Pace:
    """One computation's. Call ``step`` often; never on the event loop."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = monotonic() + _SLICE_SECONDS

    def step(self) -> None:
        if monotonic() > self._until:
            sleep(_PAUSE_SECONDS)
            self._until = monotonic() + _SLICE_SECONDS


def paced(items: Iterable[_T]) -> Iterator[_T]:
    """The same items, with a step before each."""
    pace = Pace()
    for item in items:
        pace.step()
        yield item


class PacedTable(dict[_K, _V]):
    """A table that is walked with a step before each entry: rendering it as a part of a body is paced."""

    def items(self) -> Iterator[tuple[_K, _V]]:  # type: ignore[override]  # walked once, by those who write bodies
        return paced(super().items())
