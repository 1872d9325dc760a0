"""Clients: who is connected, as consumer or producer."""

from __future__ import annotations

from typing import Any

from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.views.listing import Query, Row, chosen, listed
from flaremq.dashboard.views.page import Page, because, page
from flaremq.errors import NotFoundError
from flaremq.protocol.codes import version_text


def clients_page(state: ClusterState, query: Query, now_ms: int) -> Page:
    kind = chosen(query, "kind", ("", "consumer", "producer"), "")
    group = query.get("group", "")
    rows = [row for row in client_rows(state) if kind in ("", row["kind"]) and group in ("", row["group"])]
    found, _ = listed(
        rows,
        query,
        sorts={
            "client": lambda row: row["client_id"],
            "group": lambda row: row["group"],
            "address": lambda row: row["address"],
            "language": lambda row: row["language"],
        },
        default="client",
        row=lambda row: row,
        name=lambda row: f"{row['client_id']} {row['group']} {row['address']}",
    )
    missing = {"tls": because("not_on_wire"), "queues": because("not_on_wire")}
    if state.producers is None:
        missing["producers"] = because(state.producers_failure)
    since = min((known.members_ms for known in state.groups.values() if known.members_ms), default=0)
    return page(state, now_ms, since_ms=since or None, missing=missing) | found


def client_rows(state: ClusterState) -> list[Row]:
    """Everybody in every role."""
    rows: list[Row] = []
    for group in state.groups.values():
        if group.members is None:
            continue
        topics = sorted(group.members.subscription_table)
        for client in group.members.connection_set:
            rows.append(
                _row("consumer", group.name, client.client_id, client.client_addr, client.language, client.version)
            )
            rows[-1]["topics"] = topics
    for name, clients in (state.producers or {}).items():
        for one in clients.values():
            row = _row("producer", name, one.client_id, one.remote_ip, one.language, one.version)
            row["last_heartbeat_ms"] = one.last_update_timestamp or None
            rows.append(row)
    return rows


def _row(kind: str, group: str, client_id: str, address: str, language: str, version: int) -> dict[str, Any]:
    return {
        "id": f"{kind}/{group}/{client_id}",
        "client_id": client_id,
        "kind": kind,
        "group": group,
        "address": address,
        "language": language,
        "version": version_text(version),
        "protocol": None,
        "tls": None,
        "last_heartbeat_ms": None,
        "queues": None,
        "topics": [],
    }


def client_page(state: ClusterState, client_id: str, now_ms: int) -> Page:
    """One client; what it tells about itself is asked for apart."""
    roles = [row for row in client_rows(state) if row["client_id"] == client_id]
    if not roles:
        raise NotFoundError(f"no client {client_id!r} is connected")
    client = {key: roles[0][key] for key in ("client_id", "address", "language", "version")}
    return page(state, now_ms) | {"client": client, "roles": roles, "running": None}
