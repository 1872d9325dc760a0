"""Rows of a source as rows of the sink: what a replayed message keeps, and where it says it came from."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flaremq.core.arrays import Integers
from flaremq.pipeline.model.columns import schema_of

# Properties a replayed message has beside its own. The origin also makes every row one of a kind, by which the sink
# knows it again whatever the order it comes in.
REPLAY_ID: Final = "REPLAY_ID"
REPLAY_ORIGIN: Final = "REPLAY_ORIGIN"  # topic/broker/queue/offset
REPLAY_MESSAGE_ID: Final = "REPLAY_MSG_ID"  # its offset id there
_NAMES: Final = (REPLAY_ID, REPLAY_ORIGIN, REPLAY_MESSAGE_ID)
_COLUMNS: Final = ("topic", "brokerName", "queueId", "queueOffset", "msgId", "tags", "keys", "body", "properties")
SCHEMA: Final = schema_of(_COLUMNS)


def sink_rows(batch: pa.RecordBatch, replay_id: str, *, to_topic: str, keep_queues: bool) -> tuple[pa.RecordBatch, int]:
    """The rows to send, and how many are left out: empty ones, and what this very replay has put there."""
    skipped = batch.num_rows
    batch = batch.filter(_sendable(batch, replay_id))
    skipped -= batch.num_rows
    columns = {name: batch.column(name) for name in ("tags", "keys", "body")}
    columns["properties"] = _with_origin(batch, replay_id)
    if not to_topic:
        columns["topic"] = batch.column("topic")
    if keep_queues:
        columns["queueId"] = batch.column("queueId")
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)), skipped


def origin_of(rows: pa.RecordBatch, row: int) -> str:
    """Where the message of a row to send came from."""
    return str(dict(rows.column("properties")[row].as_py())[REPLAY_ORIGIN])


def _sendable(batch: pa.RecordBatch, replay_id: str) -> pa.Array:
    has_body = pc.fill_null(pc.greater(pc.binary_length(batch.column("body")), 0), False)
    keep = has_body.to_numpy(zero_copy_only=False).copy()
    offsets, keys, values = _entries(batch.column("properties"))
    own = pc.and_(pc.equal(keys, REPLAY_ID), pc.equal(values, replay_id)).to_numpy(zero_copy_only=False)
    keep[np.searchsorted(offsets, np.flatnonzero(own), side="right") - 1] = False
    return pa.array(keep)


def _with_origin(batch: pa.RecordBatch, replay_id: str) -> pa.MapArray:
    """The properties of each row, and three more at their end."""
    count = batch.num_rows
    offsets, keys, values = _entries(batch.column("properties"))
    known = len(keys)
    place = (batch.column(name).cast(pa.string()) for name in ("topic", "brokerName", "queueId", "queueOffset"))
    origins = pc.binary_join_element_wise(*place, "/")
    all_keys = pa.concat_arrays([keys, pa.array(_NAMES, pa.string())])
    all_values = pa.concat_arrays([values, pa.array([replay_id], pa.string()), origins, batch.column("msgId")])
    rows = np.arange(count)
    at = np.arange(known) + len(_NAMES) * np.repeat(rows, np.diff(offsets))  # where each old entry comes to lie
    total = known + len(_NAMES) * count
    key_at, value_at = np.empty(total, np.int64), np.empty(total, np.int64)
    key_at[at] = value_at[at] = np.arange(known)
    ends = offsets[1:] + len(_NAMES) * rows
    for number, source in enumerate((np.full(count, known), known + 1 + rows, known + 1 + count + rows)):
        key_at[ends + number], value_at[ends + number] = known + number, source
    moved = pa.array((offsets + len(_NAMES) * np.arange(count + 1)).astype(np.int32))
    return pa.MapArray.from_arrays(moved, all_keys.take(pa.array(key_at)), all_values.take(pa.array(value_at)))


def _entries(properties: pa.MapArray) -> tuple[Integers, pa.Array, pa.Array]:
    """Offsets from 0, keys and values of the maps."""
    raw = np.frombuffer(properties.buffers()[1], np.int32)[properties.offset :][: len(properties) + 1].astype(np.int64)
    if not len(raw):
        raw = np.zeros(1, np.int64)
    first, last = int(raw[0]), int(raw[-1])
    return raw - first, properties.keys[first:last], properties.items[first:last]
