"""Messages on their way out: records of a broker as the messages that a client is given."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from flaremq.errors import CorruptionError
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import DigestType, Encoding, MessageType
from flaremq.grpc.rules.outgoing import (
    BORN_HOST,
    LITE_TOPIC,
    PRIORITY,
    RESERVED,
    SHARDING_KEY,
    TRACE_CONTEXT,
    inflate_gzip,
)
from flaremq.grpc.rules.status import Refused
from flaremq.grpc.rules.times import timestamp
from flaremq.message import properties as names
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import TIMER_DELIVER_MS, split_keys
from flaremq.message.sys_flag import COMPRESSED

_GZIP_MAGIC: Final = b"\x1f\x8b"
_HIDDEN: Final = RESERVED | {"ORIGIN_GROUP"}  # the broker's note in what it puts into a retry topic
_TIMER_PREFIX: Final = "TIMER_DEL"
_SMALLEST_RECORD: Final = 64


def records(body: Any) -> Iterator[MessageExt]:
    """The messages of a reply's body."""
    return map(MessageExt, stored_records(body))


def stored_records(body: Any) -> Iterator[memoryview]:
    """The records of a reply's body, in one piece or several."""
    parts: Sequence[Any] = [body] if isinstance(body, bytes | bytearray | memoryview) else body
    for part in parts:
        at, view = 0, memoryview(part)
        while at < len(view):
            size = int.from_bytes(view[at : at + 4], "big")
            if not _SMALLEST_RECORD <= size <= len(view) - at:
                raise CorruptionError("records of a reply", offset=at, expected="a whole record", found=size)
            yield view if size == len(view) else view[at : at + size]
            at += size


def type_of(properties: dict[str, str]) -> MessageType:
    if properties.get(names.TRANSACTION_PREPARED) == "true":
        return MessageType.TRANSACTION
    if names.DELAY in properties or any(name.startswith(_TIMER_PREFIX) for name in properties):
        return MessageType.DELAY
    if SHARDING_KEY in properties:
        return MessageType.FIFO
    if LITE_TOPIC in properties:
        return MessageType.LITE
    return MessageType.PRIORITY if PRIORITY in properties else MessageType.NORMAL


def plain_body(record: MessageExt) -> bytes:
    """The application's bytes, whoever compressed them how: no client of another language reads every form."""
    if record.sys_flag & COMPRESSED and bytes(record.stored_body[:2]) == _GZIP_MAGIC:
        try:
            return inflate_gzip(record.stored_body)
        except Refused:
            return bytes(record.stored_body)
    return record.body


def delivered(
    record: MessageExt, *, topic: str, handle: str = "", reconsume_times: int = -1, invisible_ms: int = 0
) -> Any:
    """The message that a client is given for a record; ``topic`` is the one it asked for."""
    properties = record.properties
    body = plain_body(record)
    times = record.reconsume_times if reconsume_times < 0 else reconsume_times
    message = classes.Message(topic=classes.Resource(name=topic), body=body)
    user = message.user_properties
    for name, value in properties.items():
        if name not in _HIDDEN:
            user[name] = value
    system = message.system_properties
    system.message_id = message_id_of(record)
    system.body_digest.type = DigestType.MD5
    system.body_digest.checksum = hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
    system.body_encoding = Encoding.IDENTITY
    system.message_type = type_of(properties)
    system.born_timestamp.CopyFrom(timestamp(record.born_timestamp))
    system.born_host = properties.get(BORN_HOST) or record.born_host.rpartition(":")[0]
    system.store_timestamp.CopyFrom(timestamp(record.store_timestamp))
    system.store_host = record.store_host
    system.queue_id = record.queue_id
    system.queue_offset = record.queue_offset
    system.delivery_attempt = times + 1
    if handle:
        system.receipt_handle = handle
    if invisible_ms:
        system.invisible_duration.seconds, rest = divmod(invisible_ms, 1000)
        system.invisible_duration.nanos = rest * 1_000_000
    _add_optional(system, properties)
    return message


def _add_optional(system: Any, properties: dict[str, str]) -> None:
    get = properties.get
    if tag := get(names.TAGS):
        system.tag = tag
    if keys := get(names.KEYS):
        system.keys.extend(split_keys(keys))
    if group := get(SHARDING_KEY):
        system.message_group = group
    if trace := get(TRACE_CONTEXT):
        system.trace_context = trace
    due = _number(get(TIMER_DELIVER_MS))
    if due is not None:
        system.delivery_timestamp.CopyFrom(timestamp(due))
    if lite := get(LITE_TOPIC):
        system.lite_topic = lite
    priority = _number(get(PRIORITY))
    if priority is not None and priority < 2**31:
        system.priority = priority
    origin, origin_id = get(names.DLQ_ORIGIN_TOPIC), get(names.DLQ_ORIGIN_MESSAGE_ID)
    if origin and origin_id:
        system.dead_letter_queue.topic = origin
        system.dead_letter_queue.message_id = origin_id


def message_id_of(record: MessageExt) -> str:
    """The id its sender gave it; that of its place for messages of senders who give none."""
    return record.uniq_key or record.message_id


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and len(text) < 17 and text.isascii() and text.isdigit() else None
