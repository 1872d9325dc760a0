"""Checking queues and index in bulk: a quick "all as it should be", or where the plain check must look.

The kernels make of a stretch of log the very bytes its queues and index must hold; comparing them with what
is there costs next to nothing. Only equality is decided here. Whatever differs, or is left to plain code by
the kernels, makes its queue (or the index) *suspect* from that stretch of log on, and ``verify_queues`` and
``verify_index`` say what it means. So both ways give the same findings, and a healthy store never pays for
the slow one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flaremq.message.delay import DelayLevels
from flaremq.message.message_ext import MessageExt
from flaremq.storage.at_rest.indexes import StoredIndex
from flaremq.storage.at_rest.queues import QueueId, StoredQueue
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.at_rest.record_table import is_read_singly, queue_groups
from flaremq.storage.dispatch.record_views import expected_units
from flaremq.storage.index.index_file import HEADER_SIZE, SLOT_SIZE
from flaremq.storage.kernels.compile import Integers
from flaremq.storage.kernels.index import index_keys
from flaremq.storage.kernels.lookup import INDEX_SOUND, index_check
from flaremq.storage.kernels.memory import as_array
from flaremq.storage.kernels.queue import fill_units, parse_units
from flaremq.storage.kernels.table import PHYSICAL_OFFSET, QUEUE_OFFSET, TAGS_LENGTH
from flaremq.storage.log.walk import RecordBatch
from flaremq.storage.queue.consume_queue import FILLER_SIZE, UNIT_SIZE
from flaremq.storage.verify.queues import SuspectQueue

_ENTRY = np.dtype([("hash", ">i4"), ("offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])
_INT_MAX = 2**31 - 1


@dataclass(slots=True)
class _QueueRun:
    """The units of one queue found right so far: [first, end)."""

    queue: StoredQueue | None
    first: int = -1
    end: int = -1


@dataclass(slots=True)
class BulkVerdict:
    """What the plain check has to look at, and from which log offset on."""

    suspect_queues: dict[QueueId, SuspectQueue]
    index_from: int | None  # None: the index is as it should be
    entries_right: int  # index entries found right before that, expired ones included
    units: int  # units of the queues that are not suspect
    entries: int

    @property
    def resume_offset(self) -> int | None:
        """Where the plain walk over the log must start; None if nothing is suspect."""
        offsets = [suspect.log_offset for suspect in self.suspect_queues.values()]
        if self.index_from is not None:
            offsets.append(self.index_from)
        return min(offsets, default=None)


class BulkChecker:
    """Feed it batches with columns in log order, then ask for the verdict."""

    def __init__(self, reader: StoreReader, delay_levels: DelayLevels) -> None:
        self._reader = reader
        self._delay_ms = np.array([0, *delay_levels.delays_ms], np.int64)
        self._delay_levels = delay_levels
        self._runs = {(queue.topic, queue.queue_id): _QueueRun(queue) for queue in reader.queues}
        self._suspects: dict[QueueId, SuspectQueue] = {}
        self._index = _IndexRun(reader)
        self._index_from: int | None = reader.log_min if self._index.suspect else None

    def check(self, batch: RecordBatch) -> None:
        if is_read_singly(batch):
            self._suspect_records(batch)
            return
        for place, members in queue_groups(batch):
            if batch.base < self._reader.deleted.reach:
                places = batch.columns[PHYSICAL_OFFSET][members]
                members = members[places >= self._reader.deleted.end_of(place[0])]
                if not len(members):
                    continue
            run = self._runs.get(place)
            if place not in self._suspects and (run is None or not self._is_right(run, batch.columns, members)):
                self._suspect(place, batch.base)
        if self._index_from is None and not self._index.check(batch):
            self._index_from = batch.base

    def verdict(self, log_end: int) -> BulkVerdict:
        """Now that the whole log was seen."""
        units = 0
        for place, run in self._runs.items():
            if place not in self._suspects and run.queue is not None:
                if run.first < 0 and not run.queue.is_batch:
                    run.first = run.end = run.queue.written_end()
                log_min = self._reader.log_min
                count = count_units(run.queue, run.first, run.end, log_min=log_min, log_end=log_end)
                if count is None:
                    self._suspects[place] = SuspectQueue(run.first, run.end, log_end)
                else:
                    units += count
        if self._index_from is None and not self._index.is_done:
            self._index_from = log_end
        return BulkVerdict(self._suspects, self._index_from, self._index.entries_right, units, self._index.entries)

    def _is_right(self, run: _QueueRun, columns: Integers, members: Integers) -> bool:
        queue = run.queue
        if queue is None or queue.is_batch or queue.ext_run is not None:
            return False
        offsets = columns[QUEUE_OFFSET][members]
        begin, count = int(offsets[0]), len(members)
        if (run.end >= 0 and begin != run.end) or not np.array_equal(offsets, np.arange(begin, begin + count)):
            return False
        units = np.empty(count * UNIT_SIZE, np.uint8)
        fill_units(columns, members, self._delay_ms, units)
        if queue.read_raw(begin, count) != units.tobytes():
            return False
        if run.first < 0:
            run.first = begin
        run.end = begin + count
        return True

    def _suspect_records(self, batch: RecordBatch) -> None:
        for offset, record in batch.records():
            for unit in expected_units(MessageExt(record), self._delay_levels):
                if self._reader.deleted.hides(unit.topic, offset):
                    continue
                self._suspect((unit.topic, unit.queue_id), batch.base)
        if self._index_from is None:
            self._index_from = batch.base

    def _suspect(self, place: QueueId, base: int) -> None:
        if place not in self._suspects:
            run = self._runs.get(place)
            first, end = (-1, -1) if run is None else (run.first, run.end)
            self._suspects[place] = SuspectQueue(first, end, base)


def count_units(queue: StoredQueue, first: int, end: int, *, log_min: int, log_end: int) -> int | None:
    """The number of all units if those before the right ones, [first, end), are expired or filler and nothing stands
    behind; None otherwise."""
    if queue.is_batch or queue.ext_run is not None:
        return None
    start, stop = queue.run.start // UNIT_SIZE, queue.run.end // UNIT_SIZE
    head = queue.read_raw(start, first - start)
    if queue.run.misfits or queue.run.gaps or len(head) != (first - start) * UNIT_SIZE:
        return None
    offsets, sizes, codes = parse_units(as_array(head))
    filler = (offsets == 0) & (sizes == FILLER_SIZE) & (codes == 0)
    expired = (offsets >= 0) & (sizes > 0) & (offsets < log_min) & (offsets + sizes <= log_end)
    if not np.all(filler | expired) or queue.written_end() > max(end, start) or end > stop:
        return None
    return max(end - start, 0)


class _IndexRun:
    """All index entries, one after the other, held against the keys of the log."""

    def __init__(self, reader: StoreReader) -> None:
        self._reader = reader
        self._files = [index for index in reader.indexes if index.header.index_count > 1]
        self._number = -1  # of the file the entries are from
        self._current = np.empty(0, _ENTRY)
        self._at = 0
        self._with_tags: bool | None = None  # RocketMQ 5.5 also indexes tags; known once keys were seen
        self.suspect = any(index.geometry is None for index in reader.indexes)
        self.entries_right = 0
        self.entries = 0
        self._skip_expired()

    def check(self, batch: RecordBatch) -> bool:
        """Whether the next entries are the keys of these records; False makes the index suspect."""
        log, columns, rows = as_array(batch.data), batch.columns, len(batch.starts)
        before = (self._number, self._current, self._at, self.entries_right, self.entries)
        for with_tags in (False, True) if self._with_tags is None else (self._with_tags,):
            hashes, offsets, times = index_keys(log, columns, 0, rows, 0, with_tags)
            if self._matches(hashes, offsets, times):
                if len(hashes) and bool(np.any(columns[TAGS_LENGTH, :rows])):
                    self._with_tags = with_tags
                return True
            self._number, self._current, self._at, self.entries_right, self.entries = before
        return False

    @property
    def is_done(self) -> bool:
        """Nothing is left over."""
        return self._at == len(self._current) and self._number + 1 == len(self._files)

    def _matches(self, hashes: Integers, offsets: Integers, times: Integers) -> bool:
        done = 0
        while done < len(hashes):
            if self._at == len(self._current) and not self._next_file():
                return False
            count = min(len(hashes) - done, len(self._current) - self._at)
            part = self._current[self._at : self._at + count]
            mine = slice(done, done + count)
            if not (
                np.array_equal(part["hash"], hashes[mine])
                and np.array_equal(part["offset"], offsets[mine])
                and self._times_right(part["seconds"], times[mine])
            ):
                return False
            done += count
            self._at += count
            self.entries_right += count
        return True

    def _times_right(self, seconds: Integers, times: Integers) -> bool:
        header = self._files[self._number].header
        expected = np.clip((times - header.begin_timestamp) // 1000, 0, _INT_MAX)
        if header.begin_timestamp <= 0:
            expected = np.zeros_like(expected)
        right = seconds == expected
        if self._at == 0:
            right[0] = header.begin_timestamp == times[0]  # the first entry may say any number of seconds
        if self._at + len(times) == len(self._current):
            right[-1] &= header.end_timestamp == times[-1]
        return bool(np.all(right))

    def _next_file(self) -> bool:
        if self._number + 1 >= len(self._files):
            return False
        self._number += 1
        self._at = 0
        self._current = self._load(self._files[self._number])
        self.entries += len(self._current)
        return len(self._current) > 0

    def _load(self, index: StoredIndex) -> np.ndarray[tuple[int], np.dtype[np.void]]:
        """The entries of a file that is sound in itself; none if it is not."""
        geometry, count = index.geometry, index.header.index_count
        assert geometry is not None
        if count > geometry.entries:
            return np.empty(0, _ENTRY)
        data = index.read_raw(0, geometry.entry_position(count))
        array = as_array(data)
        sound = index_check(array, geometry.slots, count, 0, 2**62)[1] == INDEX_SOUND
        slots = array[HEADER_SIZE : HEADER_SIZE + SLOT_SIZE * geometry.slots].view(">i4")
        entries = np.frombuffer(data, _ENTRY, offset=geometry.entry_position(1))
        header = index.header
        ends = (header.begin_offset, header.end_offset) == (int(entries["offset"][0]), int(entries["offset"][-1]))
        if not (sound and ends and header.slot_count == np.count_nonzero(slots)):
            return np.empty(0, _ENTRY)
        return entries

    def _skip_expired(self) -> None:
        """Entries of records that were deleted with their log file."""
        if self.suspect:
            return
        while self._next_file():
            expired = int(np.searchsorted(self._current["offset"], self._reader.log_min))
            if self._at == 0 and expired:
                self._at = expired
                self.entries_right += expired
            if self._at < len(self._current):
                return
