"""Files that a run left and no commit names: of a run that failed or was killed, and of what was expired."""

from __future__ import annotations

import logging
import time
import uuid
from typing import Final

from flaremq.pipeline.archive.root import METADATA
from flaremq.pipeline.tables.leases import leases
from flaremq.pipeline.tables.model.lake_table import LakeTable

_log = logging.getLogger(__name__)
SETTLED_MS: Final = 600_000  # a commit that a killed run had sent off has come to its end after so long
RETENTION_MS: Final = 7 * 86_400_000  # so long readers may go on with a state that is no longer the newest
_LOG_OF_DELTA: Final = "_delta_log/"


def new_run() -> str:
    """Begins the names of all files of a run."""
    return uuid.uuid4().hex[:16]


def remove_files_of(table: LakeTable, run: str) -> int:
    """Files of a run that never came to a commit."""
    found = [path for path in table.root.list("", recursive=True) if _is_of(path, run)]
    for path in found:
        table.root.delete(path)
    return len(found)


def remove_killed(table: LakeTable, now_ms: int | None = None) -> int:
    """Files of runs whose writer is gone, as far as no commit names them, and the marks of those runs."""
    now_ms = int(time.time() * 1000) if now_ms is None else now_ms
    gone = [lease for lease in leases(table.root) if not lease.is_live(now_ms) and lease.beat_ms < now_ms - SETTLED_MS]
    if not gone:
        return 0
    paths = table.root.list("", recursive=True)
    needed = table.referenced(now_ms - RETENTION_MS)
    count = 0
    for lease in gone:
        for path in paths:
            if _is_of(path, lease.run) and path not in needed and not _is_ours(path):
                table.root.delete(path)
                count += 1
        table.root.delete(lease.path)
    if count:
        _log.info("removed %d files of runs that were killed, which no commit of %s names", count, table.name)
    return count


def remove_unreferenced(
    table: LakeTable, older_than_ms: int, since_ms: int, *, dry_run: bool = False
) -> dict[str, int]:
    """Files that no state of the table since ``since_ms`` needs, no running writer has staged, and that are older than
    this time; with their sizes.

    What there is is listed first, then who writes, then what is needed: a writer that is gone when its mark is looked
    for has committed by then, so its files are among those needed; one that comes later has none among those listed.
    """
    files = table.root.times_and_sizes("")
    writers = {lease.run for lease in leases(table.root) if lease.is_live(int(time.time() * 1000))}
    needed = table.referenced(since_ms)
    found = {}
    for path, (changed_ms, size) in sorted(files.items()):
        if path in needed or changed_ms >= older_than_ms or _is_ours(path) or path.startswith(_LOG_OF_DELTA):
            continue
        if any(_is_of(path, run) for run in writers):
            continue
        found[path] = size
        if not dry_run:
            table.root.delete(path)
    return found


def _is_of(path: str, run: str) -> bool:
    """Whether a file is of this run; on a local disk its name begins with a dot until it is whole."""
    return path.rpartition("/")[2].removeprefix(".").startswith(run)


def _is_ours(path: str) -> bool:
    """Marks of writers, and whatever else is not of the table itself."""
    return path.startswith(f"{METADATA}/")
