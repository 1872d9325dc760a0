"""Beans: dataclasses that know their JSON form, one row per property.

A body declares its properties with the functions of :mod:`flaremq.protocol.bodies.bean_rows`::

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DataVersion(Bean):
        state_version: int = long()
        timestamp: int = long()

Reading is as tolerant as fastjson: unknown keys are ignored, an absent or null property keeps its default, numbers may
come as text. A value of the wrong kind is a ``RemoteProtocolError`` that names class and property. Writing puts the
properties in alphabetical order without nulls, as Java does, and always without blanks: Go cuts some bodies by hand.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple, Self

from flaremq.errors import LocalProtocolError, RemoteProtocolError
from flaremq.java_json import json_kind, parse_java_json, write_java_json

Reader = Callable[[Any], Any]
Writer = Callable[[Any], Any]

BODY_SIZE_MAX: Final = 16 << 20  # no frame carries more
CLIENT_BODY_SIZE_MAX: Final = 2 << 20  # of what any client may send: a heartbeat with thousands of subscriptions
# Parsed values can take twenty times the room of their text, so they are counted before there are any. The largest
# body we expect is the registration of a broker with 100,000 topics, ten values each.
BODY_VALUES_MAX: Final = 1_200_000

_ROW: Final = "flaremq.property"  # key of the row in a field's metadata


class Property(NamedTuple):
    """One row: ``write`` is None where the value itself is what JSON takes."""

    attribute: str
    java_name: str
    read: Reader
    write: Writer | None


class Misfit(Exception):
    """Raised by a reader; its text says what the value should have been."""


class Bean:
    """Base of all bodies; the concrete ones are frozen dataclasses."""

    __slots__ = ()

    body_size_max: ClassVar[int] = BODY_SIZE_MAX

    @classmethod
    def from_json(cls, data: bytes | bytearray | memoryview) -> Self:
        """Read a body; RemoteProtocolError when it is not one."""
        if len(data) > cls.body_size_max:
            raise RemoteProtocolError(f"{cls.__name__} of {len(data)} bytes, at most {cls.body_size_max} are read")
        return cls.from_value(parse_body(bytes(data), cls.__name__))

    @classmethod
    def from_value(cls, value: Any) -> Self:
        """Read the parsed form."""
        if not isinstance(value, dict):
            raise RemoteProtocolError(f"{cls.__name__} must be an object, not {json_kind(value)}")
        value = cls.adapt(value)
        arguments = {}
        for attribute, java_name, read, _ in properties(cls):
            item = value.get(java_name)
            if item is not None:
                try:
                    arguments[attribute] = read(item)
                except Misfit as misfit:
                    raise RemoteProtocolError(f"{cls.__name__}.{java_name} must be {misfit}") from None
        return cls(**arguments)

    @classmethod
    def adapt(cls, value: dict[str, Any]) -> dict[str, Any]:
        """For a body with several forms: the given one turned into that of its rows."""
        return value

    def to_json(self) -> bytes:
        """The body, compact. LocalProtocolError for what JSON cannot hold: lone surrogates, numbers over 64 bits."""
        try:
            return write_java_json(self.to_value())
        except TypeError as error:
            raise LocalProtocolError(f"{type(self).__name__} cannot be written: {error}") from None

    def to_value(self) -> dict[str, Any]:
        """What :func:`flaremq.java_json.write_java_json` takes."""
        value = {}
        for attribute, java_name, _, write in properties(type(self)):
            item = getattr(self, attribute)
            if item is not None:
                value[java_name] = item if write is None else write(item)
        return value


def parse_body(data: bytes, name: str) -> Any:
    """The value of a JSON text by an unknown hand; ``name`` is for the error."""
    # Each value is the first of its container or follows a comma. Those within texts count, too, which does not matter.
    if data.count(b",") + data.count(b"[") + data.count(b"{") > BODY_VALUES_MAX:
        raise RemoteProtocolError(f"{name} has more than {BODY_VALUES_MAX} values")
    try:
        return parse_java_json(data)
    except ValueError as error:
        raise RemoteProtocolError(f"{name} is no JSON: {error}") from None


_properties: dict[type[Bean], tuple[Property, ...]] = {}


def properties(cls: type[Bean]) -> tuple[Property, ...]:
    """The rows of a body in the order Java writes them."""
    known = _properties.get(cls)
    if known is not None:
        return known
    rows = []
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # every concrete Bean is a dataclass
        java_name, read, write = field.metadata[_ROW]
        rows.append(Property(field.name, java_name or camel_name(field.name), read, write))
    _properties[cls] = tuple(sorted(rows, key=lambda row: row.java_name))
    return _properties[cls]


def camel_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def row(
    java_name: str | None,
    read: Reader,
    write: Writer | None = None,
    *,
    default: Any = dataclasses.MISSING,
    make: Callable[[], Any] | None = None,
) -> Any:
    """A property: its Java name (None: the camel case of the attribute), reader, writer and default."""
    metadata = {_ROW: (java_name, read, write)}
    if make is not None:
        return dataclasses.field(default_factory=make, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)
