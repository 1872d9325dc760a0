"""Rows as bodies of JSON, in the words that ``from_json`` and our decoder read as the same values."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from datetime import UTC
from typing import Any, Final

import orjson
import pyarrow as pa

Value = Callable[[Any], Any]

_WORDS: Final = {math.inf: "Infinity", -math.inf: "-Infinity"}


def encode_json(record: dict[str, Any]) -> bytes:
    """A body; fields that are null are left out."""
    return orjson.dumps({name: value for name, value in record.items() if value is not None})


def json_value(kind: pa.DataType) -> Value | None:
    """What makes a value of a type one that can be written; None if it can be as it is."""
    if pa.types.is_floating(kind):
        return _number
    if pa.types.is_decimal(kind):
        return lambda value: orjson.Fragment(format(value, "f").encode())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return lambda value: base64.b64encode(value).decode()
    if pa.types.is_date(kind):
        return lambda value: value.isoformat()
    if pa.types.is_timestamp(kind):
        return _zoned if kind.tz else lambda value: value.isoformat()
    if pa.types.is_map(kind):
        item = json_value(kind.item_type) or _same
        return lambda pairs: {key: None if value is None else item(value) for key, value in pairs}
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = json_value(kind.value_type)
        return None if make is None else (lambda items: [None if item is None else make(item) for item in items])
    return None


def _struct(kind: pa.StructType) -> Value:
    parts = {field.name: json_value(field.type) or _same for field in kind}
    return lambda value: {name: make(value[name]) for name, make in parts.items() if value[name] is not None}


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else _WORDS[value]


def _zoned(value: Any) -> str:
    return str(value.astimezone(UTC).replace(tzinfo=None).isoformat()) + "Z"


def _same(value: Any) -> Any:
    return value
