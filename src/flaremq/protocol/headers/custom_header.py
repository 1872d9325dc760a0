"""Custom headers: the ext fields of one request or reply as a typed value.

A header declares its fields with the functions below, mandatory ones where Java says so::

    @dataclass(frozen=True, slots=True, kw_only=True)
    class GetMaxOffsetRequestHeader(CustomHeader):
        topic: str = text()
        queue_id: int = integer()
        broker_name: str | None = maybe_text("bname")

``decode`` takes ext fields as received and raises ``RequestError`` with code 1 that names what is missing or malformed;
``encode`` gives texts again. Fields nobody declared are ignored, for any request may carry some: credentials,
namespaces, zones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Self

from flaremq.protocol.bodies.bean import camel_name
from flaremq.protocol.command import RequestError, parse_int
from flaremq.protocol.header_json import as_text

_ROW: Final = "flaremq.ext"  # key of the row in a field's metadata

Parser = Callable[[str, str], Any]


class ExtField(NamedTuple):
    """One row. ``parse`` is None for text."""

    attribute: str
    name: str
    parse: Parser | None
    mandatory: bool


class CustomHeader:
    """Base of all headers; the concrete ones are frozen dataclasses."""

    __slots__ = ()

    @classmethod
    def decode(cls, ext: Mapping[str, Any] | None) -> Self:
        """Read the fields of a command."""
        arguments: dict[str, Any] = {}
        fields = {} if ext is None else ext
        for attribute, name, parse, mandatory in ext_fields(cls):
            value = fields.get(name)
            if value is None:
                if mandatory:
                    raise RequestError(1, f"the custom field <{name}> is null")
                continue
            if type(value) is not str:
                value = as_text(value)  # a command that never was on the wire
            if parse is None:
                arguments[attribute] = value
            elif value != "":
                arguments[attribute] = parse(name, value)
            elif mandatory:
                raise RequestError(1, f"the custom field <{name}> is empty")
        return cls(**arguments)

    def encode(self) -> dict[str, str]:
        """The fields as text; what is None is left out."""
        ext = {}
        for attribute, name, _, _ in ext_fields(type(self)):
            value = getattr(self, attribute)
            if value is not None:
                ext[name] = as_text(value)
        return ext


_ext_fields: dict[type[CustomHeader], tuple[ExtField, ...]] = {}


def ext_fields(cls: type[CustomHeader]) -> tuple[ExtField, ...]:
    """The rows of a header, in the order they are declared."""
    known = _ext_fields.get(cls)
    if known is None:
        rows = []
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # every concrete CustomHeader is a dataclass
            name, parse, mandatory = field.metadata[_ROW]
            rows.append(ExtField(field.name, name or camel_name(field.name), parse, mandatory))
        known = _ext_fields[cls] = tuple(rows)
    return known


def text(name: str | None = None) -> str:
    value: str = _field(name, None)
    return value


def maybe_text(name: str | None = None) -> str | None:
    value: str | None = _field(name, None, None)
    return value


def integer(name: str | None = None) -> int:
    """A Java int."""
    value: int = _field(name, parse_int32)
    return value


def maybe_integer(name: str | None = None) -> int | None:
    value: int | None = _field(name, parse_int32, None)
    return value


def integer_or(default: int, name: str | None = None) -> int:
    """An optional Java int that means ``default`` when absent."""
    value: int = _field(name, parse_int32, default)
    return value


def long(name: str | None = None) -> int:
    """A Java long."""
    value: int = _field(name, parse_int64)
    return value


def maybe_long(name: str | None = None) -> int | None:
    value: int | None = _field(name, parse_int64, None)
    return value


def long_or(default: int, name: str | None = None) -> int:
    value: int = _field(name, parse_int64, default)
    return value


def flag(name: str | None = None) -> bool:
    """A mandatory boolean."""
    value: bool = _field(name, parse_flag)
    return value


def maybe_flag(name: str | None = None) -> bool | None:
    value: bool | None = _field(name, parse_flag, None)
    return value


def flag_or(default: bool, name: str | None = None) -> bool:
    value: bool = _field(name, parse_flag, default)
    return value


def parse_int32(name: str, value: str) -> int:
    return parse_int(name, value, 32)


def parse_int64(name: str, value: str) -> int:
    return parse_int(name, value)


def parse_flag(name: str, value: str) -> bool:
    """As Java: the word true is true, anything else is false."""
    return value == "true" or value.lower() == "true"


def _field(name: str | None, parse: Parser | None, default: Any = dataclasses.MISSING) -> Any:
    metadata = {_ROW: (name, parse, default is dataclasses.MISSING)}
    return dataclasses.field(default=default, metadata=metadata)
