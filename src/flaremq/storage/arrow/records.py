"""Whole records lying back to back, such as the body of a pull reply, as Arrow batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flaremq.core.arrays import Bytes, Integers, as_array
from flaremq.core.scan import parse_pieces, split_records, topic_hash
from flaremq.core.table import (
    FILE_OFFSET,
    OK,
    QUEUE_HASH,
    QUEUE_ID,
    QUEUE_OFFSET,
    RESULT,
    SIZE,
    SYS_FLAG,
    RecordTable,
)
from flaremq.errors import CorruptionError
from flaremq.message.message_ext import MessageExt
from flaremq.message.sys_flag import INNER_BATCH
from flaremq.storage.arrow.bodies import BodyReader, Row
from flaremq.storage.arrow.columns import decode_rows, parse_flags
from flaremq.storage.arrow.decoder import ColumnDecoder
from flaremq.storage.arrow.filters import RowFilter
from flaremq.storage.arrow.objects import plain_rows

_log = logging.getLogger(__name__)
_OFFSET_MAX = 2**63 - 1


def decode_records(
    data: bytes | bytearray | memoryview,
    schema: pa.Schema,
    *,
    broker: str,
    topic: str | None = None,
    queue_id: int | None = None,
    start: int = 0,
    end: int = _OFFSET_MAX,
    tags: frozenset[str] = frozenset(),
    fail_on_data_loss: bool = True,
    origin: str = "the reply",
    bodies: BodyReader | None = None,
) -> Iterator[pa.RecordBatch]:
    """The messages of ``data`` with queue offsets in [start, end) and one of ``tags`` (if any are given).

    Bodies are held against their checksums if they are asked for. A record that fails, or is not of this topic and
    queue, is a CorruptionError that names ``origin``, or is left out with a warning. One batch, or several where
    bodies inflate to much.
    """
    bodies = bodies or BodyReader(where=origin)
    log = as_array(data)
    at, physical, stop = _split(log)
    table = RecordTable(max(len(at), 1))
    parse_pieces(log, at, physical, parse_flags(schema, properties=bool(tags)), table.cells)
    rows = table.columns[:, : len(at)]
    good = rows[RESULT] == OK
    if queue_id is not None:
        good &= rows[QUEUE_ID] == queue_id
    if topic is not None:
        good &= _is_topic(rows, topic)
    lost = len(at) - int(good.sum()) + (stop < len(log))
    if lost:
        where = int(physical[np.argmin(good)]) if not good.all() else None
        if fail_on_data_loss:
            advice = "; set failOnDataLoss=false to skip it"
            raise CorruptionError("a record is damaged", path=origin, offset=where, advice=advice)
        _log.warning("%s: %d damaged records left out, the first at physical offset %s", origin, lost, where)
    if np.any(rows[SYS_FLAG][good] & INNER_BATCH):
        messages = _apart(log, rows[:, good], start, end, tags, bodies)
        yield from plain_rows(messages, schema, bodies=bodies, broker=broker)
        return
    offsets = rows[QUEUE_OFFSET]
    good &= (offsets >= start) & (offsets < end)
    if not good.all():
        rows = np.ascontiguousarray(rows[:, good])
    decoder = ColumnDecoder(schema, broker=broker)
    yield from decode_rows(log, RowFilter(tags).choose(log, rows), decoder, bodies=bodies)


def _split(log: Bytes) -> tuple[Integers, Integers, int]:
    capacity = 1024
    at, physical = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    count, stop = split_records(log, 0, at, physical)
    while count == capacity:
        capacity *= 4
        at, physical = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        count, stop = split_records(log, 0, at, physical)
    return at[:count], physical[:count], stop


def _is_topic(rows: Integers, topic: str) -> NDArray[np.bool_]:
    """Whether each row is of this topic: by the hash of topic and queue id that every row has."""
    name = topic.encode("utf-8", "surrogatepass")
    queue_ids, places = np.unique(rows[QUEUE_ID], return_inverse=True)
    hashes = np.array([topic_hash(name, int(queue_id)) for queue_id in queue_ids], np.int64)
    return np.asarray(rows[QUEUE_HASH] == hashes[places])


def _apart(log: Bytes, rows: Integers, start: int, end: int, tags: frozenset[str], bodies: BodyReader) -> Iterator[Row]:
    view = log.data
    places = zip(rows[FILE_OFFSET].tolist(), rows[SIZE].tolist(), strict=True)
    for message in bodies.taken_apart(MessageExt(view[at : at + size]) for at, size in places):
        if start <= message.queue_offset < end and (not tags or message.tags in tags):
            yield message
