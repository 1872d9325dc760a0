"""Topics: what they hold, how fast they grow, who reads them."""

from __future__ import annotations

from typing import Final

from flaremq.dashboard.data.group_state import lag_of
from flaremq.dashboard.data.names import TOPIC_KINDS, perm_text
from flaremq.dashboard.data.ring import series_of
from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.data.topic_state import TopicState
from flaremq.dashboard.views.listing import Query, Row, SortKey, chosen, listed
from flaremq.dashboard.views.page import Missing, Page, because, page, rounded
from flaremq.errors import NotFoundError

_SPARK_POINTS: Final = 30
_QUEUES_SHOWN: Final = 500
_NEVER_TOLD: Final[Missing] = {"bytes": because("not_on_wire"), "oldest_ms": because("not_on_wire")}


def topics_page(state: ClusterState, query: Query, now_ms: int) -> tuple[Page, list[TopicState]]:
    """The list, and the topics that are on this page of it."""
    kind = chosen(query, "type", (*TOPIC_KINDS, "all"), "user")
    message_type = query.get("message_type", "")
    counts = dict.fromkeys(TOPIC_KINDS, 0)
    wanted = []
    for topic in state.topics.values():
        counts[topic.kind] += 1
        if kind in ("all", topic.kind) and message_type in ("", topic.message_type or "NORMAL"):
            wanted.append(topic)
    found, shown = listed(
        wanted,
        query,
        sorts=_sorts(state),
        default="topic",
        row=lambda topic: topic_row(state, topic, now_ms),
        name=lambda topic: topic.name,
    )
    since = min((topic.ends_ms for topic in shown if topic.ends_ms), default=state.tables_ms)
    missing = dict(_NEVER_TOLD)
    if not state.progress_ms and "progress" not in state.failures:
        missing["lag"] = because("not_read_yet")
    return page(state, now_ms, since_ms=since or None, missing=missing) | found | {"kinds": counts, "type": kind}, shown


def _sorts(state: ClusterState) -> dict[str, SortKey[TopicState]]:
    return {
        "topic": lambda topic: topic.name,
        "in": lambda topic: topic.in_per_second,
        "out": lambda topic: out_per_second(state, topic),
        "messages": lambda topic: topic.messages,
        "lag": lambda topic: lag_of_topic(state, topic),
        "newest": lambda topic: topic.newest_ms,
        "groups": lambda topic: len(groups_of(state, topic)),
    }


def groups_of(state: ClusterState, topic: TopicState) -> dict[str, int]:
    """The groups that read a topic, and how far each is behind; broadcasting ones keep that to themselves."""
    return state.groups_of_topic.get(topic.name, {})


def lag_of_topic(state: ClusterState, topic: TopicState) -> int | None:
    """Of all groups together."""
    return sum(groups_of(state, topic).values()) if state.progress_ms else None


def out_per_second(state: ClusterState, topic: TopicState) -> float | None:
    """What its groups consume, as far as they report it: groups of one topic count, the others by their share of it."""
    rates = []
    for name in groups_of(state, topic):
        group = state.groups.get(name)
        if group is not None and group.topics == [topic.name] and group.out_per_second is not None:
            rates.append(group.out_per_second)
    return sum(rates) if rates else None


def topic_row(state: ClusterState, topic: TopicState, now_ms: int) -> Row:
    config = topic.config
    groups = groups_of(state, topic)
    row: Row = {
        "id": topic.name,
        "topic": topic.name,
        "kind": topic.kind,
        "message_type": topic.message_type,
        "read_queues": topic.read_queues,
        "write_queues": topic.write_queues,
        "perm": None if config is None else config.perm,
        "perm_text": None if config is None else perm_text(config.perm),
        "order": config is not None and config.order,
        "brokers": sorted(topic.configs),
        "in_per_second": rounded(topic.in_per_second),
        "out_per_second": rounded(out_per_second(state, topic)),
        "messages": topic.messages,
        "bytes": None,
        "oldest_ms": None,
        "newest_ms": topic.newest_ms,
        "groups": len(groups) if state.progress_ms else None,
        "lagging": sum(lag > 0 for lag in groups.values()) if state.progress_ms else None,
        "lag": sum(groups.values()) if state.progress_ms else None,
        "age_ms": max(0, now_ms - topic.ends_ms) if topic.ends_ms else None,
        "spark": topic.rings["in"].recent(_SPARK_POINTS) if topic.rings else [],
    }
    if not topic.is_known:
        row["missing"] = dict.fromkeys(("messages", "in_per_second", "newest_ms"), topic.failure or "not_read_yet")
    return row


def find_topic(state: ClusterState, name: str) -> TopicState:
    topic = state.topics.get(name)
    if topic is None:
        raise NotFoundError(f"topic {name!r} does not exist")
    return topic


def topic_page(state: ClusterState, name: str, now_ms: int) -> Page:
    topic = find_topic(state, name)
    queues = queue_rows(topic)
    found = page(state, now_ms, since_ms=topic.ends_ms or None, missing=dict(_NEVER_TOLD))
    if len(queues) > _QUEUES_SHOWN:
        found["notices"].append(cut_notice("queues", _QUEUES_SHOWN, len(queues)))
    return found | {
        "topic": topic_row(state, topic, now_ms),
        "configs": [
            {
                "id": broker,
                "broker": broker,
                "read_queues": config.read_queue_nums,
                "write_queues": config.write_queue_nums,
                "perm": config.perm,
                "perm_text": perm_text(config.perm),
                "order": config.order,
                "filter_type": config.topic_filter_type,
                "attributes": dict(config.attributes),
            }
            for broker, config in sorted(topic.configs.items())
        ],
        "queues": queues[:_QUEUES_SHOWN],
        "groups": group_rows(state, topic, now_ms),
        "history": series_of(topic.rings, ("in", "lag")),
    }


def cut_notice(what: str, shown: int, total: int) -> Row:
    args = {"what": what, "shown": shown, "total": total}
    return {"id": f"cut {what}", "level": "note", "code": "lists_cut", "args": args, "link": None}


def queue_rows(topic: TopicState) -> list[Row]:
    return [
        {
            "id": f"{broker}/{queue}",
            "broker": broker,
            "queue": queue,
            "min_offset": end.low,
            "max_offset": end.high,
            "messages": max(0, end.high - end.low),
            "in_per_second": None,
            "oldest_ms": None,
            "newest_ms": end.newest_ms or None,
        }
        for (broker, queue), end in sorted(topic.ends.items())
    ]


def queues_page(state: ClusterState, name: str, query: Query, now_ms: int) -> Page:
    """The queues of a topic as a list of its own."""
    topic = find_topic(state, name)
    found, _ = listed(
        queue_rows(topic),
        query,
        sorts={
            "queue": lambda row: (row["broker"], row["queue"]),
            "messages": lambda row: row["messages"],
            "newest": lambda row: row["newest_ms"],
        },
        default="queue",
        row=lambda row: row,
        name=lambda row: row["id"],
    )
    return page(state, now_ms, since_ms=topic.ends_ms or None, missing=dict(_NEVER_TOLD)) | found


def group_rows(state: ClusterState, topic: TopicState, now_ms: int) -> list[Row]:
    """The groups that read a topic, and how far each is in it."""
    rows = []
    for name in groups_of(state, topic):
        group = state.groups.get(name)
        if group is None:
            continue
        places = [place for key, place in group.places.items() if key.topic == topic.name]
        is_alone = group.topics == [topic.name]
        rows.append(
            {
                "id": name,
                "group": name,
                "kind": group.kind,
                "online": group.is_online,
                "lag": None if group.is_broadcast else lag_of(places),
                "in_flight": sum(max(0, place.pulled - place.committed) for place in places),
                "out_per_second": rounded(group.out_per_second) if is_alone else None,
                "drain_ms": group.drain_ms if is_alone else None,
                "newest_consumed_ms": max((place.consumed_ms for place in places), default=0) or None,
            }
        )
    return rows


def topic_groups_page(state: ClusterState, name: str, query: Query, now_ms: int) -> Page:
    topic = find_topic(state, name)
    found, _ = listed(
        group_rows(state, topic, now_ms),
        query,
        sorts={"group": lambda row: row["group"], "lag": lambda row: row["lag"]},
        default="group",
        row=lambda row: row,
        name=lambda row: row["group"],
    )
    return page(state, now_ms, since_ms=state.progress_ms or None) | found
