"""Search: one box for topics, groups, message ids and keys."""

from __future__ import annotations

import re
from typing import Final

from flaremq.client.consumer.received import ReceivedMessage
from flaremq.dashboard.data.reader import ClusterReader
from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.questions.lookup import find_message
from flaremq.dashboard.views.listing import Query
from flaremq.dashboard.views.messages import unique_rows
from flaremq.dashboard.views.page import Page, page
from flaremq.errors import FlareMQError, InvalidArgumentError, NotFoundError

_NAMES_SHOWN: Final = 50
_TOPICS_ASKED: Final = 40
_QUERY_MAX: Final = 255
_ID: Final = re.compile(r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{40}|[0-9A-Fa-f]{56}")


async def search_page(state: ClusterState, reader: ClusterReader, query: Query, now_ms: int) -> Page:
    wanted = query.get("q", "").strip()
    if len(wanted) > _QUERY_MAX:
        raise InvalidArgumentError(f"a search has at most {_QUERY_MAX} characters")
    needle = wanted.casefold()
    topics = sorted(name for name in state.topics if needle and needle in name.casefold())
    groups = sorted(name for name in state.groups if needle and needle in name.casefold())
    messages, asked, is_complete = await _messages(state, reader, wanted, query.get("topic", ""))
    return page(state, now_ms) | {
        "q": wanted,
        "topics": topics[:_NAMES_SHOWN],
        "groups": groups[:_NAMES_SHOWN],
        "messages": unique_rows(messages),
        "scanned_topics": asked,
        "complete": is_complete and len(topics) <= _NAMES_SHOWN and len(groups) <= _NAMES_SHOWN,
    }


async def _messages(
    state: ClusterState, reader: ClusterReader, wanted: str, topic: str
) -> tuple[list[ReceivedMessage], int, bool]:
    """By id if it looks like one: the place it names, or the unique key in the topics that moved last. By key only in a
    topic that was named: every topic would be a question of its own."""
    if not wanted:
        return [], 0, True
    if topic:
        found = await reader.query_by_key(topic, wanted, max_count=32)
        return found or await _by_id(state, reader, topic, wanted), 1, True
    if not _ID.fullmatch(wanted):
        return [], 0, True
    found = await _by_id(state, reader, "", wanted)
    if found:
        return found, 0, True
    candidates = [known for known in state.topics.values() if known.kind != "system"]
    candidates.sort(key=lambda known: -(known.newest_ms or 0))
    for number, known in enumerate(candidates[:_TOPICS_ASKED], 1):
        found = await _by_id(state, reader, known.name, wanted)
        if found:
            return found, number, True
    return [], min(len(candidates), _TOPICS_ASKED), len(candidates) <= _TOPICS_ASKED


async def _by_id(state: ClusterState, reader: ClusterReader, topic: str, wanted: str) -> list[ReceivedMessage]:
    try:
        return [await find_message(state, reader, topic, wanted)]
    except (NotFoundError, InvalidArgumentError):
        return []
    except FlareMQError:
        return []
