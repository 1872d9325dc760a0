"""What fields bodies of JSON have, found by looking at some: a schema that all of them fit.

Types widen as they meet: whole numbers and fractions are doubles, what else differs is text, which takes any value. A
field that is always null is text too. An object with very many fields is a map: its names are values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import orjson
import pyarrow as pa

_FIELDS_MAX: Final = 200  # an object with more fields than anybody writes down
_LONG: Final = range(-(1 << 63), 1 << 63)
_SIMPLE: Final = {bool: pa.bool_(), float: pa.float64(), str: pa.string()}
_NULL: Final = pa.null()


@dataclass(frozen=True, slots=True)
class Inferred:
    """The schema of bodies, how many were looked at, and how many of them are no objects of JSON."""

    schema: pa.Schema
    bodies: int
    unfit: int


def infer_schema(bodies: Iterable[bytes | None]) -> Inferred:
    """The schema of these; without fields if none of them is an object."""
    whole: pa.DataType = pa.struct([])
    count = unfit = 0
    for body in bodies:
        count += 1
        try:
            value = orjson.loads(body or b"")
        except orjson.JSONDecodeError:
            value = None
        if isinstance(value, dict):
            whole = _merged(whole, _type(value))
        else:
            unfit += 1
    fields = list(whole)
    return Inferred(pa.schema([pa.field(field.name, _settled(field.type)) for field in fields]), count, unfit)


def _type(value: Any) -> pa.DataType:
    if value is None:
        return _NULL
    if isinstance(value, dict):
        return _struct({name: _type(item) for name, item in value.items()})
    if isinstance(value, list):
        inside = _NULL
        for item in value:
            inside = _merged(inside, _type(item))
        return pa.list_(inside)
    if type(value) is int:
        return pa.int64() if value in _LONG else pa.float64()
    return _SIMPLE[type(value)]


def _struct(types: dict[str, pa.DataType]) -> pa.DataType:
    return pa.struct([pa.field(name, kind) for name, kind in types.items()])


def _merged(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one.equals(other) or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        types = {field.name: field.type for field in one}
        for field in other:
            types[field.name] = _merged(types.get(field.name, _NULL), field.type)
        return _struct(types)
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(_merged(one.value_type, other.value_type))
    numbers = (pa.int64(), pa.float64())
    return pa.float64() if one in numbers and other in numbers else pa.string()


def _settled(kind: pa.DataType) -> pa.DataType:
    """The type as a schema has it: nothing of unknown type, no object without fields."""
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_settled(kind.value_type))
    if not pa.types.is_struct(kind):
        return kind
    fields = list(kind)
    if not fields:
        return pa.string()
    if len(fields) <= _FIELDS_MAX:
        return pa.struct([pa.field(field.name, _settled(field.type)) for field in fields])
    inside = _NULL
    for field in fields:
        inside = _merged(inside, field.type)
    return pa.map_(pa.string(), _settled(inside))
