"""Counts crash images over all workers and says at the end how many there were."""

from __future__ import annotations

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    totals: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                totals.update({name: value for name, value in report.user_properties if isinstance(value, int)})
    if totals:
        terminalreporter.write_line(
            "simulation: " + ", ".join(f"{value:,} {name}" for name, value in sorted(totals.items()))
        )
