"""What a check of a store can say.

Three severities, by what it means for the user:

* ``damage``   the store holds less than it should, or says something false: data or a view of it is lost;
* ``warning``  a reader may be served incompletely or a restart may behave oddly, but every message is there;
* ``note``     worth knowing, nothing to do: the traces of a crash that opening the store clears, expired
  data.

A store is healthy when it has no damage and no warning.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class Severity(enum.StrEnum):
    DAMAGE = "damage"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found: ``offset`` is a byte in the file ``path`` (None where no single byte is meant)."""

    path: str
    offset: int | None
    kind: str
    detail: str
    severity: Severity

    def to_dict(self) -> dict[str, object]:
        return {
            "severity": str(self.severity),
            "kind": self.kind,
            "path": self.path,
            "offset": self.offset,
            "detail": self.detail,
        }


@dataclass(slots=True)
class Summary:
    """Totals of one check."""

    records: int = 0
    record_bytes: int = 0
    blanks: int = 0
    queues: int = 0
    units: int = 0
    index_files: int = 0
    index_entries: int = 0
    undecodable_bodies: int = 0
    log_min: int = 0
    log_end: int = 0
    closed_cleanly: bool = True
    newest_timestamp: int = 0
    contradicted: set[int] = field(default_factory=set)  # offsets of records that queues, index or themselves deny
    counts: dict[Severity, int] = field(default_factory=lambda: dict.fromkeys(Severity, 0))

    def add_records(self, piece: Summary) -> None:
        """What another check counted in its piece of the log."""
        self.records += piece.records
        self.record_bytes += piece.record_bytes
        self.blanks += piece.blanks
        self.undecodable_bodies += piece.undecodable_bodies
        self.newest_timestamp = max(self.newest_timestamp, piece.newest_timestamp)
        self.contradicted |= piece.contradicted

    @property
    def healthy(self) -> bool:
        return not self.counts[Severity.DAMAGE] and not self.counts[Severity.WARNING]

    @property
    def damaged(self) -> bool:
        return self.counts[Severity.DAMAGE] > 0

    def to_dict(self) -> dict[str, object]:
        return {
            "healthy": self.healthy,
            "damage": self.counts[Severity.DAMAGE],
            "warnings": self.counts[Severity.WARNING],
            "notes": self.counts[Severity.NOTE],
            "records": self.records,
            "recordBytes": self.record_bytes,
            "blanks": self.blanks,
            "queues": self.queues,
            "units": self.units,
            "indexFiles": self.index_files,
            "indexEntries": self.index_entries,
            "undecodableBodies": self.undecodable_bodies,
            "minOffset": self.log_min,
            "maxOffset": self.log_end,
            "closedCleanly": self.closed_cleanly,
        }
