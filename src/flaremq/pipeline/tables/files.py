"""PartitionedWriter: rows into the Parquet files of a table, one open file a partition, each up to a target size.

Every file has a name that no other attempt has, so a task that is run again disturbs nobody; only what the driver
commits counts. Rows come sorted and are written as they come.
"""

from __future__ import annotations

import contextlib
import uuid
from contextlib import ExitStack
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.tables.model.lake_table import FileLayout
from flaremq.pipeline.tables.model.partitions import PartitionValues, partition_folder, split_by_partition
from flaremq.pipeline.tables.model.staged import StagedFile

TARGET_BYTES: Final = 128 << 20
ROW_GROUP_BYTES: Final = 16 << 20  # in memory; what a reader of one queue or one time skips whole
_OPEN_MAX: Final = 8  # partitions being written at once; each may hold a row group in memory
_COMPRESSION_LEVEL: Final = 1  # bodies are most of it; higher levels cost more time than they save room
# Dictionaries only where values repeat: on bodies or ids the writer would fill one, find it useless and start again.
_UNIQUE: Final = ("body", "msgId", "keys", "queueOffset", "physicalOffset", "bornTimestamp", "storeTimestamp")


class PartitionedWriter:
    """Takes rows of all partitions; ``close`` gives the files. Leaving it by an error removes what it wrote."""

    def __init__(self, layout: FileLayout, name: str, *, target_bytes: int = TARGET_BYTES) -> None:
        self._layout = layout
        self._root = ArchiveRoot(layout.location, layout.objects)
        self._name = f"{name}-{uuid.uuid4().hex[:8]}"
        self._target_bytes = target_bytes
        self._open: dict[PartitionValues, _OpenFile] = {}
        self._files: list[StagedFile] = []
        self._made = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows with at least the table's columns."""
        for values, rows in split_by_partition(batch, self._layout.partitions):
            self.add_to(values, rows)

    def add_to(self, values: PartitionValues, rows: pa.RecordBatch) -> None:
        """Rows that are all of this partition."""
        file = self._open.pop(values, None)
        if file is None:
            if len(self._open) >= _OPEN_MAX:
                self._finish(next(iter(self._open)))
            file = _OpenFile(self._root, self._layout.schema, self._path(values))
        self._open[values] = file  # the one used last is the last to be closed
        file.add(rows)
        if file.size >= self._target_bytes:
            self._finish(values)

    def close(self) -> list[StagedFile]:
        """The files, all durable."""
        for values in list(self._open):
            self._finish(values)
        return self._files

    def _path(self, values: PartitionValues) -> str:
        folder = partition_folder(self._layout.partitions, values)
        self._made += 1
        return f"{folder}/{self._name}-{self._made:04d}.parquet".lstrip("/")

    def _finish(self, values: PartitionValues) -> None:
        self._files.append(self._open.pop(values).close(values))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        for file in self._open.values():
            file.abandon(error)
        for done in self._files:
            self._root.delete(done.path)


class _OpenFile:
    def __init__(self, root: ArchiveRoot, schema: pa.Schema, path: str) -> None:
        self._path = path
        self._schema = schema
        self._stack = ExitStack()
        self._file = self._stack.enter_context(root.replacing(path))
        self._footers: list[Any] = []
        columns = [name for name in schema.names if name not in _UNIQUE]
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression="zstd",
            compression_level=_COMPRESSION_LEVEL,
            use_dictionary=columns,
            write_page_checksum=True,
            version="2.6",
            store_schema=False,
            metadata_collector=self._footers,
        )
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._rows = 0

    @property
    def size(self) -> int:
        """Bytes in the file so far."""
        return int(self._file.tell())

    def add(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        self._rows += rows.num_rows
        if self._held_bytes >= ROW_GROUP_BYTES:
            self._write()

    def close(self, values: PartitionValues) -> StagedFile:
        self._write()
        self._writer.close()
        size = self.size
        self._stack.close()
        return StagedFile(self._path, self._rows, size, values, self._footers[0])

    def abandon(self, error: BaseException) -> None:
        with contextlib.suppress(Exception):  # the writer wants its end before its file has one; both are thrown away
            self._writer.close()
        self._stack.__exit__(type(error), error, error.__traceback__)

    def _write(self) -> None:
        if self._held:
            table = conformed(pa.Table.from_batches(self._held), self._schema)
            self._held, self._held_bytes = [], 0
            self._writer.write_table(table.combine_chunks(), row_group_size=max(1, table.num_rows))


def conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows in the columns of the table. One that only older messages had is null, also within a structure."""
    columns = []
    for field in schema:
        at = rows.schema.get_field_index(field.name)
        columns.append(pa.nulls(rows.num_rows, field.type) if at < 0 else rows.column(at).cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)
