"""Checking queues and index in bulk: a quick "all as it should be", or where the plain check must look.

The kernels make of a stretch of log the very bytes its queues and index must hold; comparing them with what
is there costs next to nothing. Only equality is decided here. Whatever differs, or is left to plain code by
the kernels, makes its queue (or the index) *suspect* from that stretch of log on, and ``verify_queues`` and
``verify_index`` say what it means. So both ways give the same findings, and a healthy store never pays for
the slow one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from flaremq.message.delay import DelayLevels
from flaremq.message.message_ext import MessageExt
from flaremq.storage import kernels
from flaremq.storage.consume_queue import FILLER_SIZE, UNIT_SIZE
from flaremq.storage.index_file import HEADER_SIZE, SLOT_SIZE
from flaremq.storage.kernels import Integers
from flaremq.storage.record_views import expected_units
from flaremq.storage.store_indexes import StoredIndex
from flaremq.storage.store_queues import QueueId, StoredQueue
from flaremq.storage.store_reader import StoreReader
from flaremq.storage.store_walk import RecordBatch

_PLAIN_MARKS = kernels.MARK_INNER_BATCH | kernels.MARK_MULTI_DISPATCH | kernels.MARK_BAD_TEXT
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

    resume_offset: int
    suspect_queues: dict[QueueId, tuple[int, int]] = field(default_factory=dict)  # units found right before
    suspect_index: bool = False
    entries_right: int = 0  # index entries found right before, expired ones included
    units: int = 0  # units of the queues that are not suspect
    entries: int = 0


class BulkChecker:
    """Feed it batches with columns in log order, then ask for the verdict."""

    def __init__(self, reader: StoreReader, delay_levels: DelayLevels) -> None:
        self._reader = reader
        self._delay_ms = np.array([0, *delay_levels.delays_ms], np.int64)
        self._delay_levels = delay_levels
        self._runs = {(queue.topic, queue.queue_id): _QueueRun(queue) for queue in reader.queues}
        self._suspects: dict[QueueId, tuple[int, int]] = {}
        self._resume_offset: int | None = None
        self._index = _IndexRun(reader)

    def check(self, batch: RecordBatch) -> None:
        if batch.columns is None:
            self._suspect_records(batch)
            return
        columns, rows = batch.columns, len(batch.starts)
        if np.any(columns[kernels.MARKS, :rows] & _PLAIN_MARKS):
            self._suspect_records(batch)
            return
        log = kernels.as_array(batch.data)
        order, starts = kernels.group_queues(log, columns, rows)
        for group in range(len(starts) - 1):
            self._check_group(batch, columns, order[starts[group] : starts[group + 1]])
        if not self._index.suspect and not self._index.check(log, columns, rows):
            self._resume(batch.base)

    def verdict(self, log_end: int) -> BulkVerdict:
        """Now that the whole log was seen."""
        units = 0
        for place, run in self._runs.items():
            if place not in self._suspects and run.queue is not None:
                count = self._rest_of(run)
                if count is None:
                    self._suspects[place] = (run.first, run.end)
                else:
                    units += count
        self._index.finish()
        return BulkVerdict(
            log_end if self._resume_offset is None else self._resume_offset,
            self._suspects,
            self._index.suspect,
            self._index.entries_right,
            units,
            self._index.entries,
        )

    def _check_group(self, batch: RecordBatch, columns: Integers, members: Integers) -> None:
        first = members[0]
        topic_at = int(columns[kernels.TOPIC_AT, first])
        topic = str(batch.data[topic_at : topic_at + int(columns[kernels.TOPIC_LENGTH, first])], "utf-8", "replace")
        place = (topic, int(columns[kernels.QUEUE_ID, first]))
        if place in self._suspects:
            return
        run = self._runs.get(place)
        if run is None or not self._is_right(run, columns, members):
            self._suspect(place, batch.base)

    def _is_right(self, run: _QueueRun, columns: Integers, members: Integers) -> bool:
        queue = run.queue
        if queue is None or queue.is_batch or queue.ext_run is not None:
            return False
        offsets = columns[kernels.QUEUE_OFFSET][members]
        begin, count = int(offsets[0]), len(members)
        if (run.end >= 0 and begin != run.end) or not np.array_equal(offsets, np.arange(begin, begin + count)):
            return False
        units = np.empty(count * UNIT_SIZE, np.uint8)
        kernels.fill_units(columns, members, self._delay_ms, units)
        if queue.read_raw(begin, count) != units.tobytes():
            return False
        if run.first < 0:
            run.first = begin
        run.end = begin + count
        return True

    def _rest_of(self, run: _QueueRun) -> int | None:
        """Units before those found right must be expired or filler, behind them nothing; the number of all
        units."""
        assert run.queue is not None
        queue, log_min = run.queue, self._reader.log_min
        if queue.is_batch or queue.ext_run is not None:
            return None
        start, stop = queue.run.start // UNIT_SIZE, queue.run.end // UNIT_SIZE
        if run.first < 0:
            run.first = run.end = queue.written_end()
        head = queue.read_raw(start, run.first - start)
        if queue.run.misfits or queue.run.gaps or len(head) != (run.first - start) * UNIT_SIZE:
            return None
        offsets, sizes, codes = kernels.parse_units(kernels.as_array(head))
        filler = (offsets == 0) & (sizes == FILLER_SIZE) & (codes == 0)
        expired = (offsets >= 0) & (sizes > 0) & (offsets < log_min)
        if not np.all(filler | expired) or queue.written_end() > max(run.end, start) or run.end > stop:
            return None
        return max(run.end - start, 0)

    def _suspect_records(self, batch: RecordBatch) -> None:
        for _, record in batch.records():
            for unit in expected_units(MessageExt(record), self._delay_levels):
                self._suspect((unit.topic, unit.queue_id), batch.base)
        if not self._index.suspect:
            self._index.suspect = True
            self._resume(batch.base)

    def _suspect(self, place: QueueId, base: int) -> None:
        if place not in self._suspects:
            run = self._runs.get(place)
            self._suspects[place] = (-1, -1) if run is None else (run.first, run.end)
            self._resume(base)

    def _resume(self, base: int) -> None:
        if self._resume_offset is None:
            self._resume_offset = base


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

    def check(self, log: kernels.Bytes, columns: Integers, rows: int) -> bool:
        """Whether the next entries are the keys of these records; False makes the index suspect."""
        before = (self._number, self._current, self._at, self.entries_right, self.entries)
        for with_tags in (False, True) if self._with_tags is None else (self._with_tags,):
            hashes, offsets, times = kernels.index_keys(log, columns, 0, rows, 0, with_tags)
            if self._matches(hashes, offsets, times):
                if len(hashes) and bool(np.any(columns[kernels.TAGS_LENGTH, :rows])):
                    self._with_tags = with_tags
                return True
            self._number, self._current, self._at, self.entries_right, self.entries = before
        self.suspect = True
        return False

    def finish(self) -> None:
        """Nothing may be left over."""
        if not self.suspect and (self._at < len(self._current) or self._number + 1 < len(self._files)):
            self.suspect = True

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
        array = kernels.as_array(data)
        sound = kernels.index_check(array, geometry.slots, count, 0, 2**62)[1] == kernels.INDEX_SOUND
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
