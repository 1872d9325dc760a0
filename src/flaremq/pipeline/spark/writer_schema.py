"""Which columns a DataFrame must and may have to be written."""

from __future__ import annotations

import difflib
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.bodies.encoding.encoder import BodyEncoder
from flaremq.pipeline.model.columns import ALL_NAMES, CORRUPT_BODY
from flaremq.pipeline.sink.names import WRITABLE
from flaremq.pipeline.spark.datasource import spark_arrow_schema

# What the source tells of where a message was and how it came there; a new one gets its own.
OF_SOURCE: Final = frozenset(ALL_NAMES) - WRITABLE.keys()
# What others call them.
_ALIASES: Final = {
    "value": "body",
    "payload": "body",
    "message": "body",
    "data": "body",
    "key": "keys",
    "tag": "tags",
    "headers": "properties",
    "partition": "queueId",
    "queue": "queueId",
    "delay": "delayLevel",
}


def check_schema(schema: StructType, *, has_topic: bool, encoder: BodyEncoder | None = None) -> None:
    """InvalidArgumentError if rows of this schema cannot be messages, their other columns fields of bodies if there is
    an encoder."""
    names = [field.name for field in schema.fields]
    if encoder is not None:
        if "body" in names:
            raise InvalidArgumentError("there is a column body, and bodyFormat makes one: drop one of the two")
        encoder.check(spark_arrow_schema(schema))
    for field in schema.fields:
        if field.name in OF_SOURCE or (encoder is not None and field.name not in WRITABLE):
            continue
        if field.name == CORRUPT_BODY:
            raise InvalidArgumentError(f"column {CORRUPT_BODY} belongs to rows whose bodyFormat is given")
        if field.name not in WRITABLE:
            raise InvalidArgumentError(f"column {field.name!r} is unknown to the sink{_hint(field.name)}")
        if not _fits(field.name, field.dataType):
            raise InvalidArgumentError(
                f"column {field.name} is {field.dataType.simpleString()}, it must be {WRITABLE[field.name]}"
            )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidArgumentError(f"there are two columns {twice!r}")
    if "body" not in names and encoder is None:
        found = ", ".join(names) or "no columns"
        raise InvalidArgumentError(f"a column body ({WRITABLE['body']}) is needed; there are {found}")
    if "topic" not in names and not has_topic:
        raise InvalidArgumentError("where to? Give the option topic, or a column topic")


def _hint(name: str) -> str:
    close = difflib.get_close_matches(name.lower(), {known.lower(): known for known in WRITABLE}, n=1, cutoff=0.7)
    spelled = next((known for known in WRITABLE if close and known.lower() == close[0]), _ALIASES.get(name.lower()))
    written = f"writes {', '.join(WRITABLE)}; select these"
    return f": did you mean {spelled}? The sink {written}" if spelled else f", which {written}"


def _fits(name: str, kind: DataType) -> bool:
    if name == "body":
        return isinstance(kind, (BinaryType, StringType))
    if name == "keys" and isinstance(kind, ArrayType):
        return isinstance(kind.elementType, StringType)
    if name == "properties":
        kinds = (kind.keyType, kind.valueType) if isinstance(kind, MapType) else (kind,)
        return len(kinds) == 2 and all(isinstance(part, StringType) for part in kinds)
    if name in ("queueId", "delayLevel"):
        return isinstance(kind, (ByteType, ShortType, IntegerType, LongType))
    return isinstance(kind, StringType)
