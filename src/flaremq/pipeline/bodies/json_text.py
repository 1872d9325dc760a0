"""A body of JSON read slowly, along a type: the text of a value is kept wherever it counts.

For bodies whose values need their text (``NeedsText``), and for those that a strict reader refuses: like ``from_json``
this reads the first value and leaves what follows it alone.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pyarrow as pa

from flaremq.pipeline.bodies.json_values import NumberText, RawText

_BLANKS: Final = re.compile(r"[ \t\n\r]*")
_scan: Final[Any] = json.JSONDecoder(parse_float=NumberText).scan_once  # type: ignore[attr-defined]  # for extensions
_scan_string: Final[Any] = json.decoder.scanstring  # type: ignore[attr-defined]  # the same


def parse_along(text: str, kind: pa.DataType) -> Any:
    """The first value of a text; ValueError if there is none."""
    try:
        return _value(text, _skip(text, 0), kind)[0]
    except StopIteration:
        raise ValueError("no JSON") from None


def _skip(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return at if match is None else match.end()


def _value(text: str, at: int, kind: pa.DataType | None) -> tuple[Any, int]:
    opening = text[at : at + 1]
    if opening == "{" and kind is not None and (pa.types.is_struct(kind) or pa.types.is_map(kind)):
        return _object(text, at, kind)
    if opening == "[" and kind is not None and pa.types.is_list(kind):
        return _array(text, at, kind)
    value, end = _scan(text, at)
    if kind is None or value is None:
        return value, end
    if pa.types.is_string(kind):
        if type(value) is not str:
            return RawText(text[at:end]), end
        return _without_surrogates(value), end
    return value, end


def _object(text: str, at: int, kind: pa.DataType) -> tuple[dict[str, Any], int]:
    kinds = {field.name: field.type for field in kind} if pa.types.is_struct(kind) else None
    found: dict[str, Any] = {}
    at = _skip(text, at + 1)
    if text[at : at + 1] == "}":
        return found, at + 1
    while True:
        if text[at : at + 1] != '"':
            raise ValueError(f"a name is expected at {at}")
        name, at = _scan_string(text, at + 1, True)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            raise ValueError(f"a colon is expected at {at}")
        inside = kind.item_type if kinds is None else kinds.get(name)
        found[_without_surrogates(name)], at = _value(text, _skip(text, at + 1), inside)
        at = _skip(text, at)
        sign = text[at : at + 1]
        if sign == "}":
            return found, at + 1
        if sign != ",":
            raise ValueError(f"a comma is expected at {at}")
        at = _skip(text, at + 1)


def _array(text: str, at: int, kind: pa.DataType) -> tuple[list[Any], int]:
    found: list[Any] = []
    at = _skip(text, at + 1)
    if text[at : at + 1] == "]":
        return found, at + 1
    while True:
        value, at = _value(text, at, kind.value_type)
        found.append(value)
        at = _skip(text, at)
        sign = text[at : at + 1]
        if sign == "]":
            return found, at + 1
        if sign != ",":
            raise ValueError(f"a comma is expected at {at}")
        at = _skip(text, at + 1)


def _without_surrogates(text: str) -> str:
    """Half of a pair is no character; Java writes a question mark for it."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
