"""Bodies of Avro as columns, with the types that Spark's ``from_avro`` has for them. A body is one datum, no container.

Fields that are not wanted are left out of the reader's schema, so fastavro skips them. Logical types are taken off
before reading, all but decimals: what is left are numbers, which Arrow reads as dates and times at once.
"""

from __future__ import annotations

import io
import json
from typing import Any, Final

import pyarrow as pa

from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.pipeline.bodies.decoded import Decoded, column_of

try:
    import fastavro
    from fastavro import parse_schema, schemaless_reader
    from fastavro.schema import SchemaParseException
except ImportError as error:
    raise UnavailableError(
        "bodies of Avro need fastavro, which is not installed: pip install fastavro (the extra [lakehouse] of flaremq "
        "has it)"
    ) from error

_UTC: Final = pa.timestamp("us", tz="UTC")
_PRIMITIVE: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "fixed": pa.binary(),
    "enum": pa.string(),
    "null": pa.null(),
}
# A logical type, on which type, is read as which Arrow type; others mean nothing here, as in Spark.
_LOGICAL: Final = {
    ("date", "int"): pa.date32(),
    ("timestamp-millis", "long"): pa.timestamp("ms", tz="UTC"),
    ("timestamp-micros", "long"): _UTC,
    ("local-timestamp-millis", "long"): pa.timestamp("ms"),
    ("local-timestamp-micros", "long"): pa.timestamp("us"),
}
_WIDENED: Final = ({"int", "long"}, {"float", "double"})

Schema = Any  # JSON


class AvroDecoder:
    """Decodes wanted fields of a record."""

    def __init__(self, schema: bytes, fields: pa.Schema) -> None:
        whole = _plain(parsed_schema(schema))
        wanted = {field.name for field in fields}
        self._fields = fields
        self._writer = parse_schema(whole)
        part = {**whole, "fields": [field for field in whole["fields"] if field["name"] in wanted]}
        # Skipped fields may hold what the rest refers to by name; then all of them are read.
        self._reader = self._writer if _names_types(whole) else parse_schema(part)
        types = {field.name: field.type for field in _type(parsed_schema(schema), {}, ())}
        self._read_as = [types[field.name] for field in fields]

    def decode(self, bodies: pa.Array) -> Decoded:
        values: list[list[Any]] = [[] for _ in self._fields]
        names = self._fields.names
        reasons: list[str | None] = []
        for body in bodies.to_pylist():
            found: dict[str, Any] = {}
            reason = None
            if body is not None:
                try:
                    record: Any = schemaless_reader(io.BytesIO(body), self._writer, self._reader)
                    found = record
                except Exception as error:  # of bytes that are anything: fastavro has no error of its own for them
                    reason = f"no Avro of this schema: {type(error).__name__} {error}".rstrip()
            reasons.append(reason)
            for name, column in zip(names, values, strict=True):
                column.append(found.get(name))
        columns = [
            column_of(column, kind, reasons).cast(field.type)
            for column, kind, field in zip(values, self._read_as, self._fields, strict=True)
        ]
        return Decoded(len(bodies), columns, reasons if any(reasons) else None)


def schema_of_avro(schema: bytes) -> pa.Schema:
    """The columns of a record."""
    kind = _in_microseconds(_type(parsed_schema(schema), {}, ()))
    return pa.schema(list(kind))


def parsed_schema(schema: bytes) -> dict[str, Any]:
    """The schema of a record, as JSON."""
    try:
        parsed = json.loads(schema)
        parse_schema(parsed)
    except (ValueError, KeyError, TypeError, SchemaParseException, fastavro.schema.UnknownType) as error:
        raise InvalidArgumentError(f"bodySchema is no Avro schema: {error}") from error
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise InvalidArgumentError("bodySchema is an Avro schema, but of no record: columns are the fields of one")
    return parsed


def _type(schema: Schema, named: dict[str, Schema], within: tuple[str, ...]) -> pa.DataType:
    if isinstance(schema, list):
        return _union(schema, named, within)
    if isinstance(schema, str):
        if schema in _PRIMITIVE:
            return _PRIMITIVE[schema]
        short = schema.rpartition(".")[2]
        if short in within:
            raise InvalidArgumentError(f"the Avro record {schema} holds itself, which no column can")
        return _type(named.get(schema, named.get(short, schema)), named, within)
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return _type(kind, named, within)
    if (name := schema.get("name")) is not None:
        named[name.rpartition(".")[2]] = schema
    if kind == "record":
        inside = (*within, schema["name"].rpartition(".")[2])
        return pa.struct([pa.field(f["name"], _type(f["type"], named, inside)) for f in schema["fields"]])
    if kind == "array":
        return pa.list_(_type(schema["items"], named, within))
    if kind == "map":
        return pa.map_(pa.string(), _type(schema["values"], named, within))
    logical = schema.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if kind not in _PRIMITIVE:
        return _type(kind, named, within)
    return _LOGICAL.get((logical, kind), _PRIMITIVE[kind])


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    """Spark knows no other times."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _in_microseconds(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_in_microseconds(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), _in_microseconds(kind.item_type))
    return pa.timestamp("us", tz=kind.tz) if pa.types.is_timestamp(kind) else kind


def _union(branches: list[Schema], named: dict[str, Schema], within: tuple[str, ...]) -> pa.DataType:
    real = [branch for branch in branches if branch != "null"]
    if len(real) == 1:
        return _type(real[0], named, within)
    for widened in _WIDENED:
        if all(isinstance(branch, str) for branch in real) and set(real) == widened:
            return _PRIMITIVE["double" if "double" in widened else "long"]
    shown = ", ".join(branch if isinstance(branch, str) else str(branch.get("type")) for branch in branches)
    raise InvalidArgumentError(f"a union of {shown} has no one type; a column can be null or one of them")


def _plain(schema: Schema) -> Schema:
    """The schema without logical types, all but decimals."""
    if isinstance(schema, list):
        return [_plain(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    is_decimal = schema.get("logicalType") == "decimal"
    kept = {name: part for name, part in schema.items() if name != "logicalType" or is_decimal}
    for name in ("type", "items", "values"):
        if name in kept:
            kept[name] = _plain(kept[name])
    if "fields" in kept:
        kept["fields"] = [_plain(field) for field in kept["fields"]]
    return kept


def _names_types(schema: Schema) -> bool:
    """Whether any field refers to a type by its name."""
    if isinstance(schema, str):
        return schema not in _PRIMITIVE and schema not in ("record", "array", "map", "error")
    if isinstance(schema, list):
        return any(map(_names_types, schema))
    parts = [schema[name] for name in ("type", "items", "values") if name in schema]
    return any(map(_names_types, [*parts, *schema.get("fields", ())]))
