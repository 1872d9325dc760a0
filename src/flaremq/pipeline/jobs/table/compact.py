"""compact: small files of a table into files of the size wanted, by commits that change no row.

A commit takes files away only if all of them are still there, so it disturbs no writer beside it and no other
compaction. A run that is killed leaves files that nobody names, as a run of ``table`` does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.pipeline.jobs.object_access import object_access
from flaremq.pipeline.jobs.runner import TaskRunner
from flaremq.pipeline.jobs.session import AnySession
from flaremq.pipeline.jobs.table.leftovers import new_run, remove_files_of, remove_killed
from flaremq.pipeline.jobs.table.merge import MergeTask, run_merge_task
from flaremq.pipeline.jobs.tasks import Progress, in_commits
from flaremq.pipeline.tables.files import TARGET_BYTES
from flaremq.pipeline.tables.leases import leased
from flaremq.pipeline.tables.model.lake_table import LakeTable
from flaremq.pipeline.tables.model.partitions import PartitionValues
from flaremq.pipeline.tables.model.staged import LiveFile
from flaremq.pipeline.tables.model.target import TableTarget
from flaremq.pipeline.tables.open import open_table

_log = logging.getLogger(__name__)
COMMIT_BYTES: Final = 4 << 30  # of files in one commit: what is lost if others are faster, or by a crash
_SMALL: Final = 0.75  # of the size wanted; larger files are not worth writing again
_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class CompactResult:
    """How many files became how many; rows stay what they are."""

    table: str
    files_before: int = 0
    files_after: int = 0
    merged: int = 0  # files that were taken away
    written: int = 0  # files in their place
    rows: int = 0  # in those
    written_bytes: int = 0
    commits: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "filesBefore": self.files_before,
            "filesAfter": self.files_after,
            "merged": self.merged,
            "written": self.written,
            "rows": self.rows,
            "writtenBytes": self.written_bytes,
            "commits": self.commits,
        }


def compact(
    spark: AnySession | None,
    target: TableTarget,
    *,
    target_bytes: int = TARGET_BYTES,
    commit_bytes: int = COMMIT_BYTES,
    on_progress: Progress | None = None,
) -> CompactResult:
    """Merge what is clearly smaller than ``target_bytes``, by partition; without a session in this process."""
    if target_bytes <= 0:
        raise InvalidArgumentError(f"files of {target_bytes} bytes cannot be made; give more than 0")
    runner = TaskRunner(spark, on_progress)
    target = replace(target, objects=object_access(target.objects, spark, target.path, target.warehouse))
    table = open_table(target)
    remove_killed(table)
    files = table.live_files()
    result = CompactResult(target.text, files_before=len(files))
    for _ in range(_TRIES):
        is_complete = True
        for group in in_commits(_bundles(files, target_bytes), _size, commit_bytes):
            added = _merge(runner, table, group, target_bytes)
            is_complete = is_complete and added is not None
            if added is not None:
                result = _plus(result, added)
        files = table.live_files()
        if is_complete:
            return replace(result, files_after=len(files))
        _log.info("others changed files of %s; planning anew", table.name)
    raise UnavailableError(f"others change the files of {table.name} all the time; start again")


Bundle = tuple[LiveFile, ...]


def _bundles(files: Sequence[LiveFile], target_bytes: int) -> Iterator[Bundle]:
    """Small files of one partition that make one of the size wanted, neighbours in the log together."""
    small: dict[PartitionValues, list[LiveFile]] = {}
    for file in files:
        if file.is_whole and file.size_bytes < target_bytes * _SMALL:
            small.setdefault(file.partition, []).append(file)
    for held in small.values():
        bundle: list[LiveFile] = []
        size = 0
        for file in sorted(held, key=lambda file: (file.first_physical, file.location)):
            bundle.append(file)
            size += file.size_bytes
            if size >= target_bytes:
                yield tuple(bundle)
                bundle, size = [], 0
        if len(bundle) > 1:
            yield tuple(bundle)


def _size(bundle: Bundle) -> int:
    return sum(file.size_bytes for file in bundle)


def _merge(runner: TaskRunner, table: LakeTable, bundles: Sequence[Bundle], target_bytes: int) -> CompactResult | None:
    """One commit; ``None`` if a file was gone by then, and so nothing was changed."""
    run = new_run()
    layout = table.layout()
    tasks = [
        MergeTask(
            run,
            number,
            table.root.location,
            layout,
            tuple(replace(file, handle=None) for file in bundle),
            target_bytes,
        )
        for number, bundle in enumerate(bundles)
    ]
    with leased(table.root, run) as mark:
        try:
            written = runner.run([partial(run_merge_task, task) for task in tasks], "compact")
        except Exception:
            remove_files_of(table, run)
            raise
        added = [file for files in written for file in files]
        removed = [file for bundle in bundles for file in bundle]
        mark.check()
        if not table.replace(run, removed, added):
            table.discard(added)
            return None
    return CompactResult(
        table.name,
        merged=len(removed),
        written=len(added),
        rows=sum(file.rows for file in added),
        written_bytes=sum(file.size_bytes for file in added),
        commits=1,
    )


def _plus(result: CompactResult, added: CompactResult) -> CompactResult:
    return replace(
        result,
        merged=result.merged + added.merged,
        written=result.written + added.written,
        rows=result.rows + added.rows,
        written_bytes=result.written_bytes + added.written_bytes,
        commits=result.commits + added.commits,
    )
