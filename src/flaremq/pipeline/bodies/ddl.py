"""Schemas as Spark writes them, ``id string, lines array<struct<sku:string,n:int>>``, to Arrow and back, without Spark.

Every field may be null, whatever the text says: a body may lack it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa

from flaremq.errors import InvalidArgumentError

_UTC: Final = pa.timestamp("us", tz="UTC")
_SIMPLE: Final = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": _UTC,
    "timestamp_ltz": _UTC,
    "timestamp_ntz": pa.timestamp("us"),
}
# The first spelling of each type is how it is printed.
_NAMES: Final = {kind: name for name, kind in reversed(_SIMPLE.items())}
_DECIMAL_MAX: Final = 38
_TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^'\\]|\\.)*')|([^\s<>,:()`']+)|([<>,:()]))")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def schema_of_ddl(text: str) -> pa.Schema:
    """The schema that a text describes; InvalidArgumentError says where it cannot be read."""
    tokens = _Tokens(text)
    fields = _fields(tokens, lambda: tokens.is_at_end)
    if not fields:
        raise InvalidArgumentError("the schema is empty; write name type, name type, …")
    return pa.schema(fields)


def ddl_of_schema(schema: pa.Schema) -> str:
    """The text of a schema."""
    return ", ".join(f"{_quoted(field.name)} {ddl_of_type(field.type)}" for field in schema)


def ddl_of_type(kind: pa.DataType) -> str:
    """How Spark names a type."""
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{ddl_of_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{ddl_of_type(kind.key_type)},{ddl_of_type(kind.item_type)}>"
    if pa.types.is_struct(kind):
        inside = ",".join(f"{_quoted(field.name)}:{ddl_of_type(field.type)}" for field in kind)
        return f"struct<{inside}>"
    raise InvalidArgumentError(f"Spark has no name for the Arrow type {kind}")


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


class _Tokens:
    """The words and signs of a text, one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found = list(self._split())
        self._at = 0

    def _split(self) -> Iterator[tuple[str, int]]:
        at, end = 0, len(self._text.rstrip())
        while at < end:
            match = _TOKEN.match(self._text, at)
            if match is None:
                raise self._error("cannot be read", at)
            yield match.group().strip(), match.start()
            at = match.end()

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._found)

    def peek(self) -> str:
        return "" if self.is_at_end else self._found[self._at][0]

    def take(self, what: str) -> str:
        if self.is_at_end:
            raise self._error(f"ends where {what} should be", len(self._text))
        self._at += 1
        return self._found[self._at - 1][0]

    def expect(self, sign: str) -> None:
        if self.peek() != sign:
            raise self.refused(f"{sign} is expected")
        self._at += 1

    def take_if(self, word: str) -> bool:
        if self.peek().lower() != word:
            return False
        self._at += 1
        return True

    def refused(self, why: str) -> InvalidArgumentError:
        place = len(self._text) if self.is_at_end else self._found[self._at][1]
        return self._error(why, place)

    def _error(self, why: str, at: int) -> InvalidArgumentError:
        rest = self._text[at:].strip()[:30]
        return InvalidArgumentError(f"the schema {self._text[:200]!r}: {why}" + (f" at {rest!r}" if rest else ""))


def _fields(tokens: _Tokens, is_done: Callable[[], bool]) -> list[pa.Field]:
    fields: list[pa.Field] = []
    while not is_done():
        name = tokens.take("a name")
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        elif name in "<>,:()" or name.startswith("'"):
            raise tokens.refused(f"a name is expected instead of {name}")
        tokens.take_if(":")
        fields.append(pa.field(name, _type(tokens)))
        if tokens.take_if("not") and not tokens.take_if("null"):
            raise tokens.refused("NOT NULL is expected")
        if tokens.take_if("comment"):
            tokens.take("a comment")
        if not is_done():
            tokens.expect(",")
    folded = [field.name for field in fields]
    if twice := next((name for name in folded if folded.count(name) > 1), None):
        raise InvalidArgumentError(f"the schema names the field {twice!r} twice")
    return fields


def _type(tokens: _Tokens) -> pa.DataType:
    word = tokens.take("a type").lower()
    if word == "struct":
        tokens.expect("<")
        kind = pa.struct(_fields(tokens, lambda: tokens.peek() == ">"))
        tokens.expect(">")
        return kind
    if word == "array":
        tokens.expect("<")
        kind = pa.list_(_type(tokens))
        tokens.expect(">")
        return kind
    if word == "map":
        return _map(tokens)
    if word in ("decimal", "dec", "numeric"):
        return _decimal(tokens)
    if word in ("varchar", "char"):
        tokens.expect("(")
        tokens.take("a length")
        tokens.expect(")")
        return pa.string()
    if word not in _SIMPLE:
        known = ", ".join(dict.fromkeys(_NAMES.values()))
        raise tokens.refused(f"{word} is no type of a body (there are {known}, decimal, array, map and struct)")
    return _SIMPLE[word]


def _map(tokens: _Tokens) -> pa.DataType:
    tokens.expect("<")
    key = _type(tokens)
    if key != pa.string():
        raise tokens.refused("keys of a map are strings,")
    tokens.expect(",")
    kind = pa.map_(key, _type(tokens))
    tokens.expect(">")
    return kind


def _decimal(tokens: _Tokens) -> pa.DataType:
    precision, scale = "10", "0"
    if tokens.take_if("("):
        precision = tokens.take("a precision")
        if tokens.take_if(","):
            scale = tokens.take("a scale")
        tokens.expect(")")
    if not (precision.isdigit() and scale.isdigit() and 0 <= int(scale) <= int(precision) <= _DECIMAL_MAX):
        raise tokens.refused(f"decimal({precision},{scale}) is none: at most {_DECIMAL_MAX} digits,")
    return pa.decimal128(int(precision), int(scale))
