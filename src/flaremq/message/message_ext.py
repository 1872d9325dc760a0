"""``MessageExt``: a read view over one stored record.

Making one costs a single assignment. A field is decoded when it is first asked for and then kept in its slot,
so the second access is as cheap as any attribute: ``__getattr__`` runs only while a slot is empty, and fills
all fields that one unpack yields. Nothing is copied from the record until body or properties are asked for.

The view borrows the record: if it was given as a ``memoryview`` of a mapped file, it is valid as long as the
mapping is. Field access on bytes that are no record raises ``CorruptionError``; use ``check_record`` where
checksums matter.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import struct
from typing import TYPE_CHECKING, Any, Literal

from flaremq.errors import CorruptionError
from flaremq.message import properties as names
from flaremq.message.compression import INFLATED_SIZE_MAX, inflate
from flaremq.message.hosts import format_host
from flaremq.message.message_id import encode_message_id
from flaremq.message.properties import parse_properties, split_keys
from flaremq.message.record.layout import INT, MAGIC_V1, PREFIX_BY_FAMILY, SHORT, SYS_FLAG_AT
from flaremq.message.sys_flag import COMPRESSED, INNER_BATCH, TransactionType, compression_type, transaction_type

_NOWHERE = -1  # where a body ends whose length cannot be right

BodyForm = Literal["text", "base64", "none"]


class MessageExt:
    """One stored message. Fields are read-only by convention; their meaning is that of the record layout."""

    __slots__ = (
        "_body_at",
        "_body_end",
        "body_crc",
        "body_length",
        "born_host_bytes",
        "born_timestamp",
        "flag",
        "magic",
        "physical_offset",
        "prepared_transaction_offset",
        "properties",
        "queue_id",
        "queue_offset",
        "raw_properties",
        "reconsume_times",
        "record",
        "size",
        "store_host_bytes",
        "store_timestamp",
        "sys_flag",
        "topic",
    )

    record: bytes | memoryview
    size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    born_host_bytes: bytes
    store_timestamp: int
    store_host_bytes: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body_length: int
    topic: str
    raw_properties: memoryview
    properties: dict[str, str]
    _body_at: int
    _body_end: int

    def __init__(self, record: bytes | memoryview) -> None:
        self.record = record

    if not TYPE_CHECKING:  # declared fields only: a type checker must still find misspelt names

        def __getattr__(self, name: str) -> Any:
            decode = _DECODERS.get(name)
            if decode is None:
                raise AttributeError(f"MessageExt has no attribute {name!r}")
            try:
                decode(self)
            except (struct.error, IndexError):
                found = f"{len(self.record)} bytes"
                raise CorruptionError("record cut short", expected=name, found=found) from None
            return getattr(self, name)

    @property
    def born_host(self) -> str:
        return format_host(self.born_host_bytes)

    @property
    def store_host(self) -> str:
        return format_host(self.store_host_bytes)

    @property
    def stored_body(self) -> memoryview:
        """The body as it lies in the record, compressed if it was sent so."""
        return memoryview(self.record)[self._body_at : _body_end(self)]

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
        if not self.sys_flag & COMPRESSED:
            return None
        try:
            self.read_body()
        except CorruptionError as error:
            return str(error)
        return None

    def read_body(self, *, inflated_size_max: int = INFLATED_SIZE_MAX) -> bytes:
        """The application's bytes; ``CorruptionError`` if they cannot be inflated within the limit."""
        stored = self.stored_body
        if self.sys_flag & COMPRESSED:
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
        return bool(self.sys_flag & INNER_BATCH) and names.INNER_NUM in self.properties

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
        shown = self._add_inflated(result, body) if self.sys_flag & COMPRESSED else bytes(stored)
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


def _decode_prefix(message: MessageExt) -> None:
    record = message.record
    (sys_flag,) = INT.unpack_from(record, SYS_FLAG_AT)
    prefix = PREFIX_BY_FAMILY[sys_flag >> 4 & 3]
    (
        message.size,
        message.magic,
        message.body_crc,
        message.queue_id,
        message.flag,
        message.queue_offset,
        message.physical_offset,
        message.sys_flag,
        message.born_timestamp,
        message.born_host_bytes,
        message.store_timestamp,
        message.store_host_bytes,
        message.reconsume_times,
        message.prepared_transaction_offset,
        message.body_length,
    ) = prefix.unpack_from(record)
    message._body_at = prefix.size
    end = prefix.size + message.body_length
    message._body_end = end if prefix.size <= end <= len(record) else _NOWHERE


def _decode_topic(message: MessageExt) -> None:
    record = message.record
    start, length = _topic_span(message)
    properties_at = start + length
    (properties_length,) = SHORT.unpack_from(record, properties_at)
    properties_start = properties_at + 2
    properties_end = properties_start + max(0, properties_length)
    if length < 0 or properties_end > len(record):
        raise CorruptionError(
            "topic or properties outside the record",
            offset=message.physical_offset,
            found=(length, properties_length),
        )
    message.topic = str(record[start:properties_at], "utf-8", "replace")
    message.raw_properties = memoryview(record)[properties_start:properties_end]


def _topic_span(message: MessageExt) -> tuple[int, int]:
    at = _body_end(message)
    if message.magic == MAGIC_V1:
        length = message.record[at]
        return at + 1, length - 256 if length > 127 else length
    (length,) = SHORT.unpack_from(message.record, at)
    return at + 2, length


def _body_end(message: MessageExt) -> int:
    end = message._body_end
    if end == _NOWHERE:
        raise CorruptionError(
            "body does not end within the record",
            offset=message.physical_offset,
            expected=f"at most {len(message.record)} bytes",
            found=message.body_length,
        )
    return end


def _decode_properties(message: MessageExt) -> None:
    message.properties = parse_properties(message.raw_properties)


_DECODERS = {name: _decode_prefix for name in MessageExt.__slots__ if name != "record"}
_DECODERS |= {"topic": _decode_topic, "raw_properties": _decode_topic, "properties": _decode_properties}


def _add_body(result: dict[str, Any], body: bytes, form: BodyForm) -> None:
    if form == "base64":
        result["body"] = base64.b64encode(body).decode()
    elif form == "text":
        # Left out if it is not text: length and hash are there, and base64 shows the bytes.
        with contextlib.suppress(UnicodeDecodeError):
            result["body"] = str(body, "utf-8")
