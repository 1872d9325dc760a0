"""The same columns through ``MessageExt``, one Python object a message: for the few records the core leaves to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from flaremq.core.arrays import Integers
from flaremq.message import properties as names
from flaremq.message.batch import InnerMessage
from flaremq.message.message_ext import MessageExt
from flaremq.storage.arrow.bodies import PART_BYTES, BodyReader, Row

_PER_MS = {"s": 0, "ms": 1, "us": 1_000, "ns": 1_000_000}


def plain_rows(
    messages: Iterable[Row], schema: pa.Schema, *, bodies: BodyReader, broker: str | None = None
) -> Iterator[pa.RecordBatch]:
    """These messages as batches, each of about ``PART_BYTES`` of bodies at most."""
    names = schema.names
    reads = [_FIELDS.get(name) for name in names]
    wants_body = not {"body", "bodyError"}.isdisjoint(names)
    values: list[list[object]] = [[] for _ in names]
    size = 0
    for message in messages:
        body = bodies.read(message) if wants_body else None
        for column, field, read in zip(values, schema, reads, strict=True):
            if body is not None and field.name == "body":
                column.append(_fitting(body.value, field.type))
            elif body is not None and field.name == "bodyError":
                column.append(body.error)
            else:
                column.append(broker if read is None else read(message))
        size += body.cost if body is not None else 0
        if size >= PART_BYTES:
            yield _batch(values, schema)
            values, size = [[] for _ in names], 0
    if values and values[0]:
        yield _batch(values, schema)


def _batch(values: list[list[object]], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [_array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _fitting(value: bytes | None, kind: pa.DataType) -> object:
    if value is None or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return value
    return str(value, "utf-8", "replace")


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return timestamp_column(np.array(values, np.int64), kind)
    return pa.array(values, kind)


def timestamp_column(ms: Integers, kind: pa.DataType) -> pa.Array:
    """Milliseconds as timestamps of the unit asked for; any value, as a record may hold any."""
    step = _PER_MS[kind.unit]
    stamps = ms * step if step else ms // 1000
    return pa.Array.from_buffers(kind, len(ms), [None, pa.py_buffer(stamps)])


def _record(message: Row) -> MessageExt:
    return message.record if isinstance(message, InnerMessage) else message


def _of_record(name: str) -> Callable[[Row], object]:
    return lambda message: getattr(_record(message), name)


def _property(name: str) -> Callable[[Row], object]:
    return lambda message: message.properties.get(name)


_FIELDS: dict[str, Callable[[Row], object]] = {
    "topic": lambda message: message.topic,
    "queueId": _of_record("queue_id"),
    "queueOffset": lambda message: message.queue_offset,
    "physicalOffset": _of_record("physical_offset"),
    "storeSize": _of_record("size"),
    "msgId": _of_record("message_id"),
    "tags": _property(names.TAGS),
    "keys": _property(names.KEYS),
    "properties": lambda message: list(message.properties.items()),
    "flag": lambda message: message.flag,
    "sysFlag": _of_record("sys_flag"),
    "bornTimestamp": _of_record("born_timestamp"),
    "bornHost": _of_record("born_host"),
    "storeTimestamp": _of_record("store_timestamp"),
    "storeHost": _of_record("store_host"),
    "reconsumeTimes": _of_record("reconsume_times"),
    "preparedTransactionOffset": _of_record("prepared_transaction_offset"),
    "transactionId": _property(names.TRANSACTION_ID),
}
