"""archive: the log into Parquet by topic and day, as far as it is not there yet; once, or as the log grows."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.archive_entries import ArchiveFile, ArchiveGap
from flaremq.pipeline.archive_manifest import Manifest
from flaremq.pipeline.archive_root import ArchiveRoot
from flaremq.pipeline.archive_run import begin, check_archive_options, find_missing, finish, plan_tasks, recover
from flaremq.pipeline.archive_task import run_archive_task
from flaremq.pipeline.jobs.session import AnySession, started
from flaremq.pipeline.jobs.tasks import Progress, run_tasks
from flaremq.pipeline.options import ScanOptions, parse_options
from flaremq.pipeline.places import source_spec
from flaremq.pipeline.source import open_source


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """What a run added to the archive, and where the archive stands after it."""

    archive: str
    rows: int = 0
    files: int = 0
    file_bytes: int = 0
    log_bytes: int = 0
    increments: int = 0  # commits of this run
    recovered_files: int = 0  # taken over from a run that was cut short
    gaps: tuple[ArchiveGap, ...] = ()
    ranges: tuple[tuple[str, str, int, int, int, int], ...] = ()  # topic, broker, queue, from, to, messages: all of it

    def to_json(self) -> dict[str, Any]:
        return {
            "archive": self.archive,
            "rows": self.rows,
            "files": self.files,
            "fileBytes": self.file_bytes,
            "logBytes": self.log_bytes,
            "increments": self.increments,
            "recoveredFiles": self.recovered_files,
            "gaps": [gap.to_json() for gap in self.gaps],
            "ranges": [
                {"topic": topic, "brokerName": broker, "queueId": queue, "from": start, "to": end, "messages": count}
                for topic, broker, queue, start, end, count in self.ranges
            ],
        }


def archive(
    spark: AnySession,
    options: Mapping[str, str] | ScanOptions,
    out: str,
    *,
    follow: bool = False,
    interval: float = 60.0,
    stop: threading.Event | None = None,
    on_progress: Progress | None = None,
) -> ArchiveResult:
    """Bring the archive at ``out`` up to the log; with ``follow`` again every ``interval`` seconds until ``stop``.

    ``options`` are those of a reader: ``path`` or ``nameServer``, ``topic``, ``failOnDataLoss`` and so on. A run that
    was killed is taken up by the next one.
    """
    parsed = options if isinstance(options, ScanOptions) else parse_options(options)
    check_archive_options(parsed, out)
    if follow and interval <= 0:
        raise InvalidArgumentError(f"an interval of {interval} seconds leaves no pause; give more than 0")
    stop = stop or threading.Event()
    with open_source(source_spec(parsed)) as source:
        source.extents(parsed.selector)  # a wrong place or topic leaves nothing behind at the other end
    root = ArchiveRoot(out)
    # Executors may have another working directory.
    location = root.base if root.is_local else out
    result = ArchiveResult(location)
    with root.locked():
        manifest = Manifest.load_or_new(root)
        result = _added(result, recover(root, manifest), (), recovered=True)
        try:
            while not stop.is_set():
                result = _increment(spark, parsed, location, root, manifest, result, on_progress)
                if not follow or stop.wait(interval):
                    break
        except KeyboardInterrupt:
            if not follow:
                raise
        return replace(result, ranges=archived_ranges(manifest))


def archived_ranges(manifest: Manifest) -> tuple[tuple[str, str, int, int, int, int], ...]:
    """From, to and number of messages of every queue of the archive."""
    ranges = []
    for queue in manifest.queues:
        runs = [segment.run for segment in manifest.segments(queue)]
        if runs:
            ranges.append((*queue, runs[0].start, runs[-1].end, sum(run.messages for run in runs)))
    return tuple(ranges)


def _increment(
    spark: AnySession,
    options: ScanOptions,
    location: str,
    root: ArchiveRoot,
    manifest: Manifest,
    result: ArchiveResult,
    on_progress: Progress | None,
) -> ArchiveResult:
    spec = source_spec(options)
    with open_source(spec) as source:  # open until the tasks are done: it keeps what was planned from being deleted
        spans, gaps = find_missing(manifest, source, options)
        if not spans and not gaps and manifest.sequence:
            return result
        session = started(spark)
        parallelism = session.sparkContext.defaultParallelism
        tasks = plan_tasks(source, spec, spans, location, options=options, parallelism=parallelism)
        begin(root, manifest, sorted({span.queue.topic for span in spans}))
        written = run_tasks(session, tasks, run_archive_task, what="archive", on_progress=on_progress)
        files = [file for part in written for file in part]
        finish(root, manifest, tasks, files, gaps)
    return _added(result, files, gaps)


def _added(
    result: ArchiveResult,
    files: list[ArchiveFile],
    gaps: tuple[ArchiveGap, ...] | list[ArchiveGap],
    *,
    recovered: bool = False,
) -> ArchiveResult:
    if not files and not gaps:
        return result
    named = sum(file.path is not None for file in files)
    return replace(
        result,
        rows=result.rows + sum(file.rows for file in files),
        files=result.files + named,
        file_bytes=result.file_bytes + sum(file.size_bytes for file in files),
        log_bytes=result.log_bytes + sum(run.size_bytes for file in files for run in file.runs),
        increments=result.increments + 1,
        recovered_files=result.recovered_files + (named if recovered else 0),
        gaps=(*result.gaps, *gaps),
    )
