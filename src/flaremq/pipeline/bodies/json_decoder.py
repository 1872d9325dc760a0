"""Bodies of JSON as columns, by the rules of Spark's ``from_json``: in one walk over their bytes, odd ones singly."""

from __future__ import annotations

from datetime import tzinfo
from typing import Final

import numpy as np
import pyarrow as pa

from flaremq.core.arrays import Integers
from flaremq.pipeline.bodies.decoded import Decoded, joined
from flaremq.pipeline.bodies.json_nested import JsonNested
from flaremq.pipeline.bodies.json_rows import JsonRows
from flaremq.pipeline.bodies.json_scan import JsonScan

_ROOM: Final = 1 << 26  # bytes for texts at a time; each field has room for as many as the bodies have


class JsonDecoder:
    """Decodes the fields of a schema; what else a body holds is only looked at to see that it is JSON."""

    def __init__(self, schema: pa.Schema, zone: tzinfo) -> None:
        self._scan = JsonScan(schema, zone)
        self._rows = JsonRows(schema, zone)
        self._nested = [at for at, field in enumerate(schema) if pa.types.is_nested(field.type)]
        nested = [schema.field(at) for at in self._nested]
        self._inside = JsonNested(pa.schema(nested), zone) if nested else None

    def decode(self, bodies: pa.Array) -> Decoded:
        if bodies.null_count:
            bodies = bodies.fill_null(b"")  # which is no body either
        rows = max(1, _ROOM * len(bodies) // max(bodies.nbytes * self._scan.text_count, 1))
        return joined([self._decode(bodies.slice(at, rows)) for at in range(0, max(len(bodies), 1), rows)])

    def _decode(self, bodies: pa.Array) -> Decoded:
        columns, odd = self._scan.read(bodies)
        reasons: list[str | None] | None = None
        if self._inside is not None:
            inside = self._inside.decode([columns[at] for at in self._nested])
            reasons = inside.reasons
            for at, column in zip(self._nested, inside.columns, strict=True):
                columns[at] = column
        if len(odd):
            single = self._rows.decode(bodies.take(pa.array(odd)))
            columns = [_replaced(*pair, odd) for pair in zip(columns, single.columns, strict=True)]
            if single.reasons is not None:
                reasons = reasons or [None] * len(bodies)
                for at, reason in zip(odd.tolist(), single.reasons, strict=True):
                    reasons[at] = reason
        return Decoded(len(bodies), columns, reasons)


def _replaced(column: pa.Array, others: pa.Array, at: Integers) -> pa.Array:
    """The column with ``others`` at these places."""
    if len(others) == len(column):
        return others
    chosen = np.arange(len(column))
    chosen[at] = len(column) + np.arange(len(others))
    return pa.concat_arrays([column, others]).take(pa.array(chosen))
