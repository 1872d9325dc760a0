"""compact: small files of an archive into larger ones with the same rows, by a commit that changes no offset.

Steps as in a run that archives: a marker, the files, their receipts, the manifest, and the traces go. The files before
are set aside then, for those who planned by the manifest before; a note names them before the commit. A run that is
killed leaves marker and note, by which the next run of either kind finds what no manifest names.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from flaremq.errors import CorruptionError
from flaremq.pipeline.archive.entries import ArchiveFile
from flaremq.pipeline.archive.manifest import Manifest
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.archive.row_digest import RowDigest
from flaremq.pipeline.jobs.archive.increment import begin, clear_traces, recover
from flaremq.pipeline.jobs.archive.replaced import note_replaced, set_aside_replaced
from flaremq.pipeline.jobs.archive.task import BUFFER_BYTES, ArchiveTask, Receipt, run_archive_task
from flaremq.pipeline.jobs.object_access import object_access
from flaremq.pipeline.jobs.runner import TaskRunner
from flaremq.pipeline.jobs.session import AnySession
from flaremq.pipeline.jobs.tasks import Progress, in_commits
from flaremq.pipeline.model.source import SourceSpec
from flaremq.pipeline.model.spans import Span

COMMIT_BYTES: Final = 4 << 30  # of messages in one commit
_SMALL: Final = 0.75  # of a full file
_ROW_BYTES: Final = 256  # what a row takes in memory beside its record, see `row_costs`
_SET_ASIDE_MS: Final = 86_400_000  # readers that began before have ended after so long


@dataclass(frozen=True, slots=True)
class ArchiveCompaction:
    """How many files became how many; rows and offsets stay what they are."""

    archive: str
    files_before: int
    files_after: int
    merged: int = 0  # files that were set aside
    written: int = 0  # files in their place
    rows: int = 0  # in those
    written_bytes: int = 0
    commits: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "archive": self.archive,
            "filesBefore": self.files_before,
            "filesAfter": self.files_after,
            "merged": self.merged,
            "written": self.written,
            "rows": self.rows,
            "writtenBytes": self.written_bytes,
            "commits": self.commits,
        }


def compact_archive(
    spark: AnySession | None,
    archive: str,
    topics: Collection[str] = (),
    *,
    file_bytes: int = BUFFER_BYTES,
    commit_bytes: int = COMMIT_BYTES,
    on_progress: Progress | None = None,
) -> ArchiveCompaction:
    """Merge files of the same topic and day until each holds about ``file_bytes`` of messages.

    No other job may write to the archive meanwhile; on a local disk one that tries is refused. Without a session
    everything runs in this process.
    """
    root = ArchiveRoot(archive, object_access({}, spark, archive))
    location = root.base if root.is_local else archive
    runner = TaskRunner(spark, on_progress)
    Manifest.load(root)  # what is no archive gets no folder for a lock
    with root.locked():
        manifest = Manifest.load(root)
        recover(root, manifest)
        root.remove_set_aside(int(time.time() * 1000) - _SET_ASIDE_MS)
        before = _count(manifest)
        result = ArchiveCompaction(location, before, before)
        bundles = list(_bundles(manifest.files, frozenset(topics), file_bytes))
        for group in in_commits(bundles, lambda bundle: sum(map(_cost, bundle)), commit_bytes):
            added = _merge(runner, root, manifest, location, group, file_bytes)
            result = replace(
                result,
                merged=result.merged + sum(map(len, group)),
                written=result.written + len(added),
                rows=result.rows + sum(file.rows for file in added),
                written_bytes=result.written_bytes + sum(file.size_bytes for file in added),
                commits=result.commits + 1,
            )
        return replace(result, files_after=_count(manifest))


Bundle = tuple[ArchiveFile, ...]


def _merge(
    runner: TaskRunner,
    root: ArchiveRoot,
    manifest: Manifest,
    location: str,
    bundles: Sequence[Bundle],
    file_bytes: int,
) -> list[ArchiveFile]:
    spec = SourceSpec(archive=location, objects=root.settings)
    salt = uuid.uuid4().hex  # names that none of the files before can have
    tasks = [
        ArchiveTask(location, spec, tuple(_spans(bundle)), buffer_bytes=file_bytes, salt=salt, run=salt[:8])
        for bundle in bundles
    ]
    topics = sorted({file.topic for bundle in bundles for file in bundle})
    begin(root, topics)
    receipts = runner.run([partial(run_archive_task, task) for task in tasks], "compact")
    for bundle, receipt in zip(bundles, receipts, strict=True):
        _check(root, bundle, receipt)
    removed = [file for bundle in bundles for file in bundle]
    added = [file for receipt in receipts for file in receipt.files]
    note = note_replaced(root, salt, removed)
    manifest.replace(removed, added)
    set_aside_replaced(root, manifest, [note])
    clear_traces(root, manifest, receipts)
    root.delete(note)
    return added


def _bundles(files: Iterable[ArchiveFile], topics: frozenset[str], file_bytes: int) -> Iterator[Bundle]:
    """Small files of one topic and day that make a full one, in the order of their times."""
    small: dict[tuple[str, str], list[ArchiveFile]] = {}
    for file in files:
        if file.path is not None and (not topics or file.topic in topics) and _cost(file) < file_bytes * _SMALL:
            small.setdefault((file.topic, file.day), []).append(file)
    for held in small.values():
        bundle: list[ArchiveFile] = []
        size = 0
        for file in sorted(held, key=lambda file: (min(run.first_ms for run in file.runs), file.path)):
            cost = _cost(file)
            if size + cost > file_bytes:
                if len(bundle) > 1:
                    yield tuple(bundle)
                bundle, size = [], 0
            bundle.append(file)
            size += cost
        if len(bundle) > 1:
            yield tuple(bundle)


def _spans(files: Iterable[ArchiveFile]) -> list[Span]:
    """What the files cover; runs that follow each other are one."""
    spans: list[Span] = []
    for queue, start, end in sorted((run.queue, run.start, run.end) for file in files for run in file.runs):
        if spans and spans[-1].queue == queue and spans[-1].end == start:
            spans[-1] = spans[-1]._replace(end=end)
        else:
            spans.append(Span(queue, start, end))
    return spans


def _check(root: ArchiveRoot, bundle: Bundle, receipt: Receipt) -> None:
    """Before anything counts: the same offsets, the same messages."""
    for before, after in ((_spans(bundle), _spans(receipt.files)), (_digest(bundle), _digest(receipt.files))):
        if before != after:
            raise CorruptionError(
                "merged files of an archive do not hold what the files before held",
                path=root.location,
                expected=str(before),
                found=str(after),
            )


def _digest(files: Iterable[ArchiveFile]) -> RowDigest:
    runs = (run for file in files for run in file.runs)
    return sum((RowDigest.from_text(run.messages, run.digest) for run in runs), RowDigest())


def _cost(file: ArchiveFile) -> int:
    """About what its messages take in memory."""
    return sum(run.size_bytes for run in file.runs) + _ROW_BYTES * file.rows


def _count(manifest: Manifest) -> int:
    return sum(file.path is not None for file in manifest.files)
