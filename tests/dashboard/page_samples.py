"""Data of every page, full of names that strangers chose, and the same pages with nothing in them."""

from __future__ import annotations

from typing import Any

HOSTILE = "<img src=x onerror=alert(1)></script>\"'&\u202e\x07\x00 {{7*7}} %2e/é中"
NOW = 1_763_500_000_000
SERIES = {"step_ms": 1000, "from_ms": NOW - 5000, "points": [1.0, 2.5, None, 4.0, 0.0]}
EMPTY_SERIES = {"step_ms": 1000, "from_ms": NOW, "points": []}


def common(**more: Any) -> dict[str, Any]:
    cluster = {
        "name_servers": [HOSTILE],
        "names": [HOSTILE],
        "brokers": 2,
        "brokers_up": 1,
        "access_control": None,
        "reachable": True,
        "error": None,
    }
    notice = {
        "id": "n1",
        "level": "warning",
        "code": "lag_growing",
        "args": {"group": HOSTILE, "topic": HOSTILE, "lag": 12345, "minutes": 6},
        "link": ["groups", HOSTILE],
    }
    missing = {"out_bytes_per_second": {"reason": "not_told", "detail": HOSTILE}}
    return {"as_of": NOW, "age_ms": 500, "cluster": cluster, "missing": missing, "notices": [notice]} | more


def listed(items: list[dict[str, Any]], *, sort: str, sorts: tuple[str, ...], **more: Any) -> dict[str, Any]:
    return (
        common(
            items=items,
            total=len(items) + 7,
            next="abc",
            previous=None,
            limit=50,
            sort=sort,
            sorts=list(sorts),
            q="",
            start=0,
        )
        | more
    )


BROKER: dict[str, Any] = {
    "id": f"{HOSTILE}/1",
    "name": HOSTILE,
    "cluster": HOSTILE,
    "address": "127.0.0.1:10911",
    "broker_id": 0,
    "role": "master",
    "up": True,
    "error": HOSTILE,
    "version": "V5_4_0",
    "uptime_ms": 123_456,
    "writable": False,
    "in_per_second": 12.5,
    "in_bytes_per_second": None,
    "out_per_second": None,
    "get_found_per_second": 3.0,
    "put_p99_ms": 1.5,
    "put_max_ms": 20,
    "connections": None,
    "held_pulls": None,
    "disk_used_ratio": 0.42,
    "disk_full_hours": 55.0,
    "lanes": [{"id": "send", "name": "send", "waiting": 1, "capacity": 10_000, "head_wait_ms": 0}],
    "history": {"in": SERIES, "out": EMPTY_SERIES},
    "missing": {"connections": "not_on_wire", "held_pulls": "not_on_wire"},
}
TOPIC: dict[str, Any] = {
    "id": HOSTILE,
    "topic": HOSTILE,
    "kind": "user",
    "message_type": "NORMAL",
    "read_queues": 8,
    "write_queues": 4,
    "perm": 6,
    "perm_text": "RW",
    "order": True,
    "brokers": [HOSTILE],
    "in_per_second": 1.0,
    "out_per_second": 2.0,
    "messages": "9007199254740993",
    "bytes": None,
    "oldest_ms": NOW - 1000,
    "newest_ms": None,
    "groups": 2,
    "lagging": 1,
    "lag": 55,
    "age_ms": 10,
    "spark": [1.0, None, 2.0, 3.0],
}
GROUP: dict[str, Any] = {
    "id": HOSTILE,
    "group": HOSTILE,
    "kind": "spark",
    "online": False,
    "members": None,
    "topics": [HOSTILE, "b", "c", "d"],
    "topics_total": 11,
    "lag": None,
    "in_flight": 1,
    "in_per_second": 5.0,
    "out_per_second": 1.0,
    "drain_ms": None,
    "delay_ms": 9_999,
    "retries": 3,
    "dead_letters": 2,
    "enabled": False,
    "age_ms": 10,
    "spark": [],
    "missing": {"lag": "broadcast"},
    "last_commit_ms": NOW,
    "batch_messages": 100,
}
MESSAGE: dict[str, Any] = {
    "id": HOSTILE,
    "message_id": HOSTILE,
    "offset_id": "0" * 32,
    "topic": HOSTILE,
    "broker": HOSTILE,
    "queue": 3,
    "queue_offset": 1_000_000,
    "physical_offset": 123,
    "tags": HOSTILE,
    "keys": [HOSTILE, "k2"],
    "size_bytes": 300,
    "body_bytes": 100,
    "stored_ms": NOW,
    "born_ms": NOW,
    "born_host": "1.2.3.4:5",
    "preview": HOSTILE,
    "preview_kind": "binary",
    "delay_level": 3,
    "reconsume": 1,
    "transaction": "prepared",
}
STORED: dict[str, Any] = MESSAGE | {
    "flag": 0,
    "sys_flag": 0,
    "store_host": "1.2.3.4:5",
    "crc": 77,
    "crc_ok": False,
    "compressed": True,
    "compression": "ZLIB",
    "transaction_id": HOSTILE,
    "prepared_offset": 5,
    "broker_address": "x",
    "file": None,
    "file_offset": None,
    "due_ms": NOW,
    "trace_on": False,
}
STEP: dict[str, Any] = {
    "id": "1",
    "kind": "consume",
    "group": HOSTILE,
    "client_host": HOSTILE,
    "topic": HOSTILE,
    "message_id": HOSTILE,
    "keys": HOSTILE,
    "start_ms": NOW,
    "cost_ms": 5,
    "ok": False,
    "attempt": 1,
    "code": "1",
}
CLIENT: dict[str, Any] = {
    "id": HOSTILE,
    "client_id": HOSTILE,
    "kind": "consumer",
    "group": HOSTILE,
    "address": HOSTILE,
    "language": "PYTHON",
    "version": "V5",
    "protocol": None,
    "tls": None,
    "last_heartbeat_ms": None,
    "queues": 4,
    "topics": [HOSTILE],
}
STORE: dict[str, Any] = {
    "id": HOSTILE,
    "name": HOSTILE,
    "address": "a",
    "files": [
        {
            "id": "f",
            "name": "00000000000000000000",
            "from_offset": 0,
            "to_offset": 1024,
            "size_bytes": 1024,
            "used_bytes": 3,
            "current": True,
        }
    ],
    "files_total": 1,
    "file_bytes": 1024,
    "min_offset": 0,
    "max_offset": 3,
    "bytes": 3,
    "flushed_offset": None,
    "unflushed_bytes": None,
    "dispatch_behind_bytes": 0,
    "oldest_ms": NOW,
    "reserved_hours": 72,
    "delete_when": "04",
    "disk_used_ratio": 0.8,
    "queue_disk_used_ratio": 0.8,
    "disk_total_bytes": 10**12,
    "disk_free_bytes": 10**11,
    "disk_full_hours": None,
    "damaged_ranges": 0,
    "damaged_bytes": 0,
    "damaged_reads": 2,
    "repaired_units": 1,
    "recovery": {"clean": False, "seconds": 1.5, "checked_bytes": 10**6, "truncated_bytes": 7, "damaged_ranges": 1},
    "recovery_now_bytes": 4096,
    "flush_type": "ASYNC_FLUSH",
    "marks": {"clean": 0.75, "force": 0.85, "refuse": 0.9},
}
SCAN = {"scanned": 100, "scanned_bytes": 1, "complete": False, "stopped_by": "time", "reached": [], "took_ms": 12.0}
OPTION = {
    "id": "o",
    "name": "o",
    "value": HOSTILE,
    "default": None,
    "changed": True,
    "doc": HOSTILE,
    "changeable": True,
}
QUEUE = {"id": "b/0", "broker": HOSTILE, "queue": 0, "min_offset": 0, "max_offset": 9}
RUNNING = {
    "properties": [{"id": "a", "name": HOSTILE, "value": HOSTILE}],
    "queues": [
        QUEUE
        | {"topic": HOSTILE, "committed": 1, "cached": 2, "cached_bytes": 3, "oldest_cached": 1, "newest_cached": 2}
        | {"last_pull_ms": NOW, "last_consume_ms": None, "locked": True, "dropped": True}
    ],
    "topics": [
        {"id": "t", "topic": HOSTILE, "pull_per_second": 1.0, "pull_ms": 2.0, "ok_per_second": 1.0}
        | {"failed_per_second": 0.0, "consume_ms": 1.0, "failed_hour": 0}
    ],
    "subscriptions": [{"id": "t", "topic": HOSTILE, "expression": HOSTILE, "type": "TAG"}],
    "stacks": f"a\n\tb {HOSTILE}",
    "error": HOSTILE,
}
TOTALS = {
    "in_per_second": 1.0,
    "out_per_second": 2.0,
    "in_bytes_per_second": 10.0,
    "out_bytes_per_second": None,
    "put_p99_ms": 1.0,
    "lag": 5,
    "lag_known_groups": 1,
    "messages_in_today": 5,
    "messages_out_today": 5,
    "topics": 3,
    "groups": 4,
    "clients": None,
    "dead_letters": 0,
}


def full_pages() -> dict[str, dict[str, Any]]:
    """Every page with something in every part of it."""
    history = {name: SERIES for name in ("in", "out", "lag", "in_bytes", "put_p99", "disk")}
    subscription = {"id": HOSTILE, "topic": HOSTILE, "expression": HOSTILE, "type": "TAG", "differs": True}
    group_queue = QUEUE | {"topic": HOSTILE, "committed": None, "in_flight": 0, "lag": 9, "consumed_ms": NOW}
    body = {"as": "hex", "kinds": ["text", "json", "hex"], "content": HOSTILE + "\n2", "shown_bytes": 5}
    answer = {
        "action": "group.reset",
        "dry_run": True,
        "done": 0,
        "failed": [{"id": HOSTILE, "reason": HOSTILE}],
        "before": {"x": HOSTILE},
        "after": {"x": [HOSTILE]},
        "effects": [{"code": "read_again", "args": {"messages": 5}}],
        "confirm": HOSTILE,
        "rows": [{"topic": HOSTILE, "broker": HOSTILE, "queue": 0, "committed": None, "target": 5, "read_again": 1}],
    }
    replica = {"id": "r", "address": HOSTILE, "acked_offset": 1, "lag_bytes": 2, "in_sync": True}
    half = {"id": HOSTILE, "message_id": HOSTILE, "topic": HOSTILE, "broker": HOSTILE, "stored_ms": NOW}
    timer = {"id": HOSTILE, "message_id": HOSTILE, "topic": HOSTILE, "broker": HOSTILE, "due_ms": NOW + 5000}
    level = {"id": "b/1", "broker": HOSTILE, "level": 1, "delay_ms": 1000, "waiting": 1, "delivered_offset": 1}
    return {
        "overview": common(totals=TOTALS, brokers=[BROKER], top_topics=[TOPIC], top_groups=[GROUP], history=history),
        "brokers": listed([BROKER], sort="name", sorts=("name", "in", "out", "disk", "uptime")),
        "broker": common(
            broker=BROKER,
            replicas={"master_flushed": 1, "items": [replica | {"transferred_bytes_per_second": 1.0}]},
            runtime=[{"id": "k", "name": HOSTILE, "value": HOSTILE}],
            options=listed([OPTION | {"secret": False}, OPTION | {"secret": True}], sort="name", sorts=("name",)),
            history=history,
        ),
        "topics": listed([TOPIC], sort="-lag", sorts=("topic", "in", "out", "messages", "lag", "newest", "groups"))
        | {"kinds": {"user": 1, "retry": 2, "dlq": 3, "system": 4}},
        "topic": common(
            topic=TOPIC,
            configs=[
                {"id": "b", "broker": HOSTILE, "read_queues": 1, "write_queues": 1, "perm": 6, "perm_text": "RW"}
                | {"order": False, "filter_type": "SINGLE_TAG", "attributes": {HOSTILE: HOSTILE}}
            ],
            queues=[QUEUE | {"messages": 9, "in_per_second": 0.0, "oldest_ms": None, "newest_ms": None}],
            groups=[GROUP | {"newest_consumed_ms": NOW}],
            history=history,
        ),
        "groups": listed([GROUP], sort="-lag", sorts=("group", "lag", "in", "out", "drain", "members", "dead_letters")),
        "group": common(
            group=GROUP,
            config={"consume_enable": True, "attributes": {HOSTILE: HOSTILE}},
            members=[CLIENT],
            consume_type="PUSH",
            message_model="CLUSTERING",
            consume_from="LAST",
            subscriptions=[subscription | {"by": [{"client_id": HOSTILE, "expression": HOSTILE}]}],
            queues=[group_queue | {"delay_ms": 5, "lost": 1, "spark": [1.0, 9.0]}],
            history=history,
            topics=[
                {"id": HOSTILE, "topic": HOSTILE, "lag": 9, "in_per_second": 1.0} | {"in_flight": 2, "delay_ms": 5}
            ],
            resettable=True,
        ),
        "clients": listed([CLIENT], sort="client", sorts=("client", "group", "address", "language")),
        "client": common(client=CLIENT, roles=[CLIENT], running=RUNNING),
        "messages": common(
            topic=HOSTILE, queues=[QUEUE], items=[MESSAGE], total=None, next="x", topics=[HOSTILE], **SCAN
        ),
        "message": common(
            message=STORED,
            properties=[{"id": "p", "name": HOSTILE, "value": HOSTILE, "system": True}],
            body=body | {"total_bytes": 10, "cut": True, "encoding": "binary", "inflated_bytes": 10, "error": HOSTILE},
            track=[{"id": "g", "group": HOSTILE, "state": "waiting", "detail": HOSTILE}],
            trace=[STEP],
            groups_online=[{"group": HOSTILE, "clients": [HOSTILE]}],
        ),
        "trace": common(trace_topic=HOSTILE, on=False, items=[STEP, STEP | {"kind": "produce", "ok": True}], **SCAN),
        "dlq": listed(
            [
                {"id": HOSTILE, "group": HOSTILE, "topic": HOSTILE, "count": 3, "newest_ms": NOW, "oldest_ms": NOW}
                | {"in_per_second": 0.0, "readable": False}
            ],
            sort="-count",
            sorts=("group", "count", "newest"),
        ),
        "dlq_group": common(
            group=HOSTILE,
            topic=HOSTILE,
            count=1,
            readable=False,
            items=[MESSAGE | {"origin_topic": HOSTILE, "origin_id": "other", "attempts": 16, "died_ms": NOW}],
            next="n",
            **SCAN,
        ),
        "waiting": common(
            levels=[level | {"max_offset": 2, "next_due_ms": NOW, "late_ms": 0}],
            timers={
                "supported": True,
                "waiting": 1,
                "behind_ms": 0,
                "items": [
                    timer | {"stored_ms": NOW, "keys": HOSTILE, "tags": HOSTILE, "preview": HOSTILE, "recall": HOSTILE}
                ],
            },
            halves={
                "waiting": 1,
                "items": [half | {"age_ms": 5, "checks": 1, "group": HOSTILE, "queue_offset": 1, "given_up": True}],
                "scanned": 1,
                "complete": True,
            },
        ),
        "store": common(brokers=[STORE]),
        "spark": listed([GROUP], sort="group", sorts=("group", "lag"))
        | {
            "archives": {
                "configured": True,
                "items": [
                    {"id": "a", "path": HOSTILE, "topics": 1, "messages": 2, "bytes": 3, "newest_ms": NOW}
                    | {"error": HOSTILE}
                ],
            },
            "tables": {
                "configured": True,
                "items": [
                    {"id": "t", "table": HOSTILE, "topics": [HOSTILE], "files": 1, "messages": 2, "bytes": 3}
                    | {"version": HOSTILE, "lag": None, "error": HOSTILE, "missing": {"lag": "no_data"}}
                ],
            },
        },
        "access": common(
            on=True,
            generation="2.0",
            users=[{"id": "u", "user": HOSTILE, "type": "Super", "status": "enable", "brokers": [HOSTILE]}],
            policies=[
                {"id": "p", "subject": HOSTILE, "resource": HOSTILE, "actions": ["Pub"], "decision": "Allow"}
                | {"sources": None, "policy_type": "CUSTOM", "brokers": [HOSTILE]}
            ],
            accounts=[
                {"id": "a", "access_key": HOSTILE, "admin": False, "topic_perm": "DENY", "group_perm": "SUB"}
                | {"topic_perms": [HOSTILE], "group_perms": [], "white_address": HOSTILE, "broker": HOSTILE}
            ],
            white_list=[HOSTILE],
        ),
        "search": common(
            q=HOSTILE, topics=[HOSTILE], groups=[HOSTILE], messages=[MESSAGE], scanned_topics=1, complete=True
        ),
        "login": {"error": HOSTILE},
        "action": {
            "action": "group.reset",
            "fields": {"group": HOSTILE, "ids": [HOSTILE, "b"]},
            "answer": answer,
            "error": {"code": "bad_request", "message": HOSTILE, "hint": HOSTILE},
            "back": "../groups/x",
        },
        "error": {"status": 404, "code": "not_found", "message": HOSTILE, "hint": HOSTILE},
    }


def emptied(value: Any) -> Any:
    """The same page of a cluster that tells nothing: every list empty, every figure unknown."""
    if isinstance(value, dict):
        if set(value) == set(SERIES):
            return EMPTY_SERIES
        return {key: emptied(item) for key, item in value.items()}
    if isinstance(value, list):
        return []
    return None if isinstance(value, int | float) and not isinstance(value, bool) else value
