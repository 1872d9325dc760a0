"""Messages of a topic: the newest, from a time or an offset, by key or id, with a tag, a text, a property."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from flaremq.client.consumer.received import ReceivedMessage
from flaremq.dashboard.data.reader import ClusterReader
from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.questions.lookup import find_message
from flaremq.dashboard.questions.scan import Filter, Walk, Walker, read_cursor
from flaremq.dashboard.views.listing import Query, whole
from flaremq.dashboard.views.messages import unique_rows
from flaremq.dashboard.views.page import Page, page
from flaremq.errors import CorruptionError, InvalidArgumentError, NotFoundError
from flaremq.protocol.bodies.queue import MessageQueue

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 200
_TOPICS_OFFERED: Final = 200
_INFLATED_MAX: Final = 4 << 20
_TEXT_MAX: Final = 1_000
Bounds = dict[MessageQueue, tuple[int, int]]
RowOf = Callable[[dict[str, Any], ReceivedMessage], dict[str, Any]]


async def messages_page(
    state: ClusterState, reader: ClusterReader, query: Query, now_ms: int, *, row: RowOf = lambda row, message: row
) -> Page:
    """``row`` adds to what is shown of a message."""
    topic, loop = query.get("topic", ""), asyncio.get_running_loop()
    found = page(state, now_ms) | {
        "topic": topic or None,
        "topics": sorted(name for name, known in state.topics.items() if known.kind == "user")[:_TOPICS_OFFERED],
        "queues": [],
        "limit": whole(query, "limit", LIMIT_DEFAULT, low=1, high=LIMIT_MAX),
    }
    if not topic:
        return found | _result(Walk(), 0, row)
    began = loop.time()
    start = query.get("from") or "newest"
    kind, _, value = start.partition(":")
    if kind in ("key", "id"):
        walk = await _looked_up(state, reader, topic, kind, value, found["limit"])
    else:
        bounds = await queue_bounds(reader, topic, query)
        found["queues"] = [
            {
                "id": f"{queue.broker_name}/{queue.queue_id}",
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "min_offset": low,
                "max_offset": high,
            }
            for queue, (low, high) in bounds.items()
        ]
        walk = await _walked(reader, bounds, kind, value, query, found["limit"])
    return found | _result(walk, round((loop.time() - began) * 1000), row)


def _result(walk: Walk, took_ms: int, row: RowOf) -> dict[str, Any]:
    return {
        "items": [row(made, one) for made, one in zip(unique_rows(walk.messages), walk.messages, strict=True)],
        "total": None,
        "next": walk.cursor,
        "scanned": walk.scanned,
        "scanned_bytes": walk.scanned_bytes,
        "complete": walk.is_complete,
        "stopped_by": walk.stopped_by,
        "reached": walk.reached,
        "took_ms": took_ms,
    }


async def _looked_up(state: ClusterState, reader: ClusterReader, topic: str, kind: str, value: str, limit: int) -> Walk:
    """By the index; nothing is walked."""
    if not value:
        raise InvalidArgumentError(f"from={kind}: needs a value, as in from={kind}:o-1")
    if kind == "key":
        return Walk(messages=(await reader.query_by_key(topic, value, max_count=limit))[::-1])
    try:
        return Walk(messages=[await find_message(state, reader, topic, value)])
    except NotFoundError:
        return Walk()


async def _walked(reader: ClusterReader, bounds: Bounds, kind: str, value: str, query: Query, limit: int) -> Walk:
    step = -1 if kind == "newest" else 1
    if query.get("cursor"):
        places = read_cursor(query["cursor"], bounds)
        for queue, (low, high) in bounds.items():
            at = places.get(queue)
            if at is None:
                bounds[queue] = (high, high)
            else:
                bounds[queue] = (low, min(at, high)) if step < 0 else (max(low, at), high)
    elif kind == "time":
        moment = whole({"from": value}, "from", 0)
        offsets = await asyncio.gather(*(reader.offset_by_time(queue, moment) for queue in bounds))
        for queue, offset in zip(list(bounds), offsets, strict=True):
            bounds[queue] = (max(bounds[queue][0], offset), bounds[queue][1])
    elif kind == "offset":
        offset = whole({"from": value}, "from", 0)
        for queue, (low, high) in bounds.items():
            bounds[queue] = (min(max(low, offset), high), high)
    elif kind not in ("newest", "earliest"):
        raise InvalidArgumentError(f"from is newest, earliest, time:MS, offset:N, key:K or id:ID, not {kind[:40]!r}")
    tags = query.get("tag", "")
    walker = Walker(reader, bounds, step=step, limit=limit, matches=_filter(query), tags=tags)
    return await walker.run()


def _filter(query: Query) -> Filter | None:
    """What the broker cannot tell apart."""
    text, named, tag = query.get("contains", ""), query.get("property", ""), query.get("tag", "")
    if max(len(text), len(named), len(tag)) > _TEXT_MAX:
        raise InvalidArgumentError(f"a filter has at most {_TEXT_MAX} characters")
    if not (text or named):
        return None
    needle = text.encode()
    name, _, value = named.partition(":")

    def matches(message: ReceivedMessage) -> bool:
        if named and message.properties.get(name) != value:
            return False
        if not needle:
            return True
        try:
            return needle in message.read_body(inflated_size_max=_INFLATED_MAX)
        except CorruptionError:
            return False

    return matches


async def queue_bounds(reader: ClusterReader, topic: str, query: Query) -> Bounds:
    """Both ends of the queues that the query is about."""
    broker, number = query.get("broker", ""), query.get("queue", "")
    wanted = whole(query, "queue", 0) if number else None
    table = await reader.topic_status(topic)
    bounds = {
        queue: (max(end.min_offset, 0), max(end.max_offset, end.min_offset, 0))
        for queue, end in table.items()
        if broker in ("", queue.broker_name) and wanted in (None, queue.queue_id)
    }
    if not bounds and (broker or number):
        raise NotFoundError(f"topic {topic!r} has no such queue")
    return dict(sorted(bounds.items()))
