"""Bodies of JSON one by one, by the rules of Spark's ``from_json``: for those that no quicker way takes."""

from __future__ import annotations

import json
import re
from datetime import tzinfo
from typing import Any, Final

import orjson
import pyarrow as pa

from flaremq.pipeline.bodies.decoded import Decoded
from flaremq.pipeline.bodies.json_values import NeedsText, NumberText, Problems, converted, converter, shown

_DECODER: Final = json.JSONDecoder(parse_float=NumberText, parse_constant=NumberText)
_PAIR: Final = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF: Final = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
_HALF_PAIR: Final = re.compile(rf"{_PAIR}|({_HALF})|\\.", re.DOTALL)
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\'((?:[^\'\\]|\\.)*)\'', re.DOTALL)


class JsonRows:
    """Decodes the fields of a schema from any bodies there may be."""

    def __init__(self, schema: pa.Schema, zone: tzinfo) -> None:
        self._schema = schema
        self._convert = [(field.name, converter(field.type, zone)) for field in schema]

    def decode(self, bodies: pa.Array) -> Decoded:
        values: list[list[Any]] = [[] for _ in self._schema]
        reasons: list[str | None] = []
        for body in bodies.to_pylist():
            row, reason = ([None] * len(values), None) if body is None else self._row(body)
            reasons.append(reason)
            for column, value in zip(values, row, strict=True):
                column.append(value)
        columns = [pa.array(column, field.type) for column, field in zip(values, self._schema, strict=True)]
        return Decoded(len(bodies), columns, reasons if any(reasons) else None)

    def _row(self, body: bytes) -> tuple[list[Any], str | None]:
        """The values of one body, and what is wrong with it."""
        nothing = [None] * len(self._convert)
        try:
            return self._values(orjson.loads(body))
        except (NeedsText, orjson.JSONDecodeError) as error:
            reason = str(error)
        try:
            text = body.decode()
            return self._values(_first_value(text)) if text.strip() else (nothing, None)
        except UnicodeDecodeError as error:
            return nothing, f"no UTF-8: {error.reason} at byte {error.start}"
        except RecursionError:
            return nothing, "no JSON that can be read: too deep"
        except ValueError as error:
            return nothing, f"no JSON: {reason or error}"

    def _values(self, value: Any) -> tuple[list[Any], str | None]:
        if type(value) is not dict:
            return [None] * len(self._convert), f"no object: {shown(value)}"
        row: list[Any] = []
        reason: str | None = None
        for name, convert in self._convert:
            problems: Problems = []
            row.append(converted(value.get(name), convert, problems))
            if problems and reason is None:
                reason = f"field {name}: {problems[0]}"
        return row, reason


def _first_value(text: str) -> Any:
    """The first value of a text that a strict reader refuses, or whose numbers are wanted as text; ValueError if there
    is none. Like ``from_json`` this leaves what follows it alone, takes ' for quotes, ``NaN`` and ``Infinity`` for
    numbers, and half a surrogate pair for a question mark."""
    if "'" in text:
        try:
            return _value(text)
        except ValueError:
            text = _QUOTED.sub(_requoted, text)
    return _value(text)


def _value(text: str) -> Any:
    if "\\u" in text:
        text = _HALF_PAIR.sub(lambda match: "?" if match.group(1) else match.group(), text)
    return _DECODER.raw_decode(text.lstrip(" \t\r\n"))[0]


def _requoted(match: re.Match[str]) -> str:
    inside = match.group(1)
    if inside is None:
        return match.group()
    return '"' + inside.replace('"', '\\"').replace("\\'", "'") + '"'
