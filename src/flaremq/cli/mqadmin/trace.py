"""Traces of messages in RocketMQ's own spelling.

Clients that trace write records to a topic of their own, keyed by the ids of the messages they speak of. A body holds
several records, each ended by 0x02, its fields separated by 0x01:

    Pub        time, region, group, topic, message id, tags, keys, store host, length, cost, type, offset id, outcome
    SubBefore  time, region, group, request id, message id, retries, keys
    SubAfter   request id, message id, cost, success, keys, code (since 4.9: time, group)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flaremq.cli.mqadmin.given import Given
from flaremq.cli.output import say

if TYPE_CHECKING:
    from flaremq.cli.admin.admin_tool import AdminTool

_LAYOUT = "{:<10} {:<20} {:<20} {:<20} {:<10} {:<10}"
_END_OF_TIME = 2**63 - 1


async def query_trace(admin: AdminTool, given: Given) -> None:
    from flaremq.errors import NotFoundError
    from flaremq.message.topics import TRACE_TOPIC

    message_id = given.text("msgId")
    found = await admin.query_by_key(
        given.maybe("traceTopic") or TRACE_TOPIC,
        message_id,
        max_count=given.integer("maxNum", 64),
        begin_ms=given.integer("beginTimestamp"),
        end_ms=given.integer("endTimestamp", _END_OF_TIME),
    )
    records = [
        (fields, message.born_host.rpartition(":")[0]) for message in found for fields in trace_records(message.body)
    ]
    if not records:
        raise NotFoundError(f"there is no trace of message {message_id!r}: its producer and consumers do not trace")
    sent = [(fields, host) for fields, host in records if fields[0] == "Pub" and fields[5] == message_id]
    if sent:
        say(_LAYOUT.format("#Type", "#ProducerGroup", "#ClientHost", "#SendTime", "#CostTimes", "#Status"))
        for fields, host in sent:
            success = len(fields) > 13 and fields[13] == "true"
            say(_row("Pub", fields[3], host, fields[1], f"{fields[10]}ms", success))
        say()
    _print_deliveries(records, message_id)


def _print_deliveries(records: list[tuple[list[str], str]], message_id: str) -> None:
    """Begin and end of each delivery, joined by the id of the request they share."""
    ends = {fields[1]: fields for fields, _ in records if fields[0] == "SubAfter" and fields[2] == message_id}
    begins = [(fields, host) for fields, host in records if fields[0] == "SubBefore" and fields[5] == message_id]
    for group in sorted({fields[3] for fields, _ in begins}):
        say(_LAYOUT.format("#Type", "#ConsumerGroup", "#ClientHost", "#ConsumerTime", "#CostTimes", "#Status"))
        for fields, host in begins:
            if fields[3] == group:
                end = ends.get(fields[4])
                cost = f"{end[3]}ms" if end is not None else "-"
                say(_row("Sub", group, host, fields[1], cost, end is not None and end[4] == "true"))
        say()


def _row(kind: str, group: str, host: str, milliseconds: str, cost: str, success: bool) -> str:
    from flaremq.cli.times import local_text

    when = local_text(int(milliseconds)) if milliseconds.isdigit() else milliseconds
    return _LAYOUT.format(kind, group, host, when or "-", cost, "success" if success else "failed")


_FIELDS_MIN = {"Pub": 11, "SubBefore": 6, "SubAfter": 5}


def trace_records(body: bytes) -> Iterator[list[str]]:
    """The records of a body; what is none, or is cut short, is left out."""
    for record in body.decode("utf-8", "replace").split("\x02"):
        fields = record.split("\x01")
        if len(fields) >= _FIELDS_MIN.get(fields[0], len(fields) + 1):
            yield fields
