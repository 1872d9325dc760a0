"""One way from options to pieces of work, for Spark, ``flaremq.scan`` and jobs: pin, resolve, check, cut; then read.

Everything here takes an open ``Source``; nothing knows Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.model.by_queue import ByQueue
from flaremq.pipeline.model.source import ReadRequest, Source, SourceSpec
from flaremq.pipeline.model.spans import QueueExtent, Span
from flaremq.pipeline.options import NO_TIME, ScanOptions
from flaremq.pipeline.planning.cutting import even_profile
from flaremq.pipeline.planning.offsets import EARLIEST, LATEST, Offsets, parse_offsets, resolve, resolve_time
from flaremq.pipeline.planning.planner import PlanLimits, checked_spans, plan
from flaremq.pipeline.planning.pushdown import NOTHING_PUSHED, Pushed

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)
_UNIT_BYTES = 20  # of a queue: all that is read when no column needs the record
_USUAL_BYTES = 1024  # a message where its size must not matter
_FEW_MESSAGES = 512  # of a cluster: not worth pulls that only learn their size


@dataclass(frozen=True, slots=True)
class ScanPiece:
    """What one task reads: the spans, or of them the messages with these keys. Small and picklable."""

    spans: tuple[Span, ...]
    keys: tuple[str, ...] = ()


def scan_spans(source: Source, options: ScanOptions, pushed: Pushed = NOTHING_PUSHED) -> list[Span]:
    """The ranges of a batch, pinned now: never beyond what is held, and an error if some of it is gone."""
    if options.parquet_path:
        raise InvalidArgumentError("parquetPath is for streams; write what a batch reads as you like")
    extents = chosen_extents(source, options)
    start, end = _batch_ends(source, options, extents, pushed)
    kept = [extent for extent in extents if pushed.keeps_queue(extent.queue)]
    spans, warnings = checked_spans(start, end, kept, fail_on_data_loss=options.fail_on_data_loss)
    for warning in warnings:
        _log.warning("%s", warning)
    return pushed.narrowed(spans, source.offset_by_time)


def chosen_extents(source: Source, options: ScanOptions) -> list[QueueExtent]:
    """The queues that are asked for, and an error for one that is and is not there."""
    selector = options.selector
    if selector.queues is None:
        return source.extents(selector)
    extents = source.extents(replace(selector, queues=None))
    selector.queues.check_known((extent.queue for extent in extents), "assign")
    return selector.of_queues(extents)


def starting_offsets(source: Source, options: ScanOptions, extents: Sequence[QueueExtent], *, default: int) -> Offsets:
    """Where a scan starts in every queue."""
    if options.starting_timestamp != NO_TIME:
        return offsets_at(source, extents, options.starting_timestamp)
    if (times := options.starting_times) is not None:
        return offsets_by_queue(source, extents, times, default=EARLIEST, what="startingOffsetsByTimestamp")
    wanted = parse_offsets(options.starting_offsets, what="startingOffsets") if options.starting_offsets else default
    return resolve(wanted, extents, otherwise=EARLIEST, what="startingOffsets")


def offsets_by_queue(
    source: Source, extents: Sequence[QueueExtent], times: ByQueue[int], *, default: int, what: str
) -> Offsets:
    """Where each queue has its own time; ``default`` where none is named."""
    times.check_known((extent.queue for extent in extents), what)
    offsets: Offsets = {}
    by_time: dict[int | None, list[QueueExtent]] = {}
    for extent in extents:
        by_time.setdefault(times.find(extent.queue), []).append(extent)
    for when, queues in by_time.items():
        if when is None:
            offsets |= resolve(default, queues, otherwise=default, what=what)
        else:
            offsets |= offsets_at(source, queues, when)
    return offsets


def offsets_at(source: Source, extents: Sequence[QueueExtent], timestamp_ms: int) -> Offsets:
    """Where a time is in every queue; a source that can be asked for many at once, is."""
    ask_many = getattr(source, "offsets_by_time", None)
    if ask_many is None:
        return resolve_time(timestamp_ms, extents, source.offset_by_time)
    queues = [extent.queue for extent in extents]
    found = dict(zip(queues, ask_many(queues, timestamp_ms), strict=True))
    return resolve_time(timestamp_ms, extents, lambda queue, _: found[queue])


def _batch_ends(
    source: Source, options: ScanOptions, extents: Sequence[QueueExtent], pushed: Pushed
) -> tuple[Offsets, Offsets]:
    kept = [extent for extent in extents if pushed.keeps_queue(extent.queue)]
    by_time = options.starting_timestamp != NO_TIME  # asks the source queue by queue: only where it matters
    start = starting_offsets(source, options, kept if by_time else extents, default=EARLIEST)
    if options.ending_timestamp != NO_TIME:
        return start, offsets_at(source, kept, options.ending_timestamp)
    if (times := options.ending_times) is not None:
        return start, offsets_by_queue(source, extents, times, default=LATEST, what="endingOffsetsByTimestamp")
    wanted = parse_offsets(options.ending_offsets, what="endingOffsets") if options.ending_offsets else LATEST
    if wanted == EARLIEST or (isinstance(wanted, dict) and EARLIEST in wanted.values()):
        raise InvalidArgumentError("endingOffsets cannot be earliest (-2): nothing lies before it")
    end = resolve(wanted, extents, otherwise=LATEST, what="endingOffsets")
    if isinstance(wanted, dict) and options.starting_offsets:
        _check_order(start, end, parse_offsets(options.starting_offsets, what="startingOffsets"), wanted)
    return start, end


def _check_order(start: Offsets, end: Offsets, asked_start: Offsets | int, asked_end: Offsets) -> None:
    """Both ends given, the end first. An earliest that retention has moved beyond the end is nobody's mistake."""
    for queue in sorted(asked_end):
        asked = asked_start if isinstance(asked_start, int) else asked_start.get(queue, EARLIEST)
        if asked != EARLIEST and end[queue] < start[queue]:
            raise InvalidArgumentError(
                f"endingOffsets has {end[queue]} for queue {queue}, which is before {start[queue]} of startingOffsets"
            )


def plan_pieces(
    source: Source,
    spec: SourceSpec,
    spans: Sequence[Span],
    options: ScanOptions,
    request: ReadRequest,
    keys: tuple[str, ...] = (),
    *,
    repeatable: bool = False,
) -> list[ScanPiece]:
    """The spans cut into pieces of work.

    ``repeatable``: the same spans are cut alike every time, as long as they are held. Sinks tell rows by their piece.
    A log and an archive each know the sizes of what they hold, and not the same, and messages move from the one to the
    other: so where there are both, sizes play no part.
    """
    spans = [span for span in spans if span.count > 0]
    if keys:
        by_broker: dict[str, list[Span]] = {}
        for span in spans:
            by_broker.setdefault(span.queue.broker, []).append(span)
        return [ScanPiece(tuple(by_broker[broker]), keys) for broker in sorted(by_broker)]
    limits = PlanLimits(
        target_bytes=options.max_bytes_per_partition,
        min_partitions=options.min_partitions,
        max_records=options.max_records_per_partition,
    )
    if spec.paths and request.needs_units_only:
        profiles = [even_profile(span, _UNIT_BYTES) for span in spans]
    elif (repeatable and spec.archive is not None) or _is_small(spec, spans):
        profiles = [even_profile(span, _USUAL_BYTES) for span in spans]
    else:
        profiles = source.profiles(spans)
    return [ScanPiece(piece) for piece in plan(profiles, limits)]


def _is_small(spec: SourceSpec, spans: Sequence[Span]) -> bool:
    """By their count alone, so that a batch that is planned again is cut alike."""
    return spec.name_server is not None and sum(span.count for span in spans) <= _FEW_MESSAGES


def read_piece(source: Source, piece: ScanPiece, request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """The messages of a piece, in the columns and rows that are wanted."""
    stored = request.unshaped
    if piece.keys:
        batches = source.read_keys(piece.keys, piece.spans, stored)
    else:
        batches = source.read(piece.spans, stored)
    return batches if request.shape is None else request.shape.shaped(batches)
