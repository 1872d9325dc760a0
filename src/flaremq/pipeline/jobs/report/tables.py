"""Tables and sections of the report page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flaremq.look.charts import share_bar
from flaremq.look.format import escaped, shortened
from flaremq.visible import visible

ROWS_MAX = 20


@dataclass(frozen=True, slots=True)
class Name:
    """A name from outside: shown escaped, shortened, with the whole of it when pointed at."""

    text: str


@dataclass(frozen=True, slots=True)
class Share:
    """A cell with a bar."""

    value: float
    largest: float


Cell = str | Name | Share  # a plain text is a number or a time and stands to the right


def table(heads: Sequence[str], rows: Sequence[Sequence[Cell]], *, rows_max: int = ROWS_MAX, unit: str = "rows") -> str:
    """A table of the first rows and a line about the rest. An empty head goes with a bar."""
    if not rows:
        return ""
    first = rows[0]
    head = "".join(f"<th{_class_of(cell)}>{escaped(text)}</th>" for text, cell in zip(heads, first, strict=True))
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows[:rows_max])
    more = len(rows) - rows_max
    rest = f'<p class="more">and {more:,} more {unit}, in the JSON of this report</p>' if more > 0 else ""
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{rest}'


def row_table(
    columns: Sequence[tuple[str, str, Callable[[Any], Cell] | type[Share]]],
    rows: Sequence[Mapping[str, Any]],
    *,
    rows_max: int = ROWS_MAX,
    unit: str = "rows",
) -> str:
    """A table of rows by key: each column has a head, a key and how its values are shown, as a ``Share`` of the largest
    or by a function."""
    largest = {key: max((row[key] for row in rows), default=0) for _, key, shown in columns if shown is Share}
    cells = [
        [Share(row[key], largest[key]) if shown is Share else shown(row[key]) for _, key, shown in columns]  # type: ignore[call-arg]
        for row in rows
    ]
    return table([head for head, _, _ in columns], cells, rows_max=rows_max, unit=unit)


def section(anchor: str, title: str, about: str, *content: str, none: str = "") -> str:
    """A section; without content it says what there is none of."""
    inner = "".join(content)
    if not inner:
        inner = f'<p class="none">{escaped(none)}</p>'
    head = f'<h2>{escaped(title)}</h2><p class="about">{escaped(about)}</p>'
    return f'<section id="{escaped(anchor)}">{head}{inner}</section>'


def folded(title: str, content: str) -> str:
    """Details that show on demand."""
    return f"<details><summary>{escaped(title)}</summary>{content}</details>" if content else ""


def headline(content: str) -> str:
    return f"<h3>{escaped(content)}</h3>"


def _class_of(cell: Cell) -> str:
    return ' class="n"' if isinstance(cell, str) else ' class="bar"' if isinstance(cell, Share) else ""


def _cell(cell: Cell) -> str:
    if isinstance(cell, Share):
        return f'<td class="bar">{share_bar(cell.value, cell.largest)}</td>'
    if isinstance(cell, Name):
        shown = visible(cell.text)
        short = shortened(shown)
        hint = "" if short == shown else f' title="{escaped(shortened(shown, 300))}"'
        return f'<td class="name"{hint}>{escaped(short)}</td>'
    return f'<td class="n">{escaped(cell)}</td>'
