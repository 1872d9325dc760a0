"""Groups: how far each is behind, who is in it, whether its members agree."""

from __future__ import annotations

from typing import Any, Final

from flaremq.dashboard.data.group_state import QUEUE_LENGTH, GroupState, Place, QueueKey, lag_of
from flaremq.dashboard.data.names import is_system_group
from flaremq.dashboard.data.ring import Ring, series_of
from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.views.listing import Query, Row, chosen, listed
from flaremq.dashboard.views.page import Page, because, page, rounded
from flaremq.dashboard.views.topics import cut_notice
from flaremq.errors import NotFoundError
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.codes import version_text

KINDS: Final = ("push", "pull", "pop", "grpc", "spark", "broadcast", "unknown")
_SPARK_POINTS: Final = 30
_TOPICS_SHOWN: Final = 10
_QUEUES_SHOWN: Final = 1000


def groups_page(state: ClusterState, query: Query, now_ms: int) -> Page:
    kind = chosen(query, "kind", ("", *KINDS), "")
    activity = chosen(query, "state", ("", "online", "offline", "lagging"), "")
    origin = chosen(query, "type", ("user", "system", "all"), "user")
    wanted = [group for group in state.groups.values() if _is_wanted(group, kind, activity, origin)]
    found, shown = listed(
        wanted,
        query,
        sorts={
            "group": lambda group: group.name,
            "lag": lambda group: group.lag,
            "in": lambda group: group.in_per_second,
            "out": lambda group: group.out_per_second,
            "drain": lambda group: group.drain_ms,
            "delay": lambda group: group.delay_ms(now_ms),
            "members": _member_count,
            "dead_letters": lambda group: state.dead_letters_of(group.name),
        },
        default="group",
        row=lambda group: group_row(state, group, now_ms),
        name=lambda group: group.name,
    )
    since = min((group.places_ms for group in shown if group.places_ms), default=state.tables_ms)
    missing = {} if state.progress_ms or "progress" in state.failures else {"lag": because("not_read_yet")}
    return page(state, now_ms, since_ms=since or None, missing=missing) | found


def _is_wanted(group: GroupState, kind: str, activity: str, origin: str) -> bool:
    if origin != "all" and is_system_group(group.name) != (origin == "system"):
        return False
    if kind and group.kind != kind:
        return False
    if activity == "lagging":
        return bool(group.lag)
    return not activity or group.is_online is (activity == "online")


def _member_count(group: GroupState) -> int | None:
    if group.members is not None:
        return len(group.members.connection_set)
    return 0 if group.is_online is False else None


def group_row(state: ClusterState, group: GroupState, now_ms: int) -> Row:
    topics = group.topics
    row: Row = {
        "id": group.name,
        "group": group.name,
        "kind": group.kind,
        "online": group.is_online,
        "members": _member_count(group),
        "topics": topics[:_TOPICS_SHOWN],
        "topics_total": len(topics),
        "lag": group.lag,
        "in_flight": group.in_flight,
        "in_per_second": rounded(group.in_per_second),
        "out_per_second": rounded(group.out_per_second),
        "drain_ms": group.drain_ms,
        "delay_ms": group.delay_ms(now_ms),
        "retries": group.retries,
        "dead_letters": state.dead_letters_of(group.name),
        "enabled": all(config.consume_enable for config in group.configs.values()),
        "age_ms": max(0, now_ms - group.places_ms) if group.places_ms else None,
        "spark": group.rings["lag"].recent(_SPARK_POINTS) if group.rings else [],
    }
    missing = {}
    if group.is_broadcast:
        missing["lag"] = "broadcast"
    elif not group.places_ms:
        failure = state.failures.get("progress")
        missing["lag"] = "not_read_yet" if failure is None else failure.reason
    if group.is_online is None:
        missing["members"] = group.failure or "not_read_yet"
    if missing:
        row["missing"] = missing
    return row


def find_group(state: ClusterState, name: str) -> GroupState:
    group = state.groups.get(name)
    if group is None:
        raise NotFoundError(f"group {name!r} does not exist")
    return group


def group_page(state: ClusterState, name: str, now_ms: int) -> Page:
    group = find_group(state, name)
    queues = queue_rows(state, group, now_ms)
    found = page(state, now_ms, since_ms=group.places_ms or None)
    if len(queues) > _QUEUES_SHOWN:
        found["notices"].append(cut_notice("queues", _QUEUES_SHOWN, len(queues)))
    members = group.members
    return found | {
        "group": group_row(state, group, now_ms),
        "config": _config(next(iter(group.configs.values()), None)),
        "members": member_rows(group),
        "consume_type": None if members is None else members.consume_type,
        "message_model": None if members is None else members.message_model,
        "consume_from": None if members is None else members.consume_from_where,
        "subscriptions": _subscriptions(group),
        "queues": queues[:_QUEUES_SHOWN],
        "topics": [_of_topic(state, topic, places, now_ms) for topic, places in sorted(group.of_topics().items())],
        "history": series_of(group.rings, ("lag", "in", "out")),
        "resettable": not is_system_group(group.name) and not group.is_broadcast,
    }


def _of_topic(state: ClusterState, name: str, places: list[Place], now_ms: int) -> Row:
    """``delay_ms`` of the queue that is furthest behind."""
    topic = state.topics.get(name)
    delays = [delay for place in places if (delay := _delay(place, now_ms)) is not None]
    return {
        "id": name,
        "topic": name,
        "lag": lag_of(places),
        "in_flight": sum(max(0, place.pulled - place.committed) for place in places),
        "delay_ms": max(delays, default=None),
        "in_per_second": None if topic is None else rounded(topic.in_per_second),
    }


def _config(config: SubscriptionGroupConfig | None) -> dict[str, Any] | None:
    if config is None:
        return None
    return {
        "consume_enable": config.consume_enable,
        "consume_from_min": config.consume_from_min_enable,
        "broadcast_enable": config.consume_broadcast_enable,
        "orderly": config.consume_message_orderly,
        "retry_queues": config.retry_queue_nums,
        "retry_max": config.retry_max_times,
        "consume_timeout_minutes": config.consume_timeout_minute,
        "attributes": dict(config.attributes),
    }


def member_rows(group: GroupState) -> list[Row]:
    if group.members is None:
        return []
    return [
        {
            "id": client.client_id,
            "client_id": client.client_id,
            "address": client.client_addr,
            "language": client.language,
            "version": version_text(client.version),
            "queues": None,
        }
        for client in group.members.connection_set
    ]


def _subscriptions(group: GroupState) -> list[Row]:
    if group.members is None:
        return []
    rows = []
    for topic, data in sorted(group.members.subscription_table.items()):
        told = group.subscriptions.get(topic, {})
        rows.append(
            {
                "id": topic,
                "topic": topic,
                "expression": data.sub_string,
                "type": data.expression_type,
                "differs": len(set(told.values())) > 1,
                "by": [{"broker": broker, "expression": expression} for broker, expression in sorted(told.items())],
            }
        )
    return rows


def queue_rows(state: ClusterState, group: GroupState, now_ms: int) -> list[Row]:
    return [_queue(state, key, place, group.queue_lags.get(key), now_ms) for key, place in sorted(group.places.items())]


def _queue(state: ClusterState, key: QueueKey, place: Place, lags: Ring | None, now_ms: int) -> Row:
    topic = state.topics.get(key.topic)
    end = None if topic is None else topic.ends.get((key.broker, key.queue))
    return {
        "id": f"{key.topic}/{key.broker}/{key.queue}",
        "topic": key.topic,
        "broker": key.broker,
        "queue": key.queue,
        "committed": place.committed,
        "in_flight": max(0, place.pulled - place.committed),
        "min_offset": None if end is None else end.low,
        "max_offset": place.high,
        "lag": place.lag,
        "spark": [] if lags is None else lags.recent(QUEUE_LENGTH),
        "consumed_ms": place.consumed_ms or None,
        "delay_ms": _delay(place, now_ms),
        "lost": None if end is None else max(0, end.low - place.committed),
    }


def _delay(place: Place, now_ms: int) -> int | None:
    if place.lag <= 0:
        return 0
    return max(0, now_ms - place.consumed_ms) if place.consumed_ms > 0 else None


def group_queues_page(state: ClusterState, name: str, query: Query, now_ms: int) -> Page:
    group = find_group(state, name)
    found, _ = listed(
        queue_rows(state, group, now_ms),
        query,
        sorts={
            "queue": lambda row: (row["topic"], row["broker"], row["queue"]),
            "lag": lambda row: row["lag"],
            "delay": lambda row: row["delay_ms"],
        },
        default="queue",
        row=lambda row: row,
        name=lambda row: row["id"],
    )
    return page(state, now_ms, since_ms=group.places_ms or None) | found


def group_clients_page(state: ClusterState, name: str, query: Query, now_ms: int) -> Page:
    group = find_group(state, name)
    found, _ = listed(
        member_rows(group),
        query,
        sorts={"client": lambda row: row["client_id"], "address": lambda row: row["address"]},
        default="client",
        row=lambda row: row,
        name=lambda row: row["client_id"],
    )
    return page(state, now_ms, since_ms=group.members_ms or None) | found
