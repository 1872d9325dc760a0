"""Numbers as people read them."""

from __future__ import annotations

from benchmarks.timing import Row


def value(number: float | None, unit: str) -> str:
    """With its unit, in the prefix that suits its size."""
    if number is None:
        return ""
    if unit == "s":
        return _scaled(number, ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")))
    if unit == "ms":
        return _scaled(number, ((1e3, "s"), (1.0, "ms"), (1e-3, "µs")))
    if unit == "us":
        return _scaled(number, ((1e6, "s"), (1e3, "ms"), (1.0, "µs")))
    if unit == "bytes":
        return _scaled(number, ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")))
    if unit.endswith("/s") and unit != "GB/s":
        return f"{_counted(number)} {unit}"
    return f"{digits(number)} {unit}"


def _scaled(number: float, scales: tuple[tuple[float, str], ...]) -> str:
    for scale, unit in scales:
        if abs(number) >= scale:
            return f"{digits(number / scale)} {unit}"
    scale, unit = scales[-1]
    return f"{digits(number / scale)} {unit}"


def _counted(number: float) -> str:
    for scale, letter in ((1e6, "M"), (1e3, "k")):
        if number >= scale:
            return f"{digits(number / scale)}{letter}"
    return digits(number)


def digits(number: float) -> str:
    """Three that mean something."""
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def ratio(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def spread(line: Row) -> str:
    """Lowest and highest ratio of all rounds, or of our own figure where there is nobody to compare with."""
    found = line.get("ratio")
    if found is not None:
        return f"{ratio(found['low'])}–{ratio(found['high'])}" if len(found["samples"]) > 1 else ""
    samples = line["ours"]["samples"]
    if len(samples) < 2:
        return ""
    return f"{value(min(samples), line['unit'])}–{value(max(samples), line['unit'])}"


def goal(line: Row) -> str:
    wanted = line["goal"]
    if "ratio" in wanted:
        return f"{wanted['ratio']:g}"
    if "keep" in wanted:
        return f"keep {wanted['keep']:g}"
    if "bound" in wanted:
        return f"{'≤' if line['less_is_better'] else '≥'} {value(wanted['bound'], line['unit'])}"
    return ""
