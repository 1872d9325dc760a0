"""Notices: what an operator should look at, worst first."""

from __future__ import annotations

from typing import Any, Final

from flaremq.dashboard.data.group_state import GROWING_MINUTES
from flaremq.dashboard.data.names import is_system_group
from flaremq.dashboard.data.reasons import DENIED, NOT_READ_YET
from flaremq.dashboard.data.state import ClusterState

_LEVELS: Final = {"critical": 0, "warning": 1, "note": 2}
_DISK_WARNING: Final = 0.75
_DISK_CRITICAL: Final = 0.90
_HOURS_WARNING: Final = 24.0
_SAMPLING_SLOW_MS: Final = 15_000
_SILENT_MS: Final = 75_000  # two heartbeats and a half; brokers forget a client after 120 s
_SHOWN_MAX: Final = 50

Notice = dict[str, Any]


def notices(state: ClusterState, now_ms: int) -> list[Notice]:
    found = [*_of_cluster(state, now_ms), *_of_brokers(state), *_of_groups(state), *_of_producers(state, now_ms)]
    found.sort(key=lambda notice: (_LEVELS[notice["level"]], notice["code"], notice["id"]))
    return found[:_SHOWN_MAX]


def _notice(level: str, code: str, key: str, link: list[str] | None, /, **args: Any) -> Notice:
    return {"id": f"{code} {key}", "level": level, "code": code, "args": args, "link": link}


def _of_cluster(state: ClusterState, now_ms: int) -> list[Notice]:
    found = []
    failure = state.failures.get("brokers")
    if failure is not None and failure.reason != DENIED:  # who refuses does answer
        found.append(_notice("critical", "name_server_unreachable", "", None, detail=failure.detail))
    denied = sorted({failure.detail for failure in state.failures.values() if failure.reason == DENIED})
    if denied:
        found.append(_notice("warning", "access_denied", "", None, detail=denied[0]))
    if state.as_of_ms and now_ms - state.as_of_ms > _SAMPLING_SLOW_MS:
        found.append(_notice("warning", "sampling_slow", "", None, age_ms=now_ms - state.as_of_ms))
    return found


def _of_brokers(state: ClusterState) -> list[Notice]:
    found = []
    for broker in state.brokers.values():
        name, link = broker.name, ["brokers", broker.name]
        if not broker.is_up:
            if broker.reason not in (DENIED, NOT_READ_YET):
                found.append(
                    _notice("critical", "broker_down", broker.address, link, broker=f"{name} {broker.address}")
                )
            continue
        if broker.is_master and broker.is_writable is False:
            found.append(_notice("critical", "broker_not_writable", broker.address, link, broker=name))
        ratio, hours = broker.disk_used_ratio, broker.disk_full_hours
        if ratio is not None and ratio > _DISK_WARNING:
            level = "critical" if ratio > _DISK_CRITICAL else "warning"
            found.append(_notice(level, "disk_filling", broker.address, link, broker=name, ratio=round(ratio, 4)))
        elif hours is not None and hours < _HOURS_WARNING:
            found.append(_notice("warning", "disk_full_soon", broker.address, link, broker=name, hours=round(hours, 1)))
        damaged = broker.whole("damagedLogRanges")
        if damaged:
            size = broker.whole("damagedLogBytes")
            found.append(
                _notice("critical", "damaged_log", broker.address, ["store"], broker=name, ranges=damaged, bytes=size)
            )
    return found


def _of_groups(state: ClusterState) -> list[Notice]:
    found = []
    for group in state.groups.values():
        if is_system_group(group.name):
            continue
        link, lag = ["groups", group.name], group.lag
        if lag and group.growing_minutes >= GROWING_MINUTES:
            topic = max(group.of_topics().items(), key=lambda item: sum(place.lag for place in item[1]))[0]
            found.append(
                _notice(
                    "warning", "lag_growing", group.name, link, group=group.name, topic=topic, lag=lag,
                    minutes=group.growing_minutes,
                )
            )  # fmt: skip
        elif lag and group.is_online is False and not group.moved_alone_ms:
            found.append(_notice("warning", "no_member", group.name, link, group=group.name, lag=lag))
        dead = state.dead_letters_of(group.name)
        if dead:
            found.append(_notice("note", "dead_letters", group.name, ["dlq", group.name], group=group.name, count=dead))
        for topic, told in group.subscriptions.items():
            if len(set(told.values())) > 1:
                found.append(
                    _notice(
                        "warning", "subscriptions_differ", f"{group.name} {topic}", link, group=group.name, topic=topic
                    )
                )
    return found


def _of_producers(state: ClusterState, now_ms: int) -> list[Notice]:
    """Consumers tell no heartbeat that could be asked for."""
    found = []
    for group, clients in (state.producers or {}).items():
        for client in clients.values():
            silent_ms = now_ms - client.last_update_timestamp
            if client.last_update_timestamp > 0 and silent_ms > _SILENT_MS:
                args = {"group": group, "client": client.client_id, "seconds": silent_ms // 1000}
                found.append(_notice("note", "silent_member", f"{group} {client.client_id}", ["clients"], **args))
    return found
