"""Moving records to a new log: where each goes, and what in it must change for that.

A record names its own places, so a copy at another place must be patched: PHYSICALOFFSET, QUEUEOFFSET, and
whatever else speaks of places. That is the half message a commit belongs to (PREPAREDTRANSACTIONOFFSET),
the queue offsets in the properties of batches and light queues, and the half messages an op record lists in
its body. Everything else, times and hosts included, stays as it is; a record checksum is made anew.

Offsets only ever shrink, because each queue is renumbered from 0 without holes. So no changed number gets
longer and no record larger than the one it came from.
"""

from __future__ import annotations

import os
from bisect import bisect_right

from flaremq.digits import whole_number
from flaremq.message import properties as names
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.codec import BLANK, MAGIC_BLANK, OFFSETS, QUEUE_OFFSET_AT, body_at, encode_record
from flaremq.message.record.crc import CRC_PROPERTY_SIZE, crc_property, has_crc_property, record_crc
from flaremq.message.sys_flag import gets_queue_unit
from flaremq.message.topics import HALF_TOPIC, OP_HALF_TOPIC
from flaremq.storage.dispatch.record_views import MULTI_DISPATCH, MULTI_OFFSETS, light_queue_id, number_or
from flaremq.storage.files.filesystem import File, FileSystem
from flaremq.storage.files.layout import file_name
from flaremq.storage.queue.table import QueueId

_BLOCK_BYTES = 4 << 20
_PREPARED_OFFSET_FROM_BODY = -12  # PREPAREDTRANSACTIONOFFSET i64, then BODYLENGTH i32, then the body


class OffsetMap:
    """Old offsets to new ones, as runs in which both go up together.

    A topic that was deleted and created again counts from 0 twice; old offsets then mean its last life.
    """

    __slots__ = ("_live", "_old", "runs")

    def __init__(self) -> None:
        self.runs: list[list[int]] = []  # [old start, new start, length]
        self._live = 0  # number of the first run of the last life
        self._old: list[int] = []  # old starts from there on, ascending

    def add(self, old: int, new: int, length: int = 1) -> None:
        last = self.runs[-1] if self.runs else None
        if last is not None and (last[0] + last[2], last[1] + last[2]) == (old, new):
            last[2] += length
            return
        if last is not None and old < last[0] + last[2]:
            self._live = len(self.runs)
            self._old.clear()
        self.runs.append([old, new, length])
        self._old.append(old)

    def find(self, old: int) -> int | None:
        """The new place of exactly this offset; None if it was not kept."""
        at = bisect_right(self._old, old) - 1
        if at < 0:
            return None
        start, new, length = self.runs[self._live + at]
        return new + old - start if old < start + length else None

    def position(self, old: int) -> int:
        """For a consumer that would read ``old`` next: the first kept offset at or behind it."""
        at = bisect_right(self._old, old) - 1
        if at < 0:
            return self.runs[self._live][1] if self.runs else 0
        start, new, length = self.runs[self._live + at]
        return new + min(old - start, length)

    @property
    def kept(self) -> int:
        return sum(length for _, _, length in self.runs)

    def holes(self) -> list[tuple[int, int]]:
        """Old offsets [start, end) between kept ones."""
        pairs = zip(self.runs, self.runs[1:], strict=False)
        return [(a[0] + a[2], b[0]) for a, b in pairs if b[0] > a[0] + a[2]]


class Relocation:
    """Gives every record its place in the new store, in the order they are offered."""

    def __init__(self) -> None:
        self.physical = OffsetMap()
        self.queues: dict[QueueId, OffsetMap] = {}
        self._next: dict[QueueId, int] = {}

    def move(self, record: bytes, physical_offset: int) -> bytes | None:
        """The record as it must stand at ``physical_offset``; None if nothing of it is left to say."""
        message = MessageExt(record)
        changed: dict[str, str] = {}
        body: bytes | None = None
        if message.topic == OP_HALF_TOPIC:
            body = self._op_body(message)
            if body == b"":
                return None
        if names.TRANSACTION_PREPARED_QUEUE_OFFSET in message.properties:
            self._move_half_reference(message, changed)
        queue_offset = message.queue_offset
        if gets_queue_unit(message.sys_flag):
            queue_offset = self._place(message, changed)
        changed = {key: value for key, value in changed.items() if message.properties.get(key) != value}
        if body is None and not changed:
            moved = _patched(message, queue_offset, physical_offset, self._prepared_offset(message))
        else:
            moved = _encoded(message, queue_offset, physical_offset, self._prepared_offset(message), changed, body)
        self.physical.add(message.physical_offset, physical_offset, message.size)
        return moved

    def queue_map(self, topic: str, queue_id: int) -> OffsetMap:
        return self.queues.setdefault((topic, queue_id), OffsetMap())

    def _place(self, message: MessageExt, changed: dict[str, str]) -> int:
        properties = message.properties
        count = max(number_or(properties.get(names.INNER_NUM), 1), 1) if message.is_inner_batch else 1
        place = (message.topic, message.queue_id)
        queue_offset = self._take(place, message.queue_offset, count)
        if names.INNER_BASE in properties:
            changed[names.INNER_BASE] = str(queue_offset)
        if MULTI_DISPATCH in properties and MULTI_OFFSETS in properties:
            queues = properties[MULTI_DISPATCH].split(",")
            offsets = properties[MULTI_OFFSETS].split(",")
            changed[MULTI_OFFSETS] = ",".join(
                str(self._take((queue, light_queue_id(queue, message.queue_id)), number_or(offset, 0), 1))
                for queue, offset in zip(queues, offsets, strict=False)
            )
        return queue_offset

    def _take(self, place: QueueId, old: int, count: int) -> int:
        new = self._next.get(place, 0)
        self._next[place] = new + count
        self.queue_map(*place).add(old, new, count)
        return new

    def _op_body(self, message: MessageExt) -> bytes | None:
        """The half messages an op record settles, renumbered; empty if all are lost, None if unchanged."""
        halves = self.queue_map(HALF_TOPIC, message.queue_id)
        text = message.body.decode("ascii", "replace")
        old = [part for part in text.split(",") if whole_number(part) is not None]
        new = [str(found) for part in old if (found := halves.find(int(part))) is not None]
        if not old or old == new:
            return None
        return (",".join(new) + ("," if text.endswith(",") and new else "")).encode()

    def _move_half_reference(self, message: MessageExt, changed: dict[str, str]) -> None:
        old = number_or(message.properties[names.TRANSACTION_PREPARED_QUEUE_OFFSET], -1)
        if old >= 0:
            found = self.queue_map(HALF_TOPIC, message.queue_id).find(old)
            changed[names.TRANSACTION_PREPARED_QUEUE_OFFSET] = str(found or 0)

    def _prepared_offset(self, message: MessageExt) -> int:
        old = message.prepared_transaction_offset
        return (self.physical.find(old) or 0) if old else 0


def _patched(message: MessageExt, queue_offset: int, physical_offset: int, prepared_offset: int) -> bytes:
    data = bytearray(message.record)
    OFFSETS.pack_into(data, QUEUE_OFFSET_AT, queue_offset, physical_offset)
    at = body_at(message.sys_flag) + _PREPARED_OFFSET_FROM_BODY
    data[at : at + 8] = prepared_offset.to_bytes(8, "big", signed=True)
    if has_crc_property(bytes(message.raw_properties)):
        data[-CRC_PROPERTY_SIZE:] = crc_property(record_crc(data))
    return bytes(data)


def _encoded(
    message: MessageExt,
    queue_offset: int,
    physical_offset: int,
    prepared_offset: int,
    changed: dict[str, str],
    body: bytes | None,
) -> bytes:
    raw = bytes(message.raw_properties)
    sealed = has_crc_property(raw)
    if sealed:
        raw = raw[:-CRC_PROPERTY_SIZE]
    pieces = []
    for piece in raw.split(names.PIECE_SEPARATOR):
        key = piece.partition(names.KEY_SEPARATOR)[0].decode("utf-8", "replace")
        if key in changed:
            piece = f"{key}\x01{changed[key]}".encode()
        pieces.append(piece)
    return encode_record(
        topic=message.topic.encode(),
        body=message.stored_body if body is None else body,
        properties=names.PIECE_SEPARATOR.join(pieces),
        queue_id=message.queue_id,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host_bytes,
        store_timestamp=message.store_timestamp,
        store_host=message.store_host_bytes,
        flag=message.flag,
        sys_flag=message.sys_flag,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=prepared_offset,
        magic=message.magic,
        append_crc=sealed,
    )


class LogWriter:
    """Writes the files of a new log, front to back; nobody reads them before ``close``."""

    __slots__ = ("_block", "_block_at", "_file", "_file_size", "_filesystem", "_folder", "end")

    def __init__(self, filesystem: FileSystem, folder: str, file_size: int) -> None:
        self._filesystem = filesystem
        self._folder = folder
        self._file_size = file_size
        self._file: File | None = None
        self._block = bytearray()
        self._block_at = 0  # file offset of the block
        self.end = 0
        filesystem.make_directories(folder)

    def place_for(self, size: int) -> int:
        """Where a record of this size will stand; finishes the current file with a filler if it must."""
        used = self.end % self._file_size
        if self._file is None or used + size + BLANK.size > self._file_size:
            if self._file is not None:
                self._block += BLANK.pack(self._file_size - used, MAGIC_BLANK)
                self._finish_file()
                self.end += self._file_size - used
            self._start_file()
        return self.end

    def append(self, record: bytes) -> None:
        """Add the record ``place_for`` made room for."""
        self._block += record
        self.end += len(record)
        if len(self._block) >= _BLOCK_BYTES:
            self._write_block()

    def close(self) -> None:
        if self._file is not None:
            self._finish_file()
        self._filesystem.sync_directory(self._folder)

    def _start_file(self) -> None:
        path = os.path.join(self._folder, file_name(self.end))
        self._file = self._filesystem.open(path, create=True)
        self._file.resize(self._file_size)
        self._block_at = 0

    def _finish_file(self) -> None:
        assert self._file is not None
        self._write_block()
        self._file.sync()
        self._file.close()
        self._file = None

    def _write_block(self) -> None:
        assert self._file is not None
        self._file.write_at(self._block_at, self._block)
        self._block_at += len(self._block)
        self._block = bytearray()
