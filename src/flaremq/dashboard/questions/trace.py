"""Traces: what producers and consumers noted of a message, as a line of events.

Clients that trace write records to a topic of their own, keyed by the ids and keys of the messages they speak of. A
body holds several records, each ended by 0x02, its fields separated by 0x01:

    Pub            time, region, group, topic, message id, tags, keys, store host, length, cost, type, offset id,
                   outcome
    SubBefore      time, region, group, request id, message id, retries, keys
    SubAfter       request id, message id, cost, success, keys, code (since 4.9: time, group)
    EndTransaction time, region, group, topic, message id, tags, keys, store host, type, transaction id, state,
                   whether asked
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from flaremq.client.consumer.received import ReceivedMessage
from flaremq.dashboard.data.reader import ClusterReader
from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.views.listing import Query
from flaremq.dashboard.views.page import Missing, Page, because, page
from flaremq.digits import whole_number
from flaremq.errors import NotFoundError
from flaremq.message.topics import TRACE_TOPIC

_RECORDS_MAX: Final = 256
_FIELDS_MIN: Final = {"Pub": 11, "SubBefore": 6, "SubAfter": 5, "EndTransaction": 12}
Event = dict[str, Any]


async def trace_page(state: ClusterState, reader: ClusterReader, query: Query, now_ms: int) -> Page:
    topic = query.get("trace_topic") or TRACE_TOPIC
    wanted = query.get("id") or query.get("key") or ""
    missing: Missing = {}
    events: list[Event] = []
    scanned = 0
    is_on: bool | None = True if topic in state.topics else None
    if is_on is None and state.tables_ms:
        is_on, missing["items"] = False, because("off", f"there is no topic {topic!r}: nobody traces")
    if wanted and is_on:
        try:
            found = await reader.query_by_key(topic, wanted, max_count=_RECORDS_MAX)
        except NotFoundError:
            found = []
        scanned = len(found)
        events = trace_events(found, wanted, by_key="id" not in query)
        if not events:
            missing["items"] = because("no_data")
    return page(state, now_ms, missing=missing) | {
        "trace_topic": topic,
        "on": is_on,
        "id": query.get("id"),
        "key": query.get("key"),
        "items": events,
        "total": len(events),
        "scanned": scanned,
        "complete": scanned < _RECORDS_MAX,
    }


def trace_events(found: list[ReceivedMessage], wanted: str, *, by_key: bool = False) -> list[Event]:
    """The events of a message, or of all with a key, by time."""
    records = [
        (fields, message.born_host.rpartition(":")[0], message.store_timestamp)
        for message in found
        for fields in trace_records(message.body)
    ]
    ends = {(fields[1], fields[2]): fields for fields, _, _ in records if fields[0] == "SubAfter"}
    events: list[Event] = []
    for fields, host, stored_ms in records:
        event = _event(fields, host, stored_ms, ends)
        if event is not None and (wanted in event["keys"] if by_key else wanted == event["message_id"]):
            events.append(event)
    events.sort(key=lambda event: (event["start_ms"], event["kind"] != "produce"))
    unique = {event["id"]: event for event in events}  # both ways of tracing may note the same
    return list(unique.values())


def _event(fields: list[str], host: str, stored_ms: int, ends: dict[tuple[str, str], list[str]]) -> Event | None:
    kind = fields[0]
    if kind == "Pub":
        is_ok = len(fields) <= 13 or fields[13] == "true"
        return _made("produce", fields[3], host, fields[4], fields[5], fields[7], _number(fields[1], stored_ms)) | {
            "cost_ms": _number(fields[10], None),
            "ok": is_ok,
        }
    if kind == "SubBefore":
        end = ends.get((fields[4], fields[5]))
        keys = fields[7] if len(fields) > 7 else ""
        made = _made("consume", fields[3], host, None, fields[5], keys, _number(fields[1], stored_ms))
        made["id"] += f" {fields[4]}"
        return made | {
            "attempt": (_number(fields[6], 0) or 0) + 1 if len(fields) > 6 else None,
            "cost_ms": None if end is None else _number(end[3], None),
            "ok": None if end is None else end[4] == "true",
            "code": end[6] if end is not None and len(end) > 6 else None,
        }
    if kind == "EndTransaction":
        made = _made("transaction", fields[3], host, fields[4], fields[5], fields[7], _number(fields[1], stored_ms))
        return made | {"ok": fields[11] == "COMMIT_MESSAGE", "code": fields[11]}
    return None


def _made(
    kind: str, group: str, host: str, topic: str | None, message_id: str, keys: str, start_ms: int | None
) -> Event:
    return {
        "id": f"{kind} {group} {message_id} {start_ms}",
        "kind": kind,
        "group": group,
        "client_host": host,
        "topic": topic,
        "message_id": message_id,
        "keys": keys.split(" ") if keys else [],
        "start_ms": start_ms or 0,
        "cost_ms": None,
        "ok": None,
        "attempt": None,
        "code": None,
    }


def _number(text: str, default: int | None) -> int | None:
    number = whole_number(text)
    return default if number is None else number


def trace_records(body: bytes) -> Iterator[list[str]]:
    """The records of a body; what is none, or is cut short, is left out."""
    for record in body.decode("utf-8", "replace").split("\x02"):
        fields = record.split("\x01")
        if len(fields) >= _FIELDS_MIN.get(fields[0], len(fields) + 1):
            yield fields
