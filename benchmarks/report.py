"""From rows to verdicts: medians, ours against the faster of theirs, what was wanted, reached or not."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from benchmarks.rounds import Figure, Outcome, median_of
from benchmarks.settings import Settings
from benchmarks.timing import Row

_BUSY = 0.3  # of a core, by others, during a run: from here on its figures are marked
_COLUMNS = ("", "unit", "ours", "theirs", "", "ratio", "wanted", "")


def figures_of(outcome: Outcome) -> list[Row]:
    """One row a figure: ours, the best of theirs, the ratio (above 1: we are better) and the verdict."""
    return [_compare(figure, outcome) for figure in outcome.measurement.figures]


def _compare(figure: Figure, outcome: Outcome) -> Row:
    ours = median_of(outcome.ours, figure.ours)
    medians: dict[str, float] = {}
    answers = {figure.beside: outcome.ours} if figure.beside else outcome.theirs
    for side, rows in answers.items():
        value = median_of(rows, figure.beside or figure.theirs)
        if value is not None:
            medians[side] = value
    row: Row = {"label": figure.label, "unit": figure.unit, "ours": ours, "theirs": medians}
    row["spread"] = [one[figure.ours] for one in outcome.ours if figure.ours in one]
    if ours is not None and medians:
        best = (min if figure.less_is_better else max)(medians, key=medians.__getitem__)
        row["best"] = best
        above, below = (medians[best], ours) if figure.less_is_better else (ours, medians[best])
        row["ratio"] = round(above / below, 3) if below else None
    row["wanted_ratio"], row["wanted_bound"] = figure.wanted_ratio, figure.wanted_bound
    row["reached"] = _is_reached(figure, ours, row.get("ratio"))
    row["busy"] = other_cores(outcome) > _BUSY
    row["less_is_better"] = figure.less_is_better
    return row


def _is_reached(figure: Figure, ours: float | None, ratio: float | None) -> bool | None:
    """None where nothing is wanted or nothing could be compared."""
    if figure.wanted_ratio is not None:
        return None if ratio is None else ratio >= figure.wanted_ratio
    if figure.wanted_bound is not None and ours is not None:
        return ours <= figure.wanted_bound if figure.less_is_better else ours >= figure.wanted_bound
    return None


def busy_note(outcome: Outcome) -> list[str]:
    """A line if the rest of the machine was not idle beside some run."""
    cores = other_cores(outcome)
    if cores <= _BUSY:
        return []
    return [f"{outcome.measurement.name}: others used up to {cores:.1f} cores meanwhile; repeat it on a quiet machine"]


def other_cores(outcome: Outcome) -> float:
    """Cores used by everything else, at most, in any run of this measurement."""
    rows = outcome.ours + [row for rows in outcome.theirs.values() for row in rows]
    found = [row["other_cores"] if "other_cores" in row else _peer_other_cores(row) for row in rows]
    return max(found, default=0.0)


def _peer_other_cores(row: Row) -> float:
    """RocketMQ's driver gives seconds; how long it counted them depends on the mode."""
    elapsed = row.get("total_s") or row.get("seconds", 0) + row.get("dispatch_s", 0)
    return float(row.get("cpu_other_s", 0) / elapsed) if elapsed else 0.0


def document(machine: Row, settings: Settings, outcomes: list[Outcome], notes: list[str]) -> dict[str, Any]:
    """Everything, for ``--out``: verdicts first, then every row they come from."""
    return {
        "machine": machine,
        "settings": asdict(settings),
        "figures": [figure for outcome in outcomes for figure in figures_of(outcome)],
        "notes": notes,
        "runs": [
            {
                "name": outcome.measurement.name,
                "ours": outcome.ours,
                "theirs": outcome.theirs,
                "errors": outcome.errors,
            }
            for outcome in outcomes
        ],
    }


def table(figures: list[Row]) -> str:
    lines = [_COLUMNS, *(_line(figure) for figure in figures)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_COLUMNS))]
    return "\n".join(_aligned(line, widths) for line in lines)


def _aligned(line: tuple[str, ...], widths: list[int]) -> str:
    """Names to the left, numbers to the right."""
    cells = []
    for column, (cell, width) in enumerate(zip(line, widths, strict=True)):
        cells.append(cell.rjust(width) if 2 <= column <= 6 else cell.ljust(width))
    return "  ".join(cells).rstrip()


def _line(figure: Row) -> tuple[str, ...]:
    best = figure.get("best")
    ratio = figure.get("ratio")
    wanted = ""
    if figure["wanted_ratio"] is not None:
        wanted = f">= {figure['wanted_ratio']:g}"
    elif figure["wanted_bound"] is not None:
        wanted = f"{'<=' if figure['less_is_better'] else '>='} {figure['wanted_bound']:g} {figure['unit']}"
    verdict = {True: "reached", False: "NOT REACHED", None: ""}[figure["reached"]]
    if verdict and figure["busy"]:
        verdict += " (busy machine)"
    return (
        figure["label"],
        figure["unit"],
        _number(figure["ours"]),
        _number(figure["theirs"][best]) if best else "",
        f"({best})" if best else "",
        "" if ratio is None else f"{ratio:.2f}",
        wanted,
        verdict,
    )


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"
