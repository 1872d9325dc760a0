"""Writers of micro-batches. Spark 4.1 and later hand over Arrow batches; 4.0 has rows only, made into batches here."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.pandas.types import to_arrow_schema

from flaremq.pipeline.sink.options import SinkOptions
from flaremq.pipeline.spark.writer import SinkCommitMessage, SinkWriter

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.types import StructType

_ROWS_AT_ONCE = 4096
_HAS_ARROW = hasattr(datasource, "DataSourceStreamArrowWriter")
_Base: Any = getattr(datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter)


class StreamWriter(SinkWriter, _Base):  # type: ignore[misc]  # one of two classes, by the Spark there is
    """Writes micro-batches."""


class RowStreamWriter(SinkWriter, DataSourceStreamWriter):
    """The same for Spark 4.0."""

    def __init__(self, options: SinkOptions, write_id: str, schema: StructType) -> None:
        super().__init__(options, write_id, is_stream=True)
        self._schema = schema

    def write(self, iterator: Iterator[Row]) -> SinkCommitMessage:
        return super().write(_batches(iterator, to_arrow_schema(self._schema)))


def make(options: SinkOptions, schema: StructType) -> Any:
    """The writer that this Spark can use."""
    if _HAS_ARROW:
        return StreamWriter(options, options.write_id, is_stream=True)
    return RowStreamWriter(options, options.write_id, schema)


def _batches(rows: Iterator[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while part := list(islice(rows, _ROWS_AT_ONCE)):
        columns = []
        for at, field in enumerate(schema):
            values = [row[at] for row in part]
            if pa.types.is_binary(field.type):
                values = [bytes(value) if isinstance(value, bytearray) else value for value in values]
            elif pa.types.is_map(field.type):
                values = [list(value.items()) if value is not None else None for value in values]
            columns.append(pa.array(values, field.type))
        yield pa.record_batch(columns, schema=schema)
