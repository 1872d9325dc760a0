"""Checking one piece of the log against queues and index: what is right, and where somebody must look closer.

As in verify/bulk.py only equality is decided, by making the very bytes that queues and index must hold. The difference
is that a piece knows nothing of those before it: so it says *which* units and entries it found right, and whoever puts
the pieces together sees whether they follow each other. A queue gets a list of spans in log order: right units
[first, end), or a stretch of log that the plain check must read for this queue.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from flaremq.message.delay import DelayLevels
from flaremq.message.message_ext import MessageExt
from flaremq.message.topics import is_stored_topic
from flaremq.storage.at_rest.indexes import StoredIndex
from flaremq.storage.at_rest.queues import QueueId, StoredQueue
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.at_rest.record_table import is_read_singly, queue_groups
from flaremq.storage.dispatch.record_views import expected_index_hashes, expected_units
from flaremq.storage.files import layout
from flaremq.storage.files.directory import RunReader, find_run
from flaremq.storage.index.index_file import ENTRY_SIZE
from flaremq.storage.kernels.compile import Integers
from flaremq.storage.kernels.index import index_keys
from flaremq.storage.kernels.memory import as_array
from flaremq.storage.kernels.queue import fill_units
from flaremq.storage.kernels.table import PHYSICAL_OFFSET, QUEUE_OFFSET, TAGS_LENGTH
from flaremq.storage.log.walk import RecordBatch
from flaremq.storage.queue.consume_queue import UNIT_SIZE
from flaremq.storage.verify.index_soundness import ENTRY, entries_end

_INT_MAX = 2**31 - 1
_WINDOW_ENTRIES = 1 << 15


@dataclass(frozen=True, slots=True)
class RightUnits:
    """Units [first, end) are what the records of this queue say."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class LookCloser:
    """The records of this queue that start in the log's [start, end) are for the plain check."""

    start: int
    end: int


QueueSpan = RightUnits | LookCloser


@dataclass(slots=True)
class PieceViews:
    """What one piece says about the views; entries are numbered through all index files from 0."""

    queues: dict[QueueId, list[QueueSpan]] = field(default_factory=dict)
    index_right: bool = True
    entries_first: int = 0
    entries_end: int = 0
    keys_seen: bool = False


class PieceChecker:
    """Feed it the batches of one piece in log order."""

    def __init__(
        self, reader: StoreReader, delay_levels: DelayLevels, indexes: Sequence[StoredIndex] | None, begin: int
    ) -> None:
        """``begin`` is where the piece begins; ``indexes`` None if the index cannot be read at all."""
        self._reader = reader
        self._delay_levels = delay_levels
        self._delay_ms = np.array([0, *delay_levels.delays_ms], np.int64)
        self._queues: dict[QueueId, StoredQueue | None] = {}
        self.views = PieceViews(index_right=indexes is not None)
        self._entries = EntryCursor(indexes or (), begin)
        self.views.entries_first = self.views.entries_end = self._entries.number
        self._with_tags: bool | None = None  # RocketMQ 5.5 also indexes tags; known once keys were seen

    def check(self, batch: RecordBatch) -> None:
        end = batch.base + batch.starts[-1] + batch.sizes[-1]
        if is_read_singly(batch):
            self._look_at_records(batch, end)
            return
        deleted = self._reader.deleted
        for place, members in queue_groups(batch):
            if batch.base < deleted.reach:
                members = members[batch.columns[PHYSICAL_OFFSET][members] >= deleted.end_of(place[0])]
                if not len(members):
                    continue
            span = self._right_units(place, batch.columns, members)
            self._add(place, span or LookCloser(batch.base, end))
        if self.views.index_right or not self.views.keys_seen:
            self._check_index(batch, end)

    def _add(self, place: QueueId, span: QueueSpan) -> None:
        spans = self.views.queues.setdefault(place, [])
        last = spans[-1] if spans else None
        if isinstance(last, RightUnits) and isinstance(span, RightUnits) and last.end == span.first:
            spans[-1] = RightUnits(last.first, span.end)
        elif isinstance(last, LookCloser) and isinstance(span, LookCloser) and last.end == span.start:
            spans[-1] = LookCloser(last.start, span.end)
        elif last != span:
            spans.append(span)

    def _look_at_records(self, batch: RecordBatch, end: int) -> None:
        places: dict[QueueId, None] = {}
        for offset, record in batch.records():
            message = MessageExt(record)
            self.views.keys_seen |= bool(expected_index_hashes(message))
            for unit in expected_units(message, self._delay_levels):
                if not self._reader.deleted.hides(unit.topic, offset):
                    places[unit.topic, unit.queue_id] = None
        for place in places:
            self._add(place, LookCloser(batch.base, end))
        self.views.index_right = False

    def _right_units(self, place: QueueId, columns: Integers, members: Integers) -> RightUnits | None:
        queue = self._queue(place)
        if queue is None or queue.is_batch or queue.ext_run is not None:
            return None
        offsets = columns[QUEUE_OFFSET][members]
        first, count = int(offsets[0]), len(members)
        if not np.array_equal(offsets, np.arange(first, first + count)):
            return None
        units = np.empty(count * UNIT_SIZE, np.uint8)
        fill_units(columns, members, self._delay_ms, units)
        if queue.read_raw(first, count) != units.tobytes():
            return None
        return RightUnits(first, first + count)

    def _queue(self, place: QueueId) -> StoredQueue | None:
        if place not in self._queues:
            self._queues[place] = find_queue(self._reader, place)
        return self._queues[place]

    def _check_index(self, batch: RecordBatch, end: int) -> None:
        log, columns, rows = as_array(batch.data), batch.columns, len(batch.starts)
        before = self._entries.number
        for with_tags in (False, True) if self._with_tags is None else (self._with_tags,):
            hashes, offsets, times = index_keys(log, columns, 0, rows, 0, with_tags)
            self.views.keys_seen |= len(hashes) > 0 and not with_tags
            # An entry left over for these records may be a tag's, so it decides between the two ways.
            if self._entries.matches(hashes, offsets, times) and not self._entries.leads_before(end):
                if len(hashes) and bool(np.any(columns[TAGS_LENGTH, :rows])):
                    self._with_tags = with_tags
                self.views.entries_end = self._entries.number
                return
            self._entries.go_to(before)
        self.views.index_right = False


class EntryCursor:
    """All entries of all index files as one sequence, read from where a log offset begins."""

    def __init__(self, indexes: Sequence[StoredIndex], log_offset: int) -> None:
        self._files = [index for index in indexes if index.header.index_count > 1]
        self._firsts = [0]  # number of the first entry of each file
        for index in self._files:
            self._firsts.append(self._firsts[-1] + entries_end(index) - 1)
        self._window = np.empty(0, ENTRY)
        self._window_first = 0
        self.number = self.find(log_offset)

    @property
    def total(self) -> int:
        return self._firsts[-1]

    def go_to(self, number: int) -> None:
        self.number = number

    def find(self, log_offset: int) -> int:
        """Number of the first entry at or behind this offset, if the entries are in order."""
        for at, index in enumerate(self._files):
            if index.header.end_offset < log_offset:
                continue
            low, high = self._firsts[at], self._firsts[at + 1]
            while low < high:
                middle = (low + high) // 2
                entry = index.entry(middle - self._firsts[at] + 1)
                if entry is not None and entry.physical_offset < log_offset:
                    low = middle + 1
                else:
                    high = middle
            return low
        return self.total

    def offset_at(self, number: int) -> int | None:
        """The log offset an entry leads to; None behind the last and before the first."""
        if not 0 <= number < self.total:
            return None
        at = int(np.searchsorted(self._firsts, number, side="right")) - 1
        entry = self._files[at].entry(number - self._firsts[at] + 1)
        return None if entry is None else entry.physical_offset

    def leads_before(self, log_offset: int) -> bool:
        """Whether the next entry leads to a place before this one."""
        if self.number >= self.total:
            return False
        at = int(np.searchsorted(self._firsts, self.number, side="right")) - 1
        part = self._read(at, 1)
        return bool(len(part) and part["offset"][0] < log_offset)

    def matches(self, hashes: Integers, offsets: Integers, times: Integers) -> bool:
        """Whether the next entries are exactly these keys; moves behind them."""
        done = 0
        while done < len(hashes):
            at = int(np.searchsorted(self._firsts, self.number, side="right")) - 1
            if at >= len(self._files):
                return False
            part = self._read(at, len(hashes) - done)
            mine = slice(done, done + len(part))
            if not (
                len(part)
                and np.array_equal(part["hash"], hashes[mine])
                and np.array_equal(part["offset"], offsets[mine])
                and self._times_right(at, part["seconds"], times[mine])
            ):
                return False
            done += len(part)
            self.number += len(part)
        return True

    def _read(self, at: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
        """Entries from the current number on, all of file ``at``; at most ``count``, at least one if there is one."""
        first = self.number - self._window_first
        if not 0 <= first < len(self._window) or self._window_first < self._firsts[at]:
            index = self._files[at]
            length = min(_WINDOW_ENTRIES, self._firsts[at + 1] - self.number)
            assert index.geometry is not None
            position = index.geometry.entry_position(self.number - self._firsts[at] + 1)
            data = index.read_raw(position, length * ENTRY_SIZE)
            self._window = np.frombuffer(data[: len(data) // ENTRY_SIZE * ENTRY_SIZE], ENTRY)
            self._window_first, first = self.number, 0
        return self._window[first : first + count]

    def _times_right(self, at: int, seconds: Integers, times: Integers) -> bool:
        header = self._files[at].header
        expected = np.clip((times - header.begin_timestamp) // 1000, 0, _INT_MAX)
        if header.begin_timestamp <= 0:
            expected = np.zeros_like(expected)
        right = seconds == expected
        if self.number == self._firsts[at]:
            right[0] = header.begin_timestamp == times[0]  # the first entry may say any number of seconds
        if self.number + len(times) == self._firsts[at + 1]:
            right[-1] &= header.end_timestamp == times[-1]
        return bool(np.all(right))


def find_queue(reader: StoreReader, place: QueueId) -> StoredQueue | None:
    """One queue without looking at all others; None if it has no folder."""
    topic, queue_id = place
    if not is_stored_topic(topic) or not 0 <= queue_id < 2**31:
        return None
    filesystem = reader.filesystem
    for kind, is_batch in ((layout.BATCH_CONSUME_QUEUE, True), (layout.CONSUME_QUEUE, False)):
        folder = reader.layout.path(kind, topic, str(queue_id))
        if filesystem.is_directory(folder):
            ext = find_run(filesystem, [os.path.join(reader.layout.consume_queue_ext, topic, str(queue_id))])
            return StoredQueue(
                topic,
                queue_id,
                RunReader(reader.files, find_run(filesystem, [folder])),
                folder=folder,
                is_batch=is_batch,
                ext=RunReader(reader.files, ext) if ext.files and not is_batch else None,
            )
    return None
