"""Coverage: which offsets of which queues a table holds. It travels inside the commit that makes it true.

A queue is covered from where its table begins up to the next offset to come; offsets without a message and those that
retention had deleted before they could be read count as covered. So the size of it is that of the topic's queues,
however many commits there were.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from flaremq.errors import CorruptionError
from flaremq.pipeline.model.spans import QueueRef


class Covered(NamedTuple):
    """Offsets [start, next) of a queue."""

    start: int
    next: int


Coverage: TypeAlias = Mapping[QueueRef, Covered]


def coverage_text(coverage: Coverage) -> str:
    """As JSON: ``{topic: {broker: {queue: [start, next]}}}``."""
    nested: dict[str, dict[str, dict[str, list[int]]]] = {}
    for queue in sorted(coverage):
        queues = nested.setdefault(queue.topic, {}).setdefault(queue.broker, {})
        queues[str(queue.queue_id)] = list(coverage[queue])
    return json.dumps(nested, separators=(",", ":"))


def coverage_from_text(text: str) -> dict[QueueRef, Covered]:
    try:
        return {
            QueueRef(topic, broker, int(queue_id)): Covered(int(start), int(after))
            for topic, brokers in json.loads(text).items()
            for broker, queues in brokers.items()
            for queue_id, (start, after) in queues.items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptionError("the offsets a table says it covers cannot be read", found=text[:200]) from error


def restricted(coverage: Coverage, queues: Iterable[QueueRef]) -> dict[QueueRef, Covered]:
    return {queue: coverage[queue] for queue in queues if queue in coverage}
