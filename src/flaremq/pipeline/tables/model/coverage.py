"""Coverage: which offsets of which queues a table holds. It travels inside the commit that makes it true.

A queue is covered from where its table begins up to the next offset to come; offsets without a message and those that
retention had deleted before they could be read count as covered. So the size of it is that of the topic's queues,
however many commits there were.

A sign of the last message goes with it: a topic that is deleted and made anew counts from 0 again, and once it is as
long as before only that message tells that it is another one. Tables of earlier versions have no signs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from flaremq.errors import CorruptionError
from flaremq.pipeline.model.spans import QueueRef


class Covered(NamedTuple):
    """Offsets [start, next) of a queue; ``sign`` is of the message at ``next - 1``, 0 if it is not known."""

    start: int
    next: int
    sign: int = 0


Coverage: TypeAlias = Mapping[QueueRef, Covered]


def coverage_text(coverage: Coverage) -> str:
    """As JSON: ``{topic: {broker: {queue: [start, next, sign]}}}``."""
    nested: dict[str, dict[str, dict[str, list[int]]]] = {}
    for queue in sorted(coverage):
        queues = nested.setdefault(queue.topic, {}).setdefault(queue.broker, {})
        queues[str(queue.queue_id)] = list(coverage[queue])
    return json.dumps(nested, separators=(",", ":"))


def coverage_from_text(text: str) -> dict[QueueRef, Covered]:
    try:
        return {
            QueueRef(topic, broker, int(queue_id)): Covered(int(start), int(after), *map(int, sign))
            for topic, brokers in json.loads(text).items()
            for broker, queues in brokers.items()
            for queue_id, (start, after, *sign) in queues.items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptionError("the offsets a table says it covers cannot be read", found=text[:200]) from error


def restricted(coverage: Coverage, queues: Iterable[QueueRef]) -> dict[QueueRef, Covered]:
    return {queue: coverage[queue] for queue in queues if queue in coverage}
