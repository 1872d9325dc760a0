"""A queue as Arrow batches: decoded by kernels straight from the mapped log, no Python object per message.

Only what is asked for is read: without ``body`` no body page is touched. Every record is checked against its unit and,
where its body is read, against its checksum; rows that fail are left out, as they are in ``get``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.message.message_ext import MessageExt
from flaremq.storage import kernels
from flaremq.storage.commit_log import CommitLog
from flaremq.storage.consume_queue import UNIT_SIZE
from flaremq.storage.consume_queues import ConsumeQueues
from flaremq.storage.kernels import Bytes, Integers
from flaremq.storage.mapped_file import MappedFile
from flaremq.storage.scan_hosts import host_column, message_id_column

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
_NUMBERS = {
    "queueId": kernels.QUEUE_ID,
    "queueOffset": kernels.QUEUE_OFFSET,
    "physicalOffset": kernels.PHYSICAL_OFFSET,
    "storeSize": kernels.SIZE,
    "flag": kernels.FLAG,
    "sysFlag": kernels.SYS_FLAG,
    "bornTimestamp": kernels.BORN_TIMESTAMP,
    "storeTimestamp": kernels.STORE_TIMESTAMP,
    "reconsumeTimes": kernels.RECONSUME_TIMES,
    "preparedTransactionOffset": kernels.PREPARED_OFFSET,
}
_TEXTS = {
    "topic": (kernels.TOPIC_AT, kernels.TOPIC_LENGTH),
    "tags": (kernels.TAGS_AT, kernels.TAGS_LENGTH),
    "keys": (kernels.KEYS_AT, kernels.KEYS_LENGTH),
}
_FROM_PROPERTIES = frozenset({"tags", "keys", "properties"})


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
    names = schema.names
    flags = 0
    if "body" in names:
        flags |= kernels.CHECK_BODY_CRC | kernels.CHECK_RECORD_CRC
    if not _FROM_PROPERTIES & set(names):
        flags |= kernels.HEADERS_ONLY
    log = kernels.as_array(file.buffer)
    count = kernels.parse_at(log, units[0] - file.start, file.start, flags, table.columns)
    rows = table.columns[:, :count]
    good = (
        (rows[kernels.RESULT] == kernels.OK)
        & (rows[kernels.SIZE] == units[1])
        & (rows[kernels.QUEUE_ID] == queue_id)
        & (rows[kernels.QUEUE_OFFSET] == numbers)
    )
    if not good.all():
        rows = np.ascontiguousarray(rows[:, good])
    if np.any(rows[kernels.MARKS] & kernels.MARK_BAD_TEXT):
        return _decode_plain(file, rows, schema)
    arrays = [_column(name, schema.field(name).type, file, log, rows) for name in names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(name: str, kind: pa.DataType, file: MappedFile, log: Bytes, rows: Integers) -> pa.Array:
    if name in _NUMBERS:
        values = rows[_NUMBERS[name]]
        if pa.types.is_int32(kind):
            values = values.astype(np.int32)
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values.copy())])
    if name in _TEXTS:
        at, length = rows[_TEXTS[name][0]], rows[_TEXTS[name][1]]
        return _gathered(log, at, length, kind, nullable=name != "topic")
    if name == "body":
        return _bodies(file, log, rows)
    if name == "properties":
        return _properties(log, rows)
    if name == "msgId":
        return message_id_column(log, rows)
    return host_column(log, rows, store=name == "storeHost")


def _gathered(log: Bytes, at: Integers, length: Integers, kind: pa.DataType, *, nullable: bool) -> pa.Array:
    at, length = np.ascontiguousarray(at), np.ascontiguousarray(length)
    offsets = np.empty(len(at) + 1, np.int32)
    out = np.empty(int(length.sum()), np.uint8)
    if kernels.gather(log, at, length, offsets, out) < 0:
        raise CorruptionError("a batch holds more than 2 GiB")
    validity = None
    if nullable and not length.all():
        validity = pa.py_buffer(np.packbits(length > 0, bitorder="little"))
    return pa.Array.from_buffers(kind, len(at), [validity, pa.py_buffer(offsets), pa.py_buffer(out)])


def _bodies(file: MappedFile, log: Bytes, rows: Integers) -> pa.Array:
    """Stored bodies as they are; a batch with compressed ones is put together one by one, inflated."""
    if not np.any(rows[kernels.SYS_FLAG] & 1):
        return _gathered(log, rows[kernels.BODY_AT], rows[kernels.BODY_LENGTH], pa.binary(), nullable=False)
    return pa.array([message.body for message in _messages(file, rows)], pa.binary())


def _properties(log: Bytes, rows: Integers) -> pa.Array:
    at = np.ascontiguousarray(rows[kernels.PROPERTIES_AT])
    columns = kernels.properties_columns(log, at, np.ascontiguousarray(rows[kernels.PROPERTIES_LENGTH]))
    if columns is None:
        raise CorruptionError("a batch holds more than 2 GiB of properties")
    entries = len(columns.key_offsets) - 1
    keys = pa.Array.from_buffers(
        pa.string(), entries, [None, pa.py_buffer(columns.key_offsets), pa.py_buffer(columns.keys)]
    )
    values = pa.Array.from_buffers(
        pa.string(), entries, [None, pa.py_buffer(columns.value_offsets), pa.py_buffer(columns.values)]
    )
    offsets = pa.Array.from_buffers(pa.int32(), len(columns.offsets), [None, pa.py_buffer(columns.offsets)])
    return pa.MapArray.from_arrays(offsets, keys, values)


def _messages(file: MappedFile, rows: Integers) -> Iterator[MessageExt]:
    for at, size in zip(rows[kernels.FILE_OFFSET].tolist(), rows[kernels.SIZE].tolist(), strict=True):
        yield MessageExt(file.buffer[at : at + size])


def _decode_plain(file: MappedFile, rows: Integers, schema: pa.Schema) -> pa.RecordBatch:
    """The same columns for records with text that is not UTF-8, through the plain decoder."""
    values: dict[str, list[object]] = {name: [] for name in schema.names}
    for message in _messages(file, rows):
        fields: dict[str, object] = {
            "topic": message.topic,
            "queueId": message.queue_id,
            "queueOffset": message.queue_offset,
            "physicalOffset": message.physical_offset,
            "storeSize": message.size,
            "msgId": message.message_id,
            "tags": message.tags,
            "keys": message.properties.get("KEYS"),
            "properties": list(message.properties.items()),
            "flag": message.flag,
            "sysFlag": message.sys_flag,
            "bornTimestamp": message.born_timestamp,
            "bornHost": message.born_host,
            "storeTimestamp": message.store_timestamp,
            "storeHost": message.store_host,
            "reconsumeTimes": message.reconsume_times,
            "preparedTransactionOffset": message.prepared_transaction_offset,
        }
        for name in schema.names:
            values[name].append(message.body if name == "body" else fields[name])
    arrays = [pa.array(values[name], schema.field(name).type) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
