"""Which page shows what: the table of pages, and the lists below them.

A live page is made of what the sampler knows and may be made again for a stream, for all who watch it alike; the others
ask the cluster when they are opened, as whoever opened them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from flaremq.dashboard.app.context import Context
from flaremq.dashboard.data.reader import ClusterReader
from flaremq.dashboard.questions import (
    access,
    archives,
    dead_letters,
    finding,
    message,
    messages,
    running,
    trace,
    waiting,
)
from flaremq.dashboard.views import brokers, clients, groups, overview, spark, store, topics
from flaremq.dashboard.views.listing import Query
from flaremq.dashboard.views.page import Page

_CHANGING: Final = 1.0
_SLOW: Final = 5.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What a page is to be about."""

    context: Context
    reader: ClusterReader
    name: str
    query: Query

    @property
    def now_ms(self) -> int:
        return self.context.clock.now_ms()


View = Callable[[Wish], Awaitable[Page]]


@dataclass(frozen=True, slots=True)
class PageKind:
    """``seconds`` between two looks of a stream; None: not live. ``is_asking``: brokers are asked when it is opened."""

    template: str
    view: View
    seconds: float | None = None
    is_asking: bool = False


async def _overview(wish: Wish) -> Page:
    return overview.overview_page(wish.context.state, wish.now_ms)


async def _brokers(wish: Wish) -> Page:
    return brokers.brokers_page(wish.context.state, wish.query, wish.now_ms)


async def _broker(wish: Wish) -> Page:
    return brokers.broker_page(wish.context.state, wish.name, wish.query, wish.now_ms)


async def _options(wish: Wish) -> Page:
    return brokers.options_page(wish.context.state, wish.name, wish.query, wish.now_ms)


async def _topics(wish: Wish) -> Page:
    page, shown = topics.topics_page(wish.context.state, wish.query, wish.now_ms)
    wish.context.sampler.slices.want_topics(shown[:100])
    return page


async def _topic(wish: Wish) -> Page:
    await _fresh_topic(wish)
    return topics.topic_page(wish.context.state, wish.name, wish.now_ms)


async def _fresh_topic(wish: Wish) -> None:
    """Somebody looks at it: read it now if it was not yet, and soon again."""
    if wish.name not in wish.context.state.topics:
        await wish.context.sampler.look_at_lists()
    topic = topics.find_topic(wish.context.state, wish.name)
    slices = wish.context.sampler.slices
    slices.want_topics([topic])
    if not topic.is_known:
        await slices.read_topic(topic)


async def _topic_queues(wish: Wish) -> Page:
    await _fresh_topic(wish)
    return topics.queues_page(wish.context.state, wish.name, wish.query, wish.now_ms)


async def _topic_groups(wish: Wish) -> Page:
    return topics.topic_groups_page(wish.context.state, wish.name, wish.query, wish.now_ms)


async def _groups(wish: Wish) -> Page:
    return groups.groups_page(wish.context.state, wish.query, wish.now_ms)


async def _group(wish: Wish) -> Page:
    if wish.name not in wish.context.state.groups:
        await wish.context.sampler.look_at_lists()
    group = groups.find_group(wish.context.state, wish.name)
    slices = wish.context.sampler.slices
    slices.want_topics(
        topic for name in group.topics[:20] if (topic := wish.context.state.topics.get(name)) is not None
    )
    if group.is_online is None:
        await slices.read_group(group)
    return groups.group_page(wish.context.state, wish.name, wish.now_ms)


async def _group_queues(wish: Wish) -> Page:
    return groups.group_queues_page(wish.context.state, wish.name, wish.query, wish.now_ms)


async def _group_clients(wish: Wish) -> Page:
    return groups.group_clients_page(wish.context.state, wish.name, wish.query, wish.now_ms)


async def _clients(wish: Wish) -> Page:
    return clients.clients_page(wish.context.state, wish.query, wish.now_ms)


async def _client(wish: Wish) -> Page:
    return await running.client_page(wish.context.state, wish.reader, wish.name, wish.query, wish.now_ms)


async def _running(wish: Wish) -> Page:
    asked = {**wish.query, "running": "1"}
    return await running.client_page(wish.context.state, wish.reader, wish.name, asked, wish.now_ms)


async def _messages(wish: Wish) -> Page:
    return await messages.messages_page(wish.context.state, wish.reader, wish.query, wish.now_ms)


async def _message(wish: Wish) -> Page:
    return await message.message_page(wish.context.state, wish.reader, wish.name, wish.query, wish.now_ms)


async def _track(wish: Wish) -> Page:
    return await message.track_page(wish.context.state, wish.reader, wish.name, wish.query, wish.now_ms)


async def _message_trace(wish: Wish) -> Page:
    asked = {**wish.query, "id": wish.name}
    return await trace.trace_page(wish.context.state, wish.reader, asked, wish.now_ms)


async def _trace(wish: Wish) -> Page:
    return await trace.trace_page(wish.context.state, wish.reader, wish.query, wish.now_ms)


async def _dlq(wish: Wish) -> Page:
    page, shown = dead_letters.dlq_page(wish.context.state, wish.query, wish.now_ms)
    wish.context.sampler.slices.want_topics(shown)
    return page


async def _dlq_group(wish: Wish) -> Page:
    return await dead_letters.dlq_group_page(wish.context.state, wish.reader, wish.name, wish.query, wish.now_ms)


async def _waiting(wish: Wish) -> Page:
    return await waiting.waiting_page(wish.context.state, wish.reader, wish.now_ms)


async def _store(wish: Wish) -> Page:
    return store.store_page(wish.context.state, wish.now_ms)


async def _spark(wish: Wish) -> Page:
    found = await archives.archive_rows(wish.context.options.archives) if wish.context.options.archives else None
    state, tables = wish.context.state, wish.context.tables
    rows = await tables.rows(state) if tables.names else None
    wish.context.sampler.slices.want_topics(tables.topics(state))
    return spark.spark_page(state, wish.now_ms, found, rows)


async def _access(wish: Wish) -> Page:
    return await access.access_page(wish.context.state, wish.reader, wish.now_ms)


async def _search(wish: Wish) -> Page:
    return await finding.search_page(wish.context.state, wish.reader, wish.query, wish.now_ms)


PAGES: Final[Mapping[str, PageKind]] = {
    "overview": PageKind("overview.html", _overview, _CHANGING),
    "brokers": PageKind("brokers.html", _brokers, _CHANGING),
    "broker": PageKind("broker.html", _broker, _CHANGING),
    "topics": PageKind("topics.html", _topics, _CHANGING),
    "topic": PageKind("topic.html", _topic, _CHANGING),
    "groups": PageKind("groups.html", _groups, _CHANGING),
    "group": PageKind("group.html", _group, _CHANGING),
    "clients": PageKind("clients.html", _clients, _SLOW),
    "client": PageKind("client.html", _client, is_asking=True),
    "messages": PageKind("messages.html", _messages, is_asking=True),
    "message": PageKind("message.html", _message, is_asking=True),
    "trace": PageKind("trace.html", _trace, is_asking=True),
    "dlq": PageKind("dlq.html", _dlq, _SLOW),
    "dlq_group": PageKind("dlq_group.html", _dlq_group, is_asking=True),
    "waiting": PageKind("waiting.html", _waiting, 2.0, is_asking=True),
    "store": PageKind("store.html", _store, _CHANGING),
    "spark": PageKind("spark.html", _spark, _SLOW),
    "access": PageKind("access.html", _access, is_asking=True),
    "search": PageKind("search.html", _search, is_asking=True),
}

# Parts of a page as lists of their own: below the address of the page in the API.
PARTS: Final[Mapping[str, Mapping[str, View]]] = {
    "broker": {"options": _options},
    "topic": {"queues": _topic_queues, "groups": _topic_groups},
    "group": {"queues": _group_queues, "clients": _group_clients},
    "client": {"running": _running},
    "message": {"trace": _message_trace, "track": _track},
}
