"""What becomes of the batches of a source: bodies taken apart, properties as columns, bodies that do not fit.

A body does not fit if it is none of its format, or if a field of the schema is there and of another type. To know that,
every field is decoded; so it is looked at only where it matters: where ``_corrupt_body`` or ``bodyError`` are wanted,
and where such rows are dropped or an error. Otherwise what nobody asks for is not decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from flaremq.errors import CorruptionError
from flaremq.pipeline.bodies.decoder import BodyDecoder
from flaremq.pipeline.bodies.format import DROP_MALFORMED, FAIL_FAST, PERMISSIVE
from flaremq.pipeline.model.columns import ALL_SCHEMA, BODY_ERROR, CORRUPT_BODY

_PLACE = ("topic", "queueId", "queueOffset")


@dataclass(frozen=True, slots=True)
class RowShape:
    """How batches of ``stored`` become batches of ``wanted``. Picklable; made on the driver."""

    wanted: pa.Schema
    stored: pa.Schema
    decoder: BodyDecoder | None
    properties: tuple[tuple[str, str], ...]  # a column and the property it shows

    def shaped(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches as they are wanted; those that end up empty are left out."""
        for batch in batches:
            made = self._shaped(batch)
            if made.num_rows:
                yield made

    def _shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow.compute as pc  # takes long, and few scans come here

        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        mode = PERMISSIVE if self.decoder is None else self.decoder.form.mode
        if self.decoder is not None:
            body = columns["body"]
            found = self.decoder.decoded(body)
            columns |= dict(zip(self.decoder.schema.names, found.columns, strict=True))
            if _judges(self.wanted, mode):
                told = columns.get(BODY_ERROR)
                reasons = pa.array(found.reasons or [None] * batch.num_rows, pa.string())
                columns[CORRUPT_BODY] = pc.if_else(pc.is_valid(reasons), body, pa.scalar(None, body.type))
                columns[BODY_ERROR] = reasons if told is None else pc.coalesce(told, reasons)
        for name, key in self.properties:
            columns[name] = pc.map_lookup(columns["properties"], key, "first")
        if mode == FAIL_FAST:
            _refuse_first(columns)
        made = pa.RecordBatch.from_arrays(
            [_as(columns[field.name], field.type) for field in self.wanted], schema=self.wanted
        )
        return made.filter(pc.is_null(columns[BODY_ERROR])) if mode == DROP_MALFORMED else made


def row_shape(wanted: pa.Schema, decoder: BodyDecoder | None, properties: dict[str, str]) -> RowShape | None:
    """The shape of batches that show more than a message's own columns; None where they do not."""
    asked = set(wanted.names)
    own = {} if decoder is None else {name: None for name in decoder.schema.names}
    shown = tuple((name, key) for name, key in properties.items() if name in asked)
    mode = PERMISSIVE if decoder is None else decoder.form.mode
    judges = decoder is not None and _judges(wanted, mode)
    fields = {field.name: field for field in wanted if field.name not in {*own, *properties, CORRUPT_BODY}}
    needs = ["properties"] if shown else []
    if judges:
        needs += ["body", BODY_ERROR, *_PLACE] if mode == FAIL_FAST else ["body", BODY_ERROR]
        used = decoder
    else:
        names = [name for name in wanted.names if name in own]
        used = decoder.narrowed(names) if decoder is not None and names else None
        needs += ["body"] if used is not None else []
    if used is None and not shown:
        return None
    for name in needs:
        fields.setdefault(name, ALL_SCHEMA.field(name))
    return RowShape(wanted, pa.schema(list(fields.values())), used, shown)


def _judges(wanted: pa.Schema, mode: str) -> bool:
    return mode != PERMISSIVE or CORRUPT_BODY in wanted.names or BODY_ERROR in wanted.names


def _refuse_first(columns: dict[str, pa.Array]) -> None:
    import pyarrow.compute as pc

    at = pc.index(pc.is_valid(columns[BODY_ERROR]), True).as_py()
    if at < 0:
        return
    topic, queue_id, offset = (columns[name][at].as_py() for name in _PLACE)
    raise CorruptionError(
        f"the body of {topic}/{queue_id}, queue offset {offset}: {columns[BODY_ERROR][at].as_py()}; "
        "bodyMode=PERMISSIVE reads what there is, DROPMALFORMED leaves such messages out"
    )


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type.equals(kind) else column.cast(kind)
