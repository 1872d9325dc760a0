"""From queue ranges to partitions: pure arithmetic, no input or output.

The invariant: the spans of all partitions tile the spans that were asked for, no offset twice, none left out, whatever
the profiles say; a wrong profile costs balance, never rows. It holds because every cut is one position on one axis, and
where a span is cut is a function of that position that never falls (``planning/cutting.py``).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flaremq.errors import UnavailableError
from flaremq.pipeline.model.spans import QueueExtent, QueueRef, SizeProfile, Span
from flaremq.pipeline.options import DEFAULT_PARTITION_BYTES
from flaremq.pipeline.planning.cutting import cut, find_positions, lay_out, restricted

# A range smaller than full partitions is still spread, so that it does not wait for a single core: over up to so many
# partitions, unless they would become so small that starting a task costs more than reading them.
SPREAD_PARTITIONS: Final = 8
SPREAD_BYTES_MIN: Final = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLimits:
    """How many partitions, how large. Zero means no such limit."""

    target_bytes: int = DEFAULT_PARTITION_BYTES
    min_partitions: int = 0
    max_records: int = 0


def plan(profiles: Sequence[SizeProfile], limits: PlanLimits | None = None) -> list[tuple[Span, ...]]:
    """The partitions, in the order of the log; each a list of spans by queue, none empty."""
    limits = limits or PlanLimits()
    profiles = sorted((profile for profile in profiles if profile.span.count > 0), key=lambda profile: profile.span)
    if not profiles:
        return []
    records = sum(profile.span.count for profile in profiles)
    size = sum(profile.size_bytes for profile in profiles)
    wanted = max(-(-size // limits.target_bytes), min(SPREAD_PARTITIONS, size // SPREAD_BYTES_MIN), 1)
    wanted = min(max(wanted, limits.min_partitions), records)
    if limits.max_records and -(-records // limits.max_records) >= wanted:
        pieces = _split_by_count(profiles, limits.max_records)
    else:
        pieces = cut(profiles, wanted)
        if limits.max_records:
            pieces = [part for piece in pieces for part in _split_by_count(piece, limits.max_records)]
    if len(pieces) < limits.min_partitions:
        pieces = _split_largest(pieces, limits.min_partitions)
    return [tuple(sorted(profile.span for profile in piece)) for piece in pieces]


def take_bytes(profiles: Sequence[SizeProfile], size_max: int) -> dict[QueueRef, int]:
    """How far each span is read so that all together take about ``size_max`` bytes, at least one message."""
    profiles = [profile for profile in profiles if profile.span.count > 0]
    ends = {profile.span.queue: profile.span.start for profile in profiles}
    size = sum(profile.size_bytes for profile in profiles)
    if size <= size_max:
        return {profile.span.queue: profile.span.end for profile in profiles}
    tracks = lay_out(profiles)
    position = find_positions(tracks, [float(size_max)])[0]
    for track in tracks:
        ends[track.profile.span.queue] = track.offset_at(position)
    if profiles and all(ends[profile.span.queue] == profile.span.start for profile in profiles):
        first = min(tracks, key=lambda track: (track.axis[0], track.profile.span)).profile.span
        ends[first.queue] = first.start + 1
    return ends


def share_out(waiting: Mapping[QueueRef, int], count_max: int) -> dict[QueueRef, int]:
    """How many messages of each queue make up ``count_max``, in proportion to what waits; never more than that in all.

    Shares are rounded down, and what is left goes to the queues whose share lost most by it.
    """
    total = sum(waiting.values())
    if total <= count_max:
        return dict(waiting)
    shares = {queue: count * count_max // total for queue, count in waiting.items()}
    left = count_max - sum(shares.values())
    by_loss = sorted(waiting, key=lambda queue: (-(waiting[queue] * count_max % total), queue))
    for queue in by_loss[:left]:
        shares[queue] += 1
    return shares


def checked_spans(
    start: Mapping[QueueRef, int],
    end: Mapping[QueueRef, int],
    extents: Sequence[QueueExtent],
    *,
    fail_on_data_loss: bool,
) -> tuple[list[Span], list[str]]:
    """The spans from ``start`` to ``end`` as far as they are held, and a warning for each that is not held whole."""
    spans: list[Span] = []
    warnings: list[str] = []
    for extent in extents:
        queue, low, high = extent.queue, extent.min_offset, extent.max_offset
        first, last = start.get(queue, low), end.get(queue, high)
        if (first < low and first < last) or first > high or (last > high and last > first):
            wanted = f"{first} to {last} is wanted" if first <= last else f"reading is to start at {first}"
            warnings.append(
                f"queue {queue} holds offsets {low} to {high}, but {wanted}: retention deleted messages, or the store "
                "is not the one the offsets are of"
            )
        first, last = min(max(first, low), high), min(max(last, low), high)
        if first < last:
            spans.append(Span(queue, first, last))
    if warnings and fail_on_data_loss:
        more = f" (and {len(warnings) - 1} more queues)" if len(warnings) > 1 else ""
        raise UnavailableError(f"{warnings[0]}{more}. Set failOnDataLoss=false to read what is left")
    return spans, warnings


def _split_by_count(piece: Sequence[SizeProfile], records_max: int) -> list[list[SizeProfile]]:
    """The piece in parts of at most so many messages: along the axis as far as that goes, by plain count after."""
    count = sum(profile.span.count for profile in piece)
    if count <= records_max:
        return [list(piece)]
    by_count = [_weighted_by_count(profile) for profile in piece]
    parts: list[dict[QueueRef, tuple[int, int]]] = []
    room = 0
    for part in cut(by_count, -(-count // records_max)):
        for queue, start, end in (profile.span for profile in part):
            while start < end:
                if not room:
                    parts.append({})
                    room = records_max
                step = min(room, end - start)
                first = parts[-1].get(queue, (start, 0))[0]  # what precedes it of the queue is in this part or before
                parts[-1][queue] = (first, start + step)
                start, room = start + step, room - step
    whole = {profile.span.queue: profile for profile in piece}
    return [[restricted(whole[queue], *ends) for queue, ends in part.items()] for part in parts]


def _weighted_by_count(profile: SizeProfile) -> SizeProfile:
    points = tuple(point._replace(size_bytes=point.offset - profile.span.start) for point in profile.points)
    return SizeProfile(profile.span, points)


def _split_largest(pieces: list[list[SizeProfile]], count: int) -> list[list[SizeProfile]]:
    """At least ``count`` pieces, the largest halved first, as far as there are messages."""
    heap = [(-sum(profile.size_bytes for profile in piece), at, piece) for at, piece in enumerate(pieces)]
    heapq.heapify(heap)
    done: list[tuple[int, list[SizeProfile]]] = []
    made = len(pieces)
    while heap and len(heap) + len(done) < count:
        _, at, piece = heapq.heappop(heap)
        records = sum(profile.span.count for profile in piece)
        if records < 2:
            done.append((at, piece))
            continue
        for half in _split_by_count(piece, -(-records // 2)):
            heapq.heappush(heap, (-sum(profile.size_bytes for profile in half), made, half))
            made += 1
    return [piece for _, piece in sorted([*done, *((at, piece) for _, at, piece in heap)], key=lambda item: item[0])]
