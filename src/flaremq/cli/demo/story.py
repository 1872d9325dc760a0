"""What the demo tells: numbers as they come in, and the pairs of them that must be equal."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import click


@dataclass(slots=True)
class Story:
    """Steps, numbers and checks of one demo."""

    quiet: bool
    numbers: dict[str, Any] = field(default_factory=dict)
    checks: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    _began: float = field(default_factory=time.perf_counter)

    def tell(self, text: str) -> None:
        if not self.quiet:
            click.echo(f"[{time.perf_counter() - self._began:5.1f} s] {text}")

    def check(self, what: str, found: object, expected: object) -> None:
        self.checks.append({"check": what, "found": found, "expected": expected, "agrees": found == expected})

    @property
    def agrees(self) -> bool:
        return all(check["agrees"] for check in self.checks)

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self._began
