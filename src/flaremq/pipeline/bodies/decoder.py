"""``BodyDecoder``: the columns of bodies, whatever their format. Made on the driver, pickled to tasks.

What is wrong with the schema is raised when it is made. Compiled parts of a format (classes of Protobuf, readers) are
made again in each task, on first use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import pyarrow as pa

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.bodies.ddl import schema_of_ddl
from flaremq.pipeline.bodies.decoded import Decoded, Decodes
from flaremq.pipeline.bodies.format import AVRO, JSON, BodyFormat, body_format, needs_schema
from flaremq.pipeline.bodies.moments import zone_of


class BodyDecoder:
    """Decodes the fields of a body, or those of them that are asked for."""

    def __init__(self, form: BodyFormat, names: Sequence[str] | None = None) -> None:
        """``names`` are the columns wanted, in their order; all by default."""
        self.form = form
        whole = _schema_of(form)
        prefixed = {form.prefix + field.name: field for field in whole}
        wanted = list(prefixed) if names is None else list(names)
        if unknown := next((name for name in wanted if name not in prefixed), None):
            raise InvalidArgumentError(f"bodies have no field {unknown!r}; there are {', '.join(prefixed)}")
        self._fields = pa.schema([prefixed[name] for name in wanted])
        self.schema = pa.schema([prefixed[name].with_name(name) for name in wanted])
        self._decodes: Decodes | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self | None:
        """The decoder that ``bodyFormat`` and the options beside it ask for; None where bodies stay what they are."""
        form = body_format(options)
        return None if form.is_raw else cls(form)

    def narrowed(self, names: Sequence[str]) -> BodyDecoder:
        """The same for these columns alone."""
        return BodyDecoder(self.form, names)

    def decode(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array]:
        """The columns of the bodies in a batch with a column ``body``, and a column of texts: why a body does not fit,
        null where it does. The row of one that does not has what could be read; a null body has nulls and fits."""
        found = self.decoded(batch.column(batch.schema.get_field_index("body")))
        return pa.RecordBatch.from_arrays(found.columns, schema=self.schema), pa.array(
            found.reasons if found.reasons is not None else [None] * found.count, pa.string()
        )

    def decoded(self, bodies: pa.Array) -> Decoded:
        """The same for a column of bodies, in pieces."""
        if self._decodes is None:
            self._decodes = _decodes(self.form, self._fields)
        if not pa.types.is_binary(bodies.type):
            bodies = bodies.cast(pa.binary())
        return self._decodes.decode(bodies)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_decodes": None}


def _schema_of(form: BodyFormat) -> pa.Schema:
    """Every field of a body."""
    zone_of(form.zone)
    if form.name == JSON:
        if not form.schema:
            raise needs_schema(JSON)
        return schema_of_ddl(form.schema.decode())
    if form.name == AVRO:
        from flaremq.pipeline.bodies.avro import schema_of_avro

        return schema_of_avro(form.schema)
    from flaremq.pipeline.bodies.protobuf import schema_of_message

    return schema_of_message(form.schema, form.message)


def _decodes(form: BodyFormat, fields: pa.Schema) -> Decodes:
    if form.name == JSON:
        from flaremq.pipeline.bodies.json_decoder import JsonDecoder

        return JsonDecoder(fields, zone_of(form.zone))
    if form.name == AVRO:
        from flaremq.pipeline.bodies.avro import AvroDecoder

        return AvroDecoder(form.schema, fields)
    from flaremq.pipeline.bodies.protobuf import ProtobufDecoder

    return ProtobufDecoder(form.schema, form.message, fields)
