"""Rebuild, second half: queues and index files from the spill file of each piece (rebuild/spill.py).

Queues go through the same ``ConsumeQueue.append`` that live dispatch uses, in log order, with the same judgement of
offsets that cannot be, so gaps, fillers and repeated offsets come out as they do there. Index files are independent of
each other once it is known how many keys come before: each takes the same number of entries, and the only thing a file
inherits is the end of the one before it.
"""

from __future__ import annotations

import os
import uuid
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from flaremq.core.arrays import Integers
from flaremq.core.queue import parse_units
from flaremq.errors import InvalidArgumentError
from flaremq.message.delay import DelayLevels
from flaremq.message.message_ext import MessageExt
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.at_rest.record_table import is_read_singly, queue_groups
from flaremq.storage.dispatch.view_writer import ViewWriter, fits_behind
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.files.layout import StoreLayout
from flaremq.storage.index.index_file import IndexFile
from flaremq.storage.log.walk import DamagedRange, RecordBatch
from flaremq.storage.queue.consume_queue import UNIT, UNIT_SIZE
from flaremq.storage.queue.table import ConsumeQueues, QueueId
from flaremq.storage.rebuild.spill import KEY_SIZE, Spill, read_section

_KEYS_AT_ONCE = 1 << 20
_INDEX_RESERVE = 64 << 20


@dataclass(frozen=True, slots=True)
class QueueSizes:
    """How long the files of queues are, in bytes."""

    simple: int
    batch: int


@dataclass(frozen=True, slots=True)
class BuiltQueue:
    """A queue as it was built: [min_offset, end)."""

    topic: str
    queue_id: int
    min_offset: int
    end: int
    is_batch: bool = False


@dataclass(frozen=True, slots=True)
class KeySlice:
    """Keys [first, first + count) of one piece."""

    path: str
    keys_at: int
    keys: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """One index file to build: its keys, and the last offset and store time of the file before it."""

    name: str
    slices: tuple[KeySlice, ...]
    end_before: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    name: str
    begin_timestamp: int
    end_timestamp: int
    begin_offset: int
    end_offset: int
    slot_count: int
    index_count: int


def open_queues(root: str, sizes: QueueSizes) -> ConsumeQueues:
    return ConsumeQueues(LocalFileSystem(), StoreLayout(root), file_size=sizes.simple, batch_file_size=sizes.batch)


def fill_bucket(
    root: str,
    bucket: int,
    spills: Sequence[Spill],
    *,
    sizes: QueueSizes,
    damaged: Sequence[tuple[int, int]],
    without: Collection[QueueId],
) -> list[BuiltQueue]:
    """Build every queue of this bucket below ``root``, durably."""
    queues = open_queues(root, sizes)
    reader = _PlausibleQueues(queues, damaged)
    for spill in spills:
        at, length = spill.buckets[bucket]
        with open(spill.path, "rb") as file:
            data = os.pread(file.fileno(), length, at)
        for place, offsets, units in read_section(data):
            if place not in without:
                reader.append(place, offsets, units)
    return _finish(queues)


class _PlausibleQueues:
    """Appends runs of units as dispatch does."""

    def __init__(self, queues: ConsumeQueues, damaged: Sequence[tuple[int, int]]) -> None:
        self._queues = queues
        self._damage_ends = [end for _, end in damaged]
        self._damage_sums = [0]
        for start, end in damaged:
            self._damage_sums.append(self._damage_sums[-1] + end - start)

    def append(self, place: QueueId, offsets: Integers, units: memoryview) -> None:
        try:
            queue = self._queues.get_or_create(*place)
        except InvalidArgumentError:
            return  # no put writes such a topic; verify says so
        breaks = np.diff(offsets) != 1
        if self._damage_ends:
            # Behind damage a wider gap is plausible: each side of it is judged by itself.
            fields = np.empty((3, len(offsets)), np.int64)
            parse_units(units, fields)
            breaks |= np.diff(np.searchsorted(self._damage_ends, fields[0], side="right")) != 0
        bounds = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(offsets)]
        for first, end in pairwise(bounds):
            queue_offset = int(offsets[first])
            if queue_offset != queue.end:
                damaged_bytes = self._damaged_before(units[first * UNIT_SIZE : (first + 1) * UNIT_SIZE])
                if not fits_behind(queue, queue_offset, damaged_bytes):
                    continue
            last_physical, last_size, _ = UNIT.unpack_from(units, (end - 1) * UNIT_SIZE)
            queue.append(
                queue_offset,
                units[first * UNIT_SIZE : end * UNIT_SIZE],
                max_physical_offset=last_physical + last_size,
            )

    def _damaged_before(self, unit: bytes | memoryview) -> int:
        """Damaged log bytes in front of the unit's record."""
        return self._damage_sums[bisect_right(self._damage_ends, UNIT.unpack(unit)[0])]


def fill_odd_queues(
    reader: StoreReader,
    root: str,
    *,
    places: Collection[QueueId],
    batch: Collection[QueueId],
    sizes: QueueSizes,
    delay_levels: DelayLevels,
) -> list[BuiltQueue]:
    """Build the queues at ``places`` record by record: whether a unit stands for one message or for several depends on
    what came before it. Those named in ``batch`` held several before the log begins."""
    queues = open_queues(root, sizes)
    writer = ViewWriter(queues, None, delay_levels, reader.deleted)
    for place in sorted(batch):
        queues.get_or_create_batch(*place)
    for item in reader.walk():
        if isinstance(item, DamagedRange):
            writer.damaged_bytes += item.size
        elif isinstance(item, RecordBatch) and _concerns(item, places):
            for _, record in item.records():
                message = MessageExt(record)
                if (message.topic, message.queue_id) in places:
                    writer.dispatch(message)
    return _finish(queues)


def _concerns(item: RecordBatch, places: Collection[QueueId]) -> bool:
    return is_read_singly(item) or any(place in places for place, _ in queue_groups(item))


def _finish(queues: ConsumeQueues) -> list[BuiltQueue]:
    queues.flush()
    queues.close()
    simple = [
        BuiltQueue(queue.topic, queue.queue_id, queue.min_offset, queue.end)
        for queue in queues.simple.values()
        if queue.files.starts
    ]
    batch = [
        BuiltQueue(queue.topic, queue.queue_id, queue.min_offset, queue.end, is_batch=True)
        for queue in queues.batch.values()
        if queue.files.starts
    ]
    return simple + batch


def slice_keys(spills: Sequence[Spill], capacity: int) -> list[tuple[KeySlice, ...]]:
    """The keys of each index file, ``capacity`` to a file, in log order."""
    files: list[list[KeySlice]] = []
    room = 0
    for spill in spills:
        first = 0
        while first < spill.keys:
            if not room:
                files.append([])
                room = capacity
            count = min(room, spill.keys - first)
            files[-1].append(KeySlice(spill.path, spill.keys_at, spill.keys, first, count))
            first += count
            room -= count
    return [tuple(file) for file in files]


def read_keys(part: KeySlice, first: int, count: int) -> bytearray:
    """Hash, physical offset and store time of ``count`` keys of a slice, from its key number ``first`` on."""
    with open(part.path, "rb") as file:
        return bytearray(os.pread(file.fileno(), KEY_SIZE * count, part.keys_at + KEY_SIZE * (part.first + first)))


def build_index(folder: str, plan: IndexPlan, *, slots: int, entries: int, scratch: str) -> BuiltIndex:
    """Make one index file durably, under a name of its own in ``scratch``: a second try may run beside the first."""
    path = os.path.join(scratch, f"{plan.name}.{uuid.uuid4().hex}")
    file = IndexFile(LocalFileSystem(), path, slots=slots, entries=entries, reserve_step=_INDEX_RESERVE, create=True)
    if plan.end_before is not None:
        offset, timestamp = plan.end_before
        file.set_ends(timestamp, timestamp, offset, offset)
    for part in plan.slices:
        for first in range(0, part.count, _KEYS_AT_ONCE):
            _put(file, read_keys(part, first, min(_KEYS_AT_ONCE, part.count - first)))
    file.sync()
    built = BuiltIndex(plan.name, *file.header[:5], file.count)
    file.close()
    os.replace(path, os.path.join(folder, plan.name))
    return built


def _put(file: IndexFile, keys: bytearray) -> None:
    at = 0
    while at < len(keys) // KEY_SIZE:
        at = file.put_keys(keys, at)
    file.release_pages()
