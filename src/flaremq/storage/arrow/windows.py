"""Records of a scan: read in windows in the order of the log, parsed and checked by the core, given out as batches.

Units say where the records are, so only they are read. Neighbours are read together, over small gaps too; records that
lie apart are read one by one into the same window: the cost follows the bytes asked for, not the bytes stored. Without
the body, a large record is read as its two ends; its body is address space that is never touched.

Each record must be whole, name its own place, queue and queue offset, and hold its checksum where its body is read.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flaremq.core.arrays import Bytes, Integers, as_array
from flaremq.core.scan import parse_pieces, topic_hash
from flaremq.core.table import (
    FILE_OFFSET,
    MARK_INNER_BATCH,
    MARKS,
    OK,
    QUEUE_HASH,
    QUEUE_OFFSET,
    RESULT,
    SIZE,
    RecordTable,
)
from flaremq.errors import CorruptionError, NotFoundError
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.layout import body_at
from flaremq.message.sys_flag import COMPRESSED, INNER_BATCH
from flaremq.storage.arrow.bodies import BodyReader, Row
from flaremq.storage.arrow.columns import decode_rows, parse_flags, wants_body
from flaremq.storage.arrow.decoder import ColumnDecoder, Rows
from flaremq.storage.arrow.filters import RowFilter
from flaremq.storage.arrow.objects import plain_rows
from flaremq.storage.arrow.units import Losses, PlacedUnits, UnitSpan, merged_units
from flaremq.storage.at_rest.unit_arrays import Units
from flaremq.storage.files.directory import RunReader

_WINDOW_BYTES = 4 << 20  # a batch of bodies: what Spark and the processor's cache like
_WINDOW_ROWS = 16_384
_GAP_BYTES = 16 << 10  # reading over this costs less than another call
_LARGE_BYTES = 8 << 10  # records of this size and more are read as two ends if their body is not wanted
_ADDRESS_BYTES = 1 << 30  # address space for such records, of which few pages are touched
_HEAD_BYTES = 112  # up to and including BODYLENGTH with two IPv6 hosts


class Window(NamedTuple):
    """Units whose records are read at once; all arrays have one element a unit."""

    units: Units
    span: Integers  # number of its span
    at: Integers  # place in the buffer
    apart: Integers  # not 0: not read together with its neighbour before it
    large: Integers  # not 0: read as two ends
    size: int


class WindowReader:
    """One scan over the log of one store."""

    def __init__(
        self,
        log: RunReader,
        spans: Sequence[UnitSpan],
        schema: pa.Schema,
        *,
        broker: str,
        wanted: RowFilter,
        losses: Losses,
        bodies: BodyReader,
    ) -> None:
        self._log = log
        self._spans = spans
        self._schema = schema
        self._broker = broker
        self._filter = wanted
        self._losses = losses
        self._bodies = bodies
        self._flags = parse_flags(schema, properties=bool(wanted))
        self._wants_body = wants_body(schema)
        self._hashes = np.array([_hash_of(span) for span in spans], np.int64)
        self._has_batches = any(span.queue.is_batch for span in spans)
        self._special = (COMPRESSED if self._wants_body else 0) | (INNER_BATCH if self._has_batches else 0)
        self._decoder = ColumnDecoder(schema, broker=broker)
        self._gone: set[str] = set()  # log files that were listed and are no more
        self._table = RecordTable(_WINDOW_ROWS)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All records of the spans, in the order of the log."""
        for block in merged_units(self._spans, self._filter.tags, self._losses):
            yield from self.batches_of(block)

    def batches_of(self, block: PlacedUnits) -> Iterator[pa.RecordBatch]:
        """The records of these units, which ascend in the log."""
        for window in self._windows(self._believable(block)):
            for batch in self._decode(window):
                if batch.num_rows:
                    yield batch

    def _decode(self, window: Window) -> Iterator[pa.RecordBatch]:
        units, span = window.units, window.span
        log = self._read(window)
        if not self._filter:
            # What nearly every window is: whole records of the queues that were asked for, in one pass.
            placed = Rows(window.at, units.physical, units.size, units.offset, self._hashes[span])
            batch = self._decoder.batch(log, placed, flags=self._flags, special=self._special, bodies=None)
            if batch is not None:
                return iter((batch,))
        count = parse_pieces(log, window.at, np.ascontiguousarray(units.physical), self._flags, self._table.cells)
        assert count == len(window.at)
        rows = self._table.columns[:, :count]
        good = (
            (rows[RESULT] == OK)
            & (rows[SIZE] == units.size)
            & (rows[QUEUE_OFFSET] == units.offset)
            & (rows[QUEUE_HASH] == self._hashes[span])
        )
        if not good.all():
            self._tell_losses(window, good)
            rows, span = np.ascontiguousarray(rows[:, good]), span[good]
        if self._has_batches and np.any(rows[MARKS] & MARK_INNER_BATCH):
            messages = self._apart(log, rows, span)
            return plain_rows(messages, self._schema, bodies=self._bodies, broker=self._broker)
        chosen = self._filter.choose(log, rows)
        return decode_rows(log, chosen, self._decoder, bodies=self._bodies)

    def _apart(self, log: Bytes, rows: Integers, span: Integers) -> Iterator[Row]:
        """Inner batches message by message; a record at the edge of a span has some that are not asked for."""
        view = log.data
        for at, size, number in zip(rows[FILE_OFFSET].tolist(), rows[SIZE].tolist(), span.tolist(), strict=True):
            start, end = self._spans[number].start, self._spans[number].end
            for message in self._bodies.taken_apart([MessageExt(view[at : at + size])]):
                if start <= message.queue_offset < end and self._filter.keeps(message):
                    yield message

    # Losses

    def _tell_losses(self, window: Window, good: NDArray[np.bool_]) -> None:
        for number in np.flatnonzero(~good).tolist():
            self._damage(PlacedUnits(window.units, window.span), number)

    def _damage(self, block: PlacedUnits, number: int) -> None:
        span, units = self._spans[int(block.span[number])], block.units
        physical, offset, count = (int(column[number]) for column in (units.physical, units.offset, units.messages))
        run = self._log.run
        file = run.file_at(physical)
        if physical < run.start or (file is not None and file.path in self._gone):
            self._losses.vanish(span, offset, count)
            return
        what, advice = f"the record of queue offset {offset} of {_name(span)}", "; set failOnDataLoss=false to skip it"
        if file is None:  # a hole, or behind the end
            what = f"{what} should stand at physical offset {physical}, which no log file holds"
            error = CorruptionError(what, path=self._losses.root, advice=advice)
        else:
            at = physical - file.start
            error = CorruptionError(f"{what} is damaged", path=file.path, offset=at, advice=advice)
        self._losses.damage(error, count)

    # Reading

    def _believable(self, block: PlacedUnits) -> PlacedUnits:
        """Without units whose size no record can have: a flipped bit must not make us read a gigabyte."""
        units, run = block.units, self._log.run
        doubtful = np.flatnonzero(units.size > _WINDOW_BYTES).tolist()
        wrong = []
        for number in doubtful:
            physical, size = int(units.physical[number]), int(units.size[number])
            if run.file_at(physical) is not None and int.from_bytes(self._piece(physical, 4), "big") != size:
                self._damage(block, number)
                wrong.append(number)
        if not wrong:
            return block
        kept = np.delete(np.arange(len(units.size)), wrong)
        return PlacedUnits(units.choose(kept), block.span[kept])

    def _windows(self, block: PlacedUnits) -> Iterator[Window]:
        """The block in windows. Between far neighbours no room is left: they are read apart."""
        units = block.units
        count = len(units.physical)
        large = np.zeros(count, np.int64)
        if not self._wants_body and not self._has_batches:
            large[units.size >= _LARGE_BYTES] = 1
        file = np.searchsorted(np.array(self._log.run.starts, np.int64), units.physical, side="right")
        apart = np.ones(count, np.int64)
        step = np.zeros(count, np.int64)
        distance = np.diff(units.physical)
        gap = distance - units.size[:-1]
        apart[1:] = (gap > _GAP_BYTES) | (gap < 0) | (np.diff(file) != 0) | (large[1:] | large[:-1])
        step[1:] = np.where(apart[1:], units.size[:-1], distance)
        place = np.cumsum(step)
        stop = place + units.size
        # What a window costs is the memory it touches, which of a large record is two pages or three.
        touched = units.size.copy()
        touched[1:] += np.where(apart[1:], 0, gap)
        cost = np.cumsum(np.where(large, 3 * mmap.PAGESIZE, touched))
        first = 0
        while first < count:
            base, spent = int(place[first]), int(cost[first - 1]) if first else 0
            last = min(
                int(np.searchsorted(cost, spent + _WINDOW_BYTES, side="right")),
                int(np.searchsorted(stop, base + _ADDRESS_BYTES, side="right")),
                first + _WINDOW_ROWS,
            )
            last = max(last, first + 1)
            part = slice(first, last)
            size = int(stop[last - 1]) - base
            yield Window(units.choose(part), block.span[part], place[part] - base, apart[part], large[part], size)
            first = last

    def _read(self, window: Window) -> Bytes:
        if window.large.any():
            return self._read_ends(window)
        pieces = [self._piece(physical, length) for _, physical, length in _reads(window)]
        return as_array(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _read_ends(self, window: Window) -> Bytes:
        """Large records by head and tail, each in its place; between them the buffer stays as it was made."""
        buffer = mmap.mmap(-1, window.size)  # pages exist once they are touched
        for first, physical, length in _reads(window):
            at = int(window.at[first])
            if not window.large[first]:
                buffer[at : at + length] = self._piece(physical, length)
                continue
            head = self._piece(physical, _HEAD_BYTES)
            buffer[at : at + _HEAD_BYTES] = head
            body = body_at(head[39])
            body_end = body + max(int.from_bytes(head[body - 4 : body], "big", signed=True), 0)
            begin = max(min(body_end, length - 1), _HEAD_BYTES)
            buffer[at + begin : at + length] = self._piece(physical + begin, length - begin)
        return as_array(memoryview(buffer))

    def _piece(self, physical: int, length: int) -> bytes:
        """These bytes of the log, zeros where there are none: no record stands there then."""
        file = self._log.run.file_at(physical)
        data = b""
        if file is not None:
            try:
                data = self._log.read_file(file, physical - file.start, length)
            except NotFoundError:
                self._gone.add(file.path)  # retention took it since the folder was listed
        return data if len(data) == length else data.ljust(length, b"\0")


def _name(span: UnitSpan) -> str:
    return f"{span.queue.topic}/{span.queue.queue_id}"


def _hash_of(span: UnitSpan) -> int:
    return topic_hash(span.queue.topic.encode("utf-8", "surrogatepass"), span.queue.queue_id)


def _reads(window: Window) -> Iterator[tuple[int, int, int]]:
    """First unit, physical offset and length of each read of a window."""
    bounds = np.flatnonzero(window.apart).tolist()
    if not bounds or bounds[0] != 0:
        bounds.insert(0, 0)
    for first, last in pairwise([*bounds, len(window.at)]):
        end = int(window.at[last - 1] + window.units.size[last - 1])
        yield first, int(window.units.physical[first]), end - int(window.at[first])
