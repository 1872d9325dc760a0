"""Forgetting snapshots of an Iceberg table, and which files the others need.

A snapshot is forgotten in the catalog first; then the lists and manifests that only it had are removed, between commits
a minute later: a reader may have begun with it. Data files stay until ``expire`` looks for what nothing names any more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update.snapshot import ExpireSnapshots

from flaremq.pipeline.tables.iceberg.asking import UNSURE
from flaremq.pipeline.tables.iceberg.transaction import TableTransaction

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_log = logging.getLogger(__name__)
_SLACK: Final = 4  # a quarter more than wanted may gather before some are forgotten at once
_Lists: TypeAlias = dict[str, frozenset[str]]  # the manifests that each list of manifests names
_READER_MS: Final = 60_000  # a reader that began with a snapshot has its manifests after so long


class Trimmer:
    """Keeps the list of snapshots short while commits follow each other. What it still had to remove when its run ended
    is found by ``expire``."""

    def __init__(self) -> None:
        self._later: list[tuple[int, set[str]]] = []  # files, and from when on nobody reads them
        self._read: _Lists = {}  # of the snapshots that were there when some were forgotten last

    def trim(self, table: Table, keep: int) -> int:
        """Forget the oldest but about ``keep``; many at once, for it reads the list of each snapshot that is new."""
        now_ms = int(time.time() * 1000)
        while self._later and self._later[0][0] <= now_ms:
            _remove(table, self._later.pop(0)[1])
        held = table.metadata.snapshots
        if len(held) <= keep + keep // _SLACK:
            return 0
        count, files = _forget(table, held[: len(held) - keep], now_ms, self._read)
        self._later.append((now_ms + _READER_MS, files))
        return count


def expire(table: Table, older_than_ms: int, keep: int) -> int:
    held = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.timestamp_ms)
    count, files = _forget(table, held[: max(0, len(held) - max(keep, 1))], older_than_ms, {})
    _remove(table, files)
    return count


def referenced(table: Table) -> set[str]:
    """Every file that some snapshot, or the table's metadata, names."""
    found = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    found |= {each.statistics_path for each in (*table.metadata.statistics, *table.metadata.partition_statistics)}
    seen: set[str] = set()
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                found |= {entry.data_file.file_path for entry in entries}
    return found | seen


def _forget(table: Table, candidates: Sequence[Snapshot], older_than_ms: int, read: _Lists) -> tuple[int, set[str]]:
    """How many were forgotten, and the files that only they had."""
    protected = {ref.snapshot_id for ref in table.metadata.refs.values()}
    old = [
        snapshot
        for snapshot in candidates
        if snapshot.snapshot_id not in protected and snapshot.timestamp_ms < older_than_ms
    ]
    if not old:
        return 0, set()
    theirs = _metadata_files(table, old, read)
    try:
        transaction = TableTransaction(table)
        ExpireSnapshots(transaction).by_ids([snapshot.snapshot_id for snapshot in old]).commit()
        transaction.commit_transaction()
    except (CommitFailedException, *UNSURE):
        return 0, set()  # somebody commits at this moment, or nobody answers; there is another time
    kept = _metadata_files(table, table.metadata.snapshots, read)
    for path in read.keys() - kept:
        del read[path]
    return len(old), theirs - kept


def _remove(table: Table, files: Iterable[str]) -> None:
    for path in files:
        try:
            table.io.delete(path)
        except OSError as error:  # it stays for `expire`
            _log.warning("cannot remove %s: %s", path, error)


def _metadata_files(table: Table, snapshots: Iterable[Snapshot], read: _Lists) -> set[str]:
    """Lists and manifests of the snapshots. A list never changes, so what was ``read`` once is known."""
    found = set()
    for snapshot in snapshots:
        manifests = read.get(snapshot.manifest_list)
        if manifests is None:
            manifests = frozenset(manifest.manifest_path for manifest in snapshot.manifests(table.io))
            read[snapshot.manifest_list] = manifests
        found.add(snapshot.manifest_list)
        found |= manifests
    return found
