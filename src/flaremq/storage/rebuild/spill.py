"""Rebuild, first half: what one piece of the log means for queues and index, set aside in a file.

The units of a piece are grouped by queue and the queues by *bucket*, so that whoever fills the queues of one bucket
reads one stretch of each piece's file; the keys stand behind them in log order. Nothing of this touches a queue: a
piece may turn out to have begun at a false place (``at_rest.pieces``), and the order of pieces decides what a
queue holds.

    units, bucket by bucket    a line of JSON [[topic, queue id, rows], …], then for these rows the queue offsets
                               (int64, native) and the units (20 bytes each), both queue by queue in log order
    keys                       three int64 each: hash, physical offset, store time

A file is written under another name and renamed, so a task that is repeated, or runs twice, leaves the same file.
"""

from __future__ import annotations

import json
import os
import uuid
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from flaremq.core.arrays import Bytes, Integers
from flaremq.core.index import index_keys
from flaremq.core.queue import fill_units, find_marked, group_queues
from flaremq.core.table import (
    MARK_BAD_TEXT,
    MARK_INNER_BATCH,
    PHYSICAL_OFFSET,
    QUEUE_ID,
    QUEUE_OFFSET,
    TOPIC_AT,
    TOPIC_LENGTH,
)
from flaremq.message import properties as names
from flaremq.message.delay import DelayLevels
from flaremq.message.java_hash import index_hash
from flaremq.message.message_ext import MessageExt
from flaremq.message.sys_flag import gets_index_entry, gets_queue_unit
from flaremq.storage.at_rest.pieces import LogPiece, PieceWalk
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.dispatch.deleted_topics import DeletedTopics
from flaremq.storage.dispatch.record_views import unit_tags_code
from flaremq.storage.log.walk import DamagedRange, RecordBatch
from flaremq.storage.queue.consume_queue import UNIT, UNIT_SIZE
from flaremq.storage.queue.table import QueueId

KEY_SIZE = 24
_SINGLY_MARKS = MARK_INNER_BATCH | MARK_BAD_TEXT


@dataclass(frozen=True, slots=True)
class Spill:
    """One piece, set aside in ``path``."""

    path: str
    begin: int
    end: int
    is_tail: bool
    records: int
    record_bytes: int
    buckets: tuple[tuple[int, int], ...]  # where in the file each bucket stands: position, length
    keys_at: int
    keys: int
    damaged: tuple[tuple[int, int], ...]  # ranges [start, end)
    batch_queues: tuple[QueueId, ...]  # queues with records that hold several messages


def bucket_of(place: QueueId, buckets: int) -> int:
    return zlib.crc32(f"{place[0]}@{place[1]}".encode("utf-8", "replace")) % buckets


def spill_piece(
    reader: StoreReader, piece: LogPiece, path: str, *, buckets: int, delay_levels: DelayLevels, with_index: bool
) -> Spill:
    """Walk one piece and write what its queues and the index must hold because of it."""
    walk = PieceWalk(reader, piece)
    rows = _Rows(reader.deleted, delay_levels, with_index)
    damaged: list[tuple[int, int]] = []
    for item in walk:
        if isinstance(item, RecordBatch):
            rows.add(item)
        elif isinstance(item, DamagedRange):
            damaged.append((item.start, item.end))
    temporary = f"{path}.{uuid.uuid4().hex}"
    with open(temporary, "wb") as file:
        sections = []
        for section in rows.sections(buckets):
            at = file.tell()
            for part in section:
                file.write(part)
            sections.append((at, file.tell() - at))
        keys_at = file.tell()
        for keys in rows.keys:
            file.write(keys)
    os.replace(temporary, path)
    return Spill(
        path,
        walk.begin,
        walk.end,
        walk.is_tail,
        rows.records,
        rows.record_bytes,
        tuple(sections),
        keys_at,
        sum(len(keys) for keys in rows.keys) // KEY_SIZE,
        tuple(damaged),
        tuple(sorted(rows.batch_queues)),
    )


def read_section(data: bytes) -> Iterator[tuple[QueueId, Integers, memoryview]]:
    """Each queue of a bucket with queue offsets and units."""
    line = data.index(b"\n") + 1
    queues = json.loads(data[:line])
    offsets_at, units_at = line, line + 8 * sum(count for _, _, count in queues)
    view = memoryview(data)
    for topic, queue_id, count in queues:
        offsets = np.frombuffer(data, np.int64, count, offsets_at)
        yield (topic, queue_id), offsets, view[units_at : units_at + count * UNIT_SIZE]
        offsets_at += 8 * count
        units_at += UNIT_SIZE * count


class _Rows:
    """Units and keys of a piece as they are met."""

    def __init__(self, deleted: DeletedTopics, delay_levels: DelayLevels, with_index: bool) -> None:
        self.records = 0
        self.record_bytes = 0
        self.batch_queues: set[QueueId] = set()
        self._deleted = deleted
        self._delay_levels = delay_levels
        self._delay_ms = np.array([0, *delay_levels.delays_ms], np.int64)
        self._with_index = with_index
        self._numbers: dict[tuple[bytes, int], int] = {}  # topic as stored, and queue id
        self._queues: list[QueueId] = []
        self._queue_of: list[Integers] = []
        self._offsets: list[Integers] = []
        self._units: list[Bytes] = []
        self.keys: list[bytes | bytearray] = []  # as they stand in the file

    def add(self, batch: RecordBatch) -> None:
        rows = len(batch.starts)
        self.records += rows
        self.record_bytes += sum(batch.sizes)
        if batch.table is None or find_marked(batch.table.cells, 0, rows, _SINGLY_MARKS) < rows:
            self._add_singly(batch)
            return
        columns = batch.columns
        order, starts = (np.frombuffer(part, np.int64) for part in group_queues(batch.data, columns, rows))
        if len(order):
            heads = order[starts[:-1]]
            numbers = self._numbers_of(batch.data, columns, heads)
            queue_of = np.repeat(numbers, np.diff(starts))
            if batch.base < self._deleted.reach:
                ends = np.array([self._deleted.end_of(topic) for topic, _ in self._queues], np.int64)
                alive = columns[PHYSICAL_OFFSET][order] >= ends[queue_of]
                order, queue_of = order[alive], queue_of[alive]
            units = np.empty(len(order) * UNIT_SIZE, np.uint8)
            fill_units(columns, order, self._delay_ms, units)
            self._queue_of.append(queue_of)
            self._offsets.append(columns[QUEUE_OFFSET][order])
            self._units.append(units)
        if self._with_index:
            self.keys.append(index_keys(batch.data, columns, 0, rows, 0, False))

    def sections(self, buckets: int) -> Iterator[list[bytes | memoryview]]:
        """The parts of each bucket's stretch of the file."""
        queue_of = np.concatenate(self._queue_of) if self._queue_of else np.empty(0, np.int64)
        offsets = np.concatenate(self._offsets) if self._offsets else np.empty(0, np.int64)
        units = np.concatenate(self._units) if self._units else np.empty(0, np.uint8)
        bucket = np.array([bucket_of(place, buckets) for place in self._queues], np.int64)
        # Queues get the rank of (bucket, number), so that one stable sort groups both and keeps the log's order.
        by_bucket = np.argsort(bucket, kind="stable")
        rank = np.empty(len(bucket), np.int64)
        rank[by_bucket] = np.arange(len(bucket))
        order = np.argsort(rank[queue_of], kind="stable")
        offsets = offsets[order]
        units = units.reshape(-1, UNIT_SIZE)[order]
        counts = np.bincount(queue_of, minlength=len(bucket))[by_bucket]
        ends = np.cumsum(counts)
        for number in range(buckets):
            mine = np.flatnonzero(bucket[by_bucket] == number)
            first = int(ends[mine[0]] - counts[mine[0]]) if len(mine) else 0
            end = int(ends[mine[-1]]) if len(mine) else 0
            queues = [[*self._queues[by_bucket[at]], int(counts[at])] for at in mine.tolist() if counts[at]]
            head = json.dumps(queues).encode() + b"\n"
            yield [head, offsets[first:end].tobytes(), units[first:end].tobytes()]

    def _numbers_of(self, data: bytes, columns: Integers, heads: Integers) -> Integers:
        """The number of each group's queue, given out in the order queues are met."""
        places = columns[TOPIC_AT][heads].tolist()
        lengths = columns[TOPIC_LENGTH][heads].tolist()
        ids = columns[QUEUE_ID][heads].tolist()
        numbers = np.empty(len(heads), np.int64)
        for at, (place, length, queue_id) in enumerate(zip(places, lengths, ids, strict=True)):
            numbers[at] = self._number_of(data[place : place + length], queue_id)
        return numbers

    def _number_of(self, topic: bytes, queue_id: int) -> int:
        number = self._numbers.get((topic, queue_id))
        if number is None:
            number = self._numbers[topic, queue_id] = len(self._queues)
            self._queues.append((topic.decode("utf-8", "replace"), queue_id))
        return number

    def _add_singly(self, batch: RecordBatch) -> None:
        """Record by record, those of a batch that the core does not read as a whole."""
        queue_of: list[int] = []
        queue_offsets: list[int] = []
        units: list[bytes] = []
        keys = array("q")
        for offset, record in batch.records():
            message = MessageExt(record)
            topic, queue_id = message.topic, message.queue_id
            if gets_queue_unit(message.sys_flag) and not self._deleted.hides(topic, offset):
                if message.is_inner_batch:
                    self.batch_queues.add((topic, queue_id))
                queue_of.append(self._number_of(topic.encode("utf-8", "replace"), queue_id))
                queue_offsets.append(message.queue_offset)
                code = unit_tags_code(topic, message.properties, message.store_timestamp, self._delay_levels)
                units.append(UNIT.pack(offset, len(record), code))
            if self._with_index and gets_index_entry(message.sys_flag):
                unique, words = message.properties.get(names.UNIQUE_KEY), message.properties.get(names.KEYS)
                wanted = ([unique] if unique else []) + [word for word in (words or "").split(" ") if word]
                for key in wanted:
                    keys.extend((index_hash(topic, key), offset, message.store_timestamp))
        if units:
            self._queue_of.append(np.array(queue_of, np.int64))
            self._offsets.append(np.array(queue_offsets, np.int64))
            self._units.append(np.frombuffer(b"".join(units), np.uint8))
        self.keys.append(keys.tobytes())
