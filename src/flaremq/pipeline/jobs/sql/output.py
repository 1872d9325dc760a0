"""Results of statements as text: a table for people, JSON or CSV for programs; or as an Arrow table."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from flaremq.visible import visible

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

ROWS_SHOWN = 100
_CELL_WIDTH = 60


class Rows(Protocol):
    """A result: a DataFrame, or what has these of its names."""

    @property
    def columns(self) -> list[str]: ...

    def take(self, num: int, /) -> Sequence[Any]: ...

    def toLocalIterator(self, prefetchPartitions: bool = False) -> Iterable[Any]: ...


def json_lines(frame: Rows) -> Iterator[str]:
    """One JSON object a row, streamed."""
    names = frame.columns
    for row in frame.toLocalIterator(prefetchPartitions=True):
        yield json.dumps(dict(zip(names, map(json_value, row), strict=True)), ensure_ascii=False)


def json_array(frame: Rows) -> Iterator[str]:
    """The same objects as one JSON document."""
    before = ""
    for line in json_lines(frame):
        if before:
            yield before + ","
        before = ("" if before else "[") + line
    yield before + "]" if before else "[]"


def csv_lines(frame: Rows) -> Iterator[str]:
    """A line of names and a line a row, streamed; null is an empty field, what has parts is JSON."""
    yield _csv_line(frame.columns)
    for row in frame.toLocalIterator(prefetchPartitions=True):
        yield _csv_line([_text(json_value(value)) for value in row])


def _csv_line(cells: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()


def _text(plain: Any) -> str:
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def arrow_table(frame: DataFrame) -> pa.Table:
    """All rows at once."""
    return frame.toArrow()


def table_lines(frame: Rows, rows_max: int = ROWS_SHOWN) -> Iterator[str]:
    """The first rows, aligned, numbers to the right, and how many there are."""
    rows = frame.take(rows_max + 1)
    names = frame.columns
    if not names:
        return  # a command
    cells = [[_cell(value) for value in row] for row in rows[:rows_max]]
    widths = [
        max(len(name), *(len(row[at]) for row in cells), 0) if cells else len(name) for at, name in enumerate(names)
    ]
    right = [all(_is_number(row[at]) for row in rows) and bool(rows) for at in range(len(names))]

    def line(values: list[str]) -> str:
        padded = (
            value.rjust(width) if to_right else value.ljust(width)
            for value, width, to_right in zip(values, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    yield line(names)
    yield "  ".join("-" * width for width in widths)
    for row in cells:
        yield line(row)
    if len(rows) > rows_max:
        yield f"(the first {rows_max} rows; there are more)"
    else:
        yield f"({len(rows)} row{'' if len(rows) == 1 else 's'})"


def json_value(value: Any) -> Any:
    """A value of a row as JSON has it: bytes as text if they are, else base64; times in UTC."""
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return _utc(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if hasattr(value, "asDict"):
        return {name: json_value(item) for name, item in value.asDict().items()}
    if isinstance(value, dict):
        return {str(json_value(key)): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _cell(value: Any) -> str:
    plain = json_value(value)
    if plain is None:
        return "NULL"
    if isinstance(plain, bool):
        return str(plain).lower()
    text = visible(_text(plain))
    return text if len(text) <= _CELL_WIDTH else text[: _CELL_WIDTH - 1] + "…"


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float | Decimal) and not isinstance(value, bool))


def _utc(value: datetime) -> str:
    """Spark hands timestamps over as local times without a zone."""
    when = value.astimezone(UTC) if value.tzinfo is not None else value.astimezone().astimezone(UTC)
    return when.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
