"""Columns of JSON bodies through the compiled core, which walks each body once and takes what is asked for.

It takes bodies that are strict JSON and values that are what their column says; the others are told of, to be read one
by one. Dates, times, decimals and binary it finds as texts, which are converted here, a column at a time.
"""

from __future__ import annotations

import base64
import binascii
from array import array
from datetime import tzinfo
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flaremq.core import json_layout as core
from flaremq.core.arrays import Integers
from flaremq.core.json_fields import scan_fields
from flaremq.pipeline.bodies.json_values import FLOAT_MAX, decimal_of, rounds_twice
from flaremq.pipeline.bodies.moments import date_column, time_column

_READ_AS: Final = {core.LONG: pa.int64(), core.DOUBLE: pa.float64(), core.BOOLEAN: pa.int64(), core.RAW: pa.binary()}


class JsonScan:
    """Finds the fields of a schema; nested ones as their text."""

    def __init__(self, schema: pa.Schema, zone: tzinfo) -> None:
        self._schema = schema
        self._zone = zone
        names = [field.name.encode() for field in schema]
        self._names = b"".join(names)
        self._name_ends = array("i", [sum(map(len, names[:count])) for count in range(len(names) + 1)])
        self._kinds = [_kind(field.type) for field in schema]
        self.text_count = sum(kind >= core.TEXT for kind in self._kinds)
        self._slots: list[int] = []
        plan: list[int] = []
        for at, (kind, field) in enumerate(zip(self._kinds, schema, strict=True)):
            top = 1 << (field.type.bit_width - 1) if kind == core.LONG else 1
            self._slots.append(sum((other >= core.TEXT) == (kind >= core.TEXT) for other in self._kinds[:at]))
            plan += [kind, -top, top - 1, self._slots[-1]]
        self._plan = array("q", plan)

    def read(self, bodies: pa.Array) -> tuple[list[pa.Array], Integers]:
        """The columns of bodies without nulls, and the numbers of those that must be read one by one, in order."""
        rows, count = len(bodies), len(self._kinds)
        if not rows:  # may have no buffers at all
            return [pa.array([], field.type) for field in self._schema], np.empty(0, np.int64)
        _, bounds, data = bodies.buffers()
        ends = np.frombuffer(bounds, np.int32)[bodies.offset : bodies.offset + rows + 1]
        size = int(ends[-1] - ends[0])
        stride = (rows + 63) // 64 * 8
        valid = bytearray(count * stride)
        values = pa.allocate_buffer(8 * rows * (count - self.text_count))
        text_ends = pa.allocate_buffer(4 * (rows + 1) * self.text_count)
        texts = pa.allocate_buffer(size * self.text_count)
        odd = np.empty(rows, np.int64)
        found = scan_fields(
            data if data is not None else b"",
            bounds,
            bodies.offset,
            rows,
            self._names,
            self._name_ends,
            self._plan,
            valid,
            values,
            text_ends,
            texts,
            bytearray(16 * count),
            odd,
        )
        columns: list[pa.Array] = []
        lost: list[Integers] = [odd[:found]]
        for at, field in enumerate(self._schema):
            kind, slot = self._kinds[at], self._slots[at]
            buffers = [pa.py_buffer(valid).slice(at * stride, stride)]
            if kind >= core.TEXT:
                buffers.append(text_ends.slice(4 * (rows + 1) * slot, 4 * (rows + 1)))
                length = int(np.frombuffer(buffers[1], np.int32)[rows])
                # A copy, so that a column keeps its own bytes alive and not the room for all of them.
                buffers.append(pa.py_buffer(texts.slice(size * slot, length).to_pybytes()))
            else:
                buffers.append(values.slice(8 * rows * slot, 8 * rows))
            column = pa.Array.from_buffers(_READ_AS.get(kind, pa.string()), rows, buffers)
            made = self._converted(column, field.type)
            if made.null_count > column.null_count:
                lost.append(np.flatnonzero(pc.and_(column.is_valid(), made.is_null())))
            columns.append(made)
        return columns, np.unique(np.concatenate(lost)) if len(lost) > 1 else lost[0]

    def _converted(self, column: pa.Array, kind: pa.DataType) -> pa.Array:
        """As the type that is wanted; null where a value is none."""
        if column.type == kind or pa.types.is_nested(kind):
            return column
        if pa.types.is_date(kind):
            return date_column(column)
        if pa.types.is_timestamp(kind):
            return time_column(column, kind, self._zone)
        if pa.types.is_binary(kind):
            return pa.array([None if text is None else _bytes(text) for text in column.to_pylist()], kind)
        if pa.types.is_decimal(kind):
            return _decimals(column, kind)
        if pa.types.is_floating(kind):
            doubles = np.frombuffer(column.buffers()[1], np.float64)
            plain = (np.abs(doubles) < FLOAT_MAX) & ((doubles == 0) | ~rounds_twice(doubles))
            column = pc.if_else(pa.array(plain), column, None)
        return column.cast(kind)


def _kind(kind: pa.DataType) -> int:
    """What the core looks for."""
    if pa.types.is_nested(kind):
        return core.RAW
    if pa.types.is_integer(kind):
        return core.LONG
    if pa.types.is_floating(kind):
        return core.DOUBLE
    if pa.types.is_boolean(kind):
        return core.BOOLEAN
    return core.NUMBER if pa.types.is_decimal(kind) else core.TEXT


def _bytes(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _decimals(texts: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    try:
        made = texts.cast(kind)
        made.validate(full=True)
    except pa.ArrowInvalid:  # one has more digits than there is room for
        return pa.array([None if text is None else decimal_of(text, kind) for text in texts.to_pylist()], kind)
    return made
