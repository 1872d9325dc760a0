"""What every page has: how old it is, what is known of the cluster, why something is missing."""

from __future__ import annotations

from typing import Any

from flaremq.dashboard.data.reasons import DENIED
from flaremq.dashboard.data.state import ClusterState, Failure

Page = dict[str, Any]
Missing = dict[str, dict[str, str]]


def page(state: ClusterState, now_ms: int, *, since_ms: int | None = None, missing: Missing | None = None) -> Page:
    """The frame of a page. ``since_ms`` is the time of its oldest part, if that is not the sampler's last look."""
    oldest = state.as_of_ms if since_ms is None else since_ms
    found: Missing = dict(missing or {})
    for what, failure in state.failures.items():
        found.setdefault(what, why(failure))
    return {
        "as_of": state.as_of_ms or None,
        "age_ms": max(0, now_ms - oldest) if oldest else None,
        "cluster": cluster(state),
        "missing": found,
        "notices": [],
    }


def cluster(state: ClusterState) -> dict[str, Any]:
    failure = state.failures.get("brokers")
    return {
        "name_servers": state.name_servers,
        "names": list(state.clusters),
        "brokers": len(state.brokers),
        "brokers_up": sum(broker.is_up for broker in state.brokers.values()),
        "access_control": state.has_access_control,
        "reachable": failure is None or failure.reason == DENIED,
        "error": None if failure is None else failure.detail,
    }


def why(failure: Failure) -> dict[str, str]:
    return {"reason": failure.reason, "detail": failure.detail}


def because(reason: str, detail: str = "") -> dict[str, str]:
    return {"reason": reason, "detail": detail}


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
