"""expire: forget old states of a table, and remove the files that no state needs any more."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.jobs.table.leftovers import RETENTION_MS, SETTLED_MS, remove_killed, remove_unreferenced
from flaremq.pipeline.tables.model.target import TableTarget
from flaremq.pipeline.tables.open import open_table


@dataclass(frozen=True, slots=True)
class ExpireResult:
    """``snapshots`` that were forgotten (Iceberg), and ``files`` that were removed, or would be."""

    table: str
    snapshots: int
    files: tuple[str, ...]
    file_bytes: int
    is_dry_run: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "snapshots": self.snapshots,
            "files": len(self.files),
            "fileBytes": self.file_bytes,
            "dryRun": self.is_dry_run,
        }


def expire(
    target: TableTarget, *, retention_ms: int = RETENTION_MS, keep: int = 1, dry_run: bool = False
) -> ExpireResult:
    """Forget what is older than ``retention_ms``, but for the newest ``keep`` states.

    Files go that no state needs, nor any of that time, and that are themselves that old: a writer that is no part of
    FlareMQ leaves no mark, only its time tells that its files may still come to a commit. None of the last ten minutes.
    """
    if retention_ms < 0 or keep < 1:
        raise InvalidArgumentError("give a retention time of 0 or more, and at least one state to keep")
    table = open_table(target)
    now_ms = int(time.time() * 1000)
    older_than_ms = now_ms - retention_ms
    forgotten = {}
    if not dry_run:
        remove_killed(table, now_ms)
        forgotten = dict(table.expire(older_than_ms, keep))
    aged_ms = min(older_than_ms, now_ms - SETTLED_MS)
    found = remove_unreferenced(table, aged_ms, older_than_ms, dry_run=dry_run)
    return ExpireResult(target.text, forgotten.get("snapshots", 0), tuple(found), sum(found.values()), dry_run)
