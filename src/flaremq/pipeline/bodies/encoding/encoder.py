"""``BodyEncoder``: columns of rows as bodies, the reverse of ``BodyDecoder``: what is written is read back the same.

Made on the driver, pickled to tasks. Values that are null are left out of JSON, as Spark's ``to_json`` does, and are
not set in Protobuf. A row with a body in ``_corrupt_body`` has that body: so rows can be written as they were read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.bodies.ddl import ddl_of_type
from flaremq.pipeline.bodies.decoder import BodyDecoder
from flaremq.pipeline.bodies.format import AVRO, JSON, BodyFormat
from flaremq.pipeline.model.columns import CORRUPT_BODY

Value = Callable[[Any], Any]


class Encodes(Protocol):
    """An encoder of one format: a record by the names of fields, as bytes; any error says what does not fit."""

    def __call__(self, record: dict[str, Any]) -> bytes: ...


class UnfitRowError(InvalidArgumentError):
    """A row that cannot be a body."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason


class BodyEncoder:
    """Encodes the columns that are fields of bodies; of JSON without a schema all that are none of a message."""

    def __init__(self, form: BodyFormat, others: Sequence[str]) -> None:
        """``others`` are the columns that are no fields."""
        self.form = form
        self._others = frozenset(others) | {CORRUPT_BODY}
        self._schema: pa.Schema | None = None
        if form.name != JSON or form.schema:
            self._schema = BodyDecoder(form).schema

    def check(self, columns: pa.Schema) -> None:
        """InvalidArgumentError if rows of these columns cannot be bodies."""
        fields = self._fields(columns)
        if not fields:
            raise InvalidArgumentError(
                f"bodyFormat={self.form.name} needs columns to make bodies of, and there are none"
            )
        for field in fields:
            if self._schema is None:
                continue
            at = self._schema.get_field_index(field.name)
            if at < 0:
                raise InvalidArgumentError(
                    f"column {field.name!r} is no field of bodySchema; there are {', '.join(self._schema.names)}"
                )
            given, wanted = ddl_of_type(field.type), ddl_of_type(self._schema.field(at).type)
            if given != wanted:
                raise InvalidArgumentError(f"column {field.name} is {given}, in bodySchema it is {wanted}")

    def encoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with bodies instead of their fields."""
        fields = self._fields(batch.schema)
        columns = [_values(batch.column(field.name), self.form.name) for field in fields]
        names = [field.name.removeprefix(self.form.prefix) for field in fields]
        encode = _encodes(self.form)
        corrupt = batch.schema.get_field_index(CORRUPT_BODY)
        given = [None] * batch.num_rows if corrupt < 0 else batch.column(corrupt).to_pylist()
        bodies: list[bytes] = []
        for row, values in enumerate(zip(*columns, strict=True)):
            whole = given[row]
            if whole is not None:
                bodies.append(whole.encode() if isinstance(whole, str) else whole)
                continue
            try:
                bodies.append(encode(dict(zip(names, values, strict=True))))
            except Exception as error:  # of libraries that have no error of their own for a value they cannot take
                raise UnfitRowError(row, f"is no body of {self.form.name}: {type(error).__name__} {error}") from error
        own = {field.name for field in fields} | {CORRUPT_BODY}
        kept = [name for name in batch.schema.names if name not in own]
        arrays = [*(batch.column(name) for name in kept), pa.array(bodies, pa.large_binary())]
        return pa.RecordBatch.from_arrays(arrays, names=[*kept, "body"])

    def _fields(self, columns: pa.Schema) -> list[pa.Field]:
        return [field for field in columns if field.name not in self._others]


_MADE: Final[dict[BodyFormat, Encodes]] = {}  # schemas are parsed once a process


def _encodes(form: BodyFormat) -> Encodes:
    made = _MADE.get(form)
    if made is None:
        made = _MADE[form] = _make(form)
    return made


def _make(form: BodyFormat) -> Encodes:
    if form.name == JSON:
        from flaremq.pipeline.bodies.encoding.json_encoder import encode_json

        return encode_json
    if form.name == AVRO:
        from flaremq.pipeline.bodies.encoding.avro_encoder import AvroEncoder

        return AvroEncoder(form.schema)
    from flaremq.pipeline.bodies.encoding.protobuf_encoder import ProtobufEncoder

    return ProtobufEncoder(form.schema, form.message)


def _values(column: pa.Array, form: str) -> list[Any]:
    """Values of Python, maps as dicts; for JSON as it writes them."""
    values: list[Any] = column.to_pylist()
    if form == JSON:
        from flaremq.pipeline.bodies.encoding.json_encoder import json_value

        convert = json_value(column.type)
    else:
        convert = _plain_value(column.type)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _plain_value(kind: pa.DataType) -> Value | None:
    """What makes dicts of the maps in a value; None where there are none."""
    if pa.types.is_map(kind):
        inside = _plain_value(kind.item_type) or _same
        return lambda pairs: {key: None if item is None else inside(item) for key, item in pairs}
    if pa.types.is_struct(kind):
        parts = {field.name: _plain_value(field.type) or _same for field in kind}
        return lambda value: {name: None if value[name] is None else make(value[name]) for name, make in parts.items()}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = _plain_value(kind.value_type)
        return None if make is None else (lambda items: [None if item is None else make(item) for item in items])
    return None


def _same(value: Any) -> Any:
    return value
