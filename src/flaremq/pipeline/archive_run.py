"""One increment of an archive: what is missing, which tasks get it, and the commit. Knows no Spark.

The order makes a crash harmless at any point: a marker that work has begun, data files, a receipt by each task, the
manifest; then receipts and marker go. The next run takes over what receipts tell, removes what nobody tells of, and
goes on from there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final

import orjson

from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.pipeline.archive_entries import ArchiveFile, ArchiveGap
from flaremq.pipeline.archive_manifest import Manifest
from flaremq.pipeline.archive_root import ArchiveRoot, topic_folder
from flaremq.pipeline.archive_task import PENDING, ArchiveTask, read_receipts, receipt_path
from flaremq.pipeline.options import ScanOptions
from flaremq.pipeline.partitions import scan_spans
from flaremq.pipeline.planning import PlanLimits, plan
from flaremq.pipeline.source import Source, SourceSpec
from flaremq.pipeline.spans import QueueExtent, SizeProfile, Span

_log = logging.getLogger(__name__)
TASK_BYTES: Final = 256 << 20
_LARGE_TOPIC_BYTES: Final = 32 << 20  # from here on a topic has tasks, so files, of its own
_SPREAD_BYTES_MIN: Final = 16 << 20  # smaller tasks are not worth a second core, nor the small files
_MARKER: Final = f"{PENDING}/run.json"


def check_archive_options(options: ScanOptions, out: str) -> None:
    """Refuse what would archive a part of a queue and call it the whole."""
    for given, name in ((options.keys, "keys"), (options.columns, "columns")):
        if given:
            raise InvalidArgumentError(f"an archive holds whole messages of whole queues; leave out {name}={given!r}")
    if options.tags:
        raise InvalidArgumentError(
            f"an archive holds whole queues; leave out subExpression={options.sub_expression!r} and filter on reading"
        )
    if options.starting_offsets.strip().lower() == "latest":
        raise InvalidArgumentError("an archive that starts at latest would never hold anything; give a time or offsets")
    if options.archive and options.archive.rstrip("/") == out.rstrip("/"):
        raise InvalidArgumentError(f"the archive {out} cannot be archived into itself")


def find_missing(
    manifest: Manifest, source: Source, options: ScanOptions, *, now_ms: int | None = None
) -> tuple[list[Span], list[ArchiveGap]]:
    """What the source holds and the archive does not, and what neither will ever hold.

    The latter is data loss: an error, unless ``failOnDataLoss=false``.
    """
    extents = {extent.queue: extent for extent in source.extents(options.selector)}
    gaps = [gap for extent in extents.values() for gap in _gaps(manifest, extent, now_ms)]
    if gaps and options.fail_on_data_loss:
        span = gaps[0].span
        raise UnavailableError(
            f"queue {span.queue} begins at {extents[span.queue].min_offset}, but the archive lacks {span.start} to "
            f"{span.end}: retention deleted messages before they were archived. Set failOnDataLoss=false to go on and "
            "record the gap"
        )
    missing: list[Span] = []
    for span in scan_spans(source, options):
        segments = manifest.segments(span.queue)
        start = span.start
        if segments:
            end = segments[-1].run.end
            extent = extents.get(span.queue)
            if extent is not None and extent.max_offset < end:
                _refuse_shrunk(extent, end, options)
                continue
            start = min(start, max(end, extent.min_offset if extent is not None else end))
        missing += manifest.missing(Span(span.queue, start, span.end))
    return missing, gaps


def plan_tasks(
    source: Source, spec: SourceSpec, spans: Sequence[Span], archive: str, *, options: ScanOptions, parallelism: int
) -> list[ArchiveTask]:
    """Tasks of about ``TASK_BYTES``: large topics alone, so that their files are large; the small ones together."""
    by_topic: dict[str, list[SizeProfile]] = {}
    for profile in source.profiles(spans):
        by_topic.setdefault(profile.span.queue.topic, []).append(profile)
    groups: list[list[SizeProfile]] = []
    small: list[SizeProfile] = []
    for topic in sorted(by_topic):
        profiles = by_topic[topic]
        if sum(profile.size_bytes for profile in profiles) >= _LARGE_TOPIC_BYTES:
            groups.append(profiles)
        else:
            small += profiles
    if small:
        groups.append(small)
    tasks = []
    for group in groups:
        size = sum(profile.size_bytes for profile in group)
        spread = min(max(1, parallelism), size // _SPREAD_BYTES_MIN)
        wanted = max(1, spread, -(-size // TASK_BYTES))
        for piece in _merged(plan(group, PlanLimits(target_bytes=TASK_BYTES)), wanted):
            tasks.append(ArchiveTask(archive, spec, piece, options.fail_on_data_loss))
    return tasks


def begin(root: ArchiveRoot, manifest: Manifest, topics: Sequence[str]) -> None:
    """Say that files of these topics are about to be written."""
    root.write_bytes(_MARKER, orjson.dumps({"topics": sorted(topics), "startedMs": int(time.time() * 1000)}))


def finish(
    root: ArchiveRoot,
    manifest: Manifest,
    tasks: Sequence[ArchiveTask],
    files: Sequence[ArchiveFile],
    gaps: Sequence[ArchiveGap],
) -> None:
    """Commit what the tasks wrote, then remove the traces of the work."""
    if files or gaps or not manifest.sequence:  # the first run makes it an archive, if there is nothing to put in too
        manifest.commit(files, gaps)
    for task in tasks:
        root.delete(receipt_path(task.name))
    root.delete(_MARKER)


def recover(root: ArchiveRoot, manifest: Manifest) -> list[ArchiveFile]:
    """Take over the finished tasks of a run that did not come to its commit, and remove its unfinished files."""
    pending = root.list(PENDING)
    if not pending:
        return []
    known = {file.path for file in manifest.files}
    adopted: list[ArchiveFile] = []
    receipts = []
    topics: set[str] = set()
    for path, files in read_receipts(root):
        receipts.append(path)
        topics |= {file.topic for file in files}
        if all(_is_adoptable(root, manifest, file, adopted) for file in files):
            adopted += files
    if _MARKER in pending:
        topics |= set(_marked_topics(root))
    if adopted:
        manifest.commit(adopted)
        known |= {file.path for file in adopted}
        _log.info("took over %d files of a run that was cut short", len(adopted))
    for path in receipts:
        root.delete(path)
    for topic in sorted(topics):
        for path in root.list(topic_folder(topic), recursive=True):
            if path not in known:
                _log.info("removed %s, which no commit names", root.full_path(path))
                root.delete(path)
    root.delete(_MARKER)
    return adopted


def _gaps(manifest: Manifest, extent: QueueExtent, now_ms: int | None) -> list[ArchiveGap]:
    segments = manifest.segments(extent.queue)
    if not segments:
        return []
    noticed = int(time.time() * 1000) if now_ms is None else now_ms
    first = segments[0].run.start
    lost = manifest.missing(Span(extent.queue, first, max(first, extent.min_offset)))
    recorded = [gap.span for gap in manifest.gaps if gap.span.queue == extent.queue]
    return [
        ArchiveGap(span, noticed)
        for span in lost
        if span.count and not any(known.start <= span.start and span.end <= known.end for known in recorded)
    ]


def _refuse_shrunk(extent: QueueExtent, end: int, options: ScanOptions) -> None:
    text = (
        f"queue {extent.queue} ends at {extent.max_offset}, but the archive holds it up to {end}: the topic was "
        "deleted and made anew, or this is not the store the archive was made of"
    )
    if options.fail_on_data_loss:
        raise UnavailableError(f"{text}. Archive it to another directory, or set failOnDataLoss=false to leave it out")
    _log.warning("%s; it is left out", text)


def _is_adoptable(root: ArchiveRoot, manifest: Manifest, file: ArchiveFile, adopted: Sequence[ArchiveFile]) -> bool:
    if file.path is not None and root.size(file.path) != file.size_bytes:
        return False
    taken = [run for other in adopted for run in other.runs]
    for run in file.runs:
        if manifest.segments(run.queue, run.start, run.end):
            return False
        if any(other.queue == run.queue and other.start < run.end and run.start < other.end for other in taken):
            return False
    return True


def _marked_topics(root: ArchiveRoot) -> list[str]:
    try:
        return list(orjson.loads(root.read_bytes(_MARKER))["topics"])
    except (ValueError, KeyError, TypeError):
        return []


def _merged(pieces: Sequence[tuple[Span, ...]], count: int) -> list[tuple[Span, ...]]:
    """Neighbouring pieces put together until there are ``count``."""
    count = min(count, len(pieces))
    merged = []
    for at in range(count):
        spans = sorted(
            span for piece in pieces[at * len(pieces) // count : (at + 1) * len(pieces) // count] for span in piece
        )
        joined: list[Span] = []
        for span in spans:
            if joined and joined[-1].queue == span.queue and joined[-1].end == span.start:
                joined[-1] = joined[-1]._replace(end=span.end)
            else:
                joined.append(span)
        merged.append(tuple(joined))
    return merged
