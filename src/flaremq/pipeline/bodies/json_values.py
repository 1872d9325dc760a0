"""Values of JSON as values of Spark's types: what ``from_json`` takes for an int, a date, a struct, and what not.

A value of the wrong type is null and a problem of its body; what stands beside it in a struct stays. An array or a map
with one is null as a whole.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from datetime import tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from flaremq.pipeline.bodies.moments import days_of, microseconds_of

Problems = list[str]  # why values are not what they should be, in the order they were met
Convert = Callable[[Any, Problems], Any]

_NON_NUMBERS: Final = {
    "NaN": math.nan,
    **dict.fromkeys(("+INF", "Infinity", "+Infinity"), math.inf),
    **dict.fromkeys(("-INF", "-Infinity"), -math.inf),
}
_EXACT: Final = Context(prec=1000, rounding=ROUND_HALF_UP)
_BEYOND: Final = re.compile("[\U00010000-\U0010ffff]")  # characters that Jackson writes as two escapes
_DECIMAL: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
# Blanks may stand between groups of four characters, and nowhere else.
_BETWEEN: Final = re.compile(r"[\x00-\x20]*([A-Za-z0-9+/=]{4}|$)", re.ASCII)
FLOAT_MAX: Final = 3.4028235677973366e38  # a double from here on is no float
_FLOAT_NORMAL: Final = 2.0**-126  # below it floats are coarser
_BELOW_FLOAT: Final = (1 << 29) - 1  # the bits of a double that a float has no room for
_HALF_FLOAT: Final = 1 << 28
_LONG_MAX: Final = 1 << 63
_SHOWN: Final = 40


class NeedsText(Exception):
    """A number whose text in the body decides, since it is more than a float."""


class WrongValue(Exception):
    """A value that is not of its type."""


class NumberText(float):
    """A number with its text."""

    text: str

    def __new__(cls, text: str) -> NumberText:
        made = super().__new__(cls, text)
        made.text = text
        return made


def converter(kind: pa.DataType, zone: tzinfo) -> Convert:
    """From parsed JSON to what Arrow takes for a type; null stays null, WrongValue is raised for what does not fit."""
    if pa.types.is_struct(kind):
        return _struct(kind, zone)
    if pa.types.is_list(kind):
        return _list(kind, zone)
    if pa.types.is_map(kind):
        return _map(kind, zone)
    return _plain(kind, _scalar(kind, zone))


def converted(value: Any, convert: Convert, problems: Problems) -> Any:
    """The value of a field; null and a problem if it is none."""
    try:
        return convert(value, problems)
    except WrongValue as error:
        problems.append(str(error))
        return None


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
        pa.string(): lambda value: value if type(value) is str else json_text(value),
        pa.bool_(): lambda value: value if type(value) is bool else None,
        pa.binary(): _bytes,
    }
    return scalars[kind]


def _plain(kind: pa.DataType, make: Callable[[Any], Any]) -> Convert:
    def convert(value: Any, _: Problems) -> Any:
        if value is None:
            return None
        made = make(value)
        if made is None:
            raise WrongValue(f"{shown(value)} is no {kind}")
        return made

    return convert


def _struct(kind: pa.StructType, zone: tzinfo) -> Convert:
    parts = [(field.name, converter(field.type, zone)) for field in kind]

    def convert(value: Any, problems: Problems) -> Any:
        if value is None:
            return None
        if type(value) is not dict:
            raise WrongValue(f"{shown(value)} is no object")
        return {name: converted(value.get(name), make, problems) for name, make in parts}

    return convert


def _list(kind: pa.ListType, zone: tzinfo) -> Convert:
    make = converter(kind.value_type, zone)

    def convert(value: Any, problems: Problems) -> Any:
        if value is None:
            return None
        if type(value) is not list:
            raise WrongValue(f"{shown(value)} is no array")
        return [make(item, problems) for item in value]

    return convert


def _map(kind: pa.MapType, zone: tzinfo) -> Convert:
    make = converter(kind.item_type, zone)

    def convert(value: Any, problems: Problems) -> Any:
        if value is None:
            return None
        if type(value) is not dict:
            raise WrongValue(f"{shown(value)} is no object")
        return [(name, make(item, problems)) for name, item in value.items()]

    return convert


def json_text(value: Any) -> str:
    """A value that is no string, as a string: as Jackson writes it again, without blanks, numbers as Java does."""
    if type(value) is dict:
        inside = ",".join(f"{json_text(str(name))}:{json_text(item)}" for name, item in value.items())
        return "{" + inside + "}"
    if type(value) is list:
        return "[" + ",".join(map(json_text, value)) + "]"
    if type(value) is int:
        return str(value)
    if isinstance(value, float):
        if abs(value) >= _LONG_MAX and not isinstance(value, NumberText):
            raise NeedsText  # it may have been an integer
        return _java_double(float(value))
    return _BEYOND.sub(_escaped, orjson.dumps(value).decode())


def _escaped(match: re.Match[str]) -> str:
    pair = match.group().encode("utf-16-be").hex().upper()
    return f"\\u{pair[:4]}\\u{pair[4:]}"


def _java_double(value: float) -> str:
    """A double as ``Double.toString`` has it: plain from a thousandth to ten millions, else with an exponent."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = repr(value)
        return text if "." in text else f"{value:f}"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, *rest = map(str, digits)
    power = int(exponent) + len(rest)
    return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{power}"


def _number(value: Any) -> float | None:
    if type(value) is str:
        return _NON_NUMBERS.get(value)
    if type(value) is bool or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _float(value: Any) -> float | None:
    """A double that becomes the right float: one halfway between two floats is moved to the side where its text is."""
    number = _number(value)
    if number is None or not math.isfinite(number):
        return number
    if abs(number) >= FLOAT_MAX:
        return math.copysign(math.inf, number)
    if number == 0 or not rounds_twice(number):
        return number
    if type(value) is float:
        raise NeedsText
    text = Decimal(value.text if isinstance(value, NumberText) else value)
    exact = Decimal(number)
    return number if text == exact else math.nextafter(number, math.inf if text > exact else -math.inf)


def rounds_twice(numbers: Any) -> Any:
    """Whether doubles may lie halfway between two floats, so that more than they tell decides which it is."""
    bits = np.asarray(numbers, np.float64).view(np.int64)
    return (bits & _BELOW_FLOAT == _HALF_FLOAT) | (np.abs(numbers) < _FLOAT_NORMAL)


def _decimal(value: Any, kind: pa.Decimal128Type) -> Decimal | None:
    if type(value) is float:
        raise NeedsText
    text = value.text if isinstance(value, NumberText) else value.replace(",", "") if type(value) is str else value
    if type(text) is int:
        text = str(text)
    if type(text) is not str or _DECIMAL.fullmatch(text) is None:
        return None
    number = Decimal(text)
    if number.adjusted() > kind.precision:
        return None
    scaled = number.quantize(Decimal((0, (1,), -kind.scale)), context=_EXACT)
    return scaled if len(scaled.as_tuple().digits) <= kind.precision else None


def decimal_of(text: str, kind: pa.Decimal128Type) -> Decimal | None:
    """A number of JSON as a decimal; None if it has too many digits before the point."""
    return _decimal(NumberText(text), kind)


def _bytes(value: Any) -> bytes | None:
    if type(value) is not str:
        return None
    try:
        return base64.b64decode(_BETWEEN.sub(r"\1", value), validate=True)
    except (binascii.Error, ValueError):
        return None


def _time(value: Any, zone: tzinfo | None) -> int | None:
    if type(value) is str:
        return microseconds_of(value, zone)
    if type(value) is int and zone is not None:  # seconds
        microseconds = value * 1_000_000
        return microseconds if -_LONG_MAX <= microseconds < _LONG_MAX else None
    return None


def shown(value: Any) -> str:
    """A value in a sentence."""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
