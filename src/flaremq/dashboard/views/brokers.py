"""Brokers: their rates, lanes, options and replicas."""

from __future__ import annotations

from typing import Any, Final

from flaremq.access.options import AccessOptions
from flaremq.broker.options import BrokerOptions
from flaremq.dashboard.data.broker_state import BrokerState
from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.views.listing import Query, Row, chosen, listed
from flaremq.dashboard.views.page import Page, because, page, rounded
from flaremq.errors import NotFoundError
from flaremq.grpc.options import GrpcOptions
from flaremq.metrics.options import MetricsOptions
from flaremq.options import OptionRow, rows_by_key
from flaremq.remoting.options import RemotingOptions
from flaremq.storage.options import StoreOptions

_LANES: Final = {"send": "sendThreadPoolQueue", "pull": "pullThreadPoolQueue", "query": "queryThreadPoolQueue"}
_ON_WIRE: Final = {"connections": because("not_on_wire"), "held_pulls": because("not_on_wire")}


def brokers_page(state: ClusterState, query: Query, now_ms: int) -> Page:
    found, _ = listed(
        state.brokers.values(),
        query,
        sorts={
            "name": lambda broker: (broker.name, broker.broker_id),
            "in": lambda broker: broker.rates["in"],
            "out": lambda broker: broker.rates["out"],
            "disk": lambda broker: broker.disk_used_ratio,
            "uptime": lambda broker: broker.uptime_ms,
        },
        default="name",
        row=broker_row,
        name=lambda broker: f"{broker.name} {broker.address}",
    )
    return page(state, now_ms, missing=dict(_ON_WIRE)) | found


def broker_row(broker: BrokerState) -> Row:
    rates = broker.rates
    row: Row = {
        "id": broker.address,
        "name": broker.name,
        "cluster": broker.cluster,
        "address": broker.address,
        "broker_id": broker.broker_id,
        "role": broker.role,
        "up": broker.is_up,
        "error": broker.error or None,
        "version": broker.told.get("brokerVersionDesc"),
        "uptime_ms": broker.uptime_ms if broker.is_up else None,
        "writable": broker.is_writable,
        "in_per_second": rounded(rates["in"]),
        "out_per_second": rounded(rates["out"]),
        "in_bytes_per_second": rounded(rates["in_bytes"]),
        "get_found_per_second": broker.number("getFoundTps"),
        "put_p99_ms": broker.put_p99_ms,
        "put_max_ms": broker.number("putMessageEntireTimeMax"),
        "connections": None,
        "held_pulls": None,
        "disk_used_ratio": broker.disk_used_ratio,
        "disk_full_hours": broker.disk_full_hours,
        "lanes": [_lane(broker, name, key) for name, key in _LANES.items()],
        "history": {"in": broker.rings["in"].series(), "out": broker.rings["out"].series()},
    }
    if not broker.is_up:
        row["missing"] = {"version": broker.reason}
    elif broker.put_p99_ms is None:
        row["missing"] = {"put_p99_ms": "not_told"}
    return row


def _lane(broker: BrokerState, name: str, key: str) -> Row:
    return {
        "id": name,
        "name": name,
        "waiting": broker.whole(f"{key}Size"),
        "capacity": broker.whole(f"{key}Capacity"),
        "head_wait_ms": broker.whole(f"{key}HeadWaitTimeMills"),
    }


def find_broker(state: ClusterState, name: str, address: str = "") -> BrokerState:
    """By address, or the master of a name, or whoever bears it."""
    named = [broker for broker in state.brokers.values() if broker.name == name and address in ("", broker.address)]
    if not named:
        known = ", ".join(sorted({broker.name for broker in state.brokers.values()})) or "none"
        raise NotFoundError(f"broker {name!r} does not exist; there is: {known}")
    return min(named, key=lambda broker: broker.broker_id)


def broker_page(state: ClusterState, name: str, query: Query, now_ms: int) -> Page:
    broker = find_broker(state, name, query.get("address", ""))
    missing = dict(_ON_WIRE)
    if broker.config is None:
        missing["options"] = because("denied" if broker.config_ms else "not_read_yet")
    found = page(state, now_ms, since_ms=broker.told_ms or None, missing=missing)
    found |= {
        "broker": broker_row(broker),
        "replicas": _replicas(broker),
        "runtime": [{"id": key, "name": key, "value": value} for key, value in sorted(broker.told.items())],
        "options": _options(broker, query),
        "history": {key: broker.rings[key].series() for key in ("in", "out", "in_bytes", "put_p99", "disk")},
    }
    return found


def _replicas(broker: BrokerState) -> Row | None:
    told = broker.ha
    if told is None or not told.master:
        return None
    return {
        "master_flushed": told.master_commit_log_max_offset,
        "items": [
            {
                "id": one.addr,
                "address": one.addr,
                "acked_offset": one.slave_ack_offset,
                "lag_bytes": one.diff,
                "in_sync": one.in_sync,
                "transferred_bytes_per_second": one.transferred_byte_in_second,
            }
            for one in told.ha_connection_info
        ],
    }


def options_page(state: ClusterState, name: str, query: Query, now_ms: int) -> Page:
    """The list of a broker's options alone."""
    broker = find_broker(state, name, query.get("address", ""))
    return page(state, now_ms, since_ms=broker.config_ms or None) | _options(broker, query)


def _options(broker: BrokerState, query: Query) -> Row:
    known: dict[str, OptionRow] = {}
    for layer in (GrpcOptions, MetricsOptions, AccessOptions, RemotingOptions, StoreOptions, BrokerOptions):
        known.update(rows_by_key(layer))
    rows = [_option(name, value, known.get(name)) for name, value in (broker.config or {}).items()]
    if chosen(query, "changed", ("0", "1"), "0") == "1":
        rows = [row for row in rows if row["changed"]]
    own = {key: value for key, value in query.items() if key in ("q", "limit", "cursor", "format")}
    found, _ = listed(
        rows,
        own,
        sorts={"name": lambda row: row["name"]},
        default="name",
        row=lambda row: row,
        name=lambda row: row["name"],
    )
    return found


def _option(name: str, value: str, known: OptionRow | None) -> dict[str, Any]:
    is_secret = known.secret if known is not None else _sounds_secret(name)
    default = None if known is None else known.shown(known.default)
    return {
        "id": name,
        "name": name,
        "value": "******" if is_secret and value else value,
        "default": default,
        "changed": None if default is None else default != value,
        "doc": None if known is None else known.doc,
        "changeable": known is None or known.live,
        "secret": is_secret,
    }


def _sounds_secret(name: str) -> bool:
    """Of options that only RocketMQ has: what they hold must not show either."""
    low = name.lower()
    return any(word in low for word in ("secret", "password", "credential", "token"))
