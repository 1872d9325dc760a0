"""The kinds of properties a bean can have.

Each function declares one property; its first argument is the Java name where that is not the camel case of the
attribute. The readers behind them convert as fastjson does where real clients need it, and raise ``Misfit`` else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from flaremq.java_json import integer_keyed
from flaremq.protocol.bodies.bean import Bean, Misfit, Reader, row

B = TypeVar("B", bound=Bean)

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}\Z")
_DEPTH_MAX = 32  # of values that are kept as parsed


def text(java_name: str | None = None, *, default: str = "") -> str:
    value: str = row(java_name, read_text, default=default)
    return value


def maybe_text(java_name: str | None = None) -> str | None:
    value: str | None = row(java_name, read_text, default=None)
    return value


def integer(java_name: str | None = None, *, default: int = 0) -> int:
    """A Java int."""
    value: int = row(java_name, read_integer, default=default)
    return value


def long(java_name: str | None = None, *, default: int = 0) -> int:
    """A Java long."""
    value: int = row(java_name, read_long, default=default)
    return value


def maybe_long(java_name: str | None = None) -> int | None:
    value: int | None = row(java_name, read_long, default=None)
    return value


def double(java_name: str | None = None, *, default: float = 0.0) -> float:
    value: float = row(java_name, read_double, default=default)
    return value


def flag(java_name: str | None = None, *, default: bool = False) -> bool:
    value: bool = row(java_name, read_flag, default=default)
    return value


def maybe_flag(java_name: str | None = None) -> bool | None:
    value: bool | None = row(java_name, read_flag, default=None)
    return value


def anything(java_name: str | None = None) -> Any:
    """Kept as parsed and written back: what we store for others without looking into it."""
    return row(java_name, read_anything, default=None)


def bean(kind: type[B], java_name: str | None = None) -> B:
    """A bean inside; an absent one has all its defaults."""
    value: B = row(java_name, kind.from_value, kind.to_value, make=kind)
    return value


def maybe_bean(kind: type[B], java_name: str | None = None) -> B | None:
    value: B | None = row(java_name, kind.from_value, kind.to_value, default=None)
    return value


def texts(java_name: str | None = None) -> tuple[str, ...]:
    value: tuple[str, ...] = row(java_name, _list_reader(read_text), default=())
    return value


def text_set(java_name: str | None = None) -> frozenset[str]:
    """Texts whose order means nothing; written sorted, while Java's order is that of its hashes."""
    value: frozenset[str] = row(java_name, _set_reader(read_text), sorted, default=frozenset())
    return value


def integer_set(java_name: str | None = None) -> frozenset[int]:
    """Java ints, numbers or text (Go)."""
    value: frozenset[int] = row(java_name, _set_reader(read_integer), sorted, default=frozenset())
    return value


def long_set(java_name: str | None = None) -> frozenset[int]:
    """Java longs whose order means nothing; written sorted."""
    value: frozenset[int] = row(java_name, _set_reader(read_long), sorted, default=frozenset())
    return value


def beans(kind: type[B], java_name: str | None = None) -> tuple[B, ...]:
    value: tuple[B, ...] = row(java_name, _list_reader(kind.from_value), _write_beans, default=())
    return value


def maybe_beans(kind: type[B], java_name: str | None = None) -> tuple[B, ...] | None:
    """A list that may be absent, which says something else than an empty one."""
    value: tuple[B, ...] | None = row(java_name, _list_reader(kind.from_value), _write_beans, default=None)
    return value


def text_table(java_name: str | None = None) -> dict[str, str]:
    value: dict[str, str] = row(java_name, table_reader(read_text), make=dict)
    return value


def texts_table(java_name: str | None = None) -> dict[str, tuple[str, ...]]:
    value: dict[str, tuple[str, ...]] = row(java_name, table_reader(_list_reader(read_text)), make=dict)
    return value


def bean_table(kind: type[B], java_name: str | None = None) -> dict[str, B]:
    value: dict[str, B] = row(java_name, table_reader(kind.from_value), write_bean_table, make=dict)
    return value


def beans_table(kind: type[B], java_name: str | None = None) -> dict[str, tuple[B, ...]]:
    """Lists of beans by name."""

    def write(table: Mapping[str, tuple[B, ...]]) -> dict[str, Any]:
        return {key: _write_beans(item) for key, item in table.items()}

    value: dict[str, tuple[B, ...]] = row(java_name, table_reader(_list_reader(kind.from_value)), write, make=dict)
    return value


def integer_text_table(java_name: str | None = None) -> dict[int, str]:
    """Texts by number; keys written quoted, which every reader takes."""
    value: dict[int, str] = row(java_name, integer_table_reader(read_text), make=dict)
    return value


def integer_long_table(java_name: str | None = None) -> dict[int, int]:
    """Numbers by number; keys written bare, as Java writes and 4.9 expects them between brokers."""
    value: dict[int, int] = row(java_name, integer_table_reader(read_long), integer_keyed, make=dict)
    return value


def read_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    raise Misfit("text")


def read_integer(value: Any) -> int:
    number = _whole(value)
    if number is None or not -0x80000000 <= number <= 0x7FFFFFFF:
        raise Misfit("a number of 32 bits")
    return number


def read_long(value: Any) -> int:
    number = _whole(value)
    if number is None or not -0x8000000000000000 <= number <= 0x7FFFFFFFFFFFFFFF:
        raise Misfit("a number of 64 bits")
    return number


def read_double(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            raise Misfit("a number") from None
        if number - number == 0:  # neither NaN nor infinite: those could not be written again
            return number
    raise Misfit("a number")


def read_flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise Misfit("true or false")


def read_anything(value: Any) -> Any:
    # What is read must be writable, and the writer goes less deep than the parser.
    level = [value]
    for _ in range(_DEPTH_MAX):
        level = [item for node in level for item in _items(node)]
        if not level:
            return value
    raise Misfit(f"nested at most {_DEPTH_MAX} deep")


def table_reader(read: Reader) -> Reader:
    """Reads a map with text keys; null values are left out."""

    def read_table(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Misfit("an object")
        return {key: read(item) for key, item in value.items() if item is not None}

    return read_table


def integer_table_reader(read: Reader) -> Reader:
    """Reads a map with number keys, bare or quoted."""

    def read_table(value: Any) -> dict[int, Any]:
        if not isinstance(value, dict):
            raise Misfit("an object")
        return {read_long(key): read(item) for key, item in value.items() if item is not None}

    return read_table


def write_bean_table(table: Mapping[str, Bean]) -> dict[str, Any]:
    return {key: item.to_value() for key, item in table.items()}


def _list_reader(read: Reader) -> Reader:
    def read_list(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise Misfit("a list")
        return tuple([read(item) for item in value if item is not None])

    return read_list


def _set_reader(read: Reader) -> Reader:
    def read_set(value: Any) -> frozenset[Any]:
        if not isinstance(value, list):
            raise Misfit("a list")
        return frozenset([read(item) for item in value if item is not None])

    return read_set


def _write_beans(items: tuple[Bean, ...]) -> list[Any]:
    return [item.to_value() for item in items]


def _whole(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _INTEGER.match(value):
        return int(value)
    return None


def _items(node: Any) -> Iterable[Any]:
    if isinstance(node, dict):
        return node.values()
    return node if isinstance(node, list) else ()
