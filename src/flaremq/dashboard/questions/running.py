"""What a client tells about itself, asked through its broker."""

from __future__ import annotations

from typing import Any

from flaremq.dashboard.data.reader import ClusterReader
from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.views import clients
from flaremq.dashboard.views.listing import Query
from flaremq.dashboard.views.page import Page
from flaremq.errors import FlareMQError
from flaremq.protocol.bodies.running import ConsumerRunningInfo
from flaremq.visible import visible


async def client_page(state: ClusterState, reader: ClusterReader, client_id: str, query: Query, now_ms: int) -> Page:
    found = clients.client_page(state, client_id, now_ms)
    if query.get("running") == "1" or query.get("stacks") == "1":
        groups = [row["group"] for row in found["roles"] if row["kind"] == "consumer"]
        group = query.get("group") or next(iter(groups), "")
        found["running"] = await _running(reader, group, client_id, stacks=query.get("stacks") == "1")
    return found


async def _running(reader: ClusterReader, group: str, client_id: str, *, stacks: bool) -> dict[str, Any]:
    empty: dict[str, Any] = {"properties": [], "queues": [], "topics": [], "subscriptions": [], "stacks": None}
    if not group:
        return empty | {"error": "only consumers can be asked"}
    try:
        info = await reader.consumer_running_info(group, client_id, stacks=stacks)
    except FlareMQError as error:
        return empty | {"error": visible(str(error))}
    return _shown(info) | {"error": None}


def _shown(info: ConsumerRunningInfo) -> dict[str, Any]:
    return {
        "properties": [{"id": name, "name": name, "value": value} for name, value in sorted(info.properties.items())],
        "queues": [
            {
                "id": f"{queue.topic}/{queue.broker_name}/{queue.queue_id}",
                "topic": queue.topic,
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "committed": one.commit_offset,
                "cached": one.cached_msg_count,
                "cached_bytes": one.cached_msg_size_in_mib << 20,
                "oldest_cached": one.cached_msg_min_offset,
                "newest_cached": one.cached_msg_max_offset,
                "last_pull_ms": one.last_pull_timestamp or None,
                "last_consume_ms": one.last_consume_timestamp or None,
                "locked": one.locked,
                "dropped": one.dropped,
            }
            for queue, one in sorted(info.mq_table.items())
        ],
        "topics": [
            {
                "id": topic,
                "topic": topic,
                "pull_per_second": status.pull_tps,
                "pull_ms": status.pull_rt,
                "ok_per_second": status.consume_ok_tps,
                "failed_per_second": status.consume_failed_tps,
                "consume_ms": status.consume_rt,
                "failed_hour": status.consume_failed_msgs,
            }
            for topic, status in sorted(info.status_table.items())
        ],
        "subscriptions": [
            {"id": data.topic, "topic": data.topic, "expression": data.sub_string, "type": data.expression_type}
            for data in sorted(info.subscription_set, key=lambda data: data.topic)
        ],
        "stacks": info.jstack,
    }
