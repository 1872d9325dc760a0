"""Answers: JSON that browsers can read, CSV that spreadsheets do not obey."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson
from starlette.responses import Response

from flaremq.dashboard.app.failures import Failure

_EXACT: Final = 2**53  # numbers of JavaScript are exact below
_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r")


def browsable(value: Any) -> Any:
    """The value with numbers that JavaScript would round as texts."""
    kind = type(value)
    if kind is dict:
        return {key: browsable(item) for key, item in value.items()}
    if kind is list:
        return [browsable(item) for item in value]
    if kind is int and not -_EXACT < value < _EXACT:
        return str(value)
    if kind is str and not value.isascii():
        return value.encode("utf-8", "replace").decode()  # lone surrogates are no text
    return value


def to_json(value: Any) -> bytes:
    return orjson.dumps(browsable(value), default=str)


def json_answer(value: Any, status: int = 200) -> Response:
    return Response(to_json(value), status, media_type="application/json")


def json_failure(failure: Failure) -> Response:
    value = failure.value
    del value["status"]
    return json_answer({"error": value}, failure.status)


def csv_answer(rows: Iterable[Mapping[str, Any]], name: str) -> Response:
    """All rows as an attachment. A cell that a spreadsheet would take for a formula gets a quote before it."""
    text = io.StringIO()
    writer = csv.writer(text)
    columns: list[str] = []
    for row in rows:
        if not columns:
            columns = [key for key in row if key not in ("id", "missing")]
            writer.writerow(columns)
        writer.writerow([_cell(row.get(column)) for column in columns])
    headers = {"content-disposition": f'attachment; filename="{name}.csv"'}
    return Response(text.getvalue().encode("utf-8", "replace"), media_type="text/csv; charset=utf-8", headers=headers)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    text = _flat(value)
    return f"'{text}" if text.startswith(_FORMULAS) else text


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={_flat(item)}" for key, item in value.items())
    return " ".join(map(_flat, value)) if isinstance(value, list) else str(value)
