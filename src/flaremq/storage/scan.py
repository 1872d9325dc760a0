"""A queue as Arrow batches: decoded by kernels straight from the mapped log, no Python object per message.

Only what is asked for is read: without ``body`` no body page is touched. Every record is checked against its unit and,
where its body is read, against its checksum; rows that fail are left out, as they are in ``get``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from flaremq.errors import InvalidArgumentError
from flaremq.storage import kernels
from flaremq.storage.commit_log import CommitLog
from flaremq.storage.consume_queue import UNIT_SIZE
from flaremq.storage.consume_queues import ConsumeQueues
from flaremq.storage.kernels import Integers
from flaremq.storage.mapped_file import MappedFile
from flaremq.storage.scan_columns import decode_rows, parse_flags

_UNITS = 8192  # a batch: large enough that its fixed cost does not show, small enough to stay in cache
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
    topic: str,
    queue_id: int,
    start: int,
    end: int | None,
    columns: Sequence[str] | None,
) -> Iterator[pa.RecordBatch]:
    """Batches of the queue's messages in [start, end), in order."""
    schema = scan_schema(columns)
    queue = queues.simple.get((topic, queue_id))
    if queue is None:
        return
    position = max(start, queue.min_offset)
    stop = queue.end if end is None else min(end, queue.end)
    table = kernels.RecordTable(_UNITS)
    while position < stop:
        data = queue.read_units(position, min(_UNITS, stop - position))
        if not data:
            return
        units = kernels.parse_units(kernels.as_array(data))
        count = len(data) // UNIT_SIZE
        numbers = np.arange(position, position + count)
        for file, first, last in _by_file(log, units[0]):
            batch = _decode(file, units[:, first:last], numbers[first:last], queue_id, table, schema)
            if batch.num_rows:
                yield batch
        position += count


def _by_file(log: CommitLog, physical: Integers) -> Iterator[tuple[MappedFile, int, int]]:
    """Runs of units whose records lie in one log file."""
    first, count = 0, len(physical)
    while first < count:
        file = log.files.find(int(physical[first]))
        if file is None:
            first += 1
            continue
        inside = (physical[first:] >= file.start) & (physical[first:] < file.end)
        last = count if inside.all() else first + int(np.argmin(inside))
        yield file, first, last
        first = last


def _decode(
    file: MappedFile,
    units: Integers,
    numbers: Integers,
    queue_id: int,
    table: kernels.RecordTable,
    schema: pa.Schema,
) -> pa.RecordBatch:
    log = kernels.as_array(file.buffer)
    count = kernels.parse_at(log, units[0] - file.start, file.start, parse_flags(schema), table.columns)
    rows = table.columns[:, :count]
    good = (
        (rows[kernels.RESULT] == kernels.OK)
        & (rows[kernels.SIZE] == units[1])
        & (rows[kernels.QUEUE_ID] == queue_id)
        & (rows[kernels.QUEUE_OFFSET] == numbers)
    )
    if not good.all():
        rows = np.ascontiguousarray(rows[:, good])
    return decode_rows(log, rows, schema)
