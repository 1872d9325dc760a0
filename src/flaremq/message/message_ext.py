"""``MessageExt``: a read view over one stored record.

Making one costs a few assignments. Numbers are read off the record whenever they are asked for, which compiled costs
no more than any attribute; topic and properties are decoded once and kept. Nothing is copied from the record until
body or properties are asked for.

The view borrows the record: if it was given as a ``memoryview`` of a mapped file, it keeps the mapping alive. Field
access on bytes that are no record raises ``CorruptionError``; use ``check_record`` where checksums matter.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from typing import Any, Literal

import cython

from flaremq.errors import CorruptionError
from flaremq.message import properties as names
from flaremq.message.compression import INFLATED_SIZE_MAX, inflate
from flaremq.message.hosts import format_host
from flaremq.message.message_id import encode_message_id
from flaremq.message.properties import parse_properties, split_keys
from flaremq.message.sys_flag import TransactionType, compression_type, transaction_type

if not cython.compiled:
    from flaremq.core.frame import MAGIC_V1
    from flaremq.core.memory import View, bytes_at, load_i8, load_i16, load_i32, load_i64, part_of, view_of

_COMPRESSED = 1
_INNER_BATCH = 0x80
_HEADER_BYTES = 48  # up to and with BORNTIMESTAMP

BodyForm = Literal["text", "base64", "none"]


class MessageExt:
    """One stored message. Fields are the record's, and read-only but for ``topic`` and ``queue_offset``."""

    __slots__ = ("_at", "_length", "_offset", "_properties", "_record", "_source", "_text", "_topic")

    def __init__(self, record: bytes | memoryview) -> None:
        self._record: bytes | memoryview | None = record
        self._source: bytes | memoryview = record  # what the record is a part of: [_at, _at + _length)
        self._at = 0
        self._length = len(record)
        self._offset: int | None = None  # another queue offset than the record's
        self._topic: str | None = None
        self._text: memoryview | None = None  # the properties as stored
        self._properties: dict[str, str] | None = None

    def own(self, record: bytes) -> None:
        """Instead of ``__init__``: a record that belongs to this message alone."""
        self._record = self._source = record
        self._at = 0
        self._length = len(record)
        self._offset = self._topic = self._text = self._properties = None

    def lend(self, source: memoryview, at: int, length: int) -> None:
        """Instead of ``__init__``: the record as a part of something larger, cut out once it is asked for."""
        self._record = None
        self._source = source
        self._at = at
        self._length = length
        self._offset = self._topic = self._text = self._properties = None

    @property
    def record(self) -> bytes | memoryview:
        """The whole record as it is stored."""
        if self._record is None:
            self._record = memoryview(self._source)[self._at : self._at + self._length]
        return self._record

    def plain_body(self) -> bytes | None:
        """The body as it is stored, without a look at anything behind it; None if it has to be inflated."""
        view = self._prefix("body")
        if load_i32(view, 36) & _COMPRESSED:
            return None
        return bytes_at(view, _body_at(view), self._body_end("body") - _body_at(view))

    @property
    def length(self) -> int:
        """Bytes of the record, whatever it says of its size."""
        return self._length

    def _prefix(self, name: str) -> View:
        """The record, which is known to have everything before its body; ``name`` is what is wanted of it."""
        whole = view_of(self._source)
        if self._length >= _HEADER_BYTES and self._length <= whole.size - self._at:
            view = part_of(whole, self._at, self._length)
            if view.size >= _body_at(view):
                return view
        raise CorruptionError("record cut short", expected=name, found=f"{self._length} bytes")

    @property
    def size(self) -> int:
        return load_i32(self._prefix("size"), 0)

    @property
    def magic(self) -> int:
        return load_i32(self._prefix("magic"), 4)

    @property
    def body_crc(self) -> int:
        return load_i32(self._prefix("body_crc"), 8)

    @property
    def queue_id(self) -> int:
        return load_i32(self._prefix("queue_id"), 12)

    @property
    def flag(self) -> int:
        return load_i32(self._prefix("flag"), 16)

    @property
    def queue_offset(self) -> int:
        if self._offset is not None:
            return self._offset
        return load_i64(self._prefix("queue_offset"), 20)

    @queue_offset.setter
    def queue_offset(self, offset: int) -> None:
        self._offset = offset

    @property
    def physical_offset(self) -> int:
        return load_i64(self._prefix("physical_offset"), 28)

    @property
    def sys_flag(self) -> int:
        return load_i32(self._prefix("sys_flag"), 36)

    @property
    def born_timestamp(self) -> int:
        return load_i64(self._prefix("born_timestamp"), 40)

    @property
    def born_host_bytes(self) -> bytes:
        end = _born_host_end(self._prefix("born_host_bytes"))
        return bytes(self.record[48:end])

    @property
    def store_timestamp(self) -> int:
        view = self._prefix("store_timestamp")
        return load_i64(view, _born_host_end(view))

    @property
    def store_host_bytes(self) -> bytes:
        view = self._prefix("store_host_bytes")
        return bytes(self.record[_born_host_end(view) + 8 : _body_at(view) - 16])

    @property
    def reconsume_times(self) -> int:
        view = self._prefix("reconsume_times")
        return load_i32(view, _body_at(view) - 16)

    @property
    def prepared_transaction_offset(self) -> int:
        view = self._prefix("prepared_transaction_offset")
        return load_i64(view, _body_at(view) - 12)

    @property
    def body_length(self) -> int:
        view = self._prefix("body_length")
        return load_i32(view, _body_at(view) - 4)

    @property
    def topic(self) -> str:
        if self._topic is None:
            self._read_texts("topic")
        assert self._topic is not None
        return self._topic

    @topic.setter
    def topic(self, topic: str) -> None:
        if self._text is None:
            self._read_texts("topic")  # or that would overwrite the name later
        self._topic = topic

    @property
    def raw_properties(self) -> memoryview:
        """The properties string as it is stored."""
        if self._text is None:
            self._read_texts("raw_properties")
        assert self._text is not None
        return self._text

    @property
    def properties(self) -> dict[str, str]:
        if self._properties is None:
            self._properties = parse_properties(self.raw_properties)
        return self._properties

    def _body_end(self, name: str) -> int:
        view = self._prefix(name)
        end = _body_at(view) + load_i32(view, _body_at(view) - 4)
        if end < _body_at(view) or end > view.size:
            raise CorruptionError(
                "body does not end within the record",
                offset=self.physical_offset,
                expected=f"at most {view.size} bytes",
                found=self.body_length,
            )
        return end

    def _read_texts(self, name: str) -> None:
        """Decode the topic and find the properties."""
        view = self._prefix(name)
        at = self._body_end(name)
        start = at + (1 if load_i32(view, 4) == MAGIC_V1 else 2)
        if start > view.size:
            raise CorruptionError("record cut short", expected=name, found=f"{view.size} bytes")
        length = load_i8(view, at) if start == at + 1 else load_i16(view, at)
        properties_at = start + length + 2
        if length < 0 or properties_at > view.size:
            raise CorruptionError("topic outside the record", offset=self.physical_offset, found=length)
        properties_length = load_i16(view, properties_at - 2)
        properties_end = properties_at + max(0, properties_length)
        if properties_end > view.size:
            raise CorruptionError(
                "topic or properties outside the record",
                offset=self.physical_offset,
                found=(length, properties_length),
            )
        record = self.record
        self._topic = str(record[start : properties_at - 2], "utf-8", "replace")
        self._text = memoryview(record)[properties_at:properties_end]

    @property
    def born_host(self) -> str:
        return format_host(self.born_host_bytes)

    @property
    def store_host(self) -> str:
        return format_host(self.store_host_bytes)

    @property
    def stored_body(self) -> memoryview:
        """The body as it lies in the record, compressed if it was sent so."""
        return memoryview(self.record)[_body_at(self._prefix("stored_body")) : self._body_end("stored_body")]

    @property
    def body(self) -> bytes:
        """The application's bytes: inflated if they were compressed.

        A body that says it is compressed and cannot be inflated is given as it is stored, so that one message of a
        careless producer does not end the loop of a reader; ``body_error`` says why.
        """
        try:
            return self.read_body()
        except CorruptionError:
            return bytes(self.stored_body)

    @property
    def body_error(self) -> str | None:
        """Why ``body`` is not what the producer meant; None if it is."""
        if not self.sys_flag & _COMPRESSED:
            return None
        try:
            self.read_body()
        except CorruptionError as error:
            return str(error)
        return None

    def read_body(self, *, inflated_size_max: int = INFLATED_SIZE_MAX) -> bytes:
        """The application's bytes; ``CorruptionError`` if they cannot be inflated within the limit."""
        stored = self.stored_body
        if self.sys_flag & _COMPRESSED:
            return inflate(stored, compression_type(self.sys_flag), inflated_size_max)
        return bytes(stored)

    @property
    def tags(self) -> str | None:
        return self.properties.get(names.TAGS)

    @property
    def keys(self) -> list[str]:
        return split_keys(self.properties.get(names.KEYS))

    @property
    def uniq_key(self) -> str | None:
        return self.properties.get(names.UNIQUE_KEY)

    @property
    def message_id(self) -> str:
        """The offset id, by which any broker that holds the record finds it."""
        return encode_message_id(self.store_host_bytes, self.physical_offset)

    @property
    def transaction_type(self) -> TransactionType:
        return transaction_type(self.sys_flag)

    @property
    def is_inner_batch(self) -> bool:
        """Whether the body holds several messages; ``batch.inner_messages`` takes them apart.

        Such a record says how many. The flag alone is one flipped bit of a plain one, and a queue of batches made for
        it would hide the queue it belongs to.
        """
        return bool(self.sys_flag & _INNER_BATCH) and names.INNER_NUM in self.properties

    def to_dict(self, body: BodyForm = "text", *, body_bytes_max: int | None = None) -> dict[str, Any]:
        """All fields under the names RocketMQ's tools use.

        ``body`` chooses how the application's bytes appear: as text (left out if they are not UTF-8), as
        base64 or not at all. A body stored in more than ``body_bytes_max`` bytes is left out too.
        """
        stored = self.stored_body
        result: dict[str, Any] = {
            "physicalOffset": self.physical_offset,
            "size": self.size,
            "magic": f"{self.magic & 0xFFFFFFFF:08x}",
            "topic": self.topic,
            "queueId": self.queue_id,
            "queueOffset": self.queue_offset,
            "sysFlag": self.sys_flag,
            "flag": self.flag,
            "bornTimestamp": self.born_timestamp,
            "bornHost": self.born_host,
            "storeTimestamp": self.store_timestamp,
            "storeHost": self.store_host,
            "reconsumeTimes": self.reconsume_times,
            "preparedTransactionOffset": self.prepared_transaction_offset,
            "bodyCRC": self.body_crc,
            "bodyLength": self.body_length,
            "bodySha256": hashlib.sha256(stored).hexdigest(),
        }
        shown = self._add_inflated(result, body) if self.sys_flag & _COMPRESSED else bytes(stored)
        if shown is not None and (body_bytes_max is None or self.body_length <= body_bytes_max):
            _add_body(result, shown, body)
        result["tags"] = self.tags
        result["keys"] = self.properties.get(names.KEYS)
        result["properties"] = dict(self.properties)
        result["msgId"] = self.message_id
        return result

    def _add_inflated(self, result: dict[str, Any], body: BodyForm) -> bytes | None:
        try:
            inflated = self.read_body()
        except CorruptionError as error:
            # A listing goes on past a body that cannot be inflated and says why; as base64 it shows what is stored.
            result["inflatedLength"] = result["inflatedSha256"] = None
            result["bodyError"] = str(error)
            return bytes(self.stored_body) if body == "base64" else None
        result["inflatedLength"] = len(inflated)
        result["inflatedSha256"] = hashlib.sha256(inflated).hexdigest()
        return inflated

    def __reduce__(self) -> tuple[type[MessageExt], tuple[bytes]]:
        # Pickled and copied as its record alone: a view of a mapping cannot leave the process.
        return MessageExt, (bytes(self.record),)

    def __repr__(self) -> str:
        try:
            place = f"{self.topic!r}, queue_id={self.queue_id}, queue_offset={self.queue_offset}, "
            return f"MessageExt({place}physical_offset={self.physical_offset}, size={self.size})"
        except CorruptionError as error:
            return f"MessageExt({error})"


def lent_message(source: memoryview, at: int, length: int) -> MessageExt:
    """The message whose record is ``source[at:at + length]``; it keeps ``source`` alive."""
    message = MessageExt.__new__(MessageExt)
    message.lend(source, at, length)
    return message


def _born_host_end(record: View) -> int:
    return 68 if load_i32(record, 36) & 0x10 else 56


def _body_at(record: View) -> int:
    flags = load_i32(record, 36)
    return 88 + (12 if flags & 0x10 else 0) + (12 if flags & 0x20 else 0)


def _add_body(result: dict[str, Any], body: bytes, form: BodyForm) -> None:
    if form == "base64":
        result["body"] = base64.b64encode(body).decode()
    elif form == "text":
        # Left out if it is not text: length and hash are there, and base64 shows the bytes.
        with contextlib.suppress(UnicodeDecodeError):
            result["body"] = str(body, "utf-8")
