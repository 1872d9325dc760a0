"""A queue as Arrow batches: decoded by the core straight from the mapped log, no Python object per message.

Only what is asked for is read: without ``body`` no body page is touched. Every record is checked against its unit and,
where its body is read, against its checksum. Whatever fails, and every record of a batch queue, goes through the plain
reader: a unit that contradicts an intact log is repaired, a damaged record is left out and counted, as in ``get``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from flaremq.core.arrays import Integers, as_array
from flaremq.core.queue import parse_units
from flaremq.core.record import parse_at
from flaremq.core.table import OK, QUEUE_ID, QUEUE_OFFSET, RESULT, SIZE, RecordTable
from flaremq.errors import InvalidArgumentError
from flaremq.message.sys_flag import COMPRESSED
from flaremq.storage.arrow.bodies import BodyReader
from flaremq.storage.arrow.columns import decode_rows, parse_flags, wants_body
from flaremq.storage.arrow.decoder import ColumnDecoder, Rows
from flaremq.storage.arrow.objects import plain_rows
from flaremq.storage.files.mapped_file import MappedFile
from flaremq.storage.get.reader import MessageReader
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.queue.batch_consume_queue import BatchConsumeQueue
from flaremq.storage.queue.consume_queue import FILLER_SIZE, UNIT_SIZE, ConsumeQueue
from flaremq.storage.queue.table import ConsumeQueues

_log = logging.getLogger(__name__)
_BATCH_BYTES = 64 << 20  # of records in a batch, unless a single one is larger
_BATCH_MESSAGES = 1024  # messages of a batch queue read at a time
_UNITS = 3000  # a batch: its memory stays in the cache; no power of two, whose columns would collide there
_TIME = pa.timestamp("ms", tz="UTC")

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("queueId", pa.int32()),
        ("queueOffset", pa.int64()),
        ("physicalOffset", pa.int64()),
        ("storeSize", pa.int32()),
        ("msgId", pa.string()),
        ("tags", pa.string()),
        ("keys", pa.string()),
        ("body", pa.binary()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("flag", pa.int32()),
        ("sysFlag", pa.int32()),
        ("bornTimestamp", _TIME),
        ("bornHost", pa.string()),
        ("storeTimestamp", _TIME),
        ("storeHost", pa.string()),
        ("reconsumeTimes", pa.int32()),
        ("preparedTransactionOffset", pa.int64()),
    ]
)


def scan_schema(columns: Sequence[str] | None) -> pa.Schema:
    """The Arrow schema of these columns, all by default."""
    if columns is None:
        return SCHEMA
    unknown = [name for name in columns if name not in SCHEMA.names]
    if unknown:
        raise InvalidArgumentError(f"unknown column {unknown[0]!r}; there are {', '.join(SCHEMA.names)}")
    return pa.schema([SCHEMA.field(name) for name in columns])


def scan_queue(
    log: CommitLog,
    queues: ConsumeQueues,
    reader: MessageReader,
    topic: str,
    queue_id: int,
    start: int,
    end: int | None,
    columns: Sequence[str] | None,
) -> Iterator[pa.RecordBatch]:
    """Batches of the queue's messages in [start, end), in order.

    A body that cannot be inflated is null; a warning at the end counts them.
    """
    bodies = BodyReader()
    schema = scan_schema(columns)
    queue = queues.simple.get((topic, queue_id))
    if queue is not None:
        position = max(start, queue.min_offset)
        stop = queue.end if end is None else min(end, queue.end)
        yield from _Scan(log, reader, queue, schema, bodies).batches(position, stop)
        bodies.tell()
        return
    batch_queue = queues.batch.get((topic, queue_id))
    if batch_queue is not None:
        stop = batch_queue.end if end is None else min(end, batch_queue.end)
        yield from _scan_batches(reader, batch_queue, start, stop, schema, bodies)
        bodies.tell()


class _Scan:
    """One pass over a queue of single messages."""

    def __init__(
        self, log: CommitLog, reader: MessageReader, queue: ConsumeQueue, schema: pa.Schema, bodies: BodyReader
    ) -> None:
        self._log = log
        self._reader = reader
        self._queue = queue
        self._schema = schema
        self._bodies = bodies
        self._decoder = ColumnDecoder(schema, pieces=reader.scan_memory)
        self._flags = parse_flags(schema)
        self._special = COMPRESSED if wants_body(schema) else 0
        self._unreadable = 0

    def batches(self, position: int, stop: int) -> Iterator[pa.RecordBatch]:
        queue = self._queue
        while position < stop:
            data = queue.read_units(position, min(_UNITS, stop - position))
            if not data:
                break
            count = len(data) // UNIT_SIZE
            units = np.empty((3, count), np.int64)
            parse_units(data, units)
            numbers = np.arange(position, position + count)
            real = units[1] != FILLER_SIZE
            if not real.all():
                units, numbers = np.ascontiguousarray(units[:, real]), numbers[real]
            for file, first, last in _by_file(self._log, units):
                yield from self._decode(file, units[:, first:last], numbers[first:last])
            position += count
        if self._unreadable:
            _log.warning("%r: %d damaged messages were left out of a scan", queue, self._unreadable)

    def _decode(self, file: MappedFile | None, units: Integers, numbers: Integers) -> Iterator[pa.RecordBatch]:
        buffer = None if file is None else file.borrow()
        if file is None or buffer is None:
            yield from self._plainly(numbers)
            return
        log = as_array(buffer)
        placed = Rows(units[0] - file.start, units[0], units[1], numbers, queue_id=self._queue.queue_id)
        batch = self._decoder.batch(log, placed, flags=self._flags, special=self._special, bodies=None)
        if batch is not None:
            yield batch
            return
        # Something is out of the ordinary: a record at a time is judged, and each decides for itself.
        table = RecordTable(len(numbers))
        count = parse_at(log, placed.at, file.start, self._flags, table.cells)
        rows = table.columns[:, :count]
        bad = np.flatnonzero(
            (rows[RESULT] != OK)
            | (rows[SIZE] != units[1])
            | (rows[QUEUE_ID] != self._queue.queue_id)
            | (rows[QUEUE_OFFSET] != numbers)
        )
        if not len(bad):
            yield from decode_rows(log, rows, self._decoder, bodies=self._bodies)
            return
        first = 0
        for row in [*bad.tolist(), len(numbers)]:
            if row > first:
                part = np.ascontiguousarray(rows[:, first:row])
                yield from decode_rows(log, part, self._decoder, bodies=self._bodies)
            yield from self._plainly(numbers[row : row + 1])
            first = row + 1

    def _plainly(self, numbers: Integers) -> Iterator[pa.RecordBatch]:
        """The messages of these units as the plain reader sees them."""
        found = []
        for number in numbers.tolist():
            message = self._reader.message_at(self._queue, number)
            if message is not None:
                found.append(message)
            elif number >= self._queue.min_offset:  # else retention took it meanwhile
                self._unreadable += 1
        if found:
            yield from plain_rows(found, self._schema, bodies=self._bodies)


def _by_file(log: CommitLog, units: Integers) -> Iterator[tuple[MappedFile | None, int, int]]:
    """Runs of units whose records lie in one log file and are not too large together; None where no file is."""
    physical, ends = units[0], np.cumsum(np.clip(units[1], 0, FILLER_SIZE))
    first, count = 0, len(physical)
    while first < count:
        file = log.files.find(int(physical[first]))
        if file is None:
            yield None, first, first + 1
            first += 1
            continue
        inside = (physical[first:] >= file.start) & (physical[first:] < file.end)
        last = count if inside.all() else first + int(np.argmin(inside))
        begun = int(ends[first - 1]) if first else 0
        last = max(min(last, int(np.searchsorted(ends, begun + _BATCH_BYTES, side="right"))), first + 1)
        yield file, first, last
        first = last


def _scan_batches(
    reader: MessageReader, queue: BatchConsumeQueue, start: int, stop: int, schema: pa.Schema, bodies: BodyReader
) -> Iterator[pa.RecordBatch]:
    """Message by message out of records that hold several."""
    position = max(start, queue.min_offset)
    while position < stop:
        found = reader.get(queue.topic, queue.queue_id, position, _BATCH_MESSAGES, None, None)
        wanted = [message for message in bodies.taken_apart(found.messages) if position <= message.queue_offset < stop]
        if wanted:
            yield from plain_rows(wanted, schema, bodies=bodies)
        if found.next_offset <= position:
            return
        position = found.next_offset
