"""``format("flaremq")``: what Spark calls. Planned on the driver, read in the tasks; rows travel as Arrow batches.

Spark makes these objects anew in short-lived planner processes and pickles readers into tasks, so they hold values
only; sources are opened where they are used. Whatever can be known to be wrong is raised before a job starts.

Push-down of filters has two traps. A reader that offers it fails while Spark's flag is off. The flag cannot be seen
from here, but who calls can: with the flag on Spark asks for the reader from another module. And Spark keeps the plan
that was made for a filter and takes it again for a scan of the same DataFrame that has none, which then misses rows
(4.1 to 4.3). So filters are pushed only where the user says that the DataFrame is queried once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StringType, StructType

from flaremq.errors import FlareMQError, InvalidArgumentError
from flaremq.options import find_unknown_names
from flaremq.pipeline.bodies.columns import property_names
from flaremq.pipeline.bodies.ddl import ddl_of_schema, ddl_of_type
from flaremq.pipeline.bodies.format import JSON
from flaremq.pipeline.model.columns import ALL_NAMES, CORRUPT_BODY
from flaremq.pipeline.options import ScanOptions, parse_options, read_request, split_list
from flaremq.pipeline.planning.partitions import ScanPiece, plan_pieces, read_piece, scan_spans
from flaremq.pipeline.planning.pushdown import NOTHING_PUSHED, push
from flaremq.pipeline.sources.open import open_source, source_spec
from flaremq.pipeline.sources.worker import kept_source, settle
from flaremq.pipeline.spark.catalog_tables import reader_options, table_options, with_note
from flaremq.pipeline.spark.shipped import reduced
from flaremq.pipeline.spark.statements import check_secrets
from flaremq.pipeline.spark.told_errors import told_plainly

_FILES_DDL = "path string, rows bigint, bytes bigint"  # what stream_files tells; that brings Parquet, for tasks alone
_PUSHDOWN_CALLER = "data_source_pushdown_filters.py"


@told_plainly
class FlareMQDataSource(DataSource):
    """Messages as a table and as a stream; a sink for both."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        check_secrets(options)

    @classmethod
    def name(cls) -> str:
        return "flaremq"

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced(self)

    def schema(self) -> StructType | str:
        made = table_options(self.options)
        options = parse_options(self.options if made is None else made)
        settle()
        if options.parquet_path:
            return _FILES_DDL
        schema = options.scan_columns.schema_of(options.column_names)
        if made is not None:
            return with_note(from_arrow_schema(schema), made)
        return ddl_of_schema(schema)

    def reader(self, schema: StructType) -> BatchReader:
        options = with_fields(parse_options(reader_options(self.options, schema)), schema)
        kind = PushingReader if options.push_filters and _called_with_filters() else BatchReader
        return kind(options, arrow_schema(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from flaremq.pipeline.spark.stream_reader import RefusedStream, make_stream_reader

        try:
            options = parse_options(reader_options(self.options, schema))
            if options.parquet_path:
                return make_stream_reader(options, options.scan_columns.schema_of(options.column_names))
            options = with_fields(options, schema)
            return make_stream_reader(options, arrow_schema(schema, options))
        except FlareMQError as error:  # raised here, PySpark would hide it behind an error of its own
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from flaremq.pipeline.spark.writer import make_writer

        return make_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        from flaremq.pipeline.spark.writer import make_stream_writer

        return make_stream_writer(self.options, schema, overwrite)


@told_plainly
class BatchReader(DataSourceReader):
    """Reads ranges that were pinned when it planned."""

    def __init__(self, options: ScanOptions, schema: pa.Schema) -> None:
        self.options = options
        self.spec = source_spec(options)
        self.request = read_request(options, schema)
        self.keys = options.key_list
        self.pushed = NOTHING_PUSHED

    def partitions(self) -> list[InputPartition]:
        if not self._can_match():
            return []
        with open_source(self.spec) as source:
            spans = scan_spans(source, self.options, self.pushed)
            pieces = plan_pieces(source, self.spec, spans, self.options, self.request, self.keys)
        settle()
        return [InputPartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        piece = getattr(partition, "value", None)
        if isinstance(piece, ScanPiece):  # where there is none Spark makes one up, 4.0 of None
            with kept_source(self.spec) as source:
                yield from conforming(read_piece(source, piece, self.request), self.request.schema)

    def _can_match(self) -> bool:
        return not (self.options.tags and self.pushed.tags is not None) or bool(self.request.tags)


@told_plainly
class PushingReader(BatchReader):
    """The same where Spark hands filters over."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        self.pushed, left = push(filters)
        self.request, self.keys = self.pushed.applied(self.request, self.keys)
        return left


def _called_with_filters() -> bool:
    """Whether Spark will hand filters over. Its API does not tell: the session's flag is not passed to the planner
    process, and a reader that has ``pushFilters`` fails while it is off. So the call stack is looked at."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith(_PUSHDOWN_CALLER):
            return True
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
    return False


def with_fields(options: ScanOptions, schema: StructType) -> ScanOptions:
    """The options with the fields of JSON that a schema of the user's names, where ``bodySchema`` does not."""
    if options.body_format != JSON or options.body_schema:
        return options
    own = {*ALL_NAMES, CORRUPT_BODY, *property_names(split_list(options.property_columns))}
    names = [name for name in schema.fieldNames() if name not in own]
    if any(not name.startswith(options.body_prefix) for name in names):
        return options  # told of as unknown columns, with a bodySchema to put them in
    fields = spark_arrow_schema(StructType([schema[name] for name in names]))
    inside = pa.schema([field.with_name(field.name.removeprefix(options.body_prefix)) for field in fields])
    return replace(options, body_schema=ddl_of_schema(inside))


def arrow_schema(schema: StructType, options: ScanOptions) -> pa.Schema:
    """The Arrow schema that Spark expects for a schema, the user's own or ours, after checking that we can serve it."""
    names = schema.fieldNames()
    columns = options.scan_columns
    for unknown in find_unknown_names(names, columns.names):
        hint = f"did you mean {unknown.nearest}?" if unknown.nearest else f"there are {', '.join(columns.names)}"
        raise InvalidArgumentError(f"unknown column {unknown.name!r} in the schema: {hint}")
    if options.column_names is not None and columns.schema_of(options.column_names).names != names:
        raise InvalidArgumentError(
            f"the schema has {', '.join(names)} but columns is {options.columns!r}; give one of the two"
        )
    wanted = spark_arrow_schema(schema)
    for field, arrow_field in zip(schema.fields, wanted, strict=True):
        text_of_body = field.name in ("body", CORRUPT_BODY) and isinstance(field.dataType, StringType)
        stands = ddl_of_type(columns.schema.field(field.name).type)
        if ddl_of_type(arrow_field.type) != stands and not text_of_body:
            given = field.dataType.simpleString()
            raise InvalidArgumentError(
                f"column {field.name!r} is {given} in the schema but {stands} in messages"
                + (" (or string)" if field.name in ("body", CORRUPT_BODY) else "")
            )
    return pa.schema([field.remove_metadata() for field in wanted])


def spark_arrow_schema(schema: StructType) -> pa.Schema:
    """The types that batches of these columns have."""
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # before Spark 4.2: UTC, unasked
        return to_arrow_schema(schema)


def conforming(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches under exactly this schema: Spark 4.2 and newer compare names, order, types and nullability."""
    for batch in batches:
        if batch.num_rows == 0:
            continue
        if batch.schema.equals(schema):
            yield batch
            continue
        columns = [batch.column(name) for name in schema.names]
        yield pa.RecordBatch.from_arrays(
            [
                column if column.type == field.type else column.cast(field.type)
                for column, field in zip(columns, schema, strict=True)
            ],
            schema=schema,
        )
