"""ArchiveSource: an archive read like any other place with messages, by the queue offsets of the log it came from."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from flaremq.errors import CorruptionError, NotFoundError, UnavailableError
from flaremq.pipeline.archive.manifest import ArchiveSegment, Manifest
from flaremq.pipeline.archive.reading import ArchiveFiles, shaped
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.model.source import ReadRequest, Source, TopicSelector, nearest_topic
from flaremq.pipeline.model.spans import ProfilePoint, QueueExtent, QueueRef, SizeProfile, Span
from flaremq.pipeline.sources.keys import having_key
from flaremq.storage.arrow.bodies import AS_ERROR, BodyReader

_log = logging.getLogger(__name__)


class ArchiveSource(Source):
    """Reads an archive. One thread; the archive may grow meanwhile, ``extents`` and ``refresh`` take notice."""

    def __init__(self, location: str, settings: Mapping[str, str] | None = None) -> None:
        self.root = ArchiveRoot(location, settings)
        self._files = ArchiveFiles(self.root)
        self._manifest: Manifest | None = None
        self._topics: frozenset[str] | None = frozenset()  # what of it is loaded; None: everything

    def extents(self, topics: TopicSelector) -> list[QueueExtent]:
        self.refresh()
        found = self.find_extents(topics)
        if (name := topics.missing_name(extent.queue.topic for extent in found)) is not None:
            hint = nearest_topic(name, self.topics())
            raise NotFoundError(f"the archive {self.root.location} has no topic {name!r}{hint}")
        return topics.of_queues(found)

    def topics(self) -> set[str]:
        return {queue.topic for queue in self.manifest(None).queues}

    def find_extents(self, topics: TopicSelector) -> list[QueueExtent]:
        """Like ``extents``, of those topics that are there."""
        manifest = self.manifest(topics.names or None)
        found = []
        for queue in manifest.queues:
            segments = manifest.segments(queue)
            if segments and topics.chooses(queue.topic):
                found.append(QueueExtent(queue, segments[0].run.start, segments[-1].run.end))
        return found

    def offset_by_time(self, queue: QueueRef, timestamp_ms: int) -> int:
        manifest = self.manifest((queue.topic,))
        segments = manifest.segments(queue)
        if not segments:
            raise NotFoundError(f"the archive {self.root.location} has no queue {queue}")
        limit = pa.scalar(timestamp_ms * 1000, pa.int64())
        for segment in segments:
            run = segment.run
            if run.max_ms < timestamp_ms:
                continue
            part = Span(queue, run.start, run.end)
            groups = self._files.groups_by_time(segment, part, timestamp_ms)
            for rows in self._files.rows(segment, part, ("storeTimestamp",), groups=groups):
                late = pc.greater_equal(rows.column("storeTimestamp").view(pa.int64()), limit)
                at = pc.index(late, pa.scalar(True)).as_py()
                if at >= 0:
                    return int(rows.column("queueOffset")[at].as_py())
        return segments[-1].run.end

    def profiles(self, spans: Sequence[Span]) -> list[SizeProfile]:
        manifest = self.manifest({span.queue.topic for span in spans})
        return [_profile(manifest, span) for span in spans]

    def read(self, spans: Sequence[Span], request: ReadRequest) -> Iterator[pa.RecordBatch]:
        columns = _columns(request)
        bodies = BodyReader(request.bodies, f"the archive {self.root.location}")
        for segment, part in self._parts(spans, request):
            try:
                for rows in self._files.rows(segment, part, columns):
                    batch = shaped(rows, part.queue.topic, request, bodies)
                    if batch.num_rows:
                        yield batch
            except CorruptionError as error:
                if request.fail_on_data_loss or request.bodies.bad == AS_ERROR:
                    raise
                _log.warning("%s; the rest of %s [%d, %d) is left out", error, *part)
        bodies.tell()

    def read_keys(self, keys: Sequence[str], spans: Sequence[Span], request: ReadRequest) -> Iterator[pa.RecordBatch]:
        """By the columns that hold keys, which are small; only row groups with a hit are read whole."""
        wanted = frozenset(key for key in keys if key)
        if not wanted:
            return
        columns = _columns(request)
        bodies = BodyReader(request.bodies, f"the archive {self.root.location}")
        for segment, part in self._parts(spans, request):
            for group in self._files.groups(segment, part):
                found = [
                    offset
                    for rows in self._files.rows(segment, part, ("keys", "properties"), groups=(group,))
                    for offset in rows.filter(having_key(rows, wanted)).column("queueOffset").to_pylist()
                ]
                if not found:
                    continue
                hits = pa.array(found, pa.int64())
                for rows in self._files.rows(segment, part, columns, groups=(group,)):
                    chosen = rows.filter(pc.is_in(rows.column("queueOffset"), hits))
                    batch = shaped(chosen, part.queue.topic, request, bodies)
                    if batch.num_rows:
                        yield batch
        bodies.tell()

    def manifest(self, topics: Collection[str] | None) -> Manifest:
        """The manifest, loaded at least for these topics."""
        if self._manifest is None or (self._topics is not None and (topics is None or not self._topics >= set(topics))):
            self._topics = None if topics is None or self._topics is None else self._topics | set(topics)
            self._manifest = Manifest.load(self.root, self._topics)
        return self._manifest

    def refresh(self) -> bool:
        """Take notice of commits made since; whether there were any."""
        if self._manifest is None or not self._manifest.is_stale:
            return False
        self._manifest = Manifest.load(self.root, self._topics)
        return True

    def close(self) -> None:
        self._files.close()

    def _parts(self, spans: Sequence[Span], request: ReadRequest) -> Iterator[tuple[ArchiveSegment, Span]]:
        """The spans along the runs that hold them, each with the run it is part of."""
        if not any(span.count for span in spans):
            return
        topics = {span.queue.topic for span in spans}
        manifest = self.manifest(topics)
        if any(manifest.missing(span) for span in spans) and self.refresh():
            manifest = self.manifest(topics)
        for span in spans:
            for hole in manifest.missing(span):
                report_hole(hole, f"the archive {self.root.location}", request)
            for segment in manifest.segments(span.queue, span.start, span.end):
                start, end = max(span.start, segment.run.start), min(span.end, segment.run.end)
                yield segment, Span(span.queue, start, end)


def report_hole(hole: Span, where: str, request: ReadRequest) -> None:
    """Messages are wanted that nobody holds any more."""
    text = (
        f"offsets {hole.start} to {hole.end} of queue {hole.queue} are not in {where}: they were deleted before they "
        "were archived"
    )
    if request.fail_on_data_loss:
        raise UnavailableError(f"{text}. Set failOnDataLoss=false to read what is left")
    _log.warning("%s", text)


def _columns(request: ReadRequest) -> list[str]:
    return [*request.schema.names, "tags"] if request.tags else list(request.schema.names)


def _profile(manifest: Manifest, span: Span) -> SizeProfile:
    points = [ProfilePoint(span.start, 0)]
    size = 0
    for run, _ in manifest.segments(span.queue, span.start, span.end):
        start, end = max(span.start, run.start), min(span.end, run.end)
        if start > points[-1].offset:  # a hole costs nothing
            points.append(ProfilePoint(start, size))
        size += run.size_bytes * (end - start) // max(1, run.end - run.start)
        points.append(ProfilePoint(end, size))
    if points[-1].offset < span.end or len(points) == 1:
        points.append(ProfilePoint(span.end, size))
    return SizeProfile(span, tuple(points))
