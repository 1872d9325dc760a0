"""Samples: what one look at a server found, family by family, as it will be written.

Of gauges so many series are kept as the limit says; the rest is counted in ``cut``. Counters are bounded where they are
counted (``bounded_table``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from flaremq.metrics.bounded_table import SERIES_MAX, BoundedTable
from flaremq.metrics.family import Family
from flaremq.metrics.histogram import Histogram
from flaremq.metrics.labels import Labeller
from flaremq.metrics.turns import Turns

K = TypeVar("K")
V = TypeVar("V")
OVERFLOW = 'otel_metric_overflow="true"'
_TURN_ROWS = 256  # after so many the event loop gets its turn

Value = float | Histogram


class Column:
    """The samples of one family: labels as text, and values. Two lists rather than pairs: a quarter of a million small
    objects at once is what the garbage collector would hold up the loop for."""

    __slots__ = ("labels", "values")

    def __init__(self, labels: list[str], values: list[Value]) -> None:
        self.labels = labels
        self.values = values


class Samples:
    """Columns by family. One look's; event loop only."""

    def __init__(
        self,
        common: Mapping[str, str],
        *,
        limit: int = SERIES_MAX,
        is_wanted: Callable[[Family], bool] = lambda family: True,
    ) -> None:
        self.limit = limit
        self.turns = Turns()
        self.columns: dict[Family, Column] = {}
        self.cut: Counter[Family] = Counter()
        self.labeller = Labeller(common)
        self._is_wanted = is_wanted
        self._wanted: dict[Family, bool] = {}

    def wants(self, *families: Family) -> bool:
        """Whether one of these will be told: what nobody wants to know is not looked for."""
        for family in families:
            found = self._wanted.get(family)
            if found is None:
                found = self._wanted[family] = self._is_wanted(family)
            if found:
                return True
        return False

    def add(self, family: Family, value: Value, *labels: str | None) -> None:
        """A sample; its labels in the order of the family's, None for one that it does not have."""
        if self.wants(family):
            self.add_text(family, self.labeller.text(family.labels, labels, family.constant), value)

    def add_text(self, family: Family, labels: str, value: Value) -> None:
        """A sample whose labels are written already."""
        column = self._column(family)
        if len(column.labels) < self.limit:
            column.labels.append(labels)
            column.values.append(value)
        else:
            self.cut[family] += 1

    def add_column(self, family: Family, labels: list[str], values: list[Value]) -> None:
        """All samples of a family at once; families may share their labels, which are not changed any more."""
        if labels and self.wants(family):
            self.columns[family] = Column(labels, values)

    def _column(self, family: Family) -> Column:
        column = self.columns.get(family)
        if column is None:
            column = self.columns[family] = Column([], [])
        return column

    async def add_table(
        self,
        table: BoundedTable[K, V],
        labels_of: Callable[[K], tuple[str | None, ...]],
        parts: Mapping[Family, Callable[[V], Any]],
    ) -> None:
        """A table of counters; its families have the same labels."""
        parts = {family: value_of for family, value_of in parts.items() if self.wants(family)}
        if not parts:
            return
        first = next(iter(parts))
        for number, (key, item) in enumerate(list(table.items())):
            text = self.labeller.text(first.labels, labels_of(key), first.constant)
            for family, value_of in parts.items():
                self.add_text(family, text, value_of(item))
            if not number % _TURN_ROWS:
                await self.turns.take()
        if table.overflow is not None:
            common = self.labeller.text((), (), first.constant)
            text = f"{common},{OVERFLOW}" if common else OVERFLOW
            for family, value_of in parts.items():
                column = self._column(family)
                column.labels.append(text)
                column.values.append(value_of(table.overflow))
                self.cut[family] += table.cut
