"""From rows to verdicts: medians, the ratio round by round, its spread, what was wanted, reached or not."""

from __future__ import annotations

import statistics

from benchmarks.rounds import Figure, Outcome
from benchmarks.timing import Row

BUSY_CORES = 0.3  # used by others during a run: from here on its figures are marked
_KEPT_SHARE = 0.95  # what was reached once and stays within this is kept


def lines_of(outcome: Outcome) -> list[Row]:
    """One line a figure: samples and median of each side, ratios (above 1: we are better) and the verdict."""
    lines = []
    for figure in outcome.measurement.figures:
        label = figure.label.strip()
        above = outcome.measurement.figures[0].label.strip()
        key = label if label == above or not figure.label.startswith(" ") else f"{above}: {label}"
        lines.append({"key": key, **_compare(figure, outcome)})
    return lines


def _compare(figure: Figure, outcome: Outcome) -> Row:
    ours = _samples(outcome.ours, figure.ours)
    theirs = {
        side: found
        for side, rows, name in _answers(figure, outcome)
        if (found := _samples(rows, name)) and (not figure.peer or side == figure.peer)
    }
    line: Row = {
        "label": figure.label,
        "unit": figure.unit,
        "less_is_better": figure.less_is_better,
        "ours": _summary(ours),
        "theirs": {side: _summary(found) for side, found in theirs.items()},
    }
    if ours and theirs:
        choose = min if figure.less_is_better else max
        best = choose(theirs, key=lambda side: statistics.median(theirs[side].values()))
        line["best"] = best
        line["ratio"] = _ratio(ours, theirs[best], less_is_better=figure.less_is_better)
    line["goal"] = {
        name: value
        for name, value in (
            ("ratio", figure.wanted_ratio),
            ("keep", figure.kept_ratio),
            ("bound", figure.wanted_bound),
        )
        if value is not None
    }
    line["reached"] = is_reached(line)
    line["busy"] = other_cores(outcome) > BUSY_CORES
    return line


def _answers(figure: Figure, outcome: Outcome) -> list[tuple[str, list[Row], str]]:
    if figure.beside:
        return [(figure.beside, outcome.ours, figure.beside)]
    return [(side, rows, figure.theirs) for side, rows in outcome.theirs.items()] if figure.theirs else []


def _samples(rows: list[Row], name: str) -> dict[int, float]:
    """By round."""
    found = enumerate(rows, 1)
    return {row.get("round", number): row[name] for number, row in found if isinstance(row.get(name), (int, float))}


def _summary(samples: dict[int, float]) -> Row:
    values = list(samples.values())
    return {"median": statistics.median(values) if values else None, "samples": values}


def _ratio(ours: dict[int, float], theirs: dict[int, float], *, less_is_better: bool) -> Row | None:
    """Of what was measured in the same round: whatever the machine did meanwhile, it did to both."""
    ratios = []
    for number in sorted(ours.keys() & theirs.keys()):
        above, below = (theirs, ours) if less_is_better else (ours, theirs)
        if below[number]:
            ratios.append(round(above[number] / below[number], 4))
    if not ratios:
        return None
    return {"median": round(statistics.median(ratios), 3), "low": min(ratios), "high": max(ratios), "samples": ratios}


def is_reached(line: Row) -> bool | None:
    """None where nothing is wanted or nothing could be compared."""
    goal, ratio, ours = line["goal"], line.get("ratio"), line["ours"]["median"]
    if "ratio" in goal or "keep" in goal:
        wanted = goal["ratio"] if "ratio" in goal else goal["keep"] * _KEPT_SHARE
        return None if ratio is None else bool(round(ratio["median"], 2) >= wanted)
    if "bound" in goal and ours is not None:
        return bool(ours <= goal["bound"] if line["less_is_better"] else ours >= goal["bound"])
    return None


def busy_note(outcome: Outcome) -> list[str]:
    """A line if the rest of the machine was not idle beside some run."""
    cores = other_cores(outcome)
    if cores <= BUSY_CORES:
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
