"""Bodies of JSON as columns, by the rules of Spark's ``from_json``: whole batches where they fit, single rows else."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any, Final

import orjson
import pyarrow as pa

from flaremq.pipeline.bodies.decoded import Decoded
from flaremq.pipeline.bodies.json_columns import JsonColumns, can_read
from flaremq.pipeline.bodies.json_text import first_value
from flaremq.pipeline.bodies.json_values import NeedsText, Problems, converted, converter, shown

_FEW: Final = 64  # rows: not worth another look at all of them together
# Bytes that are read at a time. They are put together as one text, which is a fifth quicker where it stays in a cache
# and its memory is used again.
_BYTES_AT_ONCE: Final = 1 << 20


class JsonDecoder:
    """Decodes the fields of a schema; what else a body holds is left alone."""

    def __init__(self, schema: pa.Schema, zone: tzinfo) -> None:
        self._schema = schema
        self._columns = JsonColumns(schema, zone) if can_read(pa.struct(list(schema))) else None
        self._convert = [(field.name, converter(field.type, zone)) for field in schema]

    def decode(self, bodies: pa.Array) -> Decoded:
        rows = max(_FEW, _BYTES_AT_ONCE * len(bodies) // max(bodies.nbytes, 1))
        parts = [part for at in range(0, max(len(bodies), 1), rows) for part in self._parts(bodies.slice(at, rows))]
        if len(parts) == 1:
            return parts[0]
        columns = [pa.concat_arrays(pieces) for pieces in zip(*(part.columns for part in parts), strict=True)]
        if all(part.reasons is None for part in parts):
            return Decoded(len(bodies), columns, None)
        reasons: list[str | None] = []
        for part in parts:
            reasons += part.reasons if part.reasons is not None else [None] * part.count
        return Decoded(len(bodies), columns, reasons)

    def _parts(self, bodies: pa.Array) -> list[Decoded]:
        """The bodies read as many at a time as will: where one does not fit, its neighbours are tried without it."""
        if self._columns is not None:
            columns = self._columns.read(bodies)
            if columns is not None:
                return [Decoded(len(bodies), columns, None)]
            if len(bodies) > _FEW:
                half = len(bodies) // 2
                return [*self._parts(bodies.slice(0, half)), *self._parts(bodies.slice(half))]
        return [self._row_by_row(bodies)]

    def _row_by_row(self, bodies: pa.Array) -> Decoded:
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
            return self._values(first_value(text)) if text.strip() else (nothing, None)
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
