"""``schema``: the fields that bodies of a topic have, for ``bodySchema``; without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flaremq.errors import NotFoundError
from flaremq.pipeline.bodies.ddl import ddl_of_schema
from flaremq.pipeline.bodies.decoder import BodyDecoder
from flaremq.pipeline.bodies.format import JSON, RAW, body_format
from flaremq.pipeline.bodies.format import OPTIONS as BODY_OPTIONS
from flaremq.pipeline.bodies.inferred import infer_schema
from flaremq.pipeline.model.columns import ALL_NAMES, schema_of
from flaremq.pipeline.model.spans import Span
from flaremq.pipeline.options import parse_options, read_request
from flaremq.pipeline.planning.partitions import scan_spans
from flaremq.pipeline.sources.open import open_source, source_spec


@dataclass(frozen=True, slots=True)
class BodySchema:
    """The fields as DDL, and how many bodies were looked at for it; none where a schema was given."""

    ddl: str
    format: str
    bodies: int
    unfit: int
    taken_names: list[str]  # fields with names of columns of a message: they need bodyPrefix

    def to_json(self) -> dict[str, Any]:
        return {
            "ddl": self.ddl,
            "format": self.format,
            "bodies": self.bodies,
            "unfit": self.unfit,
            "takenNames": self.taken_names,
        }


def body_schema(options: Mapping[str, str], *, sample: int = 1000) -> BodySchema:
    """The schema of bodies, of JSON by looking at about ``sample`` of them: the oldest and the newest of each queue."""
    form = body_format(options)
    if form.name not in (RAW, JSON) or form.schema:
        schema = BodyDecoder(form).schema
        return BodySchema(ddl_of_schema(schema), form.name, 0, 0, _taken(schema.names))
    own = {name.lower() for name in BODY_OPTIONS}
    found = infer_schema(_bodies({name: text for name, text in options.items() if name.lower() not in own}, sample))
    if not found.schema.names:
        said = f"none of {found.bodies} bodies is an object of JSON" if found.bodies else "there are no messages"
        raise NotFoundError(f"no fields: {said}; for Avro and Protobuf give bodyFormat and bodySchema")
    return BodySchema(ddl_of_schema(found.schema), JSON, found.bodies, found.unfit, _taken(found.schema.names))


def _bodies(options: Mapping[str, str], sample: int) -> Iterator[bytes | None]:
    parsed = parse_options(options)
    request = read_request(parsed, schema_of(["body"]))
    with open_source(source_spec(parsed)) as source:
        spans = scan_spans(source, parsed)
        share = max(1, sample // max(len(spans), 1))
        for batch in source.read([part for span in spans for part in _ends(span, share)], request):
            yield from batch.column("body").to_pylist()


def _ends(span: Span, share: int) -> list[Span]:
    if span.count <= share:
        return [span]
    first = span.start + share // 2
    last = span.end - (share - share // 2)
    return [part for part in (Span(span.queue, span.start, first), Span(span.queue, last, span.end)) if part.count]


def _taken(names: list[str]) -> list[str]:
    own = {name.lower() for name in ALL_NAMES}
    return [name for name in names if name.lower() in own]
