"""A source in memory: what the pipeline asks of one, with every call written down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa

from flaremq.errors import NotFoundError
from flaremq.pipeline.model.source import ReadRequest, TopicSelector
from flaremq.pipeline.model.spans import ProfilePoint, QueueExtent, QueueRef, SizeProfile, Span

RECORD_BYTES = 100


@dataclass
class FakeSource:
    """Queues as offsets [min, max); a message at offset n is stored at n * 1000 ms and takes 100 bytes."""

    queues: dict[QueueRef, tuple[int, int]]
    calls: list[tuple[str, Any]] = field(default_factory=list)
    broken: list[Exception] = field(default_factory=list)  # raised by the next calls, in order
    closed: int = 0

    def extents(self, topics: TopicSelector) -> list[QueueExtent]:
        self._called("extents", topics)
        for name in topics.names:
            if name not in {queue.topic for queue in self.queues}:
                raise NotFoundError(f"topic {name!r} is not there")
        wanted = [queue for queue in self.queues if not topics.names or queue.topic in topics.names]
        return [QueueExtent(queue, *self.queues[queue]) for queue in sorted(wanted)]

    def offset_by_time(self, queue: QueueRef, timestamp_ms: int) -> int:
        self._called("offset_by_time", (queue, timestamp_ms))
        low, high = self.queues[queue]
        return min(max(-(-timestamp_ms // 1000), low), high)

    def profiles(self, spans: Sequence[Span]) -> list[SizeProfile]:
        self._called("profiles", tuple(spans))
        return [
            SizeProfile(span, (ProfilePoint(span.start, 0), ProfilePoint(span.end, span.count * RECORD_BYTES)))
            for span in spans
        ]

    def read(self, spans: Sequence[Span], request: ReadRequest) -> Iterator[pa.RecordBatch]:
        self._called("read", tuple(spans))
        for queue, start, end in spans:
            rows = [
                {"topic": queue.topic, "brokerName": queue.broker, "queueId": queue.queue_id, "queueOffset": offset}
                for offset in range(start, end)
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=request.schema)

    def read_keys(self, keys: Sequence[str], spans: Sequence[Span], request: ReadRequest) -> Iterator[pa.RecordBatch]:
        self._called("read_keys", (tuple(keys), tuple(spans)))
        return iter(())

    def close(self) -> None:
        self.closed += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _called(self, name: str, argument: Any) -> None:
        self.calls.append((name, argument))
        if self.broken:
            raise self.broken.pop(0)

    def called(self, name: str) -> list[Any]:
        return [argument for call, argument in self.calls if call == name]


def fake_queues(sizes: Mapping[str, Sequence[int]], broker: str = "b") -> dict[QueueRef, tuple[int, int]]:
    """``{"orders": [3, 5]}``: two queues of the topic with 3 and 5 messages."""
    return {
        QueueRef(topic, broker, at): (0, count) for topic, counts in sizes.items() for at, count in enumerate(counts)
    }
