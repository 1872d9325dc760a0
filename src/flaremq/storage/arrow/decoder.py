"""Records as Arrow batches of one schema: which buffers the core fills, and what columns they become.

All buffers of a batch are parts of one piece of memory. A piece whose batch nobody holds any more is filled again:
fresh memory would cost as much as all the copying, a page fault for each four records.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from flaremq.core import column_layout as core
from flaremq.core.arrays import ArrowOffsets, Bytes, Integers
from flaremq.core.columns import fill_columns
from flaremq.errors import CorruptionError
from flaremq.storage.arrow.bodies import Body
from flaremq.storage.arrow.objects import timestamp_column

_NUMBERS = {
    "queueId": core.QUEUE_ID,
    "queueOffset": core.QUEUE_OFFSET,
    "physicalOffset": core.PHYSICAL_OFFSET,
    "storeSize": core.SIZE,
    "flag": core.FLAG,
    "sysFlag": core.SYS_FLAG,
    "bornTimestamp": core.BORN_TIMESTAMP,
    "storeTimestamp": core.STORE_TIMESTAMP,
    "reconsumeTimes": core.RECONSUME_TIMES,
    "preparedTransactionOffset": core.PREPARED_OFFSET,
}
_TEXTS = {
    "topic": core.TOPIC,
    "tags": core.TAGS,
    "keys": core.KEYS,
    "transactionId": core.TRANSACTION_ID,
    "msgId": core.MESSAGE_ID,
    "bornHost": core.BORN_HOST,
    "storeHost": core.STORE_HOST,
}
_NULLABLE = frozenset({core.TAGS, core.KEYS, core.TRANSACTION_ID})
# Bytes of a text to begin with, a row: twice as many, and again, where they turn out to be too few.
_ROOM = {
    core.TOPIC: 32,
    core.TAGS: 16,
    core.KEYS: 32,
    core.TRANSACTION_ID: 8,
    core.MESSAGE_ID: 32,
    core.BORN_HOST: 24,
    core.STORE_HOST: 24,
    core.MAP_KEYS: 48,
    core.MAP_VALUES: 64,
}
_MAP_ENTRIES = 4
_LARGEST = 2**31 - 1
_SMALLEST_RECORD = 91
_KEPT_PIECES = 3  # the batch being made, the one its reader holds, the one before it
_KEPT_BYTES = 32 << 20  # larger ones are given back at once
_NONE = np.empty(0, np.int64)


class Rows(NamedTuple):
    """Records to decode: where they are and what they must say."""

    at: Integers
    physical: Integers
    size: Integers
    queue_offset: Integers
    hashes: Integers = _NONE  # of topic and queue id; without them the queue id below counts
    queue_id: int = -1


class _Filled(NamedTuple):
    """What the core has filled."""

    rows: int
    entries: int  # of the maps
    numbers: Integers
    layout: Integers
    ends: ArrowOffsets
    texts: Bytes


class ColumnDecoder:
    """Makes the batches of one scan. One thread."""

    def __init__(self, schema: pa.Schema, *, broker: str | None = None, pieces: list[Bytes] | None = None) -> None:
        """``pieces`` is memory that one scan leaves to the next; the list may be shared by threads."""
        self.schema = schema
        self.broker = broker
        self._texts = [_TEXTS[name] for name in schema.names if name in _TEXTS]
        if "properties" in schema.names:
            self._texts += [core.TEXT_COUNT, core.MAP_KEYS, core.MAP_VALUES]
        self._scale = 1
        self._pieces: list[Bytes] = [] if pieces is None else pieces

    def batch(
        self, log: Bytes, rows: Rows, *, flags: int, special: int, bodies: list[Body] | None
    ) -> pa.RecordBatch | None:
        """A batch of these records; None if one of them is not what was expected, or needs more than copying.

        ``flags`` and ``special`` as in ``fill_columns``. ``bodies`` are given where they are not those in the log.
        """
        filled = self._fill(log, rows, flags, special, with_body=bodies is None and "body" in self.schema.names)
        if filled is None:
            return None
        arrays = [self._array(field, filled, bodies) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _fill(self, log: Bytes, rows: Rows, flags: int, special: int, *, with_body: bool) -> _Filled | None:
        # Sizes come from units, which may be damaged: memory is made only for what the log can hold.
        if ((rows.size < _SMALLEST_RECORD) | (rows.size > len(log) - rows.at)).any():
            return None
        count, total = len(rows.at), int(rows.size.sum())
        while True:
            layout, ends_size, texts_size = self._layout(count, total, with_body)
            numbers_size = 8 * core.NUMBER_COUNT * count
            piece = self._piece(numbers_size + 4 * ends_size + texts_size)
            numbers = piece[:numbers_size].view(np.int64).reshape(core.NUMBER_COUNT, count)
            ends = piece[numbers_size : numbers_size + 4 * ends_size].view(np.int32)
            texts = piece[numbers_size + 4 * ends_size :]
            done, entries, code = fill_columns(
                log,
                np.ascontiguousarray(rows.at),
                np.ascontiguousarray(rows.physical),
                np.ascontiguousarray(rows.size),
                np.ascontiguousarray(rows.queue_offset),
                np.ascontiguousarray(rows.hashes),
                rows.queue_id,
                flags,
                special,
                numbers,
                layout,
                ends,
                texts,
            )
            if code == core.DONE:
                return _Filled(done, entries, numbers, layout, ends, texts)
            if code != core.NO_ROOM:
                return None
            self._scale *= 2

    def _layout(self, count: int, total: int, with_body: bool) -> tuple[Integers, int, int]:
        """Where each column goes: (layout, offsets, bytes). The map's entries come last, as the core wants them."""
        layout = np.full((core.TEXT_COUNT + 1, core.LAYOUT_COUNT), -1, np.int64)
        ends = begin = 0
        for column in [*self._texts, core.BODY] if with_body else self._texts:
            if column == core.BODY:
                room = max(total - _SMALLEST_RECORD * count, 0)
            else:
                room = min(_ROOM.get(column, 0) * self._scale * count, total)
            if room > _LARGEST:
                raise CorruptionError("a batch holds more than 2 GiB")
            layout[column] = 0, begin + room, begin, ends
            begin += (room + 63) // 64 * 64
            entries = count
            if column in (core.MAP_KEYS, core.MAP_VALUES):
                entries = min(_MAP_ENTRIES * self._scale * count, total // 4 + count)
            ends += (entries + 16) // 16 * 16
        if core.MAP_KEYS in self._texts:  # behind all others: what follows them bounds their number
            shift = int(layout[core.MAP_VALUES, core.ENDS] - layout[core.MAP_KEYS, core.ENDS])
            layout[core.MAP_KEYS, core.ENDS], layout[core.MAP_VALUES, core.ENDS] = ends, ends + shift
            ends += 2 * shift
        return layout, ends, begin

    def _piece(self, size: int) -> Bytes:
        """Memory of at least this size that no batch lies in."""
        for piece in tuple(self._pieces):
            # Held by the list, the tuple, this loop and the call: neither a batch nor another thread has it.
            if sys.getrefcount(piece) <= 4 and len(piece) >= size:
                return piece
        piece = np.empty(size + size // 8, np.uint8)
        if size <= _KEPT_BYTES:
            self._pieces[:] = [*self._pieces[1 - _KEPT_PIECES :], piece]
        return piece

    def _array(self, field: pa.Field, filled: _Filled, bodies: list[Body] | None) -> pa.Array:
        name, kind = field.name, field.type
        if name in _NUMBERS:
            return number_column(filled.numbers[_NUMBERS[name]], kind)
        if name in _TEXTS:
            return _text(filled, _TEXTS[name], kind)
        if name == "brokerName":
            return pa.repeat(pa.scalar(self.broker, kind), filled.rows)
        if name == "bodyError":
            return pa.array([None] * filled.rows if bodies is None else [body.error for body in bodies], kind)
        if name == "properties":
            return _map(filled, kind)
        if bodies is not None:
            stored = pa.array([body.value for body in bodies], pa.binary())
        else:
            stored = _text(filled, core.BODY, pa.binary())
        return stored if stored.type == kind else _as_text(stored, kind)


def number_column(values: Integers, kind: pa.DataType) -> pa.Array:
    """Integers as they are, milliseconds as timestamps of the unit asked for; over the same memory if it fits."""
    if pa.types.is_timestamp(kind):
        return timestamp_column(values, kind)
    if pa.types.is_int32(kind):
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values.astype(np.int32))])
    column = pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])
    return column if column.type == kind else column.cast(kind)


def _buffers(filled: _Filled, column: int, count: int) -> tuple[ArrowOffsets, Bytes]:
    done, _, begin, at = filled.layout[column].tolist()
    return filled.ends[at : at + count + 1], filled.texts[begin:done]


def _text(filled: _Filled, column: int, kind: pa.DataType) -> pa.Array:
    ends, data = _buffers(filled, column, filled.rows)
    validity = None
    if column in _NULLABLE:
        there = ends[1:] > ends[:-1]
        if not there.any():
            return pa.nulls(filled.rows, kind)
        if not there.all():
            validity = pa.py_buffer(np.packbits(there, bitorder="little"))
    made = kind if pa.types.is_string(kind) or pa.types.is_binary(kind) else pa.string()
    column_ = pa.Array.from_buffers(made, filled.rows, [validity, pa.py_buffer(ends), pa.py_buffer(data)])
    return column_ if made == kind else column_.cast(kind)


def _map(filled: _Filled, kind: pa.DataType) -> pa.Array:
    parts = []
    for column in (core.MAP_KEYS, core.MAP_VALUES):
        ends, data = _buffers(filled, column, filled.entries)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
        parts.append(pa.Array.from_buffers(pa.string(), filled.entries, buffers))
    pairs = pa.StructArray.from_arrays(parts, fields=[kind.key_field, kind.item_field])
    ends, _ = _buffers(filled, core.TEXT_COUNT, filled.rows)
    return pa.Array.from_buffers(kind, filled.rows, [None, pa.py_buffer(ends)], children=[pairs])


def _as_text(column: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:  # not UTF-8: shown as every client shows it
        values = column.to_pylist()
        return pa.array([None if value is None else str(value, "utf-8", "replace") for value in values], kind)
