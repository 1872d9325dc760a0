"""The first page: is everything well, and where does it go."""

from __future__ import annotations

import heapq
from typing import Any, Final

from flaremq.dashboard.data.names import is_system_group
from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.views.brokers import broker_row
from flaremq.dashboard.views.clients import client_rows
from flaremq.dashboard.views.notices import notices
from flaremq.dashboard.views.page import Page, because, page, rounded

_TOP: Final = 10
_BROKER_FIELDS: Final = (
    "id", "name", "cluster", "role", "address", "up", "writable", "in_per_second", "out_per_second", "put_p99_ms",
    "disk_used_ratio", "disk_full_hours", "version",
)  # fmt: skip


def overview_page(state: ClusterState, now_ms: int) -> Page:
    found = page(state, now_ms, missing={"out_bytes_per_second": because("not_on_wire")})
    found["notices"] = notices(state, now_ms)
    return found | {
        "totals": _totals(state),
        "brokers": [
            {name: row[name] for name in _BROKER_FIELDS} for row in map(broker_row, list(state.brokers.values()))
        ],
        "top_topics": _top_topics(state),
        "top_groups": _top_groups(state),
        "history": {name: ring.series() for name, ring in state.rings.items()},
    }


def _totals(state: ClusterState) -> dict[str, Any]:
    masters = [broker for broker in state.masters if broker.is_up]
    rates = {name: _sum([broker.rates[name] for broker in masters]) for name in ("in", "out", "in_bytes")}
    latencies = [broker.put_p99_ms for broker in masters if broker.put_p99_ms is not None]
    lags = [group.lag for group in state.groups.values() if group.lag is not None]
    is_read = state.tables_ms > 0
    dead = [topic.messages for topic in state.topics.values() if topic.kind == "dlq"]
    return {
        "in_per_second": rounded(rates["in"]),
        "out_per_second": rounded(rates["out"]),
        "in_bytes_per_second": rounded(rates["in_bytes"]),
        "out_bytes_per_second": None,
        "put_p99_ms": max(latencies) if latencies else None,
        "lag": sum(lags) if state.progress_ms else None,
        "lag_known_groups": len(lags),
        "messages_in_today": _today(masters, "Put"),
        "messages_out_today": _today(masters, "Get"),
        "topics": sum(topic.kind == "user" for topic in state.topics.values()) if is_read else None,
        "groups": sum(not is_system_group(name) for name in state.groups) if is_read else None,
        "clients": len({row["client_id"] for row in client_rows(state)}) if _has_members(state) else None,
        "dead_letters": None if None in dead or not is_read else sum(count for count in dead if count is not None),
    }


def _has_members(state: ClusterState) -> bool:
    return state.tables_ms > 0 and all(group.is_online is not None for group in state.groups.values())


def _today(masters: list[Any], what: str) -> int | None:
    counts = []
    for broker in masters:
        now, morning = broker.whole(f"msg{what}TotalTodayNow"), broker.whole(f"msg{what}TotalTodayMorning")
        if now is not None and morning is not None:
            counts.append(now - morning)
    return sum(counts) if counts else None


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _top_topics(state: ClusterState) -> list[dict[str, Any]]:
    moving = [topic for topic in state.topics.values() if topic.kind == "user"]
    top = heapq.nlargest(_TOP, moving, key=lambda topic: (topic.in_per_second or 0.0, topic.messages or 0))
    return [
        {
            "id": topic.name,
            "topic": topic.name,
            "in_per_second": rounded(topic.in_per_second),
            "messages": topic.messages,
        }
        for topic in top
    ]


def _top_groups(state: ClusterState) -> list[dict[str, Any]]:
    known = [group for group in state.groups.values() if not is_system_group(group.name)]
    top = heapq.nlargest(_TOP, known, key=lambda group: (group.lag or 0, group.out_per_second or 0.0))
    return [
        {
            "id": group.name,
            "group": group.name,
            "kind": group.kind,
            "lag": group.lag,
            "in_per_second": rounded(group.in_per_second),
            "out_per_second": rounded(group.out_per_second),
            "drain_ms": group.drain_ms,
            "online": group.is_online,
        }
        for group in top
    ]
