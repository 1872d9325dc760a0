"""What a run leaves behind: a JSON document with the machine, the load beside each part, verdicts and all samples."""

from __future__ import annotations

import subprocess
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from benchmarks import compare
from benchmarks.child import PROJECT
from benchmarks.rounds import Outcome
from benchmarks.settings import Settings
from benchmarks.timing import Row

FORMAT = 1


@dataclass(slots=True)
class PartResult:
    """One part of a run, so far."""

    name: str
    began: datetime
    outcomes: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0
    load: Row | None = None  # None while it runs
    is_complete: bool = False

    @property
    def errors(self) -> list[str]:
        return [error for outcome in self.outcomes for error in outcome.errors]

    @property
    def lines(self) -> list[Row]:
        return [line for outcome in self.outcomes for line in compare.lines_of(outcome)]

    def to_json(self) -> Row:
        return {
            "name": self.name,
            "date": stamp(self.began),
            "seconds": round(self.seconds, 1),
            "load": self.load,
            "complete": self.is_complete,
            "lines": self.lines,
            "errors": self.errors,
            "runs": [
                {"name": outcome.measurement.name, "ours": outcome.ours, "theirs": outcome.theirs}
                for outcome in self.outcomes
            ],
        }


def document(
    *, began: datetime, mode: str, machine: Row, settings: Settings, parts: list[PartResult], notes: list[str]
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "date": stamp(began),
        "commit": commit(),
        "mode": mode,
        "machine": machine,
        "settings": asdict(settings),
        "notes": notes,
        "parts": [part.to_json() for part in parts],
    }


def now() -> datetime:
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def commit() -> str | None:
    """The commit of this checkout, with a word if it was changed since."""
    try:
        head = _git("rev-parse", "--short", "HEAD")
        return f"{head}, changed" if _git("status", "--porcelain", "src") else head
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=True)
    return done.stdout.strip()
