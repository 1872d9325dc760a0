"""Lists that are filtered, sorted and cut here, on the server: a browser gets a page of them.

A cursor says how many rows came before and by which order, so that it fails loudly under another one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from flaremq.digits import whole_number
from flaremq.errors import InvalidArgumentError

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 500
CSV_ROWS_MAX: Final = 100_000
Query = Mapping[str, str]
Row = dict[str, Any]
_T = TypeVar("_T")
SortKey = Callable[[_T], Any]


def whole(query: Query, name: str, default: int, *, low: int = 0, high: int = 2**63 - 1) -> int:
    """A number of the query; InvalidArgumentError if it is none or out of bounds."""
    text = query.get(name, "")
    if not text:
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20) or not low <= int(text) <= high:
        raise InvalidArgumentError(f"{name} is a number from {low} to {high}, not {text[:40]!r}")
    return int(text)


def chosen(query: Query, name: str, choices: Iterable[str], default: str) -> str:
    """One of several words."""
    text = query.get(name) or default
    known = list(choices)
    if text not in known:
        raise InvalidArgumentError(f"{name} is one of {', '.join(known)}, not {text[:40]!r}")
    return text


def rows_at(data: Any, place: str) -> list[Row] | None:
    """The table at a place of a page, named as in changes of a stream (/brokers/ID/files); None: there is none."""
    if not place.startswith("/"):
        return None
    for part in place.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(data, Mapping):
            data = data.get(name)
        elif isinstance(data, list):
            data = next((row for row in data if isinstance(row, Mapping) and str(row.get("id")) == name), None)
        else:
            return None
    if isinstance(data, Mapping):
        return [{"name": name, "value": value} for name, value in data.items()]
    return data if isinstance(data, list) and all(isinstance(row, Mapping) for row in data) else None


def listed(
    items: Iterable[_T],
    query: Query,
    *,
    sorts: Mapping[str, SortKey[_T]],
    default: str,
    row: Callable[[_T], Row],
    name: Callable[[_T], str],
) -> tuple[Row, list[_T]]:
    """``items`` filtered by ``q`` (in their names), sorted, cut; and what is on the page.

    ``sorts`` gives a value to order by; None comes last either way. A ``limit`` of all is for exports.
    """
    needle = query.get("q", "").casefold()
    found = [item for item in items if needle in name(item).casefold()] if needle else list(items)
    sort = query.get("sort") or default
    field = sort.removeprefix("-")
    if field not in sorts:
        raise InvalidArgumentError(f"sort is one of {', '.join(sorts)}, not {field[:40]!r}")
    ordered = _ordered(found, sorts[field], name, is_descending=sort.startswith("-"))
    if query.get("format") == "csv":
        start, limit = 0, CSV_ROWS_MAX
    else:
        start = _start(query.get("cursor", ""), sort)
        limit = whole(query, "limit", LIMIT_DEFAULT, low=1, high=LIMIT_MAX)
    shown = ordered[start : start + limit]
    end = start + len(shown)
    page = {
        "items": [row(item) for item in shown],
        "total": len(ordered),
        "next": _cursor(end, sort) if end < len(ordered) else None,
        "previous": _cursor(max(0, start - limit), sort) if start else None,
        "limit": limit,
        "start": start,
        "sort": sort,
        "sorts": list(sorts),
        "q": query.get("q", ""),
    }
    return page, shown


def _ordered(items: list[_T], key: SortKey[_T], name: Callable[[_T], str], *, is_descending: bool) -> list[_T]:
    """By value and then by name, those without a value at the end."""
    items.sort(key=name)
    valued = [(value, item) for item in items if (value := key(item)) is not None]
    missing = [item for item in items if key(item) is None]
    valued.sort(key=lambda pair: pair[0], reverse=is_descending)
    return [item for _, item in valued] + missing


def _cursor(start: int, sort: str) -> str:
    return base64.urlsafe_b64encode(f"{start} {sort}".encode()).decode().rstrip("=")


def _start(cursor: str, sort: str) -> int:
    if not cursor:
        return 0
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (ValueError, binascii.Error):
        text = ""
    number, _, order = text.partition(" ")
    start = whole_number(number, digits_max=11)
    if start is None or order != sort:
        raise InvalidArgumentError("cursor is none of this list in this order: begin without one")
    return start
