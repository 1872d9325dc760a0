"""A running cluster as a source: everything over the wire, as a consumer would, but without consuming.

Pulls bring whole records as they lie in a broker's log; they are decoded into Arrow by the same kernels that read a
store, no Python object per message. The wire cannot leave bodies out, so a read without ``body`` saves decoding only.
Queues of any broker are read, from a slave when the master is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import pyarrow as pa

from flaremq.client.blocking import LoopThread
from flaremq.client.instance import ClientInstance
from flaremq.client.scan.cluster_view import ClusterView, each
from flaremq.client.scan.queue_holes import QueueHoles
from flaremq.client.scan.queue_pulls import Pulled, QueuePulls
from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.model.columns import schema_of
from flaremq.pipeline.model.source import ReadRequest, Source, SourceSpec, TopicSelector
from flaremq.pipeline.model.spans import ProfilePoint, QueueExtent, QueueRef, SizeProfile, Span
from flaremq.pipeline.sources.wire_fetch import Chunk, WireFetch
from flaremq.pipeline.sources.wire_keys import find_keys
from flaremq.storage.arrow.bodies import BodyReader

_SAMPLE: Final = 8  # messages looked at in one place to learn their size
_SAMPLE_BYTES: Final = 64 << 10  # a broker gives at least these at once (maxTransferBytesOnMessageInDisk)
_SAMPLES: Final = 4  # places in a long span
_MANY_SPANS: Final = 64  # from here on one place each


class WireSource(Source):
    """Messages of a cluster. One thread."""

    def __init__(self, spec: SourceSpec) -> None:
        if spec.name_server is None:
            raise InvalidArgumentError("a cluster is read through its name server: set nameServer")
        options = spec.wire
        self._bytes_max = options.bytes_in_flight
        self._instance = ClientInstance(spec.name_server, options.client)
        self._pulls = QueuePulls(self._instance, group=options.group, retry_seconds=options.retry_ms / 1000)
        self._holes = QueueHoles(self._instance, self._pulls)
        self._view = ClusterView(self._instance, self._pulls)
        self._loop = LoopThread("flaremq-wire")
        self._is_open = True
        try:
            self._loop.call(self._instance.start())
        except BaseException:
            self.close()
            raise

    # Planning

    def extents(self, topics: TopicSelector) -> list[QueueExtent]:
        # A topic that was found by its pattern may be deleted a moment later.
        found = self._loop.call(self._view.extents(self._topics(topics), must_exist=bool(topics.names)))
        extents = [
            QueueExtent(QueueRef(extent.topic, extent.broker, extent.queue_id), extent.min_offset, extent.max_offset)
            for extent in found
        ]
        return topics.of_queues(extents)

    def _topics(self, selector: TopicSelector) -> list[str]:
        if selector.names:
            return sorted(set(selector.names))
        return list(filter(selector.chooses, self._loop.call(self._view.topics(system=True))))

    def offset_by_time(self, queue: QueueRef, timestamp_ms: int) -> int:
        return self._loop.call(self._view.offset_by_time(queue, timestamp_ms))

    def offsets_by_time(self, queues: Sequence[QueueRef], timestamp_ms: int) -> list[int]:
        """The same for many queues at once, in the order given."""

        async def find(queue: QueueRef) -> int:
            return await self._view.offset_by_time(queue, timestamp_ms)

        return self._loop.call(each(queues, find))

    def profiles(self, spans: Sequence[Span]) -> list[SizeProfile]:
        """Sizes as a few messages of each span suggest them."""
        samples = _SAMPLES if len(spans) < _MANY_SPANS else 1

        async def profile(span: Span) -> SizeProfile:
            if span.count <= 0:
                return SizeProfile(span, (ProfilePoint(span.start, 0),))
            parts = max(1, min(samples, span.count // _SAMPLE))
            points = [ProfilePoint(span.start, 0)]
            size = 0
            for part in range(parts):
                at = span.start + span.count * part // parts
                after = span.start + span.count * (part + 1) // parts
                pulled = await self._pulls.pull(span.queue, at, min(_SAMPLE, after - at))
                size += int(_mean_size(pulled) * (after - at))
                points.append(ProfilePoint(after, size))
            return SizeProfile(span, tuple(points))

        return self._loop.call(each(spans, profile))

    # Reading

    def read(self, spans: Sequence[Span], request: ReadRequest) -> Iterator[pa.RecordBatch]:
        wanted = [span for span in spans if span.count > 0]
        if not wanted:
            return
        fetch = WireFetch(
            self._loop,
            self._pulls,
            self._holes,
            wanted,
            tags=request.tags,
            fail_on_data_loss=request.fail_on_data_loss,
            bytes_max=self._bytes_max,
        )
        bodies = BodyReader(request.bodies, "what the brokers sent")
        try:
            for chunk in fetch:
                count = 0
                for batch in chunk.batches(request, bodies):
                    count += batch.num_rows
                    if batch.num_rows:
                        yield batch
                if count < chunk.end - chunk.start and request.fail_on_data_loss and not request.tags:
                    self._check_holes(chunk)
        finally:
            fetch.close()
            bodies.tell()

    def _check_holes(self, chunk: Chunk) -> None:
        """Some offsets of a chunk have no message: say so if they should."""
        batches = chunk.batches(ReadRequest(schema_of(["queueOffset"])), BodyReader())
        offsets = [offset for batch in batches for offset in batch.column(0).to_pylist()]
        found = [chunk.start - 1, *offsets, chunk.end]
        for before, after in pairwise(found):
            if after - before > 1:
                self._loop.call(self._holes.check(chunk.span.queue, before + 1, after))

    def read_keys(self, keys: Sequence[str], spans: Sequence[Span], request: ReadRequest) -> Iterator[pa.RecordBatch]:
        yield from find_keys(self._loop, self._instance, self._pulls, self.read, keys, spans, request)

    # Life

    def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._loop.call(self._instance.stop())
        finally:
            self._loop.close()


def _mean_size(pulled: Pulled) -> float:
    """By messages that every pull brings, be they in memory or on disk: a batch that is planned again is cut alike."""
    count = size = at = 0
    while at + 4 <= len(pulled.records):
        size = int.from_bytes(pulled.records[at : at + 4], "big")
        if size <= 0 or (count and at + size > _SAMPLE_BYTES):
            break
        count += 1
        at += size
    return at / count if count else 0.0
