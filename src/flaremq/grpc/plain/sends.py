"""Sends of one plain message, read where they lie: what is stored and what is answered, no object for each part.

``read_plain_send`` knows what nearly every send is: one message with texts of ASCII, of no special kind, each field
once and where it belongs. About anything else it says nothing (None), and ``outgoing`` decides, whose results for plain
messages are the same; tests compare them. So this needs to know only what it is sure of.
Part of the compiled core (``docs/compiled-core.md``): C types are in the ``.pxd`` beside it.
"""

from __future__ import annotations

import cython

from flaremq.grpc.rules.outgoing import RESERVED

if not cython.compiled:
    from flaremq.core.memory import View, bytes_at, bytes_view, load_u8
    from flaremq.grpc.plain.wire import BYTES, VARINT, is_text, read_name, read_varint, varint

_MESSAGE_ID_MAX = 1024
_SECONDS_MAX = 1 << 40  # years that nobody means are for plain code
_NANOS_MAX = 1_000_000_000
_BAR = 0x7C
_HOST_MAX = 4096
_RESERVED = frozenset(name.encode() for name in RESERVED)


class PlainSend:
    """A message as brokers take it, and what its reply tells."""

    __slots__ = (
        "body", "body_at", "body_length", "born_ms", "host_at", "host_length", "id_at", "id_length", "keys",
        "message_id", "properties", "tag_at", "tag_length", "text_size", "topic", "topic_at", "topic_length",
        "user_properties",
    )  # fmt: skip

    def __init__(self) -> None:
        self.topic = self.message_id = self.properties = self.body = b""
        self.topic_at = self.topic_length = self.tag_at = self.tag_length = self.id_at = self.id_length = 0
        self.host_at = self.host_length = self.body_at = self.body_length = 0
        self.born_ms = 0
        self.text_size = 0  # of what users choose
        self.keys: list[bytes] | None = None
        self.user_properties: dict[bytes, bytes] | None = None


def read_plain_send(
    data: bytes, at: int, body_max: int, user_max: int, count_max: int, now_ms: int, peer: bytes
) -> PlainSend | None:
    """The message of a SendMessageRequest that begins at ``at``; None if it is not plain, or not legal."""
    view = bytes_view(data)
    end = len(data)
    send = PlainSend()
    tag, at = read_varint(view, at, end)
    if tag != 1 << 3 | BYTES:
        return None
    length, at = read_varint(view, at, end)
    if at < 0 or length != end - at:  # the only message, and nothing after it
        return None
    if not _read_message(view, at, end, send):
        return None
    if (
        not send.topic_length
        or not 0 < send.id_length <= _MESSAGE_ID_MAX
        or not 0 < send.body_length <= body_max
        or send.text_size > user_max
        or send.host_length > _HOST_MAX
        or (send.user_properties is not None and len(send.user_properties) > count_max)
    ):
        return None
    if not send.born_ms:
        send.born_ms = now_ms
    send.topic = bytes_at(view, send.topic_at, send.topic_length)
    send.message_id = bytes_at(view, send.id_at, send.id_length)
    send.properties = _properties(view, send, peer)
    send.body = bytes_at(view, send.body_at, send.body_length)
    return send


def _properties(view: View, send: PlainSend, peer: bytes) -> bytes:
    """In the order of ``outgoing``."""
    parts: list[bytes] = [b"UNIQ_KEY\x01", send.message_id]
    if send.user_properties is not None:
        for name, value in send.user_properties.items():
            parts.append(b"\x02")
            parts.append(name)
            parts.append(b"\x01")
            parts.append(value)
    if send.tag_length:
        parts.append(b"\x02TAGS\x01")
        parts.append(bytes_at(view, send.tag_at, send.tag_length))
    if send.keys is not None:
        parts.append(b"\x02KEYS\x01")
        parts.append(b" ".join(send.keys))
    parts.append(b"\x02BORN_TIMESTAMP\x01")
    parts.append(b"%d" % send.born_ms)
    parts.append(b"\x02__BORNHOST\x01")
    parts.append(bytes_at(view, send.host_at, send.host_length) if send.host_length else peer)
    parts.append(b"\x02PGROUP\x01")
    parts.append(send.topic)
    parts.append(b"\x02")
    return b"".join(parts)


def _read_message(view: View, at: int, end: int, send: PlainSend) -> bool:
    seen = 0
    while at < end:
        tag, at = read_varint(view, at, end)
        length, at = read_varint(view, at, end)
        if at < 0 or length > end - at or tag & 7 != BYTES:
            return False
        field = tag >> 3
        if field == 2:
            if not _read_user_property(view, at, at + length, send):
                return False
            at += length
            continue
        if field > 4 or seen >> field & 1:
            return False
        seen |= 1 << field
        if field == 1:
            send.topic_at, send.topic_length = read_name(view, at, at + length)
            if send.topic_at < 0:
                return False
        elif field == 3:
            if not _read_system(view, at, at + length, send):
                return False
        elif field == 4:
            send.body_at, send.body_length = at, length
        else:
            return False
        at += length
    return True


def _read_user_property(view: View, at: int, end: int, send: PlainSend) -> bool:
    """A name and a value in this order, each of them there; not one of the broker's own."""
    tag, at = read_varint(view, at, end)
    length, at = read_varint(view, at, end)
    if tag != 1 << 3 | BYTES or at < 0 or length > end - at or not is_text(view, at, length):
        return False
    name = bytes_at(view, at, length)
    send.text_size += length
    at += length
    tag, at = read_varint(view, at, end)
    length, at = read_varint(view, at, end)
    if tag != 2 << 3 | BYTES or at < 0 or length != end - at or not is_text(view, at, length):
        return False
    if send.user_properties is None:
        send.user_properties = {}
    if name in send.user_properties or name in _RESERVED or _steers(name):
        return False
    send.text_size += length
    send.user_properties[name] = bytes_at(view, at, length)
    return True


def _steers(name: bytes) -> bool:
    """Whether a broker takes the name for one of its own."""
    return name.startswith((b"INNER_", b"TIMER_D")) or name.endswith(b"__SHARDINGKEY") or b"CRC32" in name


def _read_system(view: View, at: int, end: int, send: PlainSend) -> bool:
    seen = 0
    while at < end:
        tag, at = read_varint(view, at, end)
        length, at = read_varint(view, at, end)
        if at < 0:
            return False
        field = tag >> 3
        if field != 2:
            if field > 13 or seen >> field & 1:
                return False
            seen |= 1 << field
        if tag & 7 == VARINT:
            # Encoding and type are what they are if nothing is said; the queue is the client's guess.
            if (field != 5 and field != 6 and field != 13) or (field < 13 and length > 1):
                return False
            continue
        if tag & 7 != BYTES or length > end - at:
            return False
        if field == 7:
            if not _read_time(view, at, at + length, send):
                return False
        elif not is_text(view, at, length):
            return False
        elif field == 3:
            send.id_at, send.id_length = at, length
        elif field == 8:
            send.host_at, send.host_length = at, length
        elif field == 1:
            if _has_bar(view, at, length):
                return False
            send.tag_at, send.tag_length = at, length
            send.text_size += length
        elif field == 2:
            if send.keys is None:
                send.keys = []
            send.keys.append(bytes_at(view, at, length))
            send.text_size += length
        else:
            return False
        at += length
    return True


def _has_bar(view: View, at: int, length: int) -> bool:
    place, end = at, at + length
    while place < end and load_u8(view, place) != _BAR:
        place += 1
    return place < end


def _read_time(view: View, at: int, end: int, send: PlainSend) -> bool:
    seconds = nanos = 0
    while at < end:
        tag, at = read_varint(view, at, end)
        value, at = read_varint(view, at, end)
        if at < 0:
            return False
        if tag == 1 << 3 and value < _SECONDS_MAX and not seconds:
            seconds = value
        elif tag == 2 << 3 and value < _NANOS_MAX and not nanos:
            nanos = value
        else:
            return False
    send.born_ms = seconds * 1000 + nanos // 1_000_000
    return True


def sent_reply(status: bytes, message_id: bytes, queue_offset: int) -> bytes:
    """The reply to a send that was stored, as it goes out: ``status`` is the field of a status that says so."""
    offset = b"" if not queue_offset else b"\x20" + varint(queue_offset)
    size = varint(len(message_id))
    entry = b"".join((status, b"\x12", size, message_id, b"\x1a", size, message_id, offset))
    message = b"".join((status, b"\x12", varint(len(entry)), entry))
    return b"\0" + len(message).to_bytes(4, "big") + message
