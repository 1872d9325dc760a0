"""What bodies are said to be: format, schema and what becomes of those that are not; values that travel to tasks.

Files with schemas are read here, on the driver: tasks get what they held.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.options import find_unknown_names

RAW: Final = "raw"
JSON: Final = "json"
AVRO: Final = "avro"
PROTOBUF: Final = "protobuf"
FORMATS: Final = (RAW, JSON, AVRO, PROTOBUF)

PERMISSIVE: Final = "PERMISSIVE"
DROP_MALFORMED: Final = "DROPMALFORMED"
FAIL_FAST: Final = "FAILFAST"
MODES: Final = (PERMISSIVE, DROP_MALFORMED, FAIL_FAST)

# The options, by name, for those who have them as text.
OPTIONS: Final = ("bodyFormat", "bodySchema", "bodyMessage", "bodyMode", "bodyTimeZone", "bodyPrefix")
_NO_SCHEMA: Final = {
    JSON: "the fields wanted as Spark writes them: id string, amount double (flaremq pipeline schema prints one)",
    AVRO: "the Avro schema as JSON, or the path of a file with it",
    PROTOBUF: "the path of a descriptor set, as protoc --include_imports --descriptor_set_out=FILE writes it",
}


@dataclass(frozen=True, slots=True)
class BodyFormat:
    """How bodies are read and written. ``schema`` is DDL or JSON as text, or a serialized descriptor set."""

    name: str = RAW
    schema: bytes = b""
    message: str = ""
    mode: str = PERMISSIVE
    zone: str = "UTC"
    prefix: str = ""

    @property
    def is_raw(self) -> bool:
        return self.name == RAW


def body_format(options: Mapping[str, str]) -> BodyFormat:
    """The format among options, their names in any case; others are left alone."""
    folded = {name.lower(): name for name in OPTIONS}
    given = {folded[name.lower()]: text for name, text in options.items() if name.lower() in folded}
    name = _choice(given.get("bodyFormat", RAW).lower(), FORMATS, "bodyFormat")
    mode = _choice(given.get("bodyMode", PERMISSIVE).upper(), MODES, "bodyMode")
    return make_format(
        name,
        given.get("bodySchema", ""),
        given.get("bodyMessage", ""),
        mode=mode,
        zone=given.get("bodyTimeZone", "UTC"),
        prefix=given.get("bodyPrefix", ""),
    )


def make_format(name: str, schema: str, message: str, *, mode: str, zone: str, prefix: str) -> BodyFormat:
    """The format of options that are what they may be, one by one."""
    if name == RAW:
        for option, text in (("bodySchema", schema), ("bodyMessage", message), ("bodyPrefix", prefix)):
            if text:
                raise InvalidArgumentError(f"{option} is given without bodyFormat: say what bodies are")
        return BodyFormat()
    if bool(message) != (name == PROTOBUF):
        if message:
            raise InvalidArgumentError(f"bodyMessage is for bodyFormat=protobuf, and bodyFormat is {name}")
        raise InvalidArgumentError("bodyFormat=protobuf needs bodyMessage, the full name of the message: shop.Order")
    return BodyFormat(name, _schema_bytes(name, schema), message, mode, zone, prefix)


def needs_schema(name: str) -> InvalidArgumentError:
    """What to say where a schema is needed and none is given."""
    return InvalidArgumentError(f"bodyFormat={name} needs bodySchema: {_NO_SCHEMA[name]}")


def _schema_bytes(name: str, schema: str) -> bytes:
    text = schema.strip()
    if not text:
        if name == JSON:
            return b""  # a reader may take its fields from the schema that Spark is given
        raise needs_schema(name)
    if name == JSON or (name == AVRO and text.startswith(("{", "[", '"'))):
        return text.encode()
    path = text.removeprefix("file://")
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise NotFoundError(f"bodySchema {path} cannot be read: {os.strerror(error.errno or 0)}") from error


def _choice(text: str, allowed: tuple[str, ...], option: str) -> str:
    if text not in allowed:
        unknown = find_unknown_names([text], allowed)[0]
        hint = f"did you mean {unknown.nearest}?" if unknown.nearest else f"there are {', '.join(allowed)}"
        raise InvalidArgumentError(f"{option}={text} is none: {hint}")
    return text
