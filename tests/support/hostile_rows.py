"""Hostile messages (``hostile_messages.py``) as rows of the Spark sink, and a second opinion on which it may take."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from flaremq.message.topics import NO_CLIENT_SEND
from flaremq.pipeline.sink.names import is_reserved
from flaremq.storage.options import StoreOptions
from tests.support.hostile_messages import Hostile, Item

QUEUES = 4
PROPERTIES_MAX = 32_000
ADDED = 91  # to a message on its way: its own properties and the head of a batch item
_LEVELS = (0, 1, 2, 18, 19, -1, 2**31 - 1, 2**31, -(2**63))
_LEGAL = re.compile(rb"[A-Za-z0-9%_|-]{1,127}")


@dataclass(slots=True)
class Row:
    """Texts are bytes: Spark's strings may hold any."""

    topic: bytes
    body: bytes
    tags: bytes | None
    keys: bytes | None
    properties: dict[bytes, bytes]
    queue_id: int | None
    delay_level: int | None

    @property
    def level(self) -> int:
        return self.delay_level or 0

    def own_properties(self) -> dict[bytes, bytes]:
        return {name: value for name, value in self.properties.items() if not is_reserved(name.decode())}

    def stored_properties(self) -> dict[str, str]:
        """What a message of this row has, beside what says which row it is."""
        found = self.own_properties()
        found |= {name: text for name, text in ((b"KEYS", self.keys), (b"TAGS", self.tags)) if text}
        found |= {b"DELAY": b"%d" % self.level} if self.level else {}
        return {name.decode(): value.decode() for name, value in found.items()}

    def refusals(self, size_max: int, *, drops_reserved: bool) -> set[str]:
        """Words of the reasons not to take it, by what docs/sink.md says; none: it must be stored."""
        words = set()
        topic = self.topic
        if not _LEGAL.fullmatch(topic) or topic.decode() in NO_CLIENT_SEND or topic.startswith(b"%RETRY%"):
            words.add("topic")
        for name, text in (("tags", self.tags), ("keys", self.keys)):
            words |= {name} if _is_odd(text or b"") else set()
        size = 0
        for name, value in self.properties.items():
            if is_reserved(name.decode("utf-8", "replace")) and not _is_odd(name.translate(None, b"\0\1\2")):
                words |= set() if drops_reserved else {"property"}
            elif not name or not value or _is_odd(name) or _is_odd(value):
                words.add("property")
            else:
                size += len(name) + len(value) + 2
        size += sum(len(text) + 6 for text in (self.tags, self.keys) if text)
        size += len(f"DELAY12{self.level}") if self.level else 0
        words |= {"bytes of properties"} if size > PROPERTIES_MAX else set()
        words |= {"body"} if not self.body else set()
        words |= {"maxMessageSize"} if len(self.body) + size + ADDED > size_max else set()
        words |= {"delayLevel"} if not 0 <= self.level <= 18 else set()
        words |= {"queue"} if self.queue_id is not None and not 0 <= self.queue_id < QUEUES else set()
        return words


def _is_odd(text: bytes) -> bool:
    """Whether bytes are no UTF-8, or contain what separates properties."""
    try:
        return min(text.decode(), default="x") <= "\x02"
    except UnicodeDecodeError:
        return True


def hostile_rows(seed: int, options: StoreOptions, size_max: int, count: int) -> list[Row]:
    """The messages of a seed, some of them brought to the sink's own limits, give or take a byte."""
    chance = random.Random(seed)
    found = []
    for run in Hostile(seed, options, odd_bytes=seed % 2 == 0).runs(count):
        for item in run:
            row = _row(item)
            if chance.random() < 0.05:
                row.delay_level = chance.choice(_LEVELS if chance.random() < 0.3 else (1, 2, 18))
            if chance.random() < 0.3:
                row.queue_id = None
            if chance.random() < 0.01:
                row.tags = row.keys = None
                row.delay_level = chance.choice((None, 18))
                taken = len(f"DELAY12{row.level}") if row.level else 0
                row.properties = {b"p": b"v" * (PROPERTIES_MAX - 3 - taken + chance.randrange(-1, 2))}
            if chance.random() < 0.01 and not row.refusals(2**62, drops_reserved=True):
                size = sum(
                    len(name.encode()) + len(text.encode()) + 2 for name, text in row.stored_properties().items()
                )
                row.body = bytes(max(1, size_max - size - ADDED + chance.randrange(-1, 2)))
            found.append(row)
    return found


def _row(item: Item) -> Row:
    queue_id = item.queue_id if -(2**63) <= item.queue_id < 2**63 else None
    message = item.message
    if message is None:
        pieces = [piece.partition(b"\x01") for piece in (item.properties or b"").split(b"\x02")]
        properties = {name: value for name, separator, value in pieces if separator}
        return Row(_bytes(item.topic), item.body, None, None, properties, queue_id, None)
    properties = {_bytes(name): _bytes(value) for name, value in (message.properties or {}).items()}
    tags, keys = message.tags, message.key_text
    return Row(
        _bytes(item.topic),
        item.body,
        None if tags is None else _bytes(tags),
        None if keys is None else _bytes(keys),
        properties,
        queue_id,
        None,
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    offsets = [0]
    for row in rows:
        offsets.append(offsets[-1] + len(row.properties))
    names = _texts(name for row in rows for name in row.properties)
    values = _texts(value for row in rows for value in row.properties.values())
    columns = {
        "topic": _texts(row.topic for row in rows),
        "body": pa.array([row.body for row in rows], pa.binary()),
        "tags": _texts(row.tags for row in rows),
        "keys": _texts(row.keys for row in rows),
        "properties": pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), names, values),
        "queueId": pa.array([row.queue_id for row in rows], pa.int64()),
        "delayLevel": pa.array([row.delay_level for row in rows], pa.int64()),
    }
    return pa.record_batch(columns)


def _texts(values: Iterable[bytes | None]) -> pa.Array:
    """Strings as Spark hands them over: nobody has looked whether they are UTF-8."""
    return pa.array(list(values), pa.binary()).view(pa.string())
