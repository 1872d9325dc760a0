"""Walking the commit log of a store at rest, over damage and to its end.

The walk yields, in physical order, batches of whole records, the fillers at file ends, and the ranges that
are no records. A record counts only if its frame adds up, its checksums hold and it names its own position:
PHYSICALOFFSET must equal the place where it was found, so bytes left over from another life of the file do
not pass.

Where a record cannot be read there are two cases, and only what follows tells them apart. If a valid,
self-located record follows anywhere, the bytes between are a :class:`DamagedRange` and the walk goes on
behind them. If none does, the log ends here: :class:`LogTail`. A torn last record is therefore an end, not
damage. Behind ``durable``, the point up to which a crashed store of ours knows its log to be on disk, the
rule is stricter, as in recovery: the first bytes that are no flawless record end the log, whatever follows.

Records are read by the core (``flaremq.core.record``), which takes nearly all and leaves the rest, and every judgement
about damage, to the readable check (``message.record.check``). ``odd_alone`` has it leave records with implausible
fields too, which then come one by one: what such a record means is for the caller to say.

As in RocketMQ, a filler with no file behind it does not count: the log then ends where the filler starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from flaremq.core.record import walk
from flaremq.core.table import (
    CHECK_BODY_CRC,
    CHECK_RECORD_CRC,
    FILE_OFFSET,
    SIZE,
    STORE_TIMESTAMP,
    STRICT,
    RecordTable,
)
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.check import check_record
from flaremq.storage.files.directory import RunReader, StoreFile
from flaremq.storage.files.layout import file_name
from flaremq.storage.log.resync import BLANK_MAGIC, Stretch, search_record, stated_size

if TYPE_CHECKING:
    from flaremq.core.arrays import Integers

WINDOW_BYTES = 4 << 20  # read at once; larger records get a window of their own
_TABLE_ROWS = 16_384
_CHECKS = CHECK_BODY_CRC | CHECK_RECORD_CRC


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Whole records of one window: record ``i`` is ``data[starts[i]:starts[i] + sizes[i]]``."""

    data: bytes
    base: int  # physical offset of data[0]
    starts: list[int]
    sizes: list[int]
    table: RecordTable | None = None  # of these records, valid until the next item; None for one the core leaves out

    @property
    def columns(self) -> Integers:
        """The table's columns; only for batches that have one."""
        assert self.table is not None
        return self.table.columns

    def records(self) -> Iterator[tuple[int, memoryview]]:
        view = memoryview(self.data)
        for start, size in zip(self.starts, self.sizes, strict=True):
            yield self.base + start, view[start : start + size]

    def store_timestamps(self) -> list[int]:
        if self.table is None:
            return [MessageExt(record).store_timestamp for _, record in self.records()]
        return self.table.column(STORE_TIMESTAMP, len(self.starts))


@dataclass(frozen=True, slots=True)
class Blank:
    """A filler to the end of its file."""

    physical_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Bytes [start, end) that hold no readable record although readable ones follow."""

    start: int
    end: int
    reason: str
    path: str = ""  # the file they should be in, where a report names it

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class LogTail:
    """Where the log ends; ``leftover_bytes`` behind it reach to the last one that is not zero."""

    physical_offset: int
    leftover_bytes: int
    reason: str
    records_follow: bool = False  # whole records stand behind the end, which were never confirmed
    filler_bytes: int = 0  # a filler at the very end, which counts only once a file follows


LogItem = RecordBatch | Blank | DamagedRange | LogTail


def walk_log(
    reader: RunReader,
    start: int | None = None,
    *,
    durable: int | None = None,
    odd_alone: bool = False,
) -> Iterator[LogItem]:
    """Everything from ``start`` (where a record or file starts; by default the first) to the end of the
    log."""
    begin = reader.run.start if start is None else start
    return _Walker(reader, reader.run.end if durable is None else durable, odd_alone).walk(begin)


def find_record(reader: RunReader, offset: int) -> int | None:
    """The first place at or behind ``offset`` where a whole record or a filler that fits stands; None if nowhere."""
    return _Walker(reader, reader.run.end, False).next_good(offset - 1)[0]


class _Walker:
    __slots__ = ("_durable", "_odd_alone", "_reader", "_run", "_table")

    def __init__(self, reader: RunReader, durable: int, odd_alone: bool) -> None:
        self._reader = reader
        self._run = reader.run
        self._durable = durable
        self._odd_alone = odd_alone
        self._table: RecordTable | None = None

    def walk(self, position: int) -> Iterator[LogItem]:
        log_end = position  # where the log ends if nothing at all follows
        while True:
            file = self._run.file_at(position)
            if file is None:
                following = self._run.file_after(position)
                if following is None:
                    yield LogTail(log_end, 0, "no further file", filler_bytes=position - log_end)
                    return
                if following.start > position:
                    yield DamagedRange(
                        position, following.start, "no file holds these bytes", self._missing_path(position, following)
                    )
                position = log_end = following.start
                continue
            batch, stop = self._scan_window(file, position, file.end)
            if batch.starts:
                yield batch
                position = log_end = batch.base + batch.starts[-1] + batch.sizes[-1]
            if stop is None:
                continue
            if isinstance(stop, Blank):
                position = file.start + self._run.file_size
                if self._run.file_after(position) is not None:
                    yield stop
                    log_end = position
                continue
            good, leftover = self.next_good(position)
            if good is None or position >= self._durable:
                yield LogTail(position, leftover, stop, good is not None)
                return
            yield DamagedRange(position, good, stop, file.path)
            position = log_end = good

    def _missing_path(self, position: int, following: StoreFile) -> str:
        """The file that should hold this byte: one that is too short, or the first that is not there."""
        before = [file for file in self._run.files if file.start <= position]
        if before and position < before[-1].start + self._run.file_size:
            return before[-1].path
        folder = os.path.dirname((before[-1] if before else following).path)
        return os.path.join(folder, file_name(position))

    def _scan_window(self, file: StoreFile, position: int, limit: int) -> tuple[RecordBatch, Blank | str | None]:
        """Records from ``position`` as far as one window shows; then a filler, a reason to stop, or None."""
        data = self._reader.read_file(file, position - file.start, min(WINDOW_BYTES, limit - position))
        size = stated_size(data)
        if len(data) < size <= limit - position:
            data = self._reader.read_file(file, position - file.start, size)
        batch = self._walk_window(data, position)
        if batch.starts:
            return batch, None  # what follows is looked at in the next window
        if data[4:8] == BLANK_MAGIC:
            stated = int.from_bytes(data[:4], "big", signed=True)
            left = file.start + self._run.file_size - position
            if stated == left:
                return batch, Blank(position, stated)
            return batch, f"a filler says {stated} bytes where {left} are left"
        # One record that the core leaves to us, or none; the next window goes on with the core.
        check = check_record(data, physical_offset=position, strict=position >= self._durable)
        if not check.ok:
            return batch, check.reason.value
        return RecordBatch(data, position, [0], [check.size]), None

    def _walk_window(self, data: bytes, position: int) -> RecordBatch:
        """As many records as the core vouches for, maybe none."""
        if self._table is None:
            self._table = RecordTable(_TABLE_ROWS)
        # Behind the durable point only flawless records count; a record across it is left to the readable check.
        strict = self._odd_alone or position >= self._durable
        end = len(data) if position >= self._durable else min(len(data), self._durable - position)
        rows, _, _ = walk(data, 0, end, position, _CHECKS | (STRICT if strict else 0), self._table.cells)
        starts, sizes = self._table.column(FILE_OFFSET, rows), self._table.column(SIZE, rows)
        return RecordBatch(data, position, starts, sizes, self._table)

    def next_good(self, bad: int) -> tuple[int | None, int]:
        """The first valid record or filler behind ``bad``, and how far bytes that are not zero reach."""
        reader, run = self._reader, self._run
        stretches = (
            Stretch(
                file.start,
                run.file_size,
                reader.data_end(file) - file.start,
                file.size,
                partial(reader.read_file, file),
            )
            for file in run.files
            if file.end > bad
        )
        return search_record(stretches, bad)
