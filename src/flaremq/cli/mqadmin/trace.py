"""Traces of messages in RocketMQ's own spelling.

Clients that trace write records to a topic of their own, keyed by the ids of the messages they speak of. A body holds
several records, each ended by 0x02, its fields separated by 0x01:

    Pub        time, region, group, topic, message id, tags, keys, store host, length, cost, type, offset id, outcome
    SubBefore  time, region, group, request id, message id, retries, keys
    SubAfter   request id, message id, cost, success, keys, code (since 4.9: time, group)
"""

from __future__ import annotations

from collections.abc import Iterator

from flaremq.cli.admin.admin_tool import AdminTool
from flaremq.cli.mqadmin.arguments import Arguments
from flaremq.cli.output import echo, local_text
from flaremq.cli.parameters import END_OF_TIME_MS
from flaremq.digits import whole_number
from flaremq.errors import NotFoundError
from flaremq.message.topics import TRACE_TOPIC

_LAYOUT = "{:<10} {:<20} {:<20} {:<20} {:<10} {:<10}"


async def query_trace(admin: AdminTool, args: Arguments) -> None:
    message_id = args.text("msgId")
    found = await admin.query_by_key(
        args.maybe("traceTopic") or TRACE_TOPIC,
        message_id,
        max_count=args.integer("maxNum", 64),
        begin_ms=args.integer("beginTimestamp"),
        end_ms=args.integer("endTimestamp", END_OF_TIME_MS),
    )
    records = [
        (fields, message.born_host.rpartition(":")[0]) for message in found for fields in trace_records(message.body)
    ]
    if not records:
        raise NotFoundError(f"there is no trace of message {message_id!r}: its producer and consumers do not trace")
    sent = [(fields, host) for fields, host in records if fields[0] == "Pub" and fields[5] == message_id]
    if sent:
        echo(_LAYOUT.format("#Type", "#ProducerGroup", "#ClientHost", "#SendTime", "#CostTimes", "#Status"))
        for fields, host in sent:
            success = len(fields) > 13 and fields[13] == "true"
            echo(_row("Pub", fields[3], host, fields[1], f"{fields[10]}ms", success))
        echo()
    _print_deliveries(records, message_id)


def _print_deliveries(records: list[tuple[list[str], str]], message_id: str) -> None:
    """Begin and end of each delivery, joined by the id of the request they share."""
    ends = {fields[1]: fields for fields, _ in records if fields[0] == "SubAfter" and fields[2] == message_id}
    begins = [(fields, host) for fields, host in records if fields[0] == "SubBefore" and fields[5] == message_id]
    for group in sorted({fields[3] for fields, _ in begins}):
        echo(_LAYOUT.format("#Type", "#ConsumerGroup", "#ClientHost", "#ConsumerTime", "#CostTimes", "#Status"))
        for fields, host in begins:
            if fields[3] == group:
                end = ends.get(fields[4])
                cost = f"{end[3]}ms" if end is not None else "-"
                echo(_row("Sub", group, host, fields[1], cost, end is not None and end[4] == "true"))
        echo()


def _row(kind: str, group: str, host: str, milliseconds: str, cost: str, success: bool) -> str:
    moment = whole_number(milliseconds)
    when = milliseconds if moment is None else local_text(moment)
    return _LAYOUT.format(kind, group, host, when or "-", cost, "success" if success else "failed")


_FIELDS_MIN = {"Pub": 11, "SubBefore": 6, "SubAfter": 5}


def trace_records(body: bytes) -> Iterator[list[str]]:
    """The records of a body; what is none, or is cut short, is left out."""
    for record in body.decode("utf-8", "replace").split("\x02"):
        fields = record.split("\x01")
        if len(fields) >= _FIELDS_MIN.get(fields[0], len(fields) + 1):
            yield fields
