"""Fields of JSON that are structs, arrays and maps, from their text: many at a time where they fit, one by one else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from flaremq.pipeline.bodies.decoded import Decoded, joined
from flaremq.pipeline.bodies.json_columns import JsonColumns, can_read
from flaremq.pipeline.bodies.json_rows import JsonRows

_FEW: Final = 64  # rows: not worth another look at all of them together
# Bytes that are read at a time. They are put together as one text, which is a fifth quicker where it stays in a cache
# and its memory is used again.
_BYTES_AT_ONCE: Final = 1 << 20


class JsonNested:
    """Decodes the fields of a schema, each from a column of texts that are JSON or null."""

    def __init__(self, schema: pa.Schema, zone: tzinfo) -> None:
        self._names = [orjson.dumps(field.name) for field in schema]
        self._columns = JsonColumns(schema, zone) if can_read(pa.struct(list(schema))) else None
        self._rows = JsonRows(schema, zone)

    def decode(self, texts: Sequence[pa.Array]) -> Decoded:
        bodies = self._bodies(texts)
        rows = max(_FEW, _BYTES_AT_ONCE * len(bodies) // max(bodies.nbytes, 1))
        return joined([part for at in range(0, len(bodies), rows) for part in self._parts(bodies.slice(at, rows))])

    def _bodies(self, texts: Sequence[pa.Array]) -> pa.Array:
        """Bodies with these fields and no others."""
        pieces: list[pa.Array | pa.Scalar] = []
        for at, (name, text) in enumerate(zip(self._names, texts, strict=True)):
            pieces += [pa.scalar((b"," if at else b"{") + name + b":", pa.binary()), text.fill_null(b"null")]
        return pc.binary_join_element_wise(*pieces, pa.scalar(b"}", pa.binary()), pa.scalar(b"", pa.binary()))

    def _parts(self, bodies: pa.Array) -> list[Decoded]:
        """The bodies read as many at a time as will: where one does not fit, its neighbours are tried without it."""
        if self._columns is not None:
            columns = self._columns.read(bodies)
            if columns is not None:
                return [Decoded(len(bodies), columns, None)]
            if len(bodies) > _FEW:
                half = len(bodies) // 2
                return [*self._parts(bodies.slice(0, half)), *self._parts(bodies.slice(half))]
        return [self._rows.decode(bodies)]
