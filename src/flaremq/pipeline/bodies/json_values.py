"""Values of JSON as values of Spark's types: what ``from_json`` takes for an int, a date, a struct, and what not.

A value of the wrong type becomes null and a problem of its body; what is beside it stays.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from datetime import tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa

from flaremq.pipeline.bodies.moments import days_of, microseconds_of

Problems = list[str]  # why values are not what they should be, in the order they were met
Convert = Callable[[Any, Problems], Any]

_NON_NUMBERS: Final = {
    "NaN": math.nan,
    **dict.fromkeys(("INF", "+INF", "Infinity", "+Infinity"), math.inf),
    **dict.fromkeys(("-INF", "-Infinity"), -math.inf),
}
_EXACT: Final = Context(prec=1000, rounding=ROUND_HALF_UP)
_FLOAT_MAX: Final = 3.4028235677973366e38  # a double from here on is no float
_SHOWN: Final = 40


class NeedsText(Exception):
    """A value whose text in the body decides: a number that is more than a float, an object as a string."""


class NumberText(float):
    """A number with its text."""

    text: str

    def __new__(cls, text: str) -> NumberText:
        made = super().__new__(cls, text)
        made.text = text
        return made


class RawText(str):
    """A value that is no string, as its text."""

    __slots__ = ()


def converter(kind: pa.DataType, zone: tzinfo) -> Convert:
    """From parsed JSON to what Arrow takes for a type; null stays null."""
    if pa.types.is_struct(kind):
        return _struct(kind, zone)
    if pa.types.is_list(kind):
        return _list(kind, zone)
    if pa.types.is_map(kind):
        return _map(kind, zone)
    return _plain(kind, _scalar(kind, zone))


def _scalar(kind: pa.DataType, zone: tzinfo) -> Callable[[Any], Any]:
    """What makes one value of a type; it returns None for a value of another."""
    if pa.types.is_integer(kind):
        top = 1 << (kind.bit_width - 1)
        return lambda value: value if type(value) is int and -top <= value < top else None
    if pa.types.is_floating(kind):
        return _number if kind.bit_width == 64 else _float
    if pa.types.is_decimal(kind):
        return lambda value: _decimal(value, kind)
    if pa.types.is_date(kind):
        return lambda value: days_of(value) if type(value) is str else None
    if pa.types.is_timestamp(kind):
        return lambda value: _time(value, zone if kind.tz else None)
    scalars: dict[pa.DataType, Callable[[Any], Any]] = {
        pa.string(): text_of,
        pa.bool_(): lambda value: value if type(value) is bool else None,
        pa.binary(): _bytes,
    }
    return scalars[kind]


def _plain(kind: pa.DataType, make: Callable[[Any], Any]) -> Convert:
    def convert(value: Any, problems: Problems) -> Any:
        if value is None:
            return None
        made = make(value)
        if made is None:
            problems.append(f"{shown(value)} is no {kind}")
        return made

    return convert


def _struct(kind: pa.StructType, zone: tzinfo) -> Convert:
    parts = [(field.name, converter(field.type, zone)) for field in kind]

    def convert(value: Any, problems: Problems) -> Any:
        if value is None:
            return None
        if type(value) is not dict:
            problems.append(f"{shown(value)} is no object")
            return None
        return {name: make(value.get(name), problems) for name, make in parts}

    return convert


def _list(kind: pa.ListType, zone: tzinfo) -> Convert:
    make = converter(kind.value_type, zone)

    def convert(value: Any, problems: Problems) -> Any:
        if value is None:
            return None
        if type(value) is not list:
            problems.append(f"{shown(value)} is no array")
            return None
        return [make(item, problems) for item in value]

    return convert


def _map(kind: pa.MapType, zone: tzinfo) -> Convert:
    make = converter(kind.item_type, zone)

    def convert(value: Any, problems: Problems) -> Any:
        if value is None:
            return None
        if type(value) is not dict:
            problems.append(f"{shown(value)} is no object")
            return None
        return [(name, make(item, problems)) for name, item in value.items()]

    return convert


def text_of(value: Any) -> str:
    """A value as a string: what is none is the text it has in the body."""
    if type(value) is str:
        return value
    if isinstance(value, RawText):
        return str(value)
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is int:
        return str(value)
    if isinstance(value, NumberText):
        return value.text
    raise NeedsText


def _number(value: Any) -> float | None:
    if type(value) is str:
        return _NON_NUMBERS.get(value)
    return float(value) if isinstance(value, int | float) and type(value) is not bool else None


def _float(value: Any) -> float | None:
    number = _number(value)
    if number is None or not abs(number) >= _FLOAT_MAX:
        return number
    return math.copysign(math.inf, number)


def _decimal(value: Any, kind: pa.Decimal128Type) -> Decimal | None:
    if type(value) is float and not isinstance(value, NumberText):
        raise NeedsText
    try:
        number = Decimal(value.text if isinstance(value, NumberText) else value)
        scaled = number.quantize(Decimal((0, (1,), -kind.scale)), context=_EXACT)
    except (InvalidOperation, TypeError, ValueError):
        return None
    return scaled if scaled.is_finite() and len(scaled.as_tuple().digits) <= kind.precision else None


def _bytes(value: Any) -> bytes | None:
    if type(value) is not str:
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return None


def _time(value: Any, zone: tzinfo | None) -> int | None:
    if type(value) is str:
        return microseconds_of(value, zone)
    if type(value) is int and zone is not None:  # seconds
        microseconds = value * 1_000_000
        return microseconds if -(1 << 63) <= microseconds < 1 << 63 else None
    return None


def shown(value: Any) -> str:
    """A value in a sentence."""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
