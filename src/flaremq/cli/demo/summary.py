"""What the demo prints: its steps, its numbers, and the pairs of numbers that must be equal."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import click


@dataclass(slots=True)
class Summary:
    """Steps, numbers and checks of one demo."""

    quiet: bool
    numbers: dict[str, Any] = field(default_factory=dict)
    checks: list[dict[str, Any]] = field(default_factory=list)
    _began: float = field(default_factory=time.perf_counter)

    def step(self, text: str) -> None:
        """Print that a step is done, and when."""
        if not self.quiet:
            click.echo(f"[{time.perf_counter() - self._began:5.1f} s] {text}")

    def line(self, text: str) -> None:
        """Print what belongs to the step before."""
        if not self.quiet:
            click.echo(f"          {text}")

    def check(self, what: str, found: object, expected: object) -> None:
        self.checks.append({"check": what, "found": found, "expected": expected, "agrees": found == expected})

    @property
    def agrees(self) -> bool:
        return all(check["agrees"] for check in self.checks)

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self._began
