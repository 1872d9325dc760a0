"""archive: the log into Parquet by topic and day, as far as it is not there yet; once, or as the log grows."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from flaremq.errors import InvalidArgumentError, StoreIOError, UnavailableError
from flaremq.pipeline.archive.entries import ArchiveFile, ArchiveGap
from flaremq.pipeline.archive.manifest import Manifest
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.jobs.archive.increment import (
    ArchiveLossError,
    begin,
    check_archive_options,
    check_place,
    find_missing,
    finish,
    plan_tasks,
    recover,
)
from flaremq.pipeline.jobs.archive.task import run_archive_task
from flaremq.pipeline.jobs.object_access import with_object_access
from flaremq.pipeline.jobs.session import AnySession, started
from flaremq.pipeline.jobs.tasks import Progress, parallelism, run_tasks
from flaremq.pipeline.options import ScanOptions, parse_options
from flaremq.pipeline.sources.open import open_source, source_spec

_log = logging.getLogger(__name__)
FOLLOW_SECONDS: Final = 60.0
_PAUSE_MAX_SECONDS: Final = 600.0  # after failures


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

    def summary(self) -> dict[str, Any]:
        """The same in few lines: topics instead of the ranges of each queue."""
        topics: dict[str, dict[str, int]] = {}
        for topic, *_, count in self.ranges:
            held = topics.setdefault(topic, {"queues": 0, "messages": 0})
            held["queues"] += 1
            held["messages"] += count
        document = self.to_json()
        del document["ranges"]
        return document | {"topics": topics}

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
    interval: float = FOLLOW_SECONDS,
    stop: threading.Event | None = None,
    on_progress: Progress | None = None,
) -> ArchiveResult:
    """Bring the archive at ``out`` up to the log; with ``follow`` again every ``interval`` seconds until ``stop``.

    ``options`` are those of a reader: ``path`` or ``nameServer``, ``topic``, ``failOnDataLoss`` and so on. A run that
    was killed is taken up by the next one. With ``follow`` what may pass (a broker or a disk that does not answer, a
    Spark job that failed) is logged and tried again, each time after twice the pause; damage, lost messages and wrong
    options end it.
    """
    parsed = options if isinstance(options, ScanOptions) else parse_options(options)
    check_archive_options(parsed, out)
    if follow and interval <= 0:
        raise InvalidArgumentError(f"an interval of {interval} seconds leaves no pause; give more than 0")
    stop = stop or threading.Event()
    parsed = with_object_access(parsed, spark, out)
    with open_source(source_spec(parsed)) as source:
        source.extents(parsed.selector)  # a wrong place or topic leaves nothing behind at the other end
    root = ArchiveRoot(out, parsed.objects)
    check_place(root, [path for _, path in source_spec(parsed).paths])
    # Executors may have another working directory.
    location = root.base if root.is_local else out
    result = ArchiveResult(location)
    with root.locked():
        manifest = Manifest.load_or_new(root)
        result = _added(result, recover(root, manifest), (), recovered=True)
        failures = 0
        try:
            while not stop.is_set():
                try:
                    if failures:  # what it did before it failed is as on disk, not as in memory
                        manifest = Manifest.load_or_new(root)
                        result = _added(result, recover(root, manifest), (), recovered=True)
                    result = _increment(spark, parsed, location, root, manifest, result, on_progress)
                    failures = 0
                except Exception as error:
                    if not follow or not _may_pass(error):
                        raise
                    failures += 1
                    _log.warning("archiving failed and is tried again in %g s: %s", _pause(interval, failures), error)
                if not follow or stop.wait(_pause(interval, failures)):
                    break
        except KeyboardInterrupt:
            if not follow:
                raise
        return replace(result, ranges=archived_ranges(manifest))


def _may_pass(error: Exception) -> bool:
    """Whether trying again may help. Spark's own failures (a lost executor) may; without Spark nothing does."""
    if isinstance(error, ArchiveLossError):
        return False
    if isinstance(error, UnavailableError | StoreIOError | OSError):
        return True
    is_of_spark = type(error).__module__.split(".")[0] in ("py4j", "pyspark")
    return is_of_spark and "SparkContext" not in str(error) and not isinstance(error, ConnectionError)


def _pause(interval: float, failures: int) -> float:
    return min(interval * 2**failures, max(interval, _PAUSE_MAX_SECONDS)) if failures else interval


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
        tasks = plan_tasks(source, spec, spans, location, options=options, parallelism=parallelism(session))
        begin(root, sorted({span.queue.topic for span in spans}))
        receipts = run_tasks(session, tasks, run_archive_task, what="archive", on_progress=on_progress)
        noted = finish(root, manifest, receipts, gaps)
    return _added(result, [file for receipt in receipts for file in receipt.files], noted)


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
