"""The views of ``sql`` in DuckDB: the same names and columns, without Spark.

DuckDB reads an Arrow dataset by asking it for the columns and the rows that a query needs. ``ArrowView`` is such a
dataset over whatever can be asked that; so a query reads what it names, and is answered in the time that takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.dataset

from flaremq.errors import FlareMQError, InvalidArgumentError, UnavailableError
from flaremq.pipeline.jobs.sql.implied import Filter
from flaremq.pipeline.jobs.sql.tables import SCHEMAS, view_rows
from flaremq.pipeline.options import ScanOptions, parse_options
from flaremq.pipeline.planning.partitions import scan_spans
from flaremq.pipeline.scan import open_scan
from flaremq.pipeline.sources.open import open_source, source_spec

try:
    import duckdb
except ImportError as error:
    raise UnavailableError(
        "flaremq sql needs DuckDB, which is not installed: pip install duckdb (the extra [lakehouse] of flaremq has "
        "it), or use flaremq pipeline sql, which needs Spark"
    ) from error

MESSAGES: Final = "messages"
_ROWS_AT_ONCE: Final = 65_536

Read = Callable[[list[str], Filter | None], pa.RecordBatchReader]


class ArrowView(pa.dataset.Dataset):  # type: ignore[misc]  # PyArrow has no annotations
    """A dataset that is read when it is asked: of it the columns named and, at least, the rows a filter leaves.

    It is one by name alone: of what a dataset can do it does what DuckDB asks of one.
    """

    def __init__(self, schema: pa.Schema, read: Read) -> None:
        self._schema = schema
        self._read = read
        self.error: FlareMQError | None = None  # what ended the last read; DuckDB knows its text alone

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> _Scan:
        return _Scan(self, self._schema.names if columns is None else list(columns), filter)

    def batches(self, columns: list[str], condition: Any) -> Iterator[pa.RecordBatch]:
        """Exactly these columns of exactly the rows for which the condition holds."""
        try:
            found = None if condition is None else Filter(condition, self._schema)
            needed = columns if found is None else [*columns, *(c for c in found.columns if c not in columns)]
            for batch in self._read(needed, found):
                if found is None:
                    yield batch.select(columns)
                else:
                    yield from pa.Table.from_batches([batch]).filter(condition).select(columns).to_batches()
        except FlareMQError as error:
            self.error = error
            raise


class _Scan:
    """What DuckDB takes rows from."""

    def __init__(self, view: ArrowView, columns: list[str], condition: Any) -> None:
        self._view = view
        self._columns = columns
        self._condition = condition

    @property
    def projected_schema(self) -> pa.Schema:
        return pa.schema([self._view.schema.field(name) for name in self._columns])

    def to_reader(self) -> pa.RecordBatchReader:
        batches = self._view.batches(self._columns, self._condition)
        return pa.RecordBatchReader.from_batches(self.projected_schema, batches)


class DuckViews:
    """The views over one source. Use it within ``with``, or call ``close``."""

    def __init__(self, options: Mapping[str, str]) -> None:
        if any(name.lower() == "columns" for name in options):
            raise InvalidArgumentError("columns are chosen by the statement itself; leave the option out")
        self._parsed = parse_options(options)
        self._spec = source_spec(self._parsed)
        with open_source(self._spec) as source:
            scan_spans(source, self._parsed)  # told now what every statement would stumble over
        self._views = {MESSAGES: ArrowView(self._parsed.scan_columns.usual, self._read_messages)}
        for name, schema in SCHEMAS.items():
            self._views[name] = ArrowView(schema, self._small(name))
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        for name, view in self._views.items():
            self._connection.register(name, view)

    def run(self, statement: str, *, once: bool = False) -> DuckResult:
        """The result of one statement, read as it is taken."""
        with self._errors():
            return DuckResult(self._connection.sql(statement), self._errors)

    def describe(self) -> dict[str, dict[str, str]]:
        """The columns of every view with their types."""
        shown = {}
        for name in self._views:
            rows = self._connection.execute(f'DESCRIBE "{name}"').fetchall()
            shown[name] = {row[0]: row[1] for row in rows}
        return shown

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _errors(self) -> _Told:
        return _Told(self._views)

    def _read_messages(self, columns: list[str], found: Filter | None) -> pa.RecordBatchReader:
        options: ScanOptions = replace(self._parsed, columns=",".join(columns))
        return open_scan(options, None if found is None else found.pushed)

    def _small(self, name: str) -> Read:
        return lambda columns, _: view_rows(name, self._spec, self._parsed).to_reader()


class DuckResult:
    """Rows of a statement, by the names that a DataFrame of Spark has for them, so that both are shown alike."""

    def __init__(self, relation: Any, errors: Callable[[], _Told]) -> None:
        self.columns: list[str] = [] if relation is None else relation.columns  # None: it was a command
        self._relation = relation
        self._errors = errors

    def take(self, num: int, /) -> list[tuple[Any, ...]]:
        return list(islice(self.toLocalIterator(), num))

    def toLocalIterator(self, prefetchPartitions: bool = False) -> Iterator[tuple[Any, ...]]:
        if self._relation is None:
            return
        with self._errors():
            for batch in self._relation.to_arrow_reader(_ROWS_AT_ONCE):
                columns = [_values(column) for column in batch.columns]
                yield from zip(*columns, strict=True)


class _Told:
    """Within, what DuckDB says is an error of ours, in a sentence; an error of ours behind it is raised itself."""

    def __init__(self, views: Mapping[str, ArrowView]) -> None:
        self._views = views

    def __enter__(self) -> None:
        for view in self._views.values():
            view.error = None

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if not isinstance(error, duckdb.Error | pa.ArrowException | OSError):
            return
        ours = next((view.error for view in self._views.values() if view.error is not None), None)
        raise ours or FlareMQError(duck_error(str(error))) from error


def duck_error(text: str) -> str:
    """What DuckDB says, without the statement drawn again."""
    kept = []
    for line in text.splitlines():
        if line.startswith("LINE "):
            break
        if line.strip():
            kept.append(line.strip())
    return " ".join(kept) or "DuckDB refuses the statement"


def _values(column: pa.Array) -> list[Any]:
    """Values of Python, maps as dicts."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(pa.string())  # numbers that identify: UUID
    values = column.to_pylist()
    return [_plain(value, column.type) for value in values] if _has_map(column.type) else values


def _has_map(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    return any(_has_map(kind.field(at).type) for at in range(kind.num_fields)) if pa.types.is_nested(kind) else False


def _plain(value: Any, kind: pa.DataType) -> Any:
    if value is None or not _has_map(kind):
        return value
    if pa.types.is_map(kind):
        return {key: _plain(item, kind.item_type) for key, item in value}
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    return [_plain(item, kind.value_type) for item in value]
