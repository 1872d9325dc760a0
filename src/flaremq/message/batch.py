"""Several messages in one body: the wire form of a batch, and records that keep it as it is.

    at  size  field          note
     0     4  TOTALSIZE      this message; written, not trusted
     4     4  MAGICCODE      0
     8     4  BODYCRC        0
    12     4  FLAG
    16     4  BODYLENGTH
    20  body  BODY
           2  PROPERTIESLENGTH
       props  PROPERTIES

A plain batch is taken apart by the store: each message becomes a record of its own. An inner batch (SYSFLAG
bits 6 and 7) is stored as one record with the whole batch as its body, ``INNER_NUM`` messages, the first of
them at queue offset ``INNER_BASE``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from flaremq.digits import whole_number
from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import INNER_BASE, KEYS, SIZE_MAX, TAGS, parse_properties, split_keys
from flaremq.message.record.codec import SHORT

ITEM = struct.Struct(">iiiii")
assert ITEM.size == 20
ITEM_OVERHEAD = ITEM.size + SHORT.size  # of a message, besides body and properties


class BatchItem(NamedTuple):
    """One message of a batch body; ``body`` and ``properties`` are views into it."""

    flag: int
    body: memoryview
    properties: memoryview
    end: int  # where it ends in the batch body


@dataclass(frozen=True, slots=True)
class InnerMessage:
    """One message of a record that holds an inner batch; what is not here is the record's."""

    record: MessageExt
    queue_offset: int
    flag: int
    body: bytes
    properties: dict[str, str]

    @property
    def topic(self) -> str:
        return self.record.topic

    @property
    def tags(self) -> str | None:
        return self.properties.get(TAGS)

    @property
    def keys(self) -> list[str]:
        return split_keys(self.properties.get(KEYS))


def encode_batch(messages: Iterable[Message]) -> bytes:
    """The body of a batch send."""
    return b"".join(encode_batch_item(m.flag, m.body, m.encoded_properties()) for m in messages)


def encode_batch_item(flag: int, body: bytes | bytearray | memoryview, properties: bytes) -> bytes:
    if len(properties) > SIZE_MAX:
        raise InvalidArgumentError(f"properties of {len(properties)} bytes, at most {SIZE_MAX} can be stored")
    size = ITEM_OVERHEAD + len(body) + len(properties)
    return b"".join((ITEM.pack(size, 0, 0, flag, len(body)), body, SHORT.pack(len(properties)), properties))


def decode_batch(data: bytes | bytearray | memoryview) -> Iterator[BatchItem]:
    """The messages of a batch body, one by one; ``CorruptionError`` where the lengths run past its end."""
    view = memoryview(data)
    at = 0
    while at < len(view):
        try:
            _, _, _, flag, body_length = ITEM.unpack_from(view, at)
            body_start = at + ITEM.size
            if body_length < 0:
                raise CorruptionError("negative body length in a batch", offset=at, found=body_length)
            properties_at = body_start + body_length
            (properties_length,) = SHORT.unpack_from(view, properties_at)
        except struct.error:
            raise CorruptionError("batch ends within a message", offset=at) from None
        properties_start = properties_at + 2
        end = properties_start + max(0, properties_length)
        if end > len(view):
            raise CorruptionError("batch ends within properties", offset=at)
        yield BatchItem(flag, view[body_start:properties_at], view[properties_start:end], end)
        at = end


def item_start(data: bytes, number: int) -> int:
    """Where a message of a batch body begins; where the body ends, if it holds no more than ``number``."""
    at = 0
    for item in islice(decode_batch(data), number):
        at = item.end
    return at


def inner_base(record: MessageExt) -> int:
    """The queue offset of the first message of an inner-batch record."""
    base = whole_number(record.properties.get(INNER_BASE))
    return record.queue_offset if base is None else base


def inner_messages(record: MessageExt, body: bytes | None = None) -> Iterator[InnerMessage]:
    """The messages of an inner-batch record, in queue order; ``CorruptionError`` if it is not made of them.

    ``body`` is its body, if the caller has read it.
    """
    base = inner_base(record)
    for number, item in enumerate(decode_batch(record.read_body() if body is None else body)):
        yield InnerMessage(record, base + number, item.flag, bytes(item.body), parse_properties(item.properties))
