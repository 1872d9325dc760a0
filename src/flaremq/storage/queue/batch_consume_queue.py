"""BatchConsumeQueue: units for records that hold several messages (5.x topics with ``queue.type=BatchCQ``).

    at  size  field
     0     8  physical_offset
     8     4  record_size
    12     8  tags_code
    20     8  store_timestamp
    28     8  base_offset        queue offset of the record's first message
    36     2  messages           how many the record holds
    38     4  compacted_offset   -1
    42     4  reserved           0

Units are not addressed by queue offset: one stands for several offsets, so a reader searches by ``base_offset``.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from flaremq.storage.files.queue_files import QueueFiles

BATCH_UNIT = struct.Struct(">qiqqqhii")
BATCH_UNIT_SIZE = 46
assert BATCH_UNIT.size == BATCH_UNIT_SIZE  # see docs/formats/batch_consume_queue.md


class BatchUnit(NamedTuple):
    physical_offset: int
    record_size: int
    tags_code: int
    store_timestamp: int
    base_offset: int
    messages: int
    compacted_offset: int = -1
    reserved: int = 0


class BatchConsumeQueue:
    """One batch queue. Written by dispatch or recovery, read by anyone."""

    __slots__ = ("end", "files", "max_physical_offset", "min_offset", "queue_id", "topic", "unit_end")

    def __init__(self, topic: str, queue_id: int, files: QueueFiles) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = files
        self.min_offset = 0
        self.end = 0  # next queue offset
        self.unit_end = 0  # next unit number
        self.max_physical_offset = 0

    @property
    def first_unit(self) -> int:
        return -(-self.files.begin // BATCH_UNIT_SIZE)

    def unit(self, number: int) -> BatchUnit | None:
        data = self.files.read(number * BATCH_UNIT_SIZE, BATCH_UNIT_SIZE)
        if len(data) < BATCH_UNIT_SIZE:
            return None
        unit = BatchUnit(*BATCH_UNIT.unpack(data))
        return unit if unit.record_size > 0 else None

    def append(self, unit: BatchUnit) -> None:
        """Add a unit unless its record is already here."""
        if unit.physical_offset + unit.record_size <= self.max_physical_offset or unit.base_offset < self.end:
            return
        if not self.files.starts:
            self.min_offset = unit.base_offset
        self.files.write(self.unit_end * BATCH_UNIT_SIZE, BATCH_UNIT.pack(*unit))
        self._note(unit, self.unit_end + 1)

    def _note(self, unit: BatchUnit, unit_end: int) -> None:
        self.unit_end = unit_end
        self.end = unit.base_offset + unit.messages
        self.max_physical_offset = unit.physical_offset + unit.record_size

    def first_place(self) -> int:
        """Physical offset of the first record with a unit here; -1 if there is none."""
        unit = self.unit(self.first_unit)
        return -1 if unit is None else unit.physical_offset

    def find(self, queue_offset: int) -> int:
        """Number of the unit that covers ``queue_offset`` (or the first after it)."""
        low, high = self.first_unit, self.unit_end
        while low < high:
            middle = (low + high) // 2
            unit = self.unit(middle)
            if unit is not None and unit.base_offset + unit.messages <= queue_offset:
                low = middle + 1
            else:
                high = middle
        return low

    def recover(self, log_end: int) -> None:
        """Keep the leading run of units whose records lie before ``log_end``; cut the rest."""
        number, last = self.first_unit, None
        while (unit := self.unit(number)) is not None and unit.physical_offset + unit.record_size <= log_end:
            last = unit
            number += 1
        self.files.truncate(number * BATCH_UNIT_SIZE)
        self.unit_end = number
        if last is not None:
            self._note(last, number)
        first = self.unit(self.first_unit) if number > self.first_unit else None
        self.min_offset = first.base_offset if first else 0

    def correct_min_offset(self, log_min_offset: int) -> None:
        """Move ``min_offset`` to the first message whose record is still in the log."""
        low, high = self.first_unit, self.unit_end
        while low < high:
            middle = (low + high) // 2
            unit = self.unit(middle)
            if unit is not None and unit.physical_offset < log_min_offset:
                low = middle + 1
            else:
                high = middle
        unit = self.unit(low) if low < self.unit_end else None
        self.min_offset = self.end if unit is None else unit.base_offset

    def drop_files_before(self, log_min_offset: int) -> int:
        """Delete leading files whose records are all gone, never the last; the number deleted."""
        dropped = 0
        while len(self.files.starts) > 1:
            last = self.unit((self.files.starts[0] + self.files.file_size) // BATCH_UNIT_SIZE - 1)
            if last is None or last.physical_offset >= log_min_offset:
                break
            self.files.drop_first()
            dropped += 1
        return dropped
