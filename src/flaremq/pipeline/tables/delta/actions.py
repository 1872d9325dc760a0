"""Files as Delta's log describes them: ``add`` and ``remove``, with the statistics that readers skip files by."""

from __future__ import annotations

import time
from datetime import date, datetime
from typing import Any, Final

import orjson
import pyarrow as pa
from deltalake.transaction import AddAction, RemoveAction

from flaremq.pipeline.tables.model.partitions import PartitionField, day_text
from flaremq.pipeline.tables.model.staged import LiveFile, StagedFile

_INDEXED: Final = ("topic", "brokerName", "queueId", "queueOffset", "physicalOffset", "bornTimestamp", "storeTimestamp")


def add_action(file: StagedFile, partitions: tuple[PartitionField, ...], *, is_new: bool = True) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values=partition_values(file.partition, partitions),
        modification_time=int(time.time() * 1000),
        data_change=is_new,
        stats=_statistics(file),
    )


def remove_action(file: LiveFile, partitions: tuple[PartitionField, ...]) -> RemoveAction:
    return RemoveAction(
        path=file.handle,
        data_change=False,
        deletion_timestamp=int(time.time() * 1000),
        size=file.size_bytes,
        partition_values=partition_values(file.partition, partitions),
    )


def partition_values(values: tuple[Any, ...], partitions: tuple[PartitionField, ...]) -> dict[str, str | None]:
    return {field.name: _text(value, field) for field, value in zip(partitions, values, strict=True)}


def _text(value: Any, field: PartitionField) -> str | None:
    if value is None:
        return None
    if field.is_day:
        return day_text(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _statistics(file: StagedFile) -> str:
    """Of the places of messages and their times; what readers ask a table of messages by."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    groups = [file.footer.row_group(at) for at in range(file.footer.num_row_groups)]
    for group in groups:
        for at in range(group.num_columns):
            column = group.column(at)
            name, statistics = column.path_in_schema, column.statistics
            if name not in _INDEXED or statistics is None or not statistics.has_min_max:
                continue
            low[name] = min(low.get(name, statistics.min), statistics.min)
            high[name] = max(high.get(name, statistics.max), statistics.max)
            nulls[name] = nulls.get(name, 0) + (statistics.null_count or 0)
    plain = {"numRecords": file.rows, "minValues": _plain(low), "maxValues": _plain(high), "nullCount": nulls}
    return orjson.dumps(plain).decode()


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain_value(value) for name, value in values.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, datetime):  # Delta wants milliseconds; those of messages are whole
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
    return value.isoformat() if isinstance(value, date) else value


def day_number(value: date) -> int:
    return (value - date(1970, 1, 1)).days


def with_day(schema: pa.Schema, partitions: tuple[PartitionField, ...]) -> pa.Schema:
    """Delta has no hidden partitions: the day is a column of its own."""
    for field in partitions:
        if field.is_day and field.name not in schema.names:
            schema = schema.append(pa.field(field.name, pa.date32()))
    return schema
