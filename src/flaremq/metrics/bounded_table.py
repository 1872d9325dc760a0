"""BoundedTable: one counter for each set of labels, so many of them at most.

Names of topics and groups are chosen by clients, and a counter may not be forgotten while the process runs: a rate over
it would see it fall. So there is a limit, and what comes later is counted together, as in RocketMQ. How many sets of
labels that are is remembered by their hashes, again so many at most.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
SERIES_MAX: Final = 50_000
_HASHES_MAX: Final = 100_000


class BoundedTable(dict[K, V], Generic[K, V]):
    """Look up with ``get`` and, if that is None, with :meth:`made`."""

    def __init__(self, make: Callable[[], V], limit: int = SERIES_MAX) -> None:
        super().__init__()
        self._make = make
        self._limit = max(limit, 2)
        self.overflow: V | None = None
        self._left_out: set[int] = set()

    def made(self, key: K) -> V:
        """The counter of a new key; that of all the others once there is no room for one more."""
        found = self.get(key)
        if found is not None:
            return found
        if len(self) < self._limit - 1:
            found = self[key] = self._make()
            return found
        if self.overflow is None:
            self.overflow = self._make()
        if len(self._left_out) < _HASHES_MAX:
            self._left_out.add(hash(key))
        return self.overflow

    @property
    def cut(self) -> int:
        """Keys without a counter of their own."""
        return len(self._left_out)
