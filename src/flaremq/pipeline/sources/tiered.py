"""TieredSource: an archive and the live log as one place with one range of offsets.

What the archive covers is read from it, everything else from the log. Where the one ends and the other begins is
decided anew for every read, by the manifest, span by span; both use the log's own queue offsets, so there is nothing
to match and no row can come twice or not at all. A hole between the two is data loss and treated as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.pipeline.model.source import ReadRequest, Source, TopicSelector, nearest_topic
from flaremq.pipeline.model.spans import ProfilePoint, QueueExtent, QueueRef, SizeProfile, Span
from flaremq.pipeline.sources.archive import ArchiveSource, report_hole

_Read = Callable[[Source, list[Span]], Iterator[pa.RecordBatch]]


class _Part(NamedTuple):
    """A piece of a span that one of the two reads."""

    span: Span
    is_archived: bool


class TieredSource(Source):
    """Reads both. One thread; owns the two."""

    def __init__(self, archive: ArchiveSource, live: Source) -> None:
        self._archive = archive
        self._live = live

    def extents(self, topics: TopicSelector) -> list[QueueExtent]:
        self._archive.refresh()
        live = {extent.queue: extent for extent in self._live_extents(topics)}
        archived = {extent.queue: extent for extent in self._archive.find_extents(topics)}
        held = {queue.topic for queue in (*live, *archived)}
        if (name := topics.missing_name(held)) is not None:
            hint = nearest_topic(name, self._archive.topics())
            place = self._archive.root.location
            raise NotFoundError(f"neither the log nor the archive {place} has topic {name!r}{hint}")
        _check_brokers(live, archived)
        held_queues = sorted({*live, *archived})
        return topics.of_queues([_joined(queue, archived.get(queue), live.get(queue)) for queue in held_queues])

    def offset_by_time(self, queue: QueueRef, timestamp_ms: int) -> int:
        manifest = self._archive.manifest((queue.topic,))
        segments = manifest.segments(queue)
        if not segments:
            return self._live.offset_by_time(queue, timestamp_ms)
        end = segments[-1].run.end
        found = self._archive.offset_by_time(queue, timestamp_ms)
        holes = manifest.missing(Span(queue, segments[0].run.start, found))
        if found < end and not holes:
            return found
        try:
            later = self._live.offset_by_time(queue, timestamp_ms)
        except NotFoundError:  # the topic is gone from the cluster, its archive is not
            return found
        if found < end:
            return later if any(hole.start <= later < hole.end for hole in holes) else found
        return max(later, end)

    def profiles(self, spans: Sequence[Span]) -> list[SizeProfile]:
        parts = [self._split(span) for span in spans]
        of_archive = [part.span for pieces in parts for part in pieces if part.is_archived]
        of_log = [part.span for pieces in parts for part in pieces if not part.is_archived]
        known = {
            profile.span: profile for profile in (*self._archive.profiles(of_archive), *self._live_profiles(of_log))
        }
        return [
            _chained(span, [known[part.span] for part in pieces]) for span, pieces in zip(spans, parts, strict=True)
        ]

    def read(self, spans: Sequence[Span], request: ReadRequest) -> Iterator[pa.RecordBatch]:
        return self._by_parts(spans, request, lambda source, parts: source.read(parts, request))

    def read_keys(self, keys: Sequence[str], spans: Sequence[Span], request: ReadRequest) -> Iterator[pa.RecordBatch]:
        return self._by_parts(spans, request, lambda source, parts: source.read_keys(keys, parts, request))

    def close(self) -> None:
        self._archive.close()
        self._live.close()

    def _by_parts(self, spans: Sequence[Span], request: ReadRequest, read: _Read) -> Iterator[pa.RecordBatch]:
        """First what is archived, then the log, over and over: each queue's parts in order, many queues at a time."""
        queues = [pieces for pieces in self._readable(spans, request) if pieces]
        is_archived = True
        while queues:
            now: list[Span] = []
            for pieces in queues:
                while pieces and pieces[0].is_archived is is_archived:
                    now.append(pieces.pop(0).span)
            if now:
                yield from read(self._archive if is_archived else self._live, now)
            queues = [pieces for pieces in queues if pieces]
            is_archived = not is_archived

    def _readable(self, spans: Sequence[Span], request: ReadRequest) -> list[list[_Part]]:
        """The parts of each queue in order, without what neither of the two holds."""
        by_queue: dict[QueueRef, list[Span]] = {}
        for span in spans:
            if span.count:
                by_queue.setdefault(span.queue, []).append(span)
        parts = [[part for span in given for part in self._split(span)] for given in by_queue.values()]
        starts = self._live_starts(parts)
        if any(_is_lost(part, starts) for pieces in parts for part in pieces) and self._archive.refresh():
            # Archived and deleted from the log after this reader had looked at the manifest.
            parts = [[part for span in given for part in self._split(span)] for given in by_queue.values()]
            starts = self._live_starts(parts)
        return [[kept for part in pieces for kept in self._kept(part, starts, request)] for pieces in parts]

    def _split(self, span: Span) -> list[_Part]:
        manifest = self._archive.manifest((span.queue.topic,))
        holes = manifest.missing(span)
        parts: list[_Part] = []
        position = span.start
        for hole in holes:
            if hole.start > position:
                parts.append(_Part(Span(span.queue, position, hole.start), True))
            parts.append(_Part(hole, False))
            position = hole.end
        if position < span.end:
            parts.append(_Part(Span(span.queue, position, span.end), True))
        return parts

    def _live_starts(self, parts: list[list[_Part]]) -> dict[QueueRef, int]:
        """Where the log begins, for queues that are in the archive too: only there a hole can be between the two.

        A queue that the log does not have begins nowhere. Other queues are left to the log's own checks.
        """
        queues = {part.span.queue for pieces in parts for part in pieces if not part.is_archived}
        queues = {queue for queue in queues if self._archive.manifest((queue.topic,)).segments(queue)}
        if not queues:
            return {}
        topics = tuple(sorted({queue.topic for queue in queues}))
        found = {extent.queue: extent.min_offset for extent in self._live_extents(TopicSelector(topics))}
        return {queue: found.get(queue, _NOWHERE) for queue in queues}

    def _kept(self, part: _Part, starts: dict[QueueRef, int], request: ReadRequest) -> list[_Part]:
        if not _is_lost(part, starts):
            return [part]
        span = part.span
        begin = starts[span.queue]
        report_hole(
            Span(span.queue, span.start, min(begin, span.end)), f"the log nor in {self._archive.root.location}", request
        )
        return [_Part(Span(span.queue, begin, span.end), False)] if begin < span.end else []

    def _live_extents(self, topics: TopicSelector) -> list[QueueExtent]:
        """The log's queues of these topics, those that are there."""
        try:
            return self._live.extents(topics)
        except NotFoundError:
            if len(topics.names) < 2:
                return []
        return [extent for name in topics.names for extent in self._live_extents(TopicSelector((name,)))]

    def _live_profiles(self, spans: list[Span]) -> list[SizeProfile]:
        return self._live.profiles(spans) if spans else []


_NOWHERE = 1 << 63


def _is_lost(part: _Part, starts: dict[QueueRef, int]) -> bool:
    return not part.is_archived and part.span.start < starts.get(part.span.queue, 0)


def _joined(queue: QueueRef, archived: QueueExtent | None, live: QueueExtent | None) -> QueueExtent:
    ends = [extent for extent in (archived, live) if extent is not None and extent.min_offset < extent.max_offset]
    if not ends:
        known = live or archived
        assert known is not None
        return known
    return QueueExtent(queue, min(extent.min_offset for extent in ends), max(extent.max_offset for extent in ends))


def _check_brokers(live: dict[QueueRef, QueueExtent], archived: dict[QueueRef, QueueExtent]) -> None:
    """The same queue must have the same name in both, or it would be taken for two."""
    for topic in sorted({queue.topic for queue in live} & {queue.topic for queue in archived}):
        of_log = {queue.broker for queue in live if queue.topic == topic}
        of_archive = {queue.broker for queue in archived if queue.topic == topic}
        if of_log.isdisjoint(of_archive):
            raise InvalidArgumentError(
                f"topic {topic!r} was archived from broker {', '.join(sorted(of_archive))} but the log is of broker "
                f"{', '.join(sorted(of_log))}: set brokerName to the broker's name in the archive"
            )


def _chained(span: Span, pieces: list[SizeProfile]) -> SizeProfile:
    if len(pieces) == 1 and pieces[0].span == span:
        return pieces[0]
    points = [ProfilePoint(span.start, 0)]
    for piece in pieces:
        before = points[-1].size_bytes
        # No place in the log: part of it lies elsewhere.
        points += [ProfilePoint(point.offset, before + point.size_bytes) for point in piece.points[1:]]
    return SizeProfile(span, tuple(points))
