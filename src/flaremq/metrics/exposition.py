"""Samples as text: Prometheus' own format (0.0.4), or OpenMetrics 1.0.

Written here rather than by a library because fifty thousand series of five families are told in slices of the event
loop; labels are written once for all families that share them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from flaremq.metrics.family import Family, Kind, Names
from flaremq.metrics.histogram import Histogram
from flaremq.metrics.samples import Samples, Value

TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_ROWS_AT_ONCE: Final = 256


async def write(
    samples: Samples, *, names: Names = Names.WITH_UNIT, asked: frozenset[str] = frozenset(), open_metrics: bool = False
) -> list[bytes]:
    """The text in pieces. Families in alphabetical order; ``asked``: only what has one of these names, if any."""
    told = [
        (name, family)
        for family in samples.columns
        for name in family.names(names)
        if not asked or asked.intersection(family.told_names(name))
    ]
    told.sort(key=lambda pair: pair[0])
    pieces = []
    for name, family in told:
        pieces.append("\n".join(_head(name, family, open_metrics)).encode() + b"\n")
        column = samples.columns[family]
        for at in range(0, len(column.labels), _ROWS_AT_ONCE):
            end = at + _ROWS_AT_ONCE
            some = zip(column.labels[at:end], column.values[at:end], strict=True)
            pieces.append(("\n".join(_lines(name, family, some)) + "\n").encode("utf-8", "replace"))
            await samples.turns.take()
    if open_metrics:
        pieces.append(b"# EOF\n")
    return pieces


def is_asked(family: Family, names: Names, asked: frozenset[str]) -> bool:
    """Whether one of these names means the family."""
    return not asked or any(asked.intersection(family.told_names(name)) for name in family.names(names))


def _head(name: str, family: Family, open_metrics: bool) -> tuple[str, str]:
    if family.kind is Kind.COUNTER and not open_metrics:
        name += "_total"
    text = family.help.replace("\\", "\\\\").replace("\n", "\\n")
    if open_metrics:
        text = text.replace('"', '\\"')
    return f"# HELP {name} {text}", f"# TYPE {name} {family.kind.value}"


def _lines(name: str, family: Family, rows: Iterable[tuple[str, Value]]) -> Iterator[str]:
    if family.kind is Kind.HISTOGRAM:
        for labels, value in rows:
            assert isinstance(value, Histogram)
            yield from _histogram_lines(name, labels, value)
        return
    if family.kind is Kind.COUNTER:
        name += "_total"
    for labels, value in rows:
        assert not isinstance(value, Histogram)
        yield f"{name}{{{labels}}} {number(value)}" if labels else f"{name} {number(value)}"


def _histogram_lines(name: str, labels: str, value: Histogram) -> Iterator[str]:
    before = f"{labels}," if labels else ""
    braced = f"{{{labels}}}" if labels else ""
    total = 0
    for bound, count in zip((*value.bounds, math.inf), value.counts, strict=True):
        total += count
        yield f'{name}_bucket{{{before}le="{number(bound)}"}} {total}'
    yield f"{name}_count{braced} {total}"
    yield f"{name}_sum{braced} {number(value.sum)}"


def number(value: float) -> str:
    """With a decimal point, as Java writes doubles."""
    if type(value) is not float:
        value = float(value)
    if value - value != 0:  # no finite number
        return "NaN" if value != value else "+Inf" if value > 0 else "-Inf"
    return repr(value)
