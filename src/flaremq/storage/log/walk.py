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

Long logs are read by the compiled kernels (kernels/preload.py), which take most records and leave the rest, and
every judgement about damage, to the Python code here. ``odd_alone`` has them leave records with implausible
fields too, which then come one by one: what such a record means is for the caller to say.

As in RocketMQ, a filler with no file behind it does not count: the log then ends where the filler starts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from flaremq.message.message_ext import MessageExt
from flaremq.message.record.check import check_record
from flaremq.message.record.codec import RECORD_SIZE_MIN
from flaremq.storage.files.directory import RunReader, StoreFile
from flaremq.storage.files.layout import file_name
from flaremq.storage.log.resync import BLANK_MAGIC, Stretch, search_record, stated_size

WINDOW_BYTES = 4 << 20  # read at once; larger records get a window of their own
BULK_BYTES = 64 << 20  # loading the kernels takes as long as walking this much log without them


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Whole records of one window: record ``i`` is ``data[starts[i]:starts[i] + sizes[i]]``."""

    data: bytes
    base: int  # physical offset of data[0]
    starts: list[int]
    sizes: list[int]
    columns: Any = None  # the kernels' table of these records, if they were read in bulk; valid until the next item

    def records(self) -> Iterator[tuple[int, memoryview]]:
        view = memoryview(self.data)
        for start, size in zip(self.starts, self.sizes, strict=True):
            yield self.base + start, view[start : start + size]

    def store_timestamps(self) -> list[int]:
        if self.columns is None:
            return [MessageExt(record).store_timestamp for _, record in self.records()]
        from flaremq.storage.kernels.table import STORE_TIMESTAMP

        times: list[int] = self.columns[STORE_TIMESTAMP, : len(self.starts)].tolist()
        return times


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
    bulk: bool | None = None,
    odd_alone: bool = False,
) -> Iterator[LogItem]:
    """Everything from ``start`` (where a record or file starts; by default the first) to the end of the
    log."""
    begin = reader.run.start if start is None else start
    if bulk is None:
        bulk = wants_bulk(reader, begin, BULK_BYTES)
    durable = reader.run.end if durable is None else durable
    return _Walker(reader, durable, _bulk_scan(odd_alone) if bulk else None).walk(begin)


def find_record(reader: RunReader, offset: int) -> int | None:
    """The first place at or behind ``offset`` where a whole record or a filler that fits stands; None if nowhere."""
    return _Walker(reader, reader.run.end, None).next_good(offset - 1)[0]


def wants_bulk(reader: RunReader, start: int, threshold: int) -> bool:
    """Whether there is enough log behind ``start`` for the kernels to pay for being loaded."""
    files = reader.run.files  # made at full length, so how far the last one is written must be looked up
    return bool(files) and files[-1].end - start >= threshold and reader.written_end() - start >= threshold


class _Walker:
    __slots__ = ("_bulk", "_durable", "_reader", "_run")

    def __init__(self, reader: RunReader, durable: int, bulk: BulkScan | None) -> None:
        self._reader = reader
        self._run = reader.run
        self._durable = durable
        self._bulk = bulk

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
        if self._bulk is not None:
            batch = self._bulk(data, position, self._durable)
            if batch.starts:
                return batch, None  # what follows is looked at in the next window
        batch = RecordBatch(data, position, [], [])
        nominal_end = file.start + self._run.file_size
        whole = position + len(data) >= limit  # the window shows the rest of the file
        at, length = 0, len(data)
        while at < length:
            if data[at + 4 : at + 8] == BLANK_MAGIC:
                stated = int.from_bytes(data[at : at + 4], "big", signed=True)
                left = nominal_end - position - at
                if stated == left:
                    return batch, Blank(position + at, stated)
                return batch, f"a filler says {stated} bytes where {left} are left"
            here = position + at
            check = check_record(data, at, physical_offset=here, strict=here >= self._durable)
            if not check.ok:
                cut_short = batch.starts and not whole
                return batch, None if cut_short else check.reason.value
            batch.starts.append(at)
            batch.sizes.append(check.size)
            at += check.size
            if self._bulk is not None:
                break  # one record the kernels leave to us; the next window goes on with them
        return batch, None

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


BulkScan = Callable[[bytes, int, int], RecordBatch]


def _bulk_scan(odd_alone: bool) -> BulkScan:
    """A scan of one window by the compiled kernels; takes as many records as they vouch for, maybe none."""
    from flaremq.storage.kernels.memory import as_array
    from flaremq.storage.kernels.record import walk as walk_kernel
    from flaremq.storage.kernels.table import CHECK_BODY_CRC, CHECK_RECORD_CRC, FILE_OFFSET, SIZE, STRICT, RecordTable

    table = RecordTable(WINDOW_BYTES // RECORD_SIZE_MIN + 1)
    checks = CHECK_BODY_CRC | CHECK_RECORD_CRC

    def scan(data: bytes, base: int, durable: int) -> RecordBatch:
        # Behind the durable point only flawless records count; a record across it is left to the check in Python.
        strict = odd_alone or base >= durable
        end = len(data) if base >= durable else min(len(data), durable - base)
        flags = checks | (STRICT if strict else 0)
        rows, _, _ = walk_kernel(as_array(data), 0, end, base, flags, table.columns)
        columns = table.columns[:, :rows]
        starts, sizes = columns[FILE_OFFSET].tolist(), columns[SIZE].tolist()
        return RecordBatch(data, base, starts, sizes, table.columns)

    return scan
