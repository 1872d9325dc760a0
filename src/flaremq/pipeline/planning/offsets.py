"""Offsets of many queues as one value: ``{topic: {broker: {queue: offset}}}``, its JSON, its meaning for a source.

The same numbers are start and end of a batch, the checkpoint of a stream and the progress of a group. -2 stands for the
earliest and -1 for the latest offset, as in Spark's Kafka source; resolved offsets hold neither.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from flaremq.digits import whole_number
from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.pipeline.model.spans import QueueExtent, QueueRef

EARLIEST: Final = -2
LATEST: Final = -1

Offsets = dict[QueueRef, int]
NestedOffsets = Mapping[str, Mapping[str, Mapping[str, int]]]  # topic, broker, queue, as JSON has it
OffsetByTime = Callable[[QueueRef, int], int]
_FORM = '{"topic": {"broker": {"0": offset}}}'


def to_nested(offsets: Mapping[QueueRef, int]) -> dict[str, dict[str, dict[str, int]]]:
    """The value as JSON has it, keys in a fixed order: Spark compares offsets as text."""
    nested: dict[str, dict[str, dict[str, int]]] = {}
    for queue in sorted(offsets):
        nested.setdefault(queue.topic, {}).setdefault(queue.broker, {})[str(queue.queue_id)] = offsets[queue]
    return nested


def to_json(offsets: Mapping[QueueRef, int]) -> str:
    return json.dumps(to_nested(offsets), separators=(",", ":"))


def from_nested(nested: Any, *, what: str = "offsets") -> Offsets:
    """The value of a parsed JSON; ``what`` names it in errors."""
    offsets: Offsets = {}
    for topic, brokers in _items(nested, what, what):
        for broker, queues in _items(brokers, f"topic {topic!r}", what):
            for queue_text, offset in _items(queues, f"broker {broker!r} of topic {topic!r}", what):
                queue_id = whole_number(queue_text)
                if queue_id is None:
                    raise InvalidArgumentError(f"{what}: queue {queue_text!r} of topic {topic!r} is no queue number")
                if type(offset) is not int or offset < EARLIEST:
                    raise InvalidArgumentError(
                        f"{what}: offset {offset!r} of queue {topic}/{broker}/{queue_text} is neither a queue offset "
                        f"nor {EARLIEST} (earliest) nor {LATEST} (latest)"
                    )
                offsets[QueueRef(topic, broker, queue_id)] = offset
    return offsets


def parse_offsets(text: str, *, what: str) -> Offsets | int:
    """``earliest`` and ``latest`` as their numbers, or the offsets that a JSON names."""
    stripped = text.strip()
    if stripped.lower() in ("earliest", "latest"):
        return EARLIEST if stripped.lower() == "earliest" else LATEST
    try:
        nested = json.loads(stripped)
    except ValueError:
        raise InvalidArgumentError(f"{what}={text!r} is neither earliest nor latest nor JSON {_FORM}") from None
    return from_nested(nested, what=what)


def brokers_named(text: str) -> set[str]:
    """The brokers that an offsets option names; none if it is not JSON. What is wrong with it shows elsewhere."""
    try:
        return {queue.broker for queue in from_nested(json.loads(text))}
    except (ValueError, InvalidArgumentError):
        return set()


def resolve(
    wanted: Offsets | int,
    extents: Iterable[QueueExtent],
    *,
    otherwise: int,
    what: str,
) -> Offsets:
    """An offset for every queue: the one that is wanted, else ``otherwise``. Real offsets are not clamped here: whether
    they are still held is for the data-loss check."""
    by_queue = {extent.queue: extent for extent in extents}
    if isinstance(wanted, int):
        return {queue: _number(wanted, extent) for queue, extent in by_queue.items()}
    check_known(wanted, by_queue, what=what)
    return {queue: _number(wanted.get(queue, otherwise), extent) for queue, extent in by_queue.items()}


def resolve_time(timestamp_ms: int, extents: Iterable[QueueExtent], offset_by_time: OffsetByTime) -> Offsets:
    """The first offset at or after a time, for every queue, within what is held."""
    return {
        extent.queue: min(max(offset_by_time(extent.queue, timestamp_ms), extent.min_offset), extent.max_offset)
        if extent.min_offset < extent.max_offset
        else extent.max_offset
        for extent in extents
    }


def check_known(wanted: Iterable[QueueRef], known: Iterable[QueueRef], *, what: str) -> None:
    """NotFoundError for the first queue that is not there, and what there is instead."""
    known_queues = set(known)
    for queue in sorted(set(wanted) - known_queues):
        topics = {held.topic for held in known_queues}
        if queue.topic not in topics:
            raise NotFoundError(f"{what} names topic {queue.topic!r}, which is not among those read: {_some(topics)}")
        brokers = {held.broker for held in known_queues if held.topic == queue.topic}
        if queue.broker not in brokers:
            raise NotFoundError(f"{what} names broker {queue.broker!r}; topic {queue.topic!r} is on {_some(brokers)}")
        queues = [str(held.queue_id) for held in sorted(known_queues) if held[:2] == queue[:2]]
        raise NotFoundError(
            f"{what} names queue {queue.queue_id}; topic {queue.topic!r} on {queue.broker!r} has {_some(queues)}"
        )


def _number(offset: int, extent: QueueExtent) -> int:
    if offset == EARLIEST:
        return extent.min_offset
    return extent.max_offset if offset == LATEST else offset


def _items(value: Any, place: str, what: str) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise InvalidArgumentError(f"{what}: {place} holds {value!r} where an object is wanted; the form is {_FORM}")
    return list(value.items())


def _some(names: Iterable[str]) -> str:
    listed = list(names) if isinstance(names, list) else sorted(names)
    return ", ".join(listed[:10]) + (f" and {len(listed) - 10} more" if len(listed) > 10 else "") if listed else "none"
