"""How the bytes of a span lie over its offsets, by its queue units: all of a short span, samples of a long one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from flaremq.pipeline.model.spans import ProfilePoint, SizeProfile, Span
from flaremq.storage.at_rest.unit_arrays import ScanQueue, Units

_POINTS = 256
_POINT_BYTES = 1 << 17  # that one point stands for at least: pieces of work are of megabytes
_POINTS_MIN = 32  # of a sampled span: each costs a read
_POINT_UNITS = 8192  # messages that one point of it stands for, unless there would be too many or too few points
_WHOLE_UNITS = 1 << 16  # 1.3 MB of a queue file: read whole
_SAMPLE_UNITS = 16  # neighbours whose mean size stands for the stretch to the next point


def profile_of(span: Span, queue: ScanQueue) -> SizeProfile:
    """The profile of one span."""
    if span.count <= 0:
        return SizeProfile(span, (ProfilePoint(span.start, 0), ProfilePoint(span.end, 0)))
    if span.count <= _WHOLE_UNITS or queue.is_batch:
        return SizeProfile(span, _exact(span, queue))
    return SizeProfile(span, _sampled(span, queue))


def _exact(span: Span, queue: ScanQueue) -> tuple[ProfilePoint, ...]:
    units, _ = queue.read(span.start, span.end, span.count)
    position = span.start
    parts = [units]
    while (following := _end_of(parts[-1], span.end)) < span.end and following > position:
        position = following
        parts.append(queue.read(position, span.end, span.count)[0])
    offsets = np.concatenate([part.offset for part in parts])
    physical = np.concatenate([part.physical for part in parts])
    real = np.concatenate([np.asarray(part.is_real) for part in parts])
    sizes = np.where(real, np.concatenate([part.size for part in parts]), 0)
    before = np.cumsum(sizes) - sizes
    count, size = len(offsets), int(sizes.sum())
    step = max(count // _POINTS, count * _POINT_BYTES // max(size, 1), 1)
    points = [ProfilePoint(span.start, 0, _place(physical, real, 0))]
    for number in range(step, len(offsets), step):
        if points[-1].offset < int(offsets[number]) < span.end:
            points.append(ProfilePoint(int(offsets[number]), int(before[number]), _place(physical, real, number)))
    last = int(physical[-1] + sizes[-1]) if len(real) and real[-1] else points[-1].physical_offset
    return (*points, ProfilePoint(span.end, size, last))


def _end_of(units: Units, end: int) -> int:
    return int(units.offset[-1] + units.messages[-1]) if len(units.offset) else end


def _place(physical: np.ndarray, real: np.ndarray, number: int) -> int:
    return int(physical[number]) if len(real) > number and real[number] else -1


def _sampled(span: Span, queue: ScanQueue) -> tuple[ProfilePoint, ...]:
    points_wanted = min(max(span.count // _POINT_UNITS, _POINTS_MIN), _POINTS)
    bounds = np.linspace(span.start, span.end, points_wanted + 1).astype(np.int64).tolist()
    points: list[ProfilePoint] = []
    size_bytes, last = 0.0, -1
    for start, end in pairwise(bounds):
        units, _ = queue.read(start, min(start + _SAMPLE_UNITS, end), _SAMPLE_UNITS)
        real = np.asarray(units.is_real)
        if len(real) and real[0]:
            last = int(units.physical[0])
        points.append(ProfilePoint(start, int(size_bytes), last))
        if real.any():
            size_bytes += float(units.size[real].mean()) * float(real.mean()) * (end - start)
    units, _ = queue.read(span.end - 1, span.end, 1)
    if len(units.offset) and np.asarray(units.is_real)[0]:
        last = int(units.physical[0] + units.size[0])
    return (*points, ProfilePoint(span.end, int(size_bytes), last))
