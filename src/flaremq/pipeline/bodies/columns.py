"""Which columns there are: those of a message, those that options name after properties, and the fields of its body."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from flaremq.errors import InvalidArgumentError
from flaremq.options import find_unknown_names
from flaremq.pipeline.bodies.decoder import BodyDecoder
from flaremq.pipeline.bodies.format import PERMISSIVE
from flaremq.pipeline.bodies.shape import RowShape, row_shape
from flaremq.pipeline.model.columns import ALL_SCHEMA, BODY_ERROR, CORRUPT_BODY, NAMES

_RENAMED: Final = re.compile(r"(.+?)\s+as\s+(\S+)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class ScanColumns:
    """Every column that a scan can have, by name."""

    decoder: BodyDecoder | None
    properties: dict[str, str]  # column → property
    schema: pa.Schema

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)

    @property
    def usual(self) -> pa.Schema:
        """Those that a scan has when none are named. A body that is taken apart is not shown whole as well."""
        left_out = {BODY_ERROR}
        if self.decoder is not None:
            left_out.add("body")
            if self.decoder.form.mode != PERMISSIVE:
                left_out.add(CORRUPT_BODY)
        return pa.schema([field for field in self.schema if field.name not in left_out])

    def schema_of(self, names: Sequence[str] | None) -> pa.Schema:
        """These columns, the usual ones by default; upper and lower case are the same, as in Spark."""
        if names is None:
            return self.usual
        folded = {name.lower(): name for name in reversed(self.schema.names)}
        known = set(self.schema.names)
        for name in names:
            if name.lower() not in folded:
                raise InvalidArgumentError(
                    f"unknown column {name!r}; there are {', '.join(self.schema.names)}{self.hint(name)}"
                )
        return pa.schema([self.schema.field(name if name in known else folded[name.lower()]) for name in names])

    def hint(self, name: str) -> str:
        """What to say of a column that is not there."""
        unknown = next(iter(find_unknown_names([name], self.schema.names)), None)
        return f" (did you mean {unknown.nearest}?)" if unknown is not None and unknown.nearest else ""

    def shape(self, wanted: pa.Schema) -> RowShape | None:
        """How batches of a source become batches of these columns; None where they are that already."""
        return row_shape(wanted, self.decoder, self.properties)


def scan_columns(decoder: BodyDecoder | None, property_columns: Sequence[str]) -> ScanColumns:
    """The columns of a message, of properties and of bodies; InvalidArgumentError if two have the same name."""
    properties = dict(_property_column(item) for item in property_columns)
    if len(properties) < len(property_columns):
        raise InvalidArgumentError("propertyColumns names a column twice; write property as another_name")
    own = [ALL_SCHEMA.field(name) for name in NAMES]
    fields = [*own, *(pa.field(name, pa.string()) for name in properties)]
    fields.append(ALL_SCHEMA.field(BODY_ERROR))
    _refuse_same(fields, "property", "write propertyColumns 'NAME as another_name'")
    if decoder is not None:
        fields.insert(-1, pa.field(CORRUPT_BODY, pa.binary()))
        before = len(fields)
        fields[before - 2 : before - 2] = list(decoder.schema)
        _refuse_same(fields, "field of the body", "set bodyPrefix, like body_, to put before the fields of bodies")
    return ScanColumns(decoder, properties, pa.schema(fields))


def property_names(property_columns: Sequence[str]) -> list[str]:
    """The columns that show properties."""
    return [_property_column(item)[0] for item in property_columns]


def _property_column(item: str) -> tuple[str, str]:
    """``traceparent`` or ``x-tenant as tenant``."""
    match = _RENAMED.fullmatch(item)
    return (match.group(2), match.group(1)) if match is not None else (item, item)


def _refuse_same(fields: Sequence[pa.Field], what: str, remedy: str) -> None:
    met: dict[str, str] = {}
    for field in fields:
        other = met.setdefault(field.name.lower(), field.name)
        if other != field.name or sum(each.name == field.name for each in fields) > 1:
            raise InvalidArgumentError(f"the {what} {field.name!r} has the name of the column {other!r}: {remedy}")
