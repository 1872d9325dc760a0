"""One message with everything that is stored of it: fields, properties, body, who has consumed it.

A body is data. It is shown as text, as JSON that was parsed and written again, or as hexadecimal digits, up to a cap;
as it is it leaves as an attachment alone.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

import orjson

from flaremq.client.admin.messages import TrackType
from flaremq.client.consumer.received import ReceivedMessage
from flaremq.dashboard.data.files import file_of
from flaremq.dashboard.data.reader import ClusterReader
from flaremq.dashboard.data.state import ClusterState
from flaremq.dashboard.questions.lookup import find_message
from flaremq.dashboard.views.listing import Query, chosen
from flaremq.dashboard.views.messages import message_row, number_property
from flaremq.dashboard.views.page import Page, page
from flaremq.dashboard.views.store import file_bytes_of
from flaremq.errors import CorruptionError, FlareMQError
from flaremq.message import properties as names
from flaremq.message.sys_flag import COMPRESSED, compression_type

SHOWN_MAX: Final = 64 << 10
INFLATED_MAX: Final = 8 << 20
KINDS: Final = ("text", "json", "hex")
_TIMER_DUE: Final = "TIMER_DELIVER_MS"
_SYSTEM: Final = frozenset(
    value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)
) | {"TIMER_DELIVER_MS", "TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC"}
_COMPRESSIONS: Final = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}
_STATES: Final = {
    TrackType.CONSUMED: "consumed",
    TrackType.CONSUMED_BUT_FILTERED: "filtered",
    TrackType.NOT_CONSUMED_YET: "waiting",
    TrackType.NOT_ONLINE: "offline",
    TrackType.PULL: "pull",
    TrackType.BROADCASTING: "broadcast",
    TrackType.UNKNOWN: "unknown",
}


async def message_page(state: ClusterState, reader: ClusterReader, message_id: str, query: Query, now_ms: int) -> Page:
    message = await find_message(state, reader, query.get("topic", ""), message_id)
    kind = chosen(query, "as", (*KINDS, "raw", "auto"), "auto")
    online = {name: state.groups.get(name) for name in state.groups_of_topic.get(message.topic, {})}
    return page(state, now_ms) | {
        "message": _message(state, message),
        "properties": [
            {"id": name, "name": name, "value": value, "system": name in _SYSTEM}
            for name, value in sorted(message.properties.items())
        ],
        "body": body_of(message, kind),
        "track": None,
        "trace": None,
        "groups_online": [
            {"group": name, "clients": [client.client_id for client in group.members.connection_set]}
            for name, group in online.items()
            if group is not None and group.members is not None
        ],
    }


def _message(state: ClusterState, message: ReceivedMessage) -> dict[str, Any]:
    broker = state.master_of(message.queue.broker_name)
    name, offset = (None, None) if broker is None else file_of(message.physical_offset, file_bytes_of(broker))
    is_compressed = bool(message.sys_flag & COMPRESSED)
    flag = message.properties.get(names.TRACE_SWITCH)
    return message_row(message) | {
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "store_host": message.store_host,
        "crc": message.body_crc,
        "crc_ok": zlib.crc32(message.stored_body) & 0x7FFFFFFF == message.body_crc & 0x7FFFFFFF,
        "compressed": is_compressed,
        "compression": _COMPRESSIONS.get(compression_type(message.sys_flag), "unknown") if is_compressed else None,
        "transaction_id": message.properties.get(names.TRANSACTION_ID),
        "prepared_offset": message.prepared_transaction_offset,
        "broker_address": None if broker is None else broker.address,
        "file": name,
        "file_offset": offset,
        "due_ms": number_property(message, _TIMER_DUE),
        "trace_on": None if flag is None else flag != "false",
    }


def whole_body(message: ReceivedMessage) -> bytes:
    """The application's bytes, inflated up to the cap."""
    return message.read_body(inflated_size_max=INFLATED_MAX)


def body_of(message: ReceivedMessage, kind: str) -> dict[str, Any]:
    """The body in a form that can be read; ``auto`` chooses one."""
    error = None
    try:
        data = whole_body(message)
    except CorruptionError as failure:
        data, error = bytes(message.stored_body), str(failure)
    text = _text(data)
    shown = {"hex": _hex, "json": _json}.get(kind)
    if kind == "auto" or (kind in ("text", "raw")):
        kind = "hex" if text is None else "text"
        if text is not None and (pretty := _json(data)) is not None and text.lstrip()[:1] in ("{", "["):
            kind, text = "json", pretty
        content = _hex(data) if text is None else text
    elif shown is not None and (found := shown(data)) is not None:
        content = found
    else:
        kind, content = ("hex", _hex(data)) if text is None else ("text", text)
        error = error or "the body is no JSON"
    is_cut = len(content) > SHOWN_MAX or (kind == "hex" and len(data) > SHOWN_MAX // 4)
    return {
        "as": kind,
        "kinds": list(KINDS),
        "content": content[:SHOWN_MAX],
        "shown_bytes": min(len(data), SHOWN_MAX // 4 if kind == "hex" else SHOWN_MAX) if is_cut else len(data),
        "total_bytes": message.body_length,
        "cut": is_cut,
        "encoding": "binary" if _text(data) is None else "utf-8",
        "inflated_bytes": len(data) if message.sys_flag & COMPRESSED else None,
        "error": error,
    }


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _json(data: bytes) -> str | None:
    if len(data) > INFLATED_MAX:
        return None
    try:
        return orjson.dumps(orjson.loads(data), option=orjson.OPT_INDENT_2).decode()
    except (ValueError, RecursionError):
        return None


def _hex(data: bytes) -> str:
    """Offset, sixteen bytes, the same as ASCII."""
    lines = []
    for at in range(0, min(len(data), SHOWN_MAX // 4), 16):
        part = data[at : at + 16]
        legible = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<47}  {legible}")
    return "\n".join(lines)


async def track_page(state: ClusterState, reader: ClusterReader, message_id: str, query: Query, now_ms: int) -> Page:
    """How each group of its topic stands with a message."""
    message = await find_message(state, reader, query.get("topic", ""), message_id)
    rows = [
        {"id": track.group, "group": track.group, "state": _STATES[track.track_type], "detail": track.remark}
        for track in await _tracks(reader, message)
    ]
    return page(state, now_ms) | {"items": rows, "total": len(rows), "message_id": message.message_id}


async def _tracks(reader: ClusterReader, message: ReceivedMessage) -> list[Any]:
    try:
        return list(await reader.message_track(message))
    except FlareMQError:
        return []
