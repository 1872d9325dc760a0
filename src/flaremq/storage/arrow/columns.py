"""Rows of the record table as Arrow batches: those that need more than copying, and those a filter has chosen.

Records the core does not read (text that is not UTF-8, inner batches) go through ``objects``, which gives the same
columns; compressed bodies are inflated one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from flaremq.core.arrays import Bytes, Integers
from flaremq.core.gather import gather
from flaremq.core.table import (
    CHECK_BODY_CRC,
    CHECK_RECORD_CRC,
    FILE_OFFSET,
    HEADERS_ONLY,
    MARK_BAD_TEXT,
    MARKS,
    PHYSICAL_OFFSET,
    QUEUE_HASH,
    QUEUE_OFFSET,
    SIZE,
    SYS_FLAG,
)
from flaremq.errors import CorruptionError
from flaremq.message.message_ext import MessageExt
from flaremq.message.sys_flag import COMPRESSED
from flaremq.storage.arrow.bodies import PART_BYTES, Body, BodyReader
from flaremq.storage.arrow.decoder import ColumnDecoder, Rows
from flaremq.storage.arrow.objects import plain_rows

_FROM_PROPERTIES = frozenset({"tags", "keys", "properties", "transactionId"})


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


def decode_rows(log: Bytes, rows: Integers, decoder: ColumnDecoder, *, bodies: BodyReader) -> Iterator[pa.RecordBatch]:
    """The records parsed from ``log`` into ``rows``, all of them good, as batches of the decoder's schema.

    One batch, or several where bodies inflate to much. An inner batch stays one row with the record's own fields;
    ``plain_rows`` takes it apart.
    """
    if np.any(rows[MARKS] & MARK_BAD_TEXT):
        return plain_rows(_messages(log, rows), decoder.schema, bodies=bodies, broker=decoder.broker)
    if wants_body(decoder.schema) and np.any(rows[SYS_FLAG] & COMPRESSED):
        return _inflated(log, rows, decoder, bodies)
    return iter((_batch(log, rows, decoder, None),))


def _inflated(log: Bytes, rows: Integers, decoder: ColumnDecoder, bodies: BodyReader) -> Iterator[pa.RecordBatch]:
    first, size = 0, 0
    read: list[Body] = []
    for message in _messages(log, rows):
        read.append(bodies.read(message))
        size += read[-1].cost
        if size >= PART_BYTES:
            last = first + len(read)
            yield _batch(log, rows[:, first:last], decoder, read)
            first, size, read = last, 0, []
    if read:
        yield _batch(log, rows[:, first:], decoder, read)


def _batch(log: Bytes, rows: Integers, decoder: ColumnDecoder, bodies: list[Body] | None) -> pa.RecordBatch:
    """``bodies`` holds those of a batch with compressed ones; otherwise they are copied as they are stored."""
    placed = Rows(rows[FILE_OFFSET], rows[PHYSICAL_OFFSET], rows[SIZE], rows[QUEUE_OFFSET], rows[QUEUE_HASH])
    batch = decoder.batch(log, placed, flags=0, special=0, bodies=bodies)
    assert batch is not None, "records that were good a moment ago"
    return batch


def gathered(log: Bytes, at: Integers, length: Integers, kind: pa.DataType, *, nullable: bool) -> pa.Array:
    """Pieces of the log as a column of texts or bytes; ``nullable`` takes an empty one for none."""
    at, length = np.ascontiguousarray(at), np.ascontiguousarray(length)
    offsets = np.empty(len(at) + 1, np.int32)
    out = np.empty(int(length.sum()), np.uint8)
    if gather(log, at, length, offsets, out) < 0:
        raise CorruptionError("a batch holds more than 2 GiB")
    validity = None
    if nullable and not length.all():
        validity = pa.py_buffer(np.packbits(length > 0, bitorder="little"))
    return pa.Array.from_buffers(kind, len(at), [validity, pa.py_buffer(offsets), pa.py_buffer(out)])


def _messages(log: Bytes, rows: Integers) -> Iterator[MessageExt]:
    view = log.data
    for at, size in zip(rows[FILE_OFFSET].tolist(), rows[SIZE].tolist(), strict=True):
        yield MessageExt(view[at : at + size])
