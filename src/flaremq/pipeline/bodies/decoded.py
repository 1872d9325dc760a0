"""What a decoder makes of bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Decoded:
    """A column for each field, and for each body why it does not fit, if it does not; no list if all fit."""

    count: int
    columns: list[pa.Array]
    reasons: list[str | None] | None


class Decodes(Protocol):
    """A decoder of one format. A body that does not fit costs its own row only; a null body is a row of nulls."""

    def decode(self, bodies: pa.Array) -> Decoded: ...


def joined(parts: Sequence[Decoded]) -> Decoded:
    """Bodies that were decoded in parts, as one."""
    if len(parts) == 1:
        return parts[0]
    columns = [pa.concat_arrays(pieces) for pieces in zip(*(part.columns for part in parts), strict=True)]
    count = sum(part.count for part in parts)
    if all(part.reasons is None for part in parts):
        return Decoded(count, columns, None)
    reasons: list[str | None] = []
    for part in parts:
        reasons += part.reasons if part.reasons is not None else [None] * part.count
    return Decoded(count, columns, reasons)


def column_of(values: list[Any], kind: pa.DataType, reasons: list[str | None]) -> pa.Array:
    """The values as a column. One that Arrow cannot take as this type is null, and the reason of its row."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    kept: list[pa.Scalar] = []
    for at, value in enumerate(values):
        try:
            kept.append(pa.scalar(value, kind))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            reasons[at] = reasons[at] or f"a value is no {kind}: {error}"
            kept.append(pa.scalar(None, kind))
    return pa.array(kept, kind)
