"""Rows of the record table as Arrow columns: bytes are gathered from the log by the core, nothing is decoded twice.

The schema decides what is made and in which types: integers and timestamps of any unit, text or bytes, maps with the
field names asked for. Records the core does not read (text that is not UTF-8, inner batches) go through
``scan_plain``, which gives the same columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from flaremq.core.arrays import ArrowOffsets, Bytes, Integers
from flaremq.core.gather import gather, map_columns
from flaremq.core.scan import find_values
from flaremq.core.table import (
    BODY_AT,
    BODY_LENGTH,
    BORN_TIMESTAMP,
    CHECK_BODY_CRC,
    CHECK_RECORD_CRC,
    FILE_OFFSET,
    FLAG,
    HEADERS_ONLY,
    KEYS_AT,
    KEYS_LENGTH,
    MARK_BAD_TEXT,
    MARKS,
    PHYSICAL_OFFSET,
    PREPARED_OFFSET,
    PROPERTIES_AT,
    PROPERTIES_LENGTH,
    QUEUE_ID,
    QUEUE_OFFSET,
    RECONSUME_TIMES,
    SIZE,
    STORE_TIMESTAMP,
    SYS_FLAG,
    TAGS_AT,
    TAGS_LENGTH,
    TOPIC_AT,
    TOPIC_LENGTH,
)
from flaremq.errors import CorruptionError
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import TRANSACTION_ID
from flaremq.message.sys_flag import COMPRESSED
from flaremq.storage.arrow.bodies import PART_BYTES, Body, BodyReader
from flaremq.storage.arrow.hosts import host_column, message_id_column
from flaremq.storage.arrow.objects import plain_rows, timestamp_column

_NUMBERS = {
    "queueId": QUEUE_ID,
    "queueOffset": QUEUE_OFFSET,
    "physicalOffset": PHYSICAL_OFFSET,
    "storeSize": SIZE,
    "flag": FLAG,
    "sysFlag": SYS_FLAG,
    "bornTimestamp": BORN_TIMESTAMP,
    "storeTimestamp": STORE_TIMESTAMP,
    "reconsumeTimes": RECONSUME_TIMES,
    "preparedTransactionOffset": PREPARED_OFFSET,
}
_TEXTS = {
    "topic": (TOPIC_AT, TOPIC_LENGTH),
    "tags": (TAGS_AT, TAGS_LENGTH),
    "keys": (KEYS_AT, KEYS_LENGTH),
}
_FROM_PROPERTIES = frozenset({"tags", "keys", "properties", "transactionId"})
_TRANSACTION_ID = TRANSACTION_ID.encode() + b"\x01"
_LARGEST = 2**31 - 1


def parse_flags(schema: pa.Schema, *, properties: bool = False) -> int:
    """What the core must check and read for these columns, and for a filter on ``properties``."""
    flags = 0
    if wants_body(schema):
        flags |= CHECK_BODY_CRC | CHECK_RECORD_CRC
    if not properties and not _FROM_PROPERTIES & set(schema.names):
        flags |= HEADERS_ONLY
    return flags


def wants_body(schema: pa.Schema) -> bool:
    """Whether bodies must be read for these columns."""
    return not {"body", "bodyError"}.isdisjoint(schema.names)


def decode_rows(
    log: Bytes, rows: Integers, schema: pa.Schema, *, bodies: BodyReader, broker: str | None = None
) -> Iterator[pa.RecordBatch]:
    """The records parsed from ``log`` into ``rows``, all of them good, as batches of exactly this schema.

    One batch, or several where bodies inflate to much. An inner batch stays one row with the record's own fields;
    ``plain_rows`` takes it apart.
    """
    if np.any(rows[MARKS] & MARK_BAD_TEXT):
        return plain_rows(_messages(log, rows), schema, bodies=bodies, broker=broker)
    if wants_body(schema) and np.any(rows[SYS_FLAG] & COMPRESSED):
        return _inflated(log, rows, schema, bodies, broker)
    return iter((_batch(log, rows, schema, broker, None),))


def _inflated(
    log: Bytes, rows: Integers, schema: pa.Schema, bodies: BodyReader, broker: str | None
) -> Iterator[pa.RecordBatch]:
    first, size = 0, 0
    read: list[Body] = []
    for message in _messages(log, rows):
        read.append(bodies.read(message))
        size += read[-1].cost
        if size >= PART_BYTES:
            last = first + len(read)
            yield _batch(log, np.ascontiguousarray(rows[:, first:last]), schema, broker, read)
            first, size, read = last, 0, []
    if read:
        yield _batch(log, np.ascontiguousarray(rows[:, first:]), schema, broker, read)


def _batch(
    log: Bytes, rows: Integers, schema: pa.Schema, broker: str | None, bodies: list[Body] | None
) -> pa.RecordBatch:
    """``bodies`` holds those of a batch with compressed ones; otherwise they are gathered as they are stored."""
    arrays = []
    for field in schema:
        if field.name == "bodyError":
            errors = [None] * rows.shape[1] if bodies is None else [body.error for body in bodies]
            arrays.append(pa.array(errors, field.type))
        elif field.name == "body" and bodies is not None:
            arrays.append(body_column([body.value for body in bodies], field.type))
        else:
            arrays.append(_column(field.name, field.type, log, rows, broker))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(name: str, kind: pa.DataType, log: Bytes, rows: Integers, broker: str | None) -> pa.Array:
    if name in _NUMBERS:
        return number_column(rows[_NUMBERS[name]], kind)
    if name in _TEXTS:
        at, length = (rows[column] for column in _TEXTS[name])
        return gathered(log, at, length, kind, nullable=name != "topic")
    if name == "brokerName":
        return pa.repeat(pa.scalar(broker, kind), rows.shape[1])
    if name == "body":
        return _bodies(log, rows, kind)
    if name == "properties":
        return _properties(log, rows, kind)
    if name == "transactionId":
        return _transaction_ids(log, rows, kind)
    column = message_id_column(log, rows) if name == "msgId" else host_column(log, rows, store=name == "storeHost")
    return column if column.type == kind else column.cast(kind)


def number_column(values: Integers, kind: pa.DataType) -> pa.Array:
    """Integers as they are, milliseconds as timestamps of the unit asked for."""
    if pa.types.is_timestamp(kind):
        return timestamp_column(values, kind)
    if pa.types.is_int32(kind):
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values.astype(np.int32))])
    column = pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values.copy())])
    return column if column.type == kind else column.cast(kind)


def gathered(log: Bytes, at: Integers, length: Integers, kind: pa.DataType, *, nullable: bool) -> pa.Array:
    """Pieces of the log as a column; ``nullable`` takes an empty one for none."""
    at, length = np.ascontiguousarray(at), np.ascontiguousarray(length)
    offsets = np.empty(len(at) + 1, np.int32)
    out = np.empty(int(length.sum()), np.uint8)
    if gather(log, at, length, offsets, out) < 0:
        raise CorruptionError("a batch holds more than 2 GiB")
    validity = None
    if nullable and not length.all():
        validity = pa.py_buffer(np.packbits(length > 0, bitorder="little"))
    made = kind if pa.types.is_string(kind) or pa.types.is_binary(kind) else pa.string()
    column = pa.Array.from_buffers(made, len(at), [validity, pa.py_buffer(offsets), pa.py_buffer(out)])
    return column if made == kind else column.cast(kind)


def _bodies(log: Bytes, rows: Integers, kind: pa.DataType) -> pa.Array:
    stored = gathered(log, rows[BODY_AT], rows[BODY_LENGTH], pa.binary(), nullable=False)
    return stored if stored.type == kind else _as_text(stored, kind)


def body_column(bodies: list[bytes | None], kind: pa.DataType) -> pa.Array:
    """Bodies as bytes, or as text where the schema says so."""
    column = pa.array(bodies, pa.binary())
    return column if column.type == kind else _as_text(column, kind)


def _as_text(column: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:  # not UTF-8: shown as every client shows it
        values = column.to_pylist()
        return pa.array([None if value is None else str(value, "utf-8", "replace") for value in values], kind)


def _transaction_ids(log: Bytes, rows: Integers, kind: pa.DataType) -> pa.Array:
    count = rows.shape[1]
    at, length = np.empty(count, np.int64), np.empty(count, np.int64)
    where = np.ascontiguousarray(rows[PROPERTIES_AT])
    if not find_values(log, where, np.ascontiguousarray(rows[PROPERTIES_LENGTH]), _TRANSACTION_ID, at, length):
        return pa.nulls(count, kind)
    return gathered(log, at, length, kind, nullable=True)


def _properties(log: Bytes, rows: Integers, kind: pa.DataType) -> pa.Array:
    at, length = np.ascontiguousarray(rows[PROPERTIES_AT]), np.ascontiguousarray(rows[PROPERTIES_LENGTH])
    columns = properties_columns(log, at, length)
    if columns is None:
        raise CorruptionError("a batch holds more than 2 GiB of properties")
    entries = len(columns.key_offsets) - 1
    keys = pa.Array.from_buffers(
        pa.string(), entries, [None, pa.py_buffer(columns.key_offsets), pa.py_buffer(columns.keys)]
    )
    values = pa.Array.from_buffers(
        pa.string(), entries, [None, pa.py_buffer(columns.value_offsets), pa.py_buffer(columns.values)]
    )
    pairs = pa.StructArray.from_arrays([keys, values], fields=[kind.key_field, kind.item_field])
    buffers: list[Any] = [None, pa.py_buffer(columns.offsets)]
    return pa.Array.from_buffers(kind, len(at), buffers, children=[pairs])


class MapColumns(NamedTuple):
    """Buffers of an Arrow map<string, string> column."""

    offsets: ArrowOffsets
    key_offsets: ArrowOffsets
    keys: Bytes
    value_offsets: ArrowOffsets
    values: Bytes


def properties_columns(log: Bytes, at: Integers, length: Integers) -> MapColumns | None:
    """The properties strings at ``log[at[i]:at[i]+length[i]]`` as one map column, one map a string.

    A key that occurs twice in a string appears once, with its last value. Bytes are copied as they are, so
    rows marked MARK_BAD_TEXT would put invalid UTF-8 into the column: decode batches that contain one in
    Python. None if the texts are too many for 32-bit offsets.
    """
    total = int(length[length > 0].sum())
    if total > _LARGEST:
        return None
    entries_max = (total + len(at)) // 4  # of "k 01 v 02" each, the last 02 of a string may be missing
    columns = MapColumns(
        np.empty(len(at) + 1, np.int32),
        np.empty(entries_max + 1, np.int32),
        np.empty(total, np.uint8),
        np.empty(entries_max + 1, np.int32),
        np.empty(total, np.uint8),
    )
    entries, key_bytes, value_bytes = map_columns(log, at, length, *columns)
    assert entries >= 0, "a string has no more entries than this"
    return MapColumns(
        columns.offsets,
        columns.key_offsets[: entries + 1],
        columns.keys[:key_bytes],
        columns.value_offsets[: entries + 1],
        columns.values[:value_bytes],
    )


def _messages(log: Bytes, rows: Integers) -> Iterator[MessageExt]:
    view = log.data
    for at, size in zip(rows[FILE_OFFSET].tolist(), rows[SIZE].tolist(), strict=True):
        yield MessageExt(view[at : at + size])
