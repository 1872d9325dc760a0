"""Groups whose offsets move though nobody is connected: Spark queries, and jobs like them, keep their own progress."""

from __future__ import annotations

from typing import Any

from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.views.groups import group_row
from flaremq.dashboard.views.page import Page, because, page


def spark_page(
    state: ClusterState,
    now_ms: int,
    archives: list[dict[str, Any]] | None,
    tables: list[dict[str, Any]] | None,
) -> Page:
    """``archives`` and ``tables`` are None if none were named."""
    rows = []
    for group in sorted(state.groups.values(), key=lambda group: group.name):
        if group.kind == "spark":
            newest = max((place.consumed_ms for place in group.places.values()), default=0)
            more = {
                "last_commit_ms": group.moved_alone_ms,
                "newest_consumed_ms": newest or None,
                "batch_messages": None,
            }
            rows.append(group_row(state, group, now_ms) | more)
    missing = {"batch_messages": because("not_on_wire")}
    return page(state, now_ms, since_ms=state.progress_ms or None, missing=missing) | {
        "items": rows,
        "total": len(rows),
        "archives": {"configured": archives is not None, "items": archives or []},
        "tables": {"configured": tables is not None, "items": tables or []},
    }
