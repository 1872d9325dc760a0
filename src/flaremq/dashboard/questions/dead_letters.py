"""Dead letters: messages that a group failed to consume, as often as it tries."""

from __future__ import annotations

from typing import Any

from flaremq.client.admin.dead_letters import origin_id, origin_topic
from flaremq.client.consumer.received import ReceivedMessage
from flaremq.dashboard.data.names import PERM_READ, group_of_dlq
from flaremq.dashboard.data.reader import ClusterReader
from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.data.topic_state import TopicState
from flaremq.dashboard.questions.messages import messages_page
from flaremq.dashboard.views.listing import Query, Row, listed
from flaremq.dashboard.views.page import Page, because, page, rounded
from flaremq.errors import NotFoundError
from flaremq.message.topics import dlq_topic


def dlq_page(state: ClusterState, query: Query, now_ms: int) -> tuple[Page, list[TopicState]]:
    """The groups that have dead letters, and the topics these are in."""
    wanted = [topic for topic in state.topics.values() if topic.kind == "dlq"]
    found, shown = listed(
        wanted,
        query,
        sorts={
            "group": lambda topic: group_of_dlq(topic.name),
            "count": lambda topic: topic.messages,
            "newest": lambda topic: topic.newest_ms,
        },
        default="-count",
        row=_row,
        name=lambda topic: group_of_dlq(topic.name),
    )
    since = min((topic.ends_ms for topic in shown if topic.ends_ms), default=state.tables_ms)
    return page(state, now_ms, since_ms=since or None, missing={"oldest_ms": because("not_on_wire")}) | found, shown


def _row(topic: TopicState) -> Row:
    group = group_of_dlq(topic.name)
    row: Row = {
        "id": group,
        "group": group,
        "topic": topic.name,
        "count": topic.messages,
        "newest_ms": topic.newest_ms,
        "oldest_ms": None,
        "in_per_second": rounded(topic.in_per_second),
        "readable": is_readable(topic),
    }
    if not topic.is_known:
        row["missing"] = {"count": topic.failure or "not_read_yet"}
    return row


def is_readable(topic: TopicState) -> bool:
    """Older brokers make the topic for writing alone."""
    return all(config.perm & PERM_READ for config in topic.configs.values())


async def dlq_group_page(state: ClusterState, reader: ClusterReader, group: str, query: Query, now_ms: int) -> Page:
    topic = state.topics.get(dlq_topic(group))
    empty = page(state, now_ms) | {"group": group, "topic": dlq_topic(group), "count": 0, "readable": True}
    nothing: dict[str, Any] = {
        "items": [],
        "next": None,
        "scanned": 0,
        "complete": True,
        "stopped_by": None,
        "reached": [],
    }
    if topic is None:
        if group not in state.groups:
            raise NotFoundError(f"group {group!r} does not exist")
        return empty | nothing
    empty |= {"count": topic.messages, "readable": is_readable(topic)}
    if not is_readable(topic):
        empty["missing"]["items"] = because("denied", "the topic's permission does not allow reading")
        return empty | nothing
    found = await messages_page(state, reader, {**query, "topic": topic.name}, now_ms, row=with_origin)
    return empty | {key: found[key] for key in (*nothing, "queues", "limit", "took_ms")}


def with_origin(row: Row, message: ReceivedMessage) -> Row:
    """Where a dead letter came from."""
    return row | {
        "origin_topic": origin_topic(message),
        "origin_id": origin_id(message),
        "attempts": message.reconsume_times,
        "died_ms": message.store_timestamp,
    }
