"""One increment of an archive: what is missing, which tasks get it, and the commit. Knows no Spark.

The order makes a crash harmless at any point: a marker that work has begun, data files, a receipt by each task, the
manifest; then receipts and marker go. The next run takes over what receipts tell, removes what nobody tells of, and
goes on from there.

An object store has no lock, so there a run that is taken over may live still. It is shut out first: the commit by which
it is taken over, empty if need be, makes its own impossible. And there only files of attempts that left notes are
removed: those of other runs that began later are none of ours.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import orjson

from flaremq.errors import InvalidArgumentError, NotFoundError, UnavailableError
from flaremq.pipeline.archive.entries import UNREADABLE, ArchiveFile, ArchiveGap, QueueRun
from flaremq.pipeline.archive.manifest import Manifest
from flaremq.pipeline.archive.root import METADATA, ArchiveRoot, topic_folder
from flaremq.pipeline.jobs.archive.replaced import set_aside_replaced
from flaremq.pipeline.jobs.archive.task import BEGUN, PENDING, PREFIX, RECEIPT, ArchiveTask, Receipt, read_receipts
from flaremq.pipeline.model.columns import schema_of
from flaremq.pipeline.model.source import ReadRequest, Source, SourceSpec
from flaremq.pipeline.model.spans import QueueExtent, QueueRef, SizeProfile, Span
from flaremq.pipeline.options import ScanOptions
from flaremq.pipeline.planning.partitions import scan_spans
from flaremq.pipeline.planning.planner import PlanLimits, plan

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


def check_place(root: ArchiveRoot, stores: Sequence[str]) -> None:
    """Refuse a folder that is in use for something else; a new, an empty one and an archive are fine."""
    if root.is_local:
        place = os.path.realpath(root.base)
        for store in map(os.path.realpath, stores):
            if os.path.commonpath((place, store)) == store:
                raise InvalidArgumentError(
                    f"the archive {root.base} would lie in the store {store}, whose folder belongs to its broker: give "
                    "one beside it"
                )
    if not root.has(METADATA) and (foreign := root.first_name()) is not None:
        raise InvalidArgumentError(
            f"{root.location} is not empty and no archive ({foreign}, …): give a new folder, an empty one or an archive"
        )


class ArchiveLossError(UnavailableError):
    """Log and archive do not fit together, and will not by waiting."""


def find_missing(
    manifest: Manifest, source: Source, options: ScanOptions, *, now_ms: int | None = None
) -> tuple[list[Span], list[ArchiveGap]]:
    """What the source holds and the archive does not, and what neither will ever hold.

    The latter is data loss: an error, unless ``failOnDataLoss=false``.
    """
    extents = {extent.queue: extent for extent in source.extents(options.selector)}
    spans = [span for span in scan_spans(source, options) if manifest.missing(span, known_gaps=True)]
    other = _other_logs(manifest, source, extents, [span.queue for span in spans])
    for text in other.values():
        if options.fail_on_data_loss:
            raise ArchiveLossError(
                f"{text}: the topic was deleted and made anew, or this is not the store the archive was made of. "
                "Archive it to another directory, or set failOnDataLoss=false to leave it out"
            )
        _log.warning("%s; it is left out", text)
    gaps = [gap for queue, extent in extents.items() if queue not in other for gap in _gaps(manifest, extent, now_ms)]
    if gaps and options.fail_on_data_loss:
        span = gaps[0].span
        raise ArchiveLossError(
            f"queue {span.queue} begins at {extents[span.queue].min_offset}, but the archive lacks {span.start} to "
            f"{span.end}: retention deleted messages before they were archived. Set failOnDataLoss=false to go on and "
            "record the gap"
        )
    missing: list[Span] = []
    for span in spans:
        if span.queue not in other:
            segments = manifest.segments(span.queue)
            start = span.start
            if segments:
                extent = extents.get(span.queue)
                end = segments[-1].run.end
                start = min(start, max(end, extent.min_offset if extent is not None else end))
            missing += manifest.missing(Span(span.queue, start, span.end), known_gaps=True)
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
    run = uuid.uuid4().hex[:8]
    for group in groups:
        size = sum(profile.size_bytes for profile in group)
        spread = min(max(1, parallelism), size // _SPREAD_BYTES_MIN)
        wanted = max(1, spread, -(-size // TASK_BYTES))
        for piece in _merged(plan(group, PlanLimits(target_bytes=TASK_BYTES)), wanted):
            tasks.append(ArchiveTask(archive, spec, piece, options.fail_on_data_loss, run=run))
    return tasks


def begin(root: ArchiveRoot, topics: Sequence[str]) -> None:
    """Say that files of these topics are about to be written. In an object store each attempt says so itself."""
    if root.is_local:
        root.write_bytes(_MARKER, orjson.dumps({"topics": sorted(topics), "startedMs": int(time.time() * 1000)}))


def finish(
    root: ArchiveRoot, manifest: Manifest, receipts: Sequence[Receipt], gaps: Sequence[ArchiveGap]
) -> list[ArchiveGap]:
    """Commit what the tasks wrote, then remove the traces of the work; all gaps, with those the tasks came upon."""
    files = [file for receipt in receipts for file in receipt.files]
    noted = [*gaps, *(gap for receipt in receipts for gap in _lost(receipt))]
    if files or noted or not manifest.sequence:  # the first run makes it an archive, if there is nothing to put in too
        manifest.commit(files, noted)
    clear_traces(root, manifest, receipts)
    return noted


def clear_traces(root: ArchiveRoot, manifest: Manifest, receipts: Sequence[Receipt]) -> None:
    """What a run leaves while it works, and the files of attempts that do not count. The manifest is committed."""
    for receipt in receipts:
        root.delete(receipt.path)
        if not root.is_local:
            root.delete(receipt.path.removesuffix(RECEIPT) + BEGUN)
    # Attempts that were given up, in an object store. Their notes stay: one may still write, the next run looks again.
    runs = {_attempt(receipt.path).partition("-")[0] for receipt in receipts}
    left = [path for path in root.list(PENDING) if _attempt(path).partition("-")[0] in runs and path != _MARKER]
    _remove_unknown(root, manifest, _noted_topics(root, left), left)
    root.delete(_MARKER)


def recover(root: ArchiveRoot, manifest: Manifest) -> list[ArchiveFile]:
    """Take over the finished tasks of a run that did not come to its commit, and remove its unfinished files; set aside
    what a compaction had replaced."""
    pending = root.list(PENDING)
    if not pending:
        return []
    adopted: list[ArchiveFile] = []
    gaps: list[ArchiveGap] = []
    topics = _noted_topics(root, pending)
    for receipt in read_receipts(root, pending):
        topics |= {file.topic for file in receipt.files}
        if all(_is_adoptable(root, manifest, file, adopted) for file in receipt.files):
            adopted += receipt.files
            gaps += _lost(receipt)
    if adopted or gaps or not root.is_local:
        manifest.commit(adopted, gaps)
        _log.info("took over %d files of a run that was cut short", len(adopted))
    set_aside_replaced(root, manifest, pending)
    _remove_unknown(root, manifest, topics, pending)
    for path in pending:
        root.delete(path)
    return adopted


def _remove_unknown(root: ArchiveRoot, manifest: Manifest, topics: Collection[str], pending: Sequence[str]) -> None:
    """Files that no commit names: on a local disk all of the topics; in an object store those of these attempts."""
    if not topics:
        return
    known = {file.path for file in manifest.files}
    attempts = tuple(f"{PREFIX}{_attempt(path)}-" for path in pending)
    for topic in sorted(topics):
        for path in root.list(topic_folder(topic), recursive=True):
            if path not in known and (root.is_local or path.rpartition("/")[2].startswith(attempts)):
                _log.info("removed %s, which no commit names", root.full_path(path))
                root.delete(path)


def _attempt(path: str) -> str:
    """Of which attempt this note or receipt is."""
    return path.rpartition("/")[2].removesuffix(RECEIPT).removesuffix(BEGUN)


def _lost(receipt: Receipt) -> list[ArchiveGap]:
    return [ArchiveGap(span, int(time.time() * 1000), UNREADABLE) for span in receipt.lost]


def _other_logs(
    manifest: Manifest, source: Source, extents: Mapping[QueueRef, QueueExtent], queues: Sequence[QueueRef]
) -> dict[QueueRef, str]:
    """Queues that are not those the archive holds under their names, and what is different.

    A topic that is deleted and made anew counts from 0 again. As long as it is shorter than its archive that shows;
    later only the message tells that stands where the last archived one stood.
    """
    other: dict[QueueRef, str] = {}
    last: dict[QueueRef, QueueRun] = {}
    for queue, extent in extents.items():
        runs = [segment.run for segment in manifest.segments(queue)]
        if runs and extent.max_offset < runs[-1].end:
            other[queue] = f"queue {queue} ends at {extent.max_offset}, but the archive holds it up to {runs[-1].end}"
        elif queue in queues:
            run = next((run for run in reversed(runs) if run.messages), None)
            if run is not None and extent.min_offset <= _last_offset(run) < extent.max_offset:
                last[queue] = run
    columns = schema_of(["topic", "brokerName", "queueId", "queueOffset", "physicalOffset", "storeTimestamp"])
    places = [Span(queue, _last_offset(run), _last_offset(run) + 1) for queue, run in sorted(last.items())]
    for batch in source.read(places, ReadRequest(columns, fail_on_data_loss=False)) if places else ():
        for row in batch.to_pylist():
            queue = QueueRef(row["topic"], row["brokerName"], row["queueId"])
            run, stored_ms = last[queue], int(row["storeTimestamp"].timestamp() * 1000 + 0.5)
            if (run.last_physical, run.last_ms) not in ((row["physicalOffset"], stored_ms), (-1, stored_ms)):
                other[queue] = (
                    f"message {row['queueOffset']} of queue {queue} is another one than the archive holds (at "
                    f"{row['physicalOffset']} of the log, stored at {stored_ms}; archived: {run.last_physical}, "
                    f"{run.last_ms})"
                )
    return other


def _last_offset(run: QueueRun) -> int:
    return run.last_offset if run.last_offset >= 0 else run.end - 1


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


def _noted_topics(root: ArchiveRoot, pending: Sequence[str]) -> set[str]:
    """The topics of which notes say that files were about to be written."""
    topics: set[str] = set()
    for path in pending:
        if path == _MARKER or path.endswith(BEGUN):
            try:
                topics |= set(orjson.loads(root.read_bytes(path))["topics"])
            except (NotFoundError, ValueError, KeyError, TypeError):
                continue  # cut short itself: then nothing was written after it
    return topics


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
