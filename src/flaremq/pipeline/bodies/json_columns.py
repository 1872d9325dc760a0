"""Many JSON bodies at once, through PyArrow's reader, which looks at each byte once and makes no Python objects.

All or nothing: it reads a batch as ``from_json`` would, or says None and the batch is read in halves, in the end row by
row. Each body is the one member of an object of its own line. So a body that is empty, is more than one value or lacks
an end cannot make up a line with its neighbours: it is an error of the reader, or there are more lines than bodies.
What else Spark and this reader see differently is refused by either type or text: a field that is there twice, a
number that is none of its type, half a surrogate pair.
"""

from __future__ import annotations

import base64
import binascii
from datetime import tzinfo
from typing import Final

import pyarrow as pa
import pyarrow.json

from flaremq.pipeline.bodies.moments import date_column, time_column

_BODY: Final = "b"
_HEAD: Final = b'{"b":'
_TAIL: Final = b"}\n"


class JsonColumns:
    """Reads bodies as columns of a schema without maps."""

    def __init__(self, schema: pa.Schema, zone: tzinfo) -> None:
        self._schema = schema
        self._zone = zone
        self._has_decimals = any("decimal" in str(field.type) for field in schema)
        inside = pa.struct([pa.field(field.name, _read_as(field.type)) for field in schema])
        self._parse = pyarrow.json.ParseOptions(
            explicit_schema=pa.schema([(_BODY, inside)]), unexpected_field_behavior="ignore"
        )

    def read(self, bodies: pa.Array) -> list[pa.Array] | None:
        """The columns of these bodies; None if they must be looked at one by one."""
        try:
            bodies.cast(pa.string())  # the reader itself does not mind what is no UTF-8
        except pa.ArrowInvalid:
            return None
        pieces = [b"null" if body is None else body for body in bodies.to_pylist()]
        text = _HEAD + (_TAIL + _HEAD).join(pieces) + _TAIL
        options = pyarrow.json.ReadOptions(use_threads=False, block_size=min(len(text) + 1, (1 << 31) - 1))
        try:
            table = pyarrow.json.read_json(pa.BufferReader(text), read_options=options, parse_options=self._parse)
        except pa.ArrowInvalid:
            return None
        if table.num_rows != len(bodies):
            return None
        column = table.column(_BODY).combine_chunks()
        if column.null_count > bodies.null_count:
            return None  # the word null, which is no object
        if self._has_decimals and not _is_valid(column):
            return None  # the reader does not count digits before the point
        made = []
        for field, values in zip(self._schema, column.flatten(), strict=True):
            converted = _converted(values, field.type, self._zone)
            if converted is None:
                return None
            made.append(converted)
        return made


def can_read(kind: pa.DataType) -> bool:
    """Whether the reader knows a type."""
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(can_read(field.type) for field in kind)
    if pa.types.is_list(kind):
        return can_read(kind.value_type)
    return not pa.types.is_map(kind)


def _is_valid(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _read_as(kind: pa.DataType) -> pa.DataType:
    """Texts that mean something else are read as texts."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _read_as(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_read_as(kind.value_type))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_binary(kind):
        return pa.string()
    return kind


def _converted(values: pa.Array, kind: pa.DataType, zone: tzinfo) -> pa.Array | None:
    if values.type == kind:
        return values
    if pa.types.is_struct(kind):
        return _converted_struct(values, kind, zone)
    if pa.types.is_list(kind):
        inside = _converted(values.flatten(), kind.value_type, zone)
        if inside is None:
            return None
        lengths = values.value_lengths().fill_null(0).to_pylist()
        offsets = [0]
        for length in lengths:
            offsets.append(offsets[-1] + length)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inside, type=kind, mask=values.is_null())
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        made = date_column(values) if pa.types.is_date(kind) else time_column(values, kind, zone)
        return made if made.null_count == values.null_count else None
    try:
        raw = [None if text is None else base64.b64decode(text, validate=True) for text in values.to_pylist()]
    except (binascii.Error, ValueError):
        return None
    return pa.array(raw, kind)


def _converted_struct(values: pa.StructArray, kind: pa.StructType, zone: tzinfo) -> pa.Array | None:
    parts = [
        _converted(part, field.type, zone)
        for part, field in zip(values.flatten(), kind, strict=True)  # flatten: null where the struct is
    ]
    if any(part is None for part in parts):
        return None
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=values.is_null())
