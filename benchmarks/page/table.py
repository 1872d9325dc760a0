"""Lines as a table for a terminal."""

from __future__ import annotations

from benchmarks.page import values
from benchmarks.timing import Row

_COLUMNS = ("", "ours", "theirs", "", "ratio", "spread", "goal", "")
_LEFT = (0, 3, 7)  # names; numbers stand to the right


def text(lines: list[Row]) -> str:
    rows = [_COLUMNS, *(_row(line) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    return "\n".join(_aligned(row, widths) for row in rows)


def _aligned(row: tuple[str, ...], widths: list[int]) -> str:
    cells = zip(row, widths, strict=True)
    aligned = [cell.ljust(width) if at in _LEFT else cell.rjust(width) for at, (cell, width) in enumerate(cells)]
    return "  ".join(aligned).rstrip()


def _row(line: Row) -> tuple[str, ...]:
    best, ratio = line.get("best"), line.get("ratio")
    verdict = {True: "reached", False: "NOT REACHED", None: ""}[line["reached"]]
    if verdict and line["busy"]:
        verdict += " (busy machine)"
    return (
        line["label"],
        values.value(line["ours"]["median"], line["unit"]) or "-",
        values.value(line["theirs"][best]["median"], line["unit"]) if best else "",
        f"({best})" if best else "",
        values.ratio(ratio["median"]) if ratio else "",
        values.spread(line),
        values.goal(line),
        verdict,
    )
