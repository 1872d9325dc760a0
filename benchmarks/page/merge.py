"""Several results as one: of each line and each kind of growth the newest counts, and knows where it is from."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from benchmarks.results import FORMAT
from benchmarks.timing import Row


@dataclass(frozen=True, slots=True)
class Source:
    """One part of one run."""

    date: str
    commit: str | None
    mode: str
    seconds: float
    load: Row | None
    is_complete: bool
    machine: Row

    @property
    def moment(self) -> datetime:
        return datetime.fromisoformat(self.date)


@dataclass(slots=True)
class Section:
    """A part on the page. Lines and growth by name, each with its source."""

    name: str
    lines: dict[str, tuple[Row, Source]] = field(default_factory=dict)
    growth: dict[str, tuple[list[Row], Source]] = field(default_factory=dict)

    def add(self, lines: list[Row], source: Source) -> None:
        """Lines that are not there yet, each behind the one it stood behind: what belongs together stays together."""
        order = list(self.lines)
        place = 0
        for line in lines:
            if line["key"] in self.lines:
                place = order.index(line["key"]) + 1
                continue
            order.insert(place, line["key"])
            place += 1
            self.lines[line["key"]] = (line, source)
        self.lines = {key: self.lines[key] for key in order}

    @property
    def sources(self) -> list[Source]:
        """Newest first, each once."""
        found: list[Source] = []
        for _, source in (*self.lines.values(), *self.growth.values()):
            if source not in found:
                found.append(source)
        return sorted(found, key=lambda source: source.moment, reverse=True)


def merged(documents: list[dict[str, Any]]) -> dict[str, Section]:
    """Sections by part."""
    sections: dict[str, Section] = {}
    for document in sorted(documents, key=lambda each: datetime.fromisoformat(each["date"]), reverse=True):
        if document.get("format") != FORMAT:
            raise ValueError(f"a result of format {document.get('format')!r}: expected {FORMAT}")
        for part in document["parts"]:
            section = sections.setdefault(part["name"], Section(part["name"]))
            source = Source(
                date=part["date"],
                commit=document["commit"],
                mode=document["mode"],
                seconds=part["seconds"],
                load=part["load"],
                is_complete=part["complete"],
                machine=document["machine"],
            )
            section.add([line for line in part["lines"] if line["ours"]["median"] is not None], source)
            for run in part["runs"]:
                if any("times" in row for row in run["ours"]):
                    section.growth.setdefault(run["name"], (run["ours"], source))
    return sections
