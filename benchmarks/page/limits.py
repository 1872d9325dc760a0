"""``benchmarks/limits.toml``: what limits a line that is below its goal, and what was tried. Kept by hand."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

PATH = Path(__file__).resolve().parent.parent / "limits.toml"


@dataclass(frozen=True, slots=True)
class Limit:
    lines: tuple[str, ...]  # "part: line", as the page has them
    limits: str
    tried: str = ""


def read(path: Path = PATH) -> list[Limit]:
    with path.open("rb") as file:
        rows = tomllib.load(file).get("limit", [])
    found = []
    for row in rows:
        unknown = row.keys() - {"lines", "limits", "tried"}
        if unknown or not row.get("lines") or not row.get("limits"):
            raise ValueError(f"{path.name}: an entry needs lines and limits, and may have tried: {row}")
        found.append(Limit(tuple(row["lines"]), row["limits"].strip(), row.get("tried", "").strip()))
    return found
