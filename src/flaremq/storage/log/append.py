"""Appending records to the log: claim a place, write behind the end where nobody looks, publish.

All of it under ``log.lock``, which also guards the next queue offsets; whatever fails before ``publish`` leaves the log
as it was. Every way in ends in one of these functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import cython

from flaremq.errors import InvalidArgumentError
from flaremq.storage.log.log_end import LogEnd

if not cython.compiled:
    from flaremq.core.memory import (
        View,
        ascii_view,
        bytes_view,
        copy_bytes,
        find_byte,
        load_i32,
        load_u16,
        store_u8,
        view_of,
    )
    from flaremq.core.write import Head, bare_size, seal_record, write_head, write_record

    Placed = NamedTuple(  # noqa: UP014  # a class statement would be compiled too
        "Placed", [("queue_offset", int), ("physical_offset", int), ("store_timestamp", int), ("size", int)]
    )

# Where records came to stand: queue offset and physical offset of the first, store time, their sizes.
Appended = tuple[int, int, int, list[int]]

_NO_QUEUE_UNIT = 0x4  # prepared and rollback records have no place in a queue
_ITEM_HEAD = 20  # a message of a batch body up to its own body: size, magic, checksum, flag, body length
BATCH_ITEM_BYTES = 22  # what it is longer than its body and properties
_PROPERTIES_MAX = 32767
# Halves of the reserved name __CRC32#: a name that is one bit off it would be taken for a damaged checksum.
_CRC_HEAD = int.from_bytes(b"__CR", "big")
_CRC_TAIL = int.from_bytes(b"C32#", "big")
_KEYS = b"KEYS\x01"
_TAGS = b"TAGS\x01"


class RecordFields:
    """What all records of one append share."""

    __slots__ = (
        "born_host",
        "born_timestamp",
        "magic",
        "prepared_offset",
        "queue_id",
        "reconsume_times",
        "store_host",
        "sys_flag",
        "topic",
    )

    # Nine parameters on purpose: the fields of a record, in its order.
    def __init__(
        self,
        magic: int,
        topic: bytes,
        queue_id: int,
        sys_flag: int,
        born_timestamp: int | None,
        born_host: bytes,
        store_host: bytes,
        reconsume_times: int = 0,
        prepared_offset: int = 0,
    ) -> None:
        self.magic = magic
        self.topic = topic  # the name behind its length
        self.queue_id = queue_id
        self.sys_flag = sys_flag  # with the host families
        self.born_timestamp = born_timestamp  # None: the store time
        self.born_host = born_host
        self.store_host = store_host
        self.reconsume_times = reconsume_times
        self.prepared_offset = prepared_offset

    def fixed_size(self) -> int:
        """Bytes of a record that has neither body nor properties."""
        return bare_size(len(self.born_host) + len(self.store_host), len(self.topic))

    def head(self, now: int) -> Head:
        return Head(
            self.magic,
            bytes_view(self.topic),
            self.queue_id,
            self.sys_flag,
            now if self.born_timestamp is None else self.born_timestamp,
            bytes_view(self.born_host),
            now,
            bytes_view(self.store_host),
            self.reconsume_times,
            self.prepared_offset,
        )


class TopicEntry:
    """What appends to one topic share. ``queue_offsets`` (next offset by queue id) changes under the put lock only."""

    __slots__ = ("magic", "plain_size", "prefix", "queue_offsets")

    def __init__(self, magic: int, prefix: bytes, queue_offsets: dict[int, int]) -> None:
        self.magic = magic
        self.prefix = prefix  # the length-prefixed name
        self.plain_size = bare_size(16, len(prefix))  # of a record with IPv4 hosts, without body and properties
        self.queue_offsets = queue_offsets


# Eleven parameters on purpose: the fields of a record, and no object a message to hold them.
def append_record(
    log: LogEnd,
    entry: TopicEntry,
    queue_id: int,
    flag: int,
    sys_flag: int,
    born_timestamp: int | None,
    born_host: bytes,
    store_host: bytes,
    reconsume_times: int,
    body: bytes,
    properties: bytes,
) -> Placed:
    """Append one record that has a place in a queue; StoreIOError, with nothing changed, when there is no space."""
    total = bare_size(len(born_host) + len(store_host), len(entry.prefix)) + len(body) + len(properties)
    at = log.claim(total)
    now = log.store_time()
    queue_offset = next_offset(entry.queue_offsets, queue_id)
    base = log.current.start  # type: ignore[union-attr]  # claimed
    head = Head(
        entry.magic,
        bytes_view(entry.prefix),
        queue_id,
        sys_flag,
        now if born_timestamp is None else born_timestamp,
        bytes_view(born_host),
        now,
        bytes_view(store_host),
        reconsume_times,
        0,
    )
    write_record(log.view, at, base, head, queue_offset, flag, bytes_view(body), bytes_view(properties))
    entry.queue_offsets[queue_id] = queue_offset + 1
    log.publish(at + total, now)
    return Placed(queue_offset, base + at, now, total)


def next_offset(queue_offsets: dict[int, int], queue_id: int) -> int:
    found = queue_offsets.get(queue_id)
    return 0 if found is None else found


def append_records(
    log: LogEnd,
    fields: RecordFields,
    queue_offsets: dict[int, int],
    bodies: list[bytes],
    properties: list[bytes],
    flags: Sequence[int] | None,
    seal_crc: bool = False,
) -> Appended:
    """Append records for consecutive queue offsets, all in one file; the caller has checked them and holds the lock.

    With ``seal_crc`` the properties end with room for the record checksum. Raises StoreIOError, with nothing changed,
    when there is no space.
    """
    fixed = fields.fixed_size()
    sizes = [fixed + len(body) + len(text) for body, text in zip(bodies, properties, strict=True)]
    total = 0
    for size in sizes:
        total += size
    at = log.claim(total)
    now = log.store_time()
    head = fields.head(now)
    base = log.current.start  # type: ignore[union-attr]  # claimed
    has_unit = not fields.sys_flag & _NO_QUEUE_UNIT
    first = next_offset(queue_offsets, fields.queue_id) if has_unit else 0
    place = at
    for number in range(len(sizes)):
        flag = 0 if flags is None else flags[number]
        end = write_record(
            log.view,
            place,
            base,
            head,
            first + number,
            flag,
            bytes_view(bodies[number]),
            bytes_view(properties[number]),
        )
        if seal_crc:
            seal_record(log.view, place, end)
        place = end
    if has_unit:
        queue_offsets[fields.queue_id] = first + len(sizes)
    log.publish(place, now)
    return first, base + at, now, sizes


def measure_columns(
    fields: RecordFields,
    bodies: list[bytes],
    keys: Sequence[str | None] | None,
    tags: Sequence[str | None] | None,
    size_max: int,
) -> list[int] | None:
    """Sizes of the records of messages with at most keys and a tag; None if one of them is out of the ordinary."""
    fixed = fields.fixed_size()
    sizes = []
    total = 0
    for number in range(len(bodies)):
        body = bodies[number]
        key = 0 if keys is None else piece_size(keys[number])
        tag = 0 if tags is None else piece_size(tags[number])
        if type(body) is not bytes or key < 0 or tag < 0 or key + tag > _PROPERTIES_MAX:
            return None
        size = fixed + len(body) + key + tag
        total += size
        sizes.append(size)
    return sizes if total <= size_max else None


def piece_size(value: str | None) -> int:
    """What ``write_piece`` writes of a value; -1 if it cannot be stored as it is."""
    if value is None:
        return 0
    text = ascii_view(value)
    if (
        text.size < 0
        or find_byte(text, 0, text.size, 1) < text.size  # the separators
        or find_byte(text, 0, text.size, 2) < text.size
        or not is_storable(text, 0, text.size)
    ):
        return -1
    return text.size + 6 if text.size > 0 else 0


def is_storable(text: View, start: int, end: int) -> bool:
    """No NUL in properties, and nothing that looks like half the name of the record checksum."""
    if find_byte(text, start, end, 0) < end:
        return False
    at = find_byte(text, start, end, 0x5F)  # '_', with which the first half begins
    while at <= end - 4:
        if load_i32(text, at) == _CRC_HEAD:
            return False
        at = find_byte(text, at + 1, end, 0x5F)
    at = find_byte(text, start, end, 0x23)  # '#', with which the second ends
    while at < end:
        if at - 3 >= start and load_i32(text, at - 3) == _CRC_TAIL:
            return False
        at = find_byte(text, at + 1, end, 0x23)
    return True


def append_columns(
    log: LogEnd,
    fields: RecordFields,
    queue_offsets: dict[int, int],
    bodies: list[bytes],
    keys: Sequence[str | None] | None,
    tags: Sequence[str | None] | None,
    sizes: list[int],
) -> Appended:
    """``append_records`` of what ``measure_columns`` measured: no properties are made, they are written in place."""
    total = 0
    for size in sizes:
        total += size
    at = log.claim(total)
    now = log.store_time()
    head = fields.head(now)
    base = log.current.start  # type: ignore[union-attr]  # claimed
    fixed = fields.fixed_size()
    first = next_offset(queue_offsets, fields.queue_id)
    place = at
    for number in range(len(sizes)):
        body = bytes_view(bodies[number])
        end: int = place + sizes[number]
        place = write_head(
            log.view, place, base, head, first + number, 0, body, 0, body.size, sizes[number] - fixed - body.size
        )
        if keys is not None:
            place = write_piece(log.view, place, _KEYS, keys[number])
        if tags is not None:
            place = write_piece(log.view, place, _TAGS, tags[number])
        assert place == end, "records are as long as they were measured"
    queue_offsets[fields.queue_id] = first + len(sizes)
    log.publish(place, now)
    return first, base + at, now, sizes


def write_piece(log: View, at: int, name: bytes, value: str | None) -> int:
    """Write a property whose name comes with its 0x01; where it ends. None and the empty text are not stored."""
    text = ascii_view(value)
    if text.size <= 0:
        return at
    copy_bytes(log, at, bytes_view(name), 0, 5)
    copy_bytes(log, at + 5, text, 0, text.size)
    store_u8(log, at + 5 + text.size, 2)
    return at + 6 + text.size


def count_batch(source: View, start: int, end: int, count_max: int) -> int:
    """Messages of a batch body; -1 if plain code must look, more than ``count_max`` if it has more.

    Plain code looks at a malformed body, and at properties with a NUL (recovery tells a torn record by it) or with what
    looks like the name of the record checksum.
    """
    at, count = start, 0
    while at < end and count <= count_max:
        if end - at < BATCH_ITEM_BYTES:
            return -1
        length = load_i32(source, at + 16)
        if length < 0 or length > end - at - BATCH_ITEM_BYTES:
            return -1
        place = at + BATCH_ITEM_BYTES + length
        text = load_u16(source, place - 2)
        if text > _PROPERTIES_MAX or text > end - place or not is_storable(source, place, place + text):
            return -1
        at = place + text
        count += 1
    return count


def write_batch_item(log: View, at: int, base: int, head: Head, queue_offset: int, source: View, item: int) -> int:
    """Write the record of the message of a batch body that begins at ``item``; the file offset after it.

    The message is int32 total size, int32 magic, int32 checksum (none of the three is trusted), int32 flag, int32 body
    length, body, int16 properties length, properties.
    """
    length = load_i32(source, item + 16)
    text_at = item + BATCH_ITEM_BYTES + length
    text = load_u16(source, text_at - 2)
    flag = load_i32(source, item + 12)
    at = write_head(log, at, base, head, queue_offset, flag, source, item + _ITEM_HEAD, length, text)
    copy_bytes(log, at, source, text_at, text)
    return at + text


def append_batch_body(
    log: LogEnd,
    fields: RecordFields,
    queue_offsets: dict[int, int],
    body: bytes,
    size_max: int,
    count_max: int,
) -> Appended | None:
    """Append the messages of a batch body as it came off the wire, under ``log.lock``; None if plain code must look."""
    source = view_of(body)
    count = count_batch(source, 0, source.size, count_max)
    if count > count_max:
        raise InvalidArgumentError(f"a batch of more than {count_max} messages")
    extra = fields.fixed_size() - BATCH_ITEM_BYTES  # of a record over its message
    total = source.size + count * extra
    if count <= 0 or total > size_max:
        return None
    at = log.claim(total)
    now = log.store_time()
    head = fields.head(now)
    base = log.current.start  # type: ignore[union-attr]  # claimed
    first = next_offset(queue_offsets, fields.queue_id)
    sizes: list[int] = []
    place = at
    item = 0
    for number in range(count):
        following = write_batch_item(log.view, place, base, head, first + number, source, item)
        sizes.append(following - place)
        item += following - place - extra
        place = following
    queue_offsets[fields.queue_id] = first + count
    log.publish(place, now)
    return first, base + at, now, sizes
