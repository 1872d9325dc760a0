"""The columns of a message as a table, named once for Spark, Arrow and Parquet."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from flaremq.errors import InvalidArgumentError

_TIME = pa.timestamp("us", tz="UTC")

# name, Arrow type, Spark DDL. Whatever a queue unit holds comes first: those columns are read off the queue alone.
COLUMNS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("topic", pa.string(), "string"),
    ("brokerName", pa.string(), "string"),
    ("queueId", pa.int32(), "int"),
    ("queueOffset", pa.int64(), "bigint"),
    ("physicalOffset", pa.int64(), "bigint"),
    ("storeSize", pa.int32(), "int"),
    ("msgId", pa.string(), "string"),
    ("tags", pa.string(), "string"),
    ("keys", pa.string(), "string"),
    ("body", pa.binary(), "binary"),
    ("properties", pa.map_(pa.string(), pa.string()), "map<string,string>"),
    ("flag", pa.int32(), "int"),
    ("sysFlag", pa.int32(), "int"),
    ("bornTimestamp", _TIME, "timestamp"),
    ("bornHost", pa.string(), "string"),
    ("storeTimestamp", _TIME, "timestamp"),
    ("storeHost", pa.string(), "string"),
    ("reconsumeTimes", pa.int32(), "int"),
    ("transactionId", pa.string(), "string"),
)
BODY_ERROR = "bodyError"
CORRUPT_BODY = "_corrupt_body"  # beside the fields of bodies: a body that they do not fit, as Spark names it
# Columns that are made only for those who name them.
EXTRA_COLUMNS: tuple[tuple[str, pa.DataType, str], ...] = ((BODY_ERROR, pa.string(), "string"),)
NAMES: tuple[str, ...] = tuple(name for name, _, _ in COLUMNS)
ALL_NAMES: tuple[str, ...] = (*NAMES, *(name for name, _, _ in EXTRA_COLUMNS))
_BY_FOLDED_NAME = {name.lower(): name for name in ALL_NAMES}
UNIT_COLUMNS = frozenset(NAMES[:6])  # what a queue unit alone tells
SCHEMA = pa.schema([pa.field(name, kind) for name, kind, _ in COLUMNS])
ALL_SCHEMA = pa.schema([pa.field(name, kind) for name, kind, _ in (*COLUMNS, *EXTRA_COLUMNS)])


def schema_of(columns: Sequence[str] | None) -> pa.Schema:
    """The Arrow schema of these columns, all by default; upper and lower case are the same, as in Spark."""
    if columns is None:
        return SCHEMA
    unknown = [name for name in columns if name.lower() not in _BY_FOLDED_NAME]
    if unknown:
        raise InvalidArgumentError(f"unknown column {unknown[0]!r}; there are {', '.join(ALL_NAMES)}")
    return pa.schema([ALL_SCHEMA.field(_BY_FOLDED_NAME[name.lower()]) for name in columns])
