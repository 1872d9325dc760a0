"""ConsumeQueue: queue offset -> place of the record in the log. A view of the log, rebuilt from it at will.

One unit. Position in the queue = queue_offset * UNIT.size.

    at  size  field             note
     0     8  physical_offset   start of the record in the CommitLog
     8     4  record_size       whole record in bytes, not the body alone
    12     8  tags_code         Java hash of the tag, sign-extended; due time in the delay topic; ext address

A unit's place is always ``q * 20``. Where the log has no record for a queue offset (a replica that joined late, a
damaged record) stands a *filler* unit, which is recognised and skipped. Units are never served unchecked: the store
compares each with its record.

A broker with thousands of queues would write twenty bytes to another file for every message. So the newest units of a
queue may wait in memory (``tail_bytes``), where readers find them, until there are enough of them or ``drain`` is
called; a checkpoint drains before it claims anything. A crash takes them along and recovery builds them anew.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from flaremq.storage.files.queue_files import QueueFiles
from flaremq.storage.queue.search import Answer, first_behind, written_units

UNIT = struct.Struct(">qiq")
UNIT_SIZE = 20
assert UNIT.size == UNIT_SIZE  # fixed by the RocketMQ format; see docs/formats/consume_queue.md

FILLER_SIZE = 2**31 - 1
FILLER = UNIT.pack(0, FILLER_SIZE, 0)
_ZERO_UNIT = bytes(UNIT_SIZE)
_FILL_CHUNK = 4096

# A tag hash never lies this low: it is an address in the ext file.
EXT_ADDRESS_MAX = -(2**31) - 1


class UnitPlace(NamedTuple):
    """One unit: which offsets it stands for and where its record is."""

    offset: int
    physical: int
    size: int
    messages: int

    @property
    def is_filler(self) -> bool:
        return self.size == FILLER_SIZE and self.physical == 0

    @property
    def is_real(self) -> bool:
        return 0 < self.size < FILLER_SIZE and self.physical >= 0

    @property
    def end(self) -> int:
        """Queue offset behind it."""
        return self.offset + self.messages


class ConsumeQueue:
    """One queue of one topic. Written by dispatch (or recovery), read by anyone."""

    __slots__ = (
        "_tail",
        "_tail_bytes",
        "changes",
        "end",
        "files",
        "max_physical_offset",
        "min_offset",
        "queue_id",
        "topic",
    )

    def __init__(self, topic: str, queue_id: int, files: QueueFiles, tail_bytes: int = 0) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = files
        self._tail_bytes = tail_bytes
        # (queue offset of the first unit in memory, the units): replaced as a whole, so readers need no lock.
        self._tail: tuple[int, bytearray] | None = None
        self.min_offset = 0  # first queue offset whose record is still in the log
        self.end = 0  # next queue offset; readers see units below it
        self.max_physical_offset = 0  # end of the last record with a unit here
        self.changes = 0  # how often units below ``end`` became others: who keeps units looks here

    def __repr__(self) -> str:
        return f"ConsumeQueue({self.topic!r}, {self.queue_id}, [{self.min_offset}, {self.end}))"

    @property
    def first_offset(self) -> int:
        """First queue offset the files have room for."""
        return self.files.begin // UNIT_SIZE

    def read_units(self, queue_offset: int, count: int) -> bytes:
        """Whole units from ``queue_offset`` on, at most to the end of its file and of the queue."""
        count = min(count, self.end - queue_offset)
        if count <= 0 or queue_offset < 0:
            return b""
        tail = self._tail
        if tail is not None and queue_offset + count > tail[0]:
            start, units = tail
            if queue_offset >= start:
                return bytes(units[(queue_offset - start) * UNIT_SIZE : (queue_offset - start + count) * UNIT_SIZE])
            ahead = (start - queue_offset) * UNIT_SIZE
            data = self.files.read(queue_offset * UNIT_SIZE, ahead)
            if len(data) == ahead:  # else a file ends before: who wants more asks again
                return data + bytes(units[: count * UNIT_SIZE - ahead])
        else:
            data = self.files.read(queue_offset * UNIT_SIZE, count * UNIT_SIZE)
        return data[: len(data) // UNIT_SIZE * UNIT_SIZE]

    @property
    def has_tail(self) -> bool:
        """Whether units wait in memory."""
        return self._tail is not None

    def drain(self) -> None:
        """Write the units that wait in memory to the file; by the thread that appends only."""
        if self._tail is not None:
            start, units = self._tail
            self.files.write(start * UNIT_SIZE, bytes(units))
            self._tail = None

    def unit(self, queue_offset: int) -> tuple[int, int, int] | None:
        """(physical offset, size, tags code), or None for a filler or absent unit."""
        data = self.read_units(queue_offset, 1)
        if not data or data in (FILLER, _ZERO_UNIT):
            return None
        return UNIT.unpack(data)

    def append(self, queue_offset: int, units: bytes | memoryview, *, max_physical_offset: int) -> None:
        """Add units for consecutive queue offsets; known ones are skipped, a gap before them becomes filler."""
        count = len(units) // UNIT_SIZE
        if queue_offset < self.end:
            known = min(self.end - queue_offset, count)
            self._settle_known(queue_offset, bytes(units[: known * UNIT_SIZE]))
            units = memoryview(units)[known * UNIT_SIZE :]
            queue_offset += known
            if not len(units):
                self._drain_if_full()  # an earlier try may have failed at that
                return
        if not self.files.starts:
            # The first file of the queue starts at a file boundary; what lies before is filler.
            begin = queue_offset * UNIT_SIZE // self.files.file_size * self.files.file_size
            self.end = begin // UNIT_SIZE
            if self.end < queue_offset:
                self._fill(queue_offset)
            self.min_offset = queue_offset
            self.files.write(queue_offset * UNIT_SIZE, units)
        elif not self._tail_bytes:
            if queue_offset > self.end:
                self._fill(queue_offset)
            self.files.write(queue_offset * UNIT_SIZE, units)
        else:
            if queue_offset > self.end:
                self.drain()
                self._fill(queue_offset)
            if self._tail is None:
                self._tail = (queue_offset, bytearray(units))
            else:
                self._tail[1].extend(units)
        self.max_physical_offset = max(self.max_physical_offset, max_physical_offset)
        self.end = queue_offset + len(units) // UNIT_SIZE
        # Last: units in memory count as appended, so that trying again after an error does not add them twice.
        self._drain_if_full()

    def _drain_if_full(self) -> None:
        if self._tail is not None and len(self._tail[1]) >= self._tail_bytes:
            self.drain()

    def _settle_known(self, queue_offset: int, units: bytes) -> None:
        """Units for offsets that have one already.

        A record with a wrong bit in its queue offset may have come before and jumped ahead: the filler it left, and the
        place it took behind that, belong to those that come after.
        """
        if self.read_units(queue_offset, len(units) // UNIT_SIZE) == units:
            return  # dispatched again, as ever
        for at in range(0, len(units), UNIT_SIZE):
            if FILLER in (self.read_units(queue_offset, 1), self.read_units(queue_offset - 1, 1)):
                self.replace(queue_offset, units[at : at + UNIT_SIZE])
            queue_offset += 1

    def _fill(self, queue_offset: int) -> None:
        while self.end < queue_offset:
            count = min(queue_offset - self.end, _FILL_CHUNK)
            self.files.write(self.end * UNIT_SIZE, FILLER * count)
            self.end += count

    def replace(self, queue_offset: int, unit: bytes) -> None:
        """Put a unit right that contradicts its record."""
        tail = self._tail
        if tail is not None and queue_offset >= tail[0]:
            at = (queue_offset - tail[0]) * UNIT_SIZE
            tail[1][at : at + UNIT_SIZE] = unit
        else:
            self.files.write(queue_offset * UNIT_SIZE, unit)
        self.changes += 1

    def truncate(self, end: int) -> None:
        """Forget units from queue offset ``end`` on, durably, and work out the last record again."""
        self.drain()
        self.files.truncate(end * UNIT_SIZE)
        self.end = max(end, self.first_offset)
        self.changes += 1
        self.min_offset = min(self.min_offset, self.end)
        self.max_physical_offset = 0
        for queue_offset in range(self.end - 1, self.first_offset - 1, -1):
            unit = self.unit(queue_offset)
            if unit is not None:
                self.max_physical_offset = unit[0] + unit[1]
                break

    def clear(self) -> None:
        """Forget everything; the queue is built from the log again."""
        self._tail = None
        self.files.remove_all()
        self.end = self.min_offset = self.max_physical_offset = 0
        self.changes += 1

    def guess_end(self) -> int:
        """Where units stop if the files end in zeros, by binary search: cheap, to be checked by the caller."""
        files = self.files
        for start in reversed(files.starts):
            written = written_units(files.read, start, files.file_size // UNIT_SIZE, UNIT_SIZE)
            if written:
                return start // UNIT_SIZE + written
        return self.first_offset

    def scan_end(self) -> int:
        """Queue offset after the last unit that is not all zeros, found by reading from the back."""
        return -(-self.files.nonzero_end() // UNIT_SIZE)

    def correct_min_offset(self, log_min_offset: int) -> None:
        """Move ``min_offset`` to the first real unit whose record is still in the log."""

        def ask(queue_offset: int, end: int) -> Answer | None:
            place = self._next_real(queue_offset)
            if place >= end:
                return None
            unit = self.unit(place)
            # An impossible offset is damage, which reading repairs: it may be retained.
            return place, place + 1, unit is None or not 0 <= unit[0] < log_min_offset

        self.min_offset = self._next_real(first_behind(ask, max(self.min_offset, self.first_offset), self.end))

    def _next_real(self, queue_offset: int) -> int:
        """The first place at or after ``queue_offset`` that is not filler; ``end`` if there is none."""
        while data := self.read_units(queue_offset, _FILL_CHUNK):
            if data[:UNIT_SIZE] != FILLER:
                return queue_offset
            for at in range(0, len(data), UNIT_SIZE):
                if data[at : at + UNIT_SIZE] != FILLER:
                    return queue_offset + at // UNIT_SIZE
            queue_offset += len(data) // UNIT_SIZE
        return self.end

    def first_place(self) -> int:
        """Physical offset of the first record with a unit here; -1 if there is none, or its unit is not readable."""
        unit = self.unit(self._next_real(self.first_offset))
        return -1 if unit is None else unit[0]

    def drop_files_before(self, log_min_offset: int) -> int:
        """Delete leading files whose records are all gone, never the last; the number deleted."""
        dropped = 0
        while len(self.files.starts) > 1:
            if self._last_record_in_first_file() >= log_min_offset:
                break
            self.files.drop_first()
            dropped += 1
        self.min_offset = max(self.min_offset, self.first_offset)
        return dropped

    def _last_record_in_first_file(self) -> int:
        """Physical offset of the newest record with a unit in the first file, -1 if there is none.

        The last unit may be filler, or damage that names no place in the log: the one before it then decides.
        """
        first = self.first_offset
        end = min(first + self.files.file_size // UNIT_SIZE, self.end)
        while end > first:
            begin = max(first, end - _FILL_CHUNK)
            data = self.read_units(begin, end - begin)
            for physical_offset, size, _ in reversed(list(UNIT.iter_unpack(data))):
                if 0 < size < FILLER_SIZE and 0 <= physical_offset < self.max_physical_offset:
                    return int(physical_offset)
            end = begin
        return -1

    def first_ext_address(self) -> int | None:
        """The lowest address in the ext file that a unit from ``min_offset`` on holds; None if none does."""
        queue_offset = self.min_offset
        while data := self.read_units(queue_offset, _FILL_CHUNK):
            for _, size, code in UNIT.iter_unpack(data):
                if code <= EXT_ADDRESS_MAX and size != FILLER_SIZE:
                    return int(code)
            queue_offset += len(data) // UNIT_SIZE
        return None
