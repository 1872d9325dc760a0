"""Messages as rows: bodies as a line of text, never as anything else."""

from __future__ import annotations

from typing import Any, Final

from flaremq.client.consumer.received import ReceivedMessage
from flaremq.digits import whole_number
from flaremq.errors import CorruptionError
from flaremq.message import properties as names
from flaremq.message.sys_flag import TransactionType
from flaremq.visible import visible

_PREVIEW_CHARACTERS: Final = 200
_INFLATED_MAX: Final = 1 << 20  # for a line of text
_OUTCOMES: Final = {
    TransactionType.PREPARED: "prepared",
    TransactionType.COMMIT: "commit",
    TransactionType.ROLLBACK: "rollback",
}


def message_row(message: ReceivedMessage) -> dict[str, Any]:
    preview, kind = _preview(message)
    return {
        "id": message.message_id,
        "message_id": message.message_id,
        "offset_id": message.offset_message_id,
        "topic": message.topic,
        "broker": message.queue.broker_name,
        "queue": message.queue_id,
        "queue_offset": message.queue_offset,
        "physical_offset": message.physical_offset,
        "tags": message.tags,
        "keys": message.keys,
        "size_bytes": message.size,
        "body_bytes": message.body_length,
        "stored_ms": message.store_timestamp,
        "born_ms": message.born_timestamp,
        "born_host": message.born_host,
        "preview": preview,
        "preview_kind": kind,
        "delay_level": number_property(message, names.DELAY),
        "reconsume": message.reconsume_times,
        "transaction": _OUTCOMES.get(message.transaction_type),
    }


def unique_rows(messages: list[ReceivedMessage]) -> list[dict[str, Any]]:
    """Rows whose ids differ: retries and copies of a message share its id, their places do not."""
    rows = [message_row(message) for message in messages]
    seen: set[str] = set()
    for row in rows:
        if row["id"] in seen:
            row["id"] = row["offset_id"]
        seen.add(row["id"])
    return rows


def number_property(message: ReceivedMessage, name: str) -> int | None:
    return whole_number(message.properties.get(name))


def _preview(message: ReceivedMessage) -> tuple[str, str]:
    try:
        body = message.read_body(inflated_size_max=_INFLATED_MAX)
    except CorruptionError:
        return "", "binary"
    if not body:
        return "", "empty"
    head = body[: _PREVIEW_CHARACTERS * 4]
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3 or len(body) <= len(head):
            return head[:32].hex(" "), "binary"
        text = head[: error.start].decode()  # a character was cut
    kind = "json" if text.lstrip()[:1] in ("{", "[") else "text"
    return visible(text[:_PREVIEW_CHARACTERS]), kind
