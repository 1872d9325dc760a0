"""Charts as SVG, drawn without a library.

Only shapes are SVG and they stretch with the page; labels are HTML beside them, so they keep their size on a phone.
Colours are classes of the style sheet, which has a light and a dark set. Every bar says its value when pointed at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flaremq.look.format import compact, escaped, moment, number, shortened

_WIDTH, _HEIGHT = 1000, 200
_GAP = 0.12  # share of a column that stays empty
_COLUMNS_MAX = 120
_BAR_WIDTH_MAX = 120
_LABELS_MAX = 6  # below a chart, so that they do not touch on a phone
_NAME_LENGTH = 32
_SPARK_POINTS_MAX = 180  # a cell has no more pixels; a quarter of an hour by seconds would be 20 KB of coordinates
_BRIDGED_MAX = 3  # unknown points in a row that a curve goes on over


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a chart: its parts from the bottom up, and what it says when pointed at."""

    label: str
    parts: tuple[int, ...]
    hint: str


def column_chart(columns: Sequence[Column], *, names: Sequence[str], caption: str, labels: Sequence[str] = ()) -> str:
    """Stacked columns; ``labels`` stand below, spread evenly (each column's own if none are given)."""
    top = nice_ceiling(max((sum(column.parts) for column in columns), default=0))
    step = _WIDTH / max(len(columns), 1)
    shapes: list[str] = []
    for line in (0.25, 0.5, 0.75):
        y = _HEIGHT * line
        shapes.append(f'<line class="grid" x1="0" x2="{_WIDTH}" y1="{y:g}" y2="{y:g}"/>')
    for at, column in enumerate(columns):
        y = float(_HEIGHT)
        bars = []
        for series, value in enumerate(column.parts):
            height = value / top * _HEIGHT
            if value:
                y -= height
                width = min(step * (1 - _GAP), _BAR_WIDTH_MAX)
                x = at * step + (step - width) / 2
                size = f'width="{width:.2f}" height="{max(height, 0.5):.2f}"'
                bars.append(f'<rect class="s{series}" x="{x:.2f}" y="{y:.2f}" {size}/>')
        # The empty column too can be pointed at.
        shapes.append(
            f'<g><title>{escaped(column.hint)}</title><rect class="hit" x="{at * step:.2f}" y="0" '
            f'width="{step:.2f}" height="{_HEIGHT}"/>{"".join(bars)}</g>'
        )
    every = -(-len(columns) // _LABELS_MAX)
    below = labels or [column.label if at % every == 0 else "" for at, column in enumerate(columns)]
    axis = "".join(f"<span>{escaped(label)}</span>" for label in below)
    scale = "".join(f"<span>{escaped(compact(top * share))}</span>" for share in (1, 0.5, 0))
    legend = _legend(names) if len(names) > 1 else ""
    spread = "ends" if labels else "even"
    return (
        f'<figure class="chart"><div class="plot"><div class="scale">{scale}</div>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{escaped(caption)}">'
        f'{"".join(shapes)}</svg></div><div class="axis {spread}">{axis}</div>{legend}'
        f"<figcaption>{escaped(caption)}</figcaption></figure>"
    )


def time_chart(steps: Sequence[tuple[int, tuple[int, ...]]], *, step_s: int, names: Sequence[str], what: str) -> str:
    """Columns over time from (start in ms, parts); steps without messages show as gaps, many steps are put together."""
    first, last = steps[0][0], steps[-1][0]
    count = (last - first) // (step_s * 1000) + 1
    together = -(-count // _COLUMNS_MAX)
    width_ms = together * step_s * 1000
    sums = [[0] * len(names) for _ in range(-(-count // together))]
    for start, parts in steps:
        row = sums[(start - first) // width_ms]
        for series, value in enumerate(parts):
            row[series] += value
    columns = []
    for at, row in enumerate(sums):
        start = first + at * width_ms
        named = "; ".join(f"{name}: {number(value)}" for name, value in zip(names, row, strict=True) if value)
        hint = f"{moment(start)}, {number(sum(row))} {what}" + (f" ({named})" if len(names) > 1 and named else "")
        columns.append(Column("", tuple(row), hint))
    end = first + len(sums) * width_ms
    marks = [moment(first), moment((first + end) // 2), moment(end)]
    caption = f"{what.capitalize()} per {_step_name(width_ms // 1000)}, by store time (UTC)"
    return column_chart(columns, names=names, caption=caption, labels=marks)


def share_bar(value: float, largest: float, series: int = 0) -> str:
    """A bar for a table's cell."""
    width = 0.0 if largest <= 0 else max(value / largest * 100, 0.5 if value else 0.0)
    return (
        '<svg class="share" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="s{series}" x="0" y="0" width="{min(width, 100.0):.2f}" height="10"/></svg>'
    )


def gauge(parts: Sequence[tuple[float, int]], marks: Sequence[float], caption: str) -> str:
    """A bar of shares of a whole with marks on it."""
    x = 0.0
    shapes = []
    for share, series in parts:
        width = max(min(share, 1 - x), 0.0)
        shapes.append(f'<rect class="s{series}" x="{x * _WIDTH:.2f}" y="0" width="{width * _WIDTH:.2f}" height="20"/>')
        x += width
    for mark in marks:
        at = mark * _WIDTH
        shapes.append(f'<line class="mark" x1="{at:.2f}" x2="{at:.2f}" y1="0" y2="20"/>')
    return (
        f'<figure class="chart"><svg class="gauge" viewBox="0 0 {_WIDTH} 20" preserveAspectRatio="none" role="img" '
        f'aria-label="{escaped(caption)}">{"".join(shapes)}</svg><figcaption>{escaped(caption)}</figcaption></figure>'
    )


def sparkline(points: Sequence[float | None], label: str = "") -> str:
    """The course of a value without axes, for a table's cell; holes are gaps. Empty without two points. Of many points
    the highest of neighbours are drawn, so that no peak is lost."""
    points = _highest(points, _SPARK_POINTS_MAX)
    known = [value for value in points if value is not None]
    if len(known) < 2:
        return ""
    shapes = "".join(
        f'<polygon points="{x0:g},100 {run} {x1:g},100"/><polyline points="{run}"/>'
        for run, x0, x1 in _runs(points, max(max(known), 0.0) or 1.0)
    )
    name = f'role="img" aria-label="{escaped(label)}"' if label else 'aria-hidden="true"'
    return f'<svg class="spark" viewBox="0 0 100 100" preserveAspectRatio="none" {name}>{shapes}</svg>'


def _highest(points: Sequence[float | None], most: int) -> Sequence[float | None]:
    together = -(-len(points) // most)
    if together <= 1:
        return points
    groups = (points[at : at + together] for at in range(0, len(points), together))
    return [max((value for value in group if value is not None), default=None) for group in groups]


def line_chart(lines: Sequence[tuple[str, Sequence[float | None]]], caption: str) -> str:
    """Values over the same time as curves, oldest first, with a scale and a legend."""
    known = [value for _, points in lines for value in points if value is not None]
    if not known:
        return ""
    top = nice_ceiling(max(known))
    rules = "".join(f'<line class="grid" x1="0" x2="100" y1="{y}" y2="{y}"/>' for y in (25, 50, 75))
    curves = "".join(
        f'<polyline class="line s{at}" points="{run}"/>'
        for at, (_, points) in enumerate(lines)
        for run, _, _ in _runs(points, top)
    )
    scale = "".join(f"<span>{escaped(compact(top * share))}</span>" for share in (1, 0.5, 0))
    legend = _legend([name for name, _ in lines]) if len(lines) > 1 else ""
    return (
        f'<div class="plot"><div class="scale">{scale}</div><svg viewBox="0 0 100 100" preserveAspectRatio="none" '
        f'role="img" aria-label="{escaped(caption)}">{rules}{curves}</svg></div>{legend}'
    )


def _runs(points: Sequence[float | None], top: float) -> list[tuple[str, float, float]]:
    """Unbroken stretches as coordinates in a square of 100, each with where it begins and ends. A few points that are
    not known do not break one: a sample that came late is no event."""
    runs: list[tuple[str, float, float]] = []
    step = 100 / max(len(points) - 1, 1)
    stretch: list[tuple[float, float]] = []
    unknown = 0
    for at, value in enumerate([*points, *[None] * (_BRIDGED_MAX + 1)]):
        unknown = unknown + 1 if value is None else 0
        if value is not None:
            stretch.append((at * step, 100 - min(max(value / top, 0.0), 1.0) * 98 - 1))
        elif stretch and unknown > _BRIDGED_MAX:
            path = " ".join(f"{x:.2f},{y:.1f}" for x, y in stretch)
            runs.append((path, round(stretch[0][0], 2), round(stretch[-1][0], 2)))
            stretch = []
    return runs


def nice_ceiling(value: float) -> float:
    """The next of 1, 2, 4, 5 or 10 times a power of ten, so that halves of it are round too."""
    if value <= 0:
        return 1
    power = 10.0 ** math.floor(math.log10(value))
    for factor in (1, 2, 4, 5, 10):
        if value <= factor * power:
            return factor * power
    return 10 * power


def _legend(names: Sequence[str]) -> str:
    items = "".join(
        '<span class="key"><svg viewBox="0 0 10 10" aria-hidden="true">'
        f'<rect class="s{at}" width="10" height="10"/></svg>'
        f"{escaped(shortened(name, _NAME_LENGTH))}</span>"
        for at, name in enumerate(names)
    )
    return f'<div class="legend">{items}</div>'


def _step_name(seconds: int) -> str:
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds % size == 0:
            return name if seconds == size else f"{seconds // size} {name}s"
    return "second" if seconds == 1 else f"{seconds} seconds"
