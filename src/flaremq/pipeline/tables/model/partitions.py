"""Partitions: by which values the files of a table are kept apart. ``day(storeTimestamp)`` unless told otherwise."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from flaremq.core.arrays import Integers
from flaremq.errors import InvalidArgumentError

DAY: Final = "day"
DEFAULT_PARTITIONS: Final = "day(storeTimestamp)"
_NONE: Final = "none"
_DAY_OF: Final = re.compile(r"day\((\w+)\)")
_DAY_US: Final = 86_400_000_000
_EPOCH: Final = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A column itself, or the day (UTC) of a time; ``name`` is how the partition is called."""

    column: str
    is_day: bool = False

    @property
    def name(self) -> str:
        return DAY if self.is_day else self.column


def parse_partitions(text: str, schema: pa.Schema) -> tuple[PartitionField, ...]:
    """``day(storeTimestamp),tags``; ``none`` for a table in one piece. At most one day."""
    if text.strip().lower() == _NONE:
        return ()
    fields = []
    for part in (part.strip() for part in text.split(",")):
        match = _DAY_OF.fullmatch(part)
        found = PartitionField(match[1], is_day=True) if match else PartitionField(part)
        if found.column not in schema.names:
            raise InvalidArgumentError(
                f"no column {found.column!r} for partitions; there are {', '.join(schema.names)}"
            )
        kind = schema.field(found.column).type
        if found.is_day and not pa.types.is_timestamp(kind):
            raise InvalidArgumentError(f"day({found.column}) needs a time; {found.column} is {kind}")
        is_plain = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)
        if not found.is_day and not is_plain:
            raise InvalidArgumentError(f"partitions by {found.column} ({kind}) are not made; name a text or an integer")
        fields.append(found)
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        raise InvalidArgumentError(f"{text!r} names a partition twice")
    return tuple(fields)


PartitionValues = tuple[Any, ...]  # one a field; a day is a number of days since 1970


def split_by_partition(
    batch: pa.RecordBatch, fields: tuple[PartitionField, ...]
) -> list[tuple[PartitionValues, pa.RecordBatch]]:
    """The rows of each partition, in their order."""
    if not fields or not batch.num_rows:
        return [((), batch)] if batch.num_rows else []
    codes = np.zeros(batch.num_rows, np.int64)
    columns: list[tuple[list[Any], Integers]] = []
    for field in fields:
        values, numbers = _encoded(batch.column(field.column), field)
        columns.append((values, numbers))
        codes = codes * len(values) + numbers
    bounds = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    if len(set(codes[bounds[:-1]].tolist())) < len(bounds) - 1:  # a partition comes back: bring its rows together
        order = np.argsort(codes, kind="stable")
        batch, codes = batch.take(pa.array(order)), codes[order]
        columns = [(values, numbers[order]) for values, numbers in columns]
        bounds = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    return [
        (tuple(values[int(numbers[first])] for values, numbers in columns), batch.slice(first, last - first))
        for first, last in pairwise(bounds)
    ]


def partition_folder(fields: tuple[PartitionField, ...], values: PartitionValues) -> str:
    """Where files of the partition lie. Readers go by what the table says, people by this."""
    parts = []
    for field, value in zip(fields, values, strict=True):
        text = day_text(value) if field.is_day else str(value)
        parts.append(f"{field.name}={re.sub('[^A-Za-z0-9_.-]', '_', text)[:60]}")
    return "/".join(parts)


def day_text(day: int) -> str:
    return (_EPOCH + timedelta(days=day)).isoformat()


def _encoded(column: pa.Array, field: PartitionField) -> tuple[list[Any], Integers]:
    if field.is_day:
        days = column.view(pa.int64()).to_numpy(zero_copy_only=False) // _DAY_US
        found, numbers = np.unique(days, return_inverse=True)
        return [int(day) for day in found], numbers.astype(np.int64)
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
