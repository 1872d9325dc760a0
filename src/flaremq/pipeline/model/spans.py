"""What a plan speaks of: queues, how far they reach, and the pieces of them that one task reads. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class QueueRef(NamedTuple):
    """One queue of one broker; sorts by topic, broker and number."""

    topic: str
    broker: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker}/{self.queue_id}"


class Span(NamedTuple):
    """Queue offsets [start, end) of one queue."""

    queue: QueueRef
    start: int
    end: int

    @property
    def count(self) -> int:  # type: ignore[override]  # how many, which is not what a tuple counts
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class QueueExtent:
    """What a source holds of a queue at the moment it was asked: [min_offset, max_offset), all of it durable."""

    queue: QueueRef
    min_offset: int
    max_offset: int


class ProfilePoint(NamedTuple):
    """At queue offset ``offset`` the span's messages before it take ``size_bytes``; ``physical_offset`` is the place of
    that message in the log, -1 where a source does not know."""

    offset: int
    size_bytes: int
    physical_offset: int = -1


@dataclass(frozen=True, slots=True)
class SizeProfile:
    """How the bytes of a span lie over its offsets: ascending points, the first at its start (0 bytes), the last at its
    end. Between two points sizes are taken to be even; sources sample long queues instead of reading them."""

    span: Span
    points: tuple[ProfilePoint, ...]

    @property
    def size_bytes(self) -> int:
        return self.points[-1].size_bytes
