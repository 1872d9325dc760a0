"""One queue as a scan sees it: units by queue offset in arrays, from its files and from the undispatched tail.

Nothing is trusted that a scan does not check again on the record: arrays may hold filler, unwritten units (all zero)
and units of records that are gone.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flaremq.core.arrays import Integers
from flaremq.core.queue import parse_units
from flaremq.storage.at_rest.queues import StoredQueue
from flaremq.storage.queue.batch_consume_queue import BATCH_UNIT
from flaremq.storage.queue.consume_queue import EXT_ADDRESS_MAX, FILLER_SIZE, UNIT, UNIT_SIZE, UnitPlace
from flaremq.storage.queue.search import STEPS_ON, written_units

_BLOCK_UNITS = 4096

Mask: TypeAlias = NDArray[np.bool_]

_BATCH_DTYPE = np.dtype(
    [
        ("physical", ">i8"),
        ("size", ">i4"),
        ("code", ">i8"),
        ("time", ">i8"),
        ("base", ">i8"),
        ("messages", ">i2"),
        ("compacted", ">i4"),
        ("reserved", ">i4"),
    ]
)
assert _BATCH_DTYPE.itemsize == BATCH_UNIT.size


class Units(NamedTuple):
    """Consecutive units; all arrays have one element a unit. ``messages`` is 1 in simple queues."""

    offset: Integers  # queue offset of the (first) message
    physical: Integers
    size: Integers
    code: Integers
    messages: Integers

    @classmethod
    def none(cls) -> Units:
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing, nothing, nothing)

    def choose(self, which: Mask | Integers | slice) -> Units:
        """Some of them: by mask, by numbers, or a range."""
        return Units(*(column[which] for column in self))

    def place(self, number: int) -> UnitPlace:
        """One of them."""
        return UnitPlace(
            int(self.offset[number]), int(self.physical[number]), int(self.size[number]), int(self.messages[number])
        )

    @property
    def is_filler(self) -> Mask:
        return np.asarray((self.size == FILLER_SIZE) & (self.physical == 0))

    @property
    def is_real(self) -> Mask:
        return np.asarray((self.size > 0) & (self.physical >= 0) & (self.size != FILLER_SIZE))


def joined(parts: list[Units]) -> Units:
    return parts[0] if len(parts) == 1 else Units(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class ScanQueue:
    """A queue of a store seen from outside; valid as long as the view it came from."""

    __slots__ = ("__dict__", "queue_id", "stored", "tail", "topic")

    def __init__(self, topic: str, queue_id: int, stored: StoredQueue | None, tail: Units | None) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.stored = stored  # None: every unit is still to be dispatched
        self.tail = tail if tail is not None and len(tail.offset) else None

    @property
    def is_batch(self) -> bool:
        return self.stored is not None and self.stored.is_batch

    @property
    def tail_start(self) -> int | None:
        """From this queue offset on the log's undispatched tail tells, whatever the files say."""
        return None if self.tail is None else int(self.tail.offset[0])

    @property
    def file_start(self) -> int:
        """First queue offset the files hold."""
        if self.is_batch:
            return int(self._batch.offset[0]) if len(self._batch.offset) else 0
        if self.stored is not None and self.stored.run.files:
            return self.stored.run.start // self.stored.unit_size
        return 0 if self.tail_start is None else self.tail_start

    @cached_property
    def file_end(self) -> int:
        """Behind the last unit of the files that is not all zero."""
        if self.stored is None:
            return self.file_start
        if self.is_batch:
            return int(self._batch.offset[-1] + self._batch.messages[-1]) if len(self._batch.offset) else 0
        step = self.stored.unit_size
        for file in reversed(self.stored.run.files):
            written = written_units(self.stored.reader.read, file.start, file.size // step, step)
            if written:
                return file.start // step + written
        return self.stored.run.start // step

    def read(self, start: int, end: int, count: int) -> tuple[Units, int]:
        """Units of the offsets from ``start`` on, below ``end``, at most ``count``; and the offset to go on from.

        Where files end too early, units are all zero.
        """
        if self.is_batch:
            return self._read_batch(start, end, count)
        tail_start = self.tail_start
        if self.tail is not None and tail_start is not None and start >= tail_start:
            low, high = np.searchsorted(self.tail.offset, (start, end))
            units = self.tail.choose(slice(low, min(high, low + count)))
            done = len(units.offset) == high - low
            return units, end if done else int(units.offset[-1]) + 1
        stop = min(start + count, end if tail_start is None else min(end, tail_start))
        return self._read_files(start, stop), stop

    def unit_at(self, offset: int) -> UnitPlace | None:
        """The unit this offset belongs to, for searches: no arrays, tags code as stored; None if it is all zero."""
        if self.stored is None or self.stored.is_batch or (self.tail is not None and offset >= self.tail.offset[0]):
            units, _ = self.read(offset, offset + 1, 1)
            if not len(units.offset):
                return None
            return units.place(0)
        data = self.stored.reader.read(offset * UNIT_SIZE, UNIT_SIZE)
        if len(data) < UNIT_SIZE or not data.strip(b"\0"):
            return None
        physical, size, _ = UNIT.unpack(data)
        return UnitPlace(offset, physical, size, 1)

    def next_real(self, offset: int, end: int, log_end: int) -> UnitPlace | None:
        """The first unit of the offsets [offset, end) that names a place before ``log_end``."""
        for _ in range(STEPS_ON):
            if offset >= end:
                return None
            unit = self.unit_at(offset)
            if unit is not None and unit.is_real and unit.physical < log_end:
                return unit
            offset += 1
        while offset < end:  # pages of zeros, a file that is missing, the filler before a queue's first unit
            units, offset = self.read(offset, end, _BLOCK_UNITS)
            real = np.flatnonzero(units.is_real & (units.physical < log_end))
            if len(real):
                return units.place(int(real[0]))
        return None

    def past_filler(self, offset: int, end: int) -> int:
        """The first of the offsets [offset, end) that has another unit than a filler; ``end`` without one."""
        while offset < end and (unit := self.unit_at(offset)) is not None and unit.is_filler:
            units, offset = self.read(offset, end, _BLOCK_UNITS)
            others = np.flatnonzero(~units.is_filler)
            if len(others):
                return int(units.offset[others[0]])
        return offset

    def _read_files(self, start: int, end: int) -> Units:
        count = max(end - start, 0)
        fields = np.zeros((3, count), np.int64)
        if self.stored is not None:
            position = start
            while position < end:
                data = self.stored.reader.read(position * UNIT_SIZE, (end - position) * UNIT_SIZE)
                if len(data) < UNIT_SIZE:  # no file here: go on where the next one starts
                    following = self.stored.run.file_after(position * UNIT_SIZE + 1)
                    if following is None or following.start // UNIT_SIZE >= end:
                        break
                    position = following.start // UNIT_SIZE
                    continue
                if position == start:  # mostly all of it
                    position += parse_units(data, fields)
                    continue
                units = np.empty((3, len(data) // UNIT_SIZE), np.int64)
                parse_units(data, units)
                fields[:, position - start : position - start + units.shape[1]] = units
                position += units.shape[1]
        numbers = np.arange(start, start + count, dtype=np.int64)
        if self.tail is not None:  # what neither files nor tail know becomes filler in recovery
            fields[1, numbers >= self.file_end] = FILLER_SIZE
        return Units(numbers, fields[0], fields[1], self._resolved_codes(fields[2], numbers), np.ones(count, np.int64))

    def _resolved_codes(self, codes: Integers, numbers: Integers) -> Integers:
        """Tags codes with addresses of the ext file resolved."""
        if self.stored is None or self.stored.ext_run is None:
            return codes
        for place in np.flatnonzero(codes <= EXT_ADDRESS_MAX).tolist():
            unit = self.stored.unit_at(int(numbers[place]))
            codes[place] = 0 if unit is None else unit.tags_code
        return codes

    @cached_property
    def _batch(self) -> Units:
        """All units of a batch queue: they are few, and not addressed by queue offset."""
        assert self.stored is not None
        step, run = self.stored.unit_size, self.stored.run
        first, end = run.start // step, run.end // step
        data = self.stored.read_raw(first, end - first)
        raw = np.frombuffer(data[: len(data) // step * step], _BATCH_DTYPE)
        raw = raw[(raw["size"] > 0) & (raw["messages"] > 0)]
        columns = (raw[name].astype(np.int64) for name in ("base", "physical", "size", "code", "messages"))
        return Units(*columns)

    def _read_batch(self, start: int, end: int, count: int) -> tuple[Units, int]:
        units = self._batch
        if self.tail is not None:
            units = joined([units.choose(units.offset < self.tail.offset[0]), self.tail])
        low = int(np.searchsorted(units.offset + units.messages, start, side="right"))
        high = int(np.searchsorted(units.offset, end))
        chosen = units.choose(slice(low, min(high, low + count)))
        if low + count >= high:
            return chosen, end
        return chosen, int(chosen.offset[-1] + chosen.messages[-1])
