"""Cutting profiles along one axis: where messages lie, and where shares of their bytes end. Pure arithmetic.

The axis is the order in which messages lie. Where a source knows the physical order, a broker's messages are laid out
along its log, so a piece is one stretch of log for all queues at once and each byte of it is read once. Elsewhere
queues lie one after another. Cuts are placed where the bytes before them are even shares of all bytes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from flaremq.pipeline.model.spans import ProfilePoint, SizeProfile, Span


class Track:
    """A span's points on the common axis; what is between two of them is taken to be even."""

    __slots__ = ("axis", "offsets", "profile", "sizes")

    def __init__(self, profile: SizeProfile, axis: list[int]) -> None:
        self.profile = profile
        self.axis = axis
        self.offsets = [point.offset for point in profile.points]
        self.sizes = [point.size_bytes for point in profile.points]

    def offset_at(self, position: int) -> int:
        """The span's offset at a position of the axis; never falls as the position rises."""
        at = bisect_right(self.axis, position) - 1
        if at < 0:
            return self.profile.span.start
        if at >= len(self.axis) - 1:
            return self.profile.span.end
        width = self.axis[at + 1] - self.axis[at]
        # Rounded up: a message that starts before the position is before it.
        return self.offsets[at] - (self.axis[at] - position) * (self.offsets[at + 1] - self.offsets[at]) // width


def lay_out(profiles: Sequence[SizeProfile]) -> list[Track]:
    """Every profile laid on one axis: broker after broker along its log, then the queues without a known place."""
    logs: dict[str, list[SizeProfile]] = {}
    others: list[SizeProfile] = []
    for profile in profiles:
        if all(point.physical_offset >= 0 for point in profile.points[:-1]):
            logs.setdefault(profile.span.queue.broker, []).append(profile)
        else:
            others.append(profile)
    tracks: list[Track] = []
    base = 0
    for broker in sorted(logs):
        origin = min(profile.points[0].physical_offset for profile in logs[broker])
        along = [Track(profile, _log_axis(profile, base - origin)) for profile in logs[broker]]
        base = max(track.axis[-1] for track in along)
        tracks += along
    for profile in sorted(others, key=lambda profile: profile.span):
        start = profile.span.start
        tracks.append(Track(profile, [base + point.size_bytes + point.offset - start for point in profile.points]))
        base = tracks[-1].axis[-1]
    return tracks


def _log_axis(profile: SizeProfile, shift: int) -> list[int]:
    axis: list[int] = []
    for at, point in enumerate(profile.points):
        place = point.physical_offset + shift
        if at == len(profile.points) - 1:  # behind the last message, where a source may know no place
            last = profile.points[at - 1]
            least = 1 if point.offset > last.offset else 0
            place = max(place if point.physical_offset >= 0 else 0, axis[-1] + least)
            place = max(place, axis[-1] + (point.size_bytes - last.size_bytes) // max(1, point.offset - last.offset))
        axis.append(max(place, axis[-1]) if axis else place)
    return axis


def find_positions(tracks: Sequence[Track], targets: Sequence[float]) -> list[int]:
    """The positions of the axis before which ``targets`` bytes lie, both ascending. One sweep over all points."""
    changes: list[tuple[int, float, float]] = []  # position, by how much the density changes, bytes at this very place
    for track in tracks:
        for at in range(len(track.axis) - 1):
            width, size = track.axis[at + 1] - track.axis[at], track.sizes[at + 1] - track.sizes[at]
            if width:
                changes.append((track.axis[at], size / width, 0.0))
                changes.append((track.axis[at + 1], -size / width, 0.0))
            elif size:
                changes.append((track.axis[at], 0.0, float(size)))
    changes.sort()
    found: list[int] = []
    before, density, here = 0.0, 0.0, changes[0][0] if changes else 0
    for position, change, jump in changes:
        ahead = before + density * (position - here)
        while len(found) < len(targets) and density > 0 and targets[len(found)] <= ahead:
            found.append(here + min(position - here, int((targets[len(found)] - before) / density)))
        before, density, here = ahead + jump, density + change, position
        while len(found) < len(targets) and jump and targets[len(found)] <= before:
            found.append(here)
    found += [here] * (len(targets) - len(found))
    return found


def cut(profiles: Sequence[SizeProfile], count: int) -> list[list[SizeProfile]]:
    """The profiles in about ``count`` pieces of equal bytes, none empty."""
    if count <= 1:
        return [list(profiles)]
    size = sum(profile.size_bytes for profile in profiles)
    if size <= 0:
        profiles = [even_profile(profile.span, 1) for profile in profiles]
        size = sum(profile.size_bytes for profile in profiles)
    tracks = lay_out(profiles)
    positions = find_positions(tracks, [size * at / count for at in range(1, count)])
    pieces: list[list[SizeProfile]] = [[] for _ in range(count)]
    for track in tracks:
        low, high = bisect_left(positions, track.axis[0]), bisect_right(positions, track.axis[-1])
        start = track.profile.span.start
        for at in range(low, high + 1):
            end = track.offset_at(positions[at]) if at < high else track.profile.span.end
            if end > start:
                pieces[at].append(restricted(track.profile, start, end))
                start = end
    return [piece for piece in pieces if piece]


def restricted(profile: SizeProfile, start: int, end: int) -> SizeProfile:
    """The profile of a part of its span."""
    if (start, end) == profile.span[1:]:
        return profile
    first, last = _point_at(profile, start), _point_at(profile, end)
    low = bisect_right(profile.points, start, key=lambda point: point.offset)
    inner = profile.points[low : bisect_left(profile.points, end, key=lambda point: point.offset)]
    points = tuple(point._replace(size_bytes=point.size_bytes - first.size_bytes) for point in (first, *inner, last))
    return SizeProfile(Span(profile.span.queue, start, end), points)


def _point_at(profile: SizeProfile, offset: int) -> ProfilePoint:
    at = bisect_right(profile.points, offset, key=lambda point: point.offset) - 1
    left = profile.points[at]
    if left.offset == offset or at == len(profile.points) - 1:
        return left
    right = profile.points[at + 1]
    ahead, count = offset - left.offset, right.offset - left.offset
    size = left.size_bytes + (right.size_bytes - left.size_bytes) * ahead // count
    if left.physical_offset < 0:
        return ProfilePoint(offset, size)
    if right.physical_offset < left.physical_offset:  # the end of the span, its place unknown
        return ProfilePoint(offset, size, left.physical_offset + size - left.size_bytes)
    place = left.physical_offset + (right.physical_offset - left.physical_offset) * ahead // count
    return ProfilePoint(offset, size, place)


def even_profile(span: Span, record_bytes: int) -> SizeProfile:
    """The profile of a span whose messages all cost the same, for reads that never touch the log."""
    points = (ProfilePoint(span.start, 0), ProfilePoint(span.end, span.count * record_bytes))
    return SizeProfile(span, points)
