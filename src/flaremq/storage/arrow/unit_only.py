"""Columns that queue units tell on their own: read off the queue files alone, no page of the log is touched.

This is what ``count()`` and offset ranges cost: twenty bytes a message. Records are not looked at, so a damaged one
counts here, as it does in every consumer's lag.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from flaremq.core.arrays import Integers
from flaremq.storage.arrow.decoder import number_column
from flaremq.storage.arrow.units import Losses, SpanReader, UnitSpan
from flaremq.storage.at_rest.unit_arrays import Units

ROWS = 131_072  # large batches: their fixed cost is most of it


def narrow_batches(
    spans: Sequence[UnitSpan], schema: pa.Schema, *, broker: str, losses: Losses
) -> Iterator[pa.RecordBatch]:
    """The spans one after the other; short ones share a batch."""
    parts: list[tuple[UnitSpan, Units]] = []
    count = 0
    for span in spans:
        reader = SpanReader(span, frozenset(), losses, ROWS)
        while not reader.is_done:
            units = reader.next_chunk()
            if span.queue.is_batch:
                units = _apart(units, span)
            length = len(units.offset)
            if count and count + length > ROWS:
                yield _batch(parts, schema, broker)
                parts, count = [], 0
            if length:
                parts.append((span, units))
                count += length
    if count:
        yield _batch(parts, schema, broker)


def _apart(units: Units, span: UnitSpan) -> Units:
    """One row a message of an inner batch."""
    repeats = units.messages
    ends = np.cumsum(repeats)
    number = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - repeats, repeats)
    rows = Units(*(np.repeat(column, repeats) for column in units))
    rows = rows._replace(offset=rows.offset + number)
    return rows.choose((rows.offset >= span.start) & (rows.offset < span.end))


def _batch(parts: list[tuple[UnitSpan, Units]], schema: pa.Schema, broker: str) -> pa.RecordBatch:
    lengths = [len(part.offset) for _, part in parts]
    count = sum(lengths)
    arrays = []
    for field in schema:
        kind = field.type
        match field.name:
            case "topic":
                arrays.append(_repeated([span.queue.topic for span, _ in parts], lengths, kind))
            case "brokerName":
                arrays.append(pa.repeat(pa.scalar(broker, kind), count))
            case "queueId":
                ids = np.repeat(np.array([span.queue.queue_id for span, _ in parts], np.int64), lengths)
                arrays.append(number_column(ids, kind))
            case "queueOffset":
                arrays.append(number_column(_column(parts, "offset"), kind))
            case "physicalOffset":
                arrays.append(number_column(_column(parts, "physical"), kind))
            case _:
                arrays.append(number_column(_column(parts, "size"), kind))
    if not arrays:  # a bare count: rows without columns
        return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(parts: list[tuple[UnitSpan, Units]], name: str) -> Integers:
    """One column of all parts, joined alone: what nobody asks for is not moved."""
    return np.concatenate([getattr(units, name) for _, units in parts])


def _repeated(values: list[str], lengths: list[int], kind: pa.DataType) -> pa.Array:
    if len(set(values)) == 1:
        return pa.repeat(pa.scalar(values[0], kind), sum(lengths))
    places = np.repeat(np.arange(len(values)), lengths)
    return pa.array(values, kind).take(pa.array(places))
