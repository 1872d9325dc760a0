"""Rows as bodies of Avro: the reverse of ``avro``."""

from __future__ import annotations

import io
from typing import Any

from flaremq.pipeline.bodies.avro import parsed_schema  # first: it says what is missing where fastavro is not there

from fastavro import parse_schema, schemaless_writer  # isort: skip


class AvroEncoder:
    """Encodes records; a field that the record does not have gets its default."""

    def __init__(self, schema: bytes) -> None:
        self._schema = parse_schema(parsed_schema(schema))

    def __call__(self, record: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        schemaless_writer(out, self._schema, record)
        return out.getvalue()
