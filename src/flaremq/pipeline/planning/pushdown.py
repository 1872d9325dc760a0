"""DataFrame filters turned into less to read. Rows never depend on it: Spark applies again what is not exact here.

Filters are known by their class names (``EqualTo``, ``In``, …) so that this module needs no PySpark.

Times need care. Within a queue, store times rise with offsets except where a machine's clock was set back; a filter
must give the same rows there too, so a range of times is widened by ``CLOCK_SLACK_MS`` before offsets are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from flaremq.message.properties import split_keys
from flaremq.pipeline.model.columns import UNIT_COLUMNS
from flaremq.pipeline.model.source import ReadRequest
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.options import LONG_MAX

CLOCK_SLACK_MS: Final = 600_000  # clocks are corrected by seconds; ten minutes cover what operators do by hand
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Pushed:
    """What filters leave to read; None means all, ends are excluded."""

    topics: frozenset[str] | None = None
    brokers: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    first_offset: int = 0
    end_offset: int = LONG_MAX
    first_ms: int | None = None
    end_ms: int | None = None
    tags: frozenset[str] | None = None
    keys: frozenset[str] | None = None  # one key of each message wanted, at least

    def keeps_queue(self, queue: QueueRef) -> bool:
        return (
            (self.topics is None or queue.topic in self.topics)
            and (self.brokers is None or queue.broker in self.brokers)
            and (self.queue_ids is None or queue.queue_id in self.queue_ids)
        )

    def narrowed(self, spans: Iterable[Span], offset_by_time: Callable[[QueueRef, int], int]) -> list[Span]:
        """What is left of the spans."""
        left = []
        for queue, start, end in spans:
            if not self.keeps_queue(queue):
                continue
            first, last = max(start, self.first_offset), min(end, self.end_offset)
            if self.first_ms is not None and first < last:
                first = max(first, offset_by_time(queue, max(0, self.first_ms - CLOCK_SLACK_MS)))
            if self.end_ms is not None and first < last:
                last = min(last, offset_by_time(queue, max(0, self.end_ms + CLOCK_SLACK_MS)))
            if first < last:
                left.append(Span(queue, first, last))
        return left

    def applied(self, request: ReadRequest, keys: tuple[str, ...]) -> tuple[ReadRequest, tuple[str, ...]]:
        """The request and the keys of a scan that has some of its own, with those of the filters."""
        if self.tags is not None:
            tags = self.tags & request.tags if request.tags else self.tags
            request = replace(request, tags=tags)
        if self.keys is not None and not keys:
            keys = tuple(sorted(self.keys))
        return request, keys


NOTHING_PUSHED: Final = Pushed()


def push(filters: Sequence[Any]) -> tuple[Pushed, list[Any]]:
    """What the filters, all of which hold, leave to read; and those of them that Spark must still apply."""
    pushed = NOTHING_PUSHED
    kept = []
    for condition in filters:
        pushed, exact = _push_one(pushed, condition)
        if not exact:
            kept.append(condition)
    return pushed, kept


def _push_one(pushed: Pushed, condition: Any) -> tuple[Pushed, bool]:
    kind = type(condition).__name__
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(attribute) != 1:
        return pushed, False
    column: str = attribute[0]
    if kind == "IsNotNull":
        return pushed, column in UNIT_COLUMNS  # never null
    if kind == "In":
        values = list(condition.value)
    elif kind in ("EqualTo", "EqualNullSafe"):
        values = [condition.value]
    elif kind in _RANGES and column in ("queueOffset", "storeTimestamp"):
        return _push_range(pushed, column, kind, condition.value)
    else:
        return pushed, False
    return _push_values(pushed, column, values)


_RANGES: Final = {
    "GreaterThan": (1, None),
    "GreaterThanOrEqual": (0, None),
    "LessThan": (None, 0),
    "LessThanOrEqual": (None, 1),
}


def _push_range(pushed: Pushed, column: str, kind: str, value: Any) -> tuple[Pushed, bool]:
    low, high = _RANGES[kind]
    if column == "queueOffset":
        if type(value) is not int:
            return pushed, False
        first = pushed.first_offset if low is None else max(pushed.first_offset, value + low)
        end = pushed.end_offset if high is None else min(pushed.end_offset, value + high)
        return replace(pushed, first_offset=first, end_offset=end), True
    at_ms = _milliseconds(value)
    if at_ms is None:
        return pushed, False
    if low is not None:
        return replace(pushed, first_ms=at_ms if pushed.first_ms is None else max(pushed.first_ms, at_ms)), False
    return replace(pushed, end_ms=at_ms + 1 if pushed.end_ms is None else min(pushed.end_ms, at_ms + 1)), False


def _push_values(pushed: Pushed, column: str, values: list[Any]) -> tuple[Pushed, bool]:
    if column in ("queueId", "queueOffset"):
        if not all(type(value) is int for value in values):
            return pushed, False
        if column == "queueId":
            return replace(pushed, queue_ids=_intersection(pushed.queue_ids, values)), True
        first, end = max(pushed.first_offset, min(values)), min(pushed.end_offset, max(values) + 1)
        return replace(pushed, first_offset=first, end_offset=end), len(set(values)) == 1
    if column == "storeTimestamp":
        times = [_milliseconds(value) for value in values]
        if any(at_ms is None for at_ms in times):
            return pushed, False
        ends = sorted(at_ms for at_ms in times if at_ms is not None)
        first_ms = ends[0] if pushed.first_ms is None else max(pushed.first_ms, ends[0])
        end_ms = ends[-1] + 1 if pushed.end_ms is None else min(pushed.end_ms, ends[-1] + 1)
        return replace(pushed, first_ms=first_ms, end_ms=end_ms), False
    if not all(isinstance(value, str) for value in values):
        return pushed, False
    if column == "topic":
        return replace(pushed, topics=_intersection(pushed.topics, values)), True
    if column == "brokerName":
        return replace(pushed, brokers=_intersection(pushed.brokers, values)), True
    if column == "tags" and all(values):
        return replace(pushed, tags=_intersection(pushed.tags, values)), False
    if column == "keys" and pushed.keys is None and all(split_keys(value) for value in values):
        # The column is all keys of a message in one text; the index knows each of them on its own.
        return replace(pushed, keys=frozenset(split_keys(value)[0] for value in values)), False
    return pushed, False


def _intersection(before: frozenset[Any] | None, values: Iterable[Any]) -> frozenset[Any]:
    found = frozenset(values)
    return found if before is None else before & found


def _milliseconds(value: Any) -> int | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // timedelta(milliseconds=1)
