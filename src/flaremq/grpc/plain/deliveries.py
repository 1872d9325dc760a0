"""Messages on their way out, from their record to the bytes of a reply: no object of protobuf for any of them.

``read_plain_record`` knows what nearly every record is: a message that somebody has sent as it stands, in texts of
ASCII, given for the first time. About anything else it says nothing (None), and ``delivered`` makes the message; what
both make of a plain one is the same, tests compare them. So this needs to know only what it is sure of.
Part of the compiled core (``docs/compiled-core.md``): C types are in the ``.pxd`` beside it.
"""

from __future__ import annotations

import hashlib

import cython

from flaremq.grpc.rules.outgoing import (
    BORN_HOST,
    BORN_TIMESTAMP,
    LITE_TOPIC,
    PRIORITY,
    RESERVED,
    SHARDING_KEY,
    TRACE_CONTEXT,
)
from flaremq.message import properties as names
from flaremq.message.hosts import format_host

if not cython.compiled:
    from flaremq.core.frame import MAGIC_V1, MAGIC_V2
    from flaremq.core.memory import (
        View,
        bytes_at,
        bytes_view,
        copy_bytes,
        find_byte,
        load_i8,
        load_i16,
        load_i32,
        load_i64,
        load_u8,
        store_u8,
        view_of,
        writable_view_of,
    )
    from flaremq.grpc.plain.wire import is_text, varint

_BODY_AT = 88  # with both addresses of four bytes
_ODD_FLAGS = 0xFF  # of the system flags: compressed, a transaction's, addresses of IPv6, a batch
_OTHER, _ID, _TAG, _KEYS, _BORN_HOST, _HIDDEN, _STEERS = 0, 1, 2, 3, 4, 5, 6
_SEPARATOR, _END_OF_PIECE = 1, 2
_HOSTS_MAX = 4_096
_PREFIX = 5  # flag and length before each message of gRPC
_MARGIN = 256  # of what has no length of its own: tags, numbers, the digest
_HEX = b"0123456789ABCDEF"

# What a name in the properties is to the message; those that say more than one would think are for plain code.
_KINDS: dict[bytes, int] = {name.encode(): _HIDDEN for name in RESERVED} | {
    names.UNIQUE_KEY.encode(): _ID,
    names.TAGS.encode(): _TAG,
    names.KEYS.encode(): _KEYS,
    BORN_HOST.encode(): _BORN_HOST,
    BORN_TIMESTAMP.encode(): _HIDDEN,
    **{
        name.encode(): _STEERS
        for name in (
            names.TRANSACTION_PREPARED,
            names.DELAY,
            SHARDING_KEY,
            LITE_TOPIC,
            PRIORITY,
            TRACE_CONTEXT,
            names.DLQ_ORIGIN_TOPIC,
            names.DLQ_ORIGIN_MESSAGE_ID,
            names.TIMER_DELIVER_MS,
            "POP_CK",
            "ORIGIN_GROUP",
        )
    },
}
_hosts: dict[bytes, bytes] = {}  # the texts of addresses


class PlainRecord:
    """A message as its record has it; nothing of the record is lent."""

    __slots__ = (
        "body", "born_host", "born_ms", "keys", "message_id", "physical_offset", "queue_id", "queue_offset",
        "reconsume_times", "store_host", "store_ms", "tag", "user_properties",
    )  # fmt: skip

    def __init__(self) -> None:
        self.queue_id = self.queue_offset = self.physical_offset = 0
        self.born_ms = self.store_ms = self.reconsume_times = 0
        self.store_host = self.born_host = self.message_id = self.tag = self.body = b""
        self.keys = self.user_properties = b""  # as the fields of protobuf that they become


def read_plain_record(record: object) -> PlainRecord | None:
    """The message of a record (``record`` is that, and nothing more); None if it is not plain."""
    view = view_of(record)
    size = view.size
    if size < _BODY_AT + 4 or load_i32(view, 0) != size or load_i32(view, 36) & _ODD_FLAGS:
        return None
    magic, body_length = load_i32(view, 4), load_i32(view, 84)
    if body_length < 0 or body_length > size - _BODY_AT - 4:
        return None
    at = _BODY_AT + body_length
    if magic == MAGIC_V1:
        topic_length = load_i8(view, at)
        at += 1
    elif magic == MAGIC_V2:
        topic_length = load_i16(view, at)
        at += 2
    else:
        return None
    at += topic_length
    if topic_length < 0 or at > size - 2 or load_i16(view, at) != size - at - 2:
        return None
    plain = PlainRecord()
    plain.queue_id, plain.reconsume_times = load_i32(view, 12), load_i32(view, 72)
    plain.queue_offset, plain.physical_offset = load_i64(view, 20), load_i64(view, 28)
    plain.born_ms, plain.store_ms = load_i64(view, 40), load_i64(view, 56)
    if (
        plain.queue_id < 0
        or plain.queue_offset < 0
        or plain.physical_offset < 0
        or plain.born_ms < 0
        or plain.store_ms < 0
        or plain.reconsume_times < 0
    ):
        return None
    if not _read_properties(view, at + 2, size, plain) or not plain.message_id:
        return None
    if not plain.born_host:
        plain.born_host = _host(bytes_at(view, 48, 8)).rpartition(b":")[0]
    plain.store_host = _host(bytes_at(view, 64, 8))
    plain.body = bytes_at(view, _BODY_AT, body_length)
    return plain


def _read_properties(view: View, at: int, end: int, plain: PlainRecord) -> bool:
    """Of a name twice the later one counts; so it does in a map of protobuf."""
    user: list[bytes] | None = None
    while at < end:
        stop = find_byte(view, at, end, _END_OF_PIECE)
        middle = find_byte(view, at, stop, _SEPARATOR)
        if middle + 1 >= stop or not is_text(view, at, middle - at) or not is_text(view, middle + 1, stop - middle - 1):
            return False
        name, value = bytes_at(view, at, middle - at), bytes_at(view, middle + 1, stop - middle - 1)
        kind = _kind_of(name)
        if kind == _OTHER:
            field = b"".join((b"\x0a", varint(len(name)), name, b"\x12", varint(len(value)), value))
            if user is None:
                user = []
            user.append(b"\x12")
            user.append(varint(len(field)))
            user.append(field)
        elif kind == _ID:
            plain.message_id = value
        elif kind == _BORN_HOST:
            plain.born_host = value
        elif kind == _TAG:
            plain.tag = value
        elif kind == _KEYS:
            plain.keys = b"".join([b"\x12" + varint(len(key)) + key for key in value.split(b" ") if key])
        elif kind == _STEERS:
            return False
        at = stop + 1
    if user is not None:
        plain.user_properties = b"".join(user)
    return True


def _kind_of(name: bytes) -> int:
    kind: int = _KINDS.get(name, _OTHER)
    return _STEERS if kind != _STEERS and name.startswith(b"TIMER_DEL") else kind


def _host(stored: bytes) -> bytes:
    """The text of an address."""
    text: bytes | None = _hosts.get(stored)
    if text is None:
        if len(_hosts) >= _HOSTS_MAX:
            _hosts.clear()
        text = _hosts[stored] = format_host(stored).encode()
    return text


class Deliveries:
    """Replies of one ReceiveMessage, as they go out: messages one behind the other, each with its length before it."""

    __slots__ = ("_buffer", "_invisible", "_scratch", "_topic", "size")

    def __init__(self, topic: bytes, invisible: bytes) -> None:
        """``topic``: of each message, and ``invisible``: for how long; as messages of protobuf without their length."""
        self._topic = b"".join((b"\x0a", varint(len(topic)), topic))
        self._invisible = b"".join((b"\x7a", varint(len(invisible)), invisible)) if invisible else b""
        self._buffer = bytearray(16_384)
        self._scratch = bytearray(1_024)
        self.size = 0  # of what has not been taken

    def append(self, replies: bytes) -> None:
        """Replies that somebody else has made, with their lengths."""
        self._reserve(len(replies))
        self._buffer[self.size : self.size + len(replies)] = replies
        self.size += len(replies)

    def take(self) -> bytes:
        taken = bytes(memoryview(self._buffer)[: self.size])
        self.size = 0
        return taken

    def add(self, plain: PlainRecord, handle: bytes, attempt: int) -> None:
        """A message that is given for the ``attempt``-th time, with its handle."""
        system_size = self._write_system(plain, handle, attempt)
        topic, user, body = self._topic, plain.user_properties, plain.body
        message_size = len(topic) + len(user) + 1 + _varint_size(system_size) + system_size
        if body:
            message_size += 1 + _varint_size(len(body)) + len(body)
        reply_size = 1 + _varint_size(message_size) + message_size
        self._reserve(_PREFIX + reply_size)
        view, at = writable_view_of(self._buffer), self.size
        store_u8(view, at, 0)
        for shift in range(4):
            store_u8(view, at + 1 + shift, reply_size >> 24 - 8 * shift & 0xFF)
        at = _put_number(view, at + _PREFIX, 0x12, message_size)
        at = _put(view, at, topic)
        at = _put(view, at, user)
        at = _put_number(view, at, 0x1A, system_size)
        copy_bytes(view, at, view_of(self._scratch), 0, system_size)
        at += system_size
        if body:
            at = _put_text(view, at, 0x22, body)
        self.size = at

    def _write_system(self, plain: PlainRecord, handle: bytes, attempt: int) -> int:
        """The system properties, into the scratch: their size."""
        needed = _MARGIN + len(plain.tag) + len(plain.keys) + len(plain.message_id) + len(handle)
        needed += len(plain.born_host) + len(plain.store_host) + len(self._invisible)
        if needed > len(self._scratch):
            self._scratch = bytearray(needed)
        view, at = writable_view_of(self._scratch), 0
        if plain.tag:
            at = _put_text(view, at, 0x0A, plain.tag)
        at = _put(view, at, plain.keys)
        at = _put_text(view, at, 0x1A, plain.message_id)
        at = _put(view, at, b"\x22\x24\x08\x02\x12\x20")  # the digest: MD5, of 32 digits
        digest = hashlib.md5(plain.body, usedforsecurity=False).digest()
        digest_view, digits = bytes_view(digest), bytes_view(_HEX)
        for place in range(16):
            byte = load_u8(digest_view, place)
            store_u8(view, at + 2 * place, load_u8(digits, byte >> 4))
            store_u8(view, at + 2 * place + 1, load_u8(digits, byte & 0xF))
        at = _put(view, at + 32, b"\x28\x01\x30\x01")  # not compressed, an ordinary message
        at = _put_time(view, at, 0x3A, plain.born_ms)
        at = _put_text(view, at, 0x42, plain.born_host)
        at = _put_time(view, at, 0x4A, plain.store_ms)
        at = _put_text(view, at, 0x52, plain.store_host)
        at = _put_text(view, at, 0x62, handle)
        if plain.queue_id:
            at = _put_number(view, at, 0x68, plain.queue_id)
        at = _put_number(view, at, 0x70, plain.queue_offset)
        at = _put(view, at, self._invisible)
        store_u8(view, at, 0x80)  # a tag of two bytes
        return _put_number(view, at + 1, 0x01, attempt)

    def _reserve(self, count: int) -> None:
        missing = self.size + count - len(self._buffer)
        if missing > 0:
            self._buffer += bytes(max(missing, len(self._buffer)))


def _varint_size(value: int) -> int:
    size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


def _put_number(view: View, at: int, tag: int, value: int) -> int:
    """A tag and a number; where they end."""
    store_u8(view, at, tag)
    at += 1
    while value >= 0x80:
        store_u8(view, at, value & 0x7F | 0x80)
        value >>= 7
        at += 1
    store_u8(view, at, value)
    return at + 1


def _put_text(view: View, at: int, tag: int, text: bytes) -> int:
    return _put(view, _put_number(view, at, tag, len(text)), text)


def _put(view: View, at: int, data: bytes) -> int:
    copy_bytes(view, at, bytes_view(data), 0, len(data))
    return at + len(data)


def _put_time(view: View, at: int, tag: int, milliseconds: int) -> int:
    """A point in time that is not before 1970."""
    seconds, nanos = milliseconds // 1000, milliseconds % 1000 * 1_000_000
    size = (1 + _varint_size(seconds) if seconds else 0) + (1 + _varint_size(nanos) if nanos else 0)
    at = _put_number(view, at, tag, size)
    if seconds:
        at = _put_number(view, at, 0x08, seconds)
    if nanos:
        at = _put_number(view, at, 0x10, nanos)
    return at
