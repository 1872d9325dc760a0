"""The same columns through ``MessageExt``, one Python object a message: for the few records kernels leave to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from flaremq.message import properties as names
from flaremq.message.batch import InnerMessage, inner_messages
from flaremq.message.message_ext import MessageExt
from flaremq.storage.kernels_compile import Integers

_PER_MS = {"s": 0, "ms": 1, "us": 1_000, "ns": 1_000_000}

Row = MessageExt | InnerMessage


def plain_rows(messages: Iterable[Row], schema: pa.Schema, *, broker: str | None = None) -> pa.RecordBatch:
    """These messages as one batch."""
    wanted = [(field.name, field.type, _FIELDS.get(field.name)) for field in schema]
    values: list[list[object]] = [[] for _ in wanted]
    for message in messages:
        for column, (name, kind, read) in zip(values, wanted, strict=True):
            column.append(broker if read is None else _fitting(read(message), kind, name))
    arrays = [_array(column, kind) for column, (_, kind, _) in zip(values, wanted, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def taken_apart(messages: Iterable[MessageExt]) -> Iterator[Row]:
    """Each message of each record: an inner batch stands for several."""
    for message in messages:
        if message.is_inner_batch:
            yield from inner_messages(message)
        else:
            yield message


def _fitting(value: Any, kind: pa.DataType, name: str) -> object:
    if name == "body" and not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        return str(value, "utf-8", "replace")
    return value


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
    "body": lambda message: message.body,
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
