"""How a data file of an archive is written: encodings, row groups, checksum; and nothing about what is in it."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flaremq.core.arrays import Integers
from flaremq.pipeline.model.columns import ALL_SCHEMA, SCHEMA

# The topic is told by the folder; inside the file it would clash with that for readers of Hive partitions.
FILE_SCHEMA: Final = pa.schema([field for field in SCHEMA if field.name != "topic"])
# Only in files with a body that cannot be inflated, which they hold as it was stored.
BODY_ERROR: Final = "bodyError"
COMPRESSION_LEVEL: Final = 1  # bodies are most of it; higher levels cost more time than they save room
ROW_GROUP_BYTES: Final = 16 << 20
QUEUE_GROUP_BYTES: Final = 4 << 20  # from here on a row group ends with its queue: who reads one skips the others
_ROW_OVERHEAD: Final = 256  # strings, properties and numbers of a row, in memory

# Dictionaries only where values repeat: on bodies or ids the writer would fill one, find it useless and start again.
_REPEATING: Final = ["brokerName", "tags", "flag", "sysFlag", "bornHost", "storeHost", "reconsumeTimes", "queueId"]
_DICTIONARIES: Final = [*_REPEATING, "properties.key_value.key"]
_ASCENDING: Final = ("queueOffset", "physicalOffset", "bornTimestamp", "storeTimestamp")
_STATISTICS: Final = ["brokerName", "queueId", "tags", *_ASCENDING]  # what row groups are skipped by


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """What was written; the tail is the footer."""

    rows: int
    size_bytes: int
    sha256: str
    tail_bytes: int
    tail_crc32: int


class HashingFile:
    """Passes writes on and keeps their checksums and size; what PyArrow asks of a file to write."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0
        self.tail_start: int | None = None  # from here on the tail's own checksum is kept
        self.tail_crc32 = 0
        self.closed = False

    @property
    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._hash.update(view)
        self.size += len(view)
        if self.tail_start is not None:
            self.tail_crc32 = zlib.crc32(view, self.tail_crc32)
        while len(view):
            view = view[self._file.write(view) or len(view) :]  # a raw file may take less than it is given
        return len(data)

    def tell(self) -> int:
        return self.size

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        """Nothing is held back here."""

    def close(self) -> None:
        self.closed = True


def schema_for(batches: Iterable[pa.RecordBatch]) -> pa.Schema:
    """The schema of a file that holds these."""
    for batch in batches:
        if BODY_ERROR in batch.schema.names and batch.column(BODY_ERROR).null_count < batch.num_rows:
            return FILE_SCHEMA.append(ALL_SCHEMA.field(BODY_ERROR))
    return FILE_SCHEMA


def write_parquet(file: IO[bytes], batches: Iterable[pa.RecordBatch], schema: pa.Schema = FILE_SCHEMA) -> WrittenFile:
    """Write batches of one queue each, sorted, as one file of this schema.

    The bytes depend on the rows alone, not on how they were cut into batches.
    """
    sink = HashingFile(file)
    rows = 0
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        use_dictionary=_DICTIONARIES,
        column_encoding=dict.fromkeys(_ASCENDING, "DELTA_BINARY_PACKED"),
        write_statistics=_STATISTICS,
        write_page_checksum=True,
        version="2.6",
    ) as writer:
        for group in row_groups(batch.select(schema.names) for batch in batches):
            writer.write_table(group, row_group_size=group.num_rows)
            rows += group.num_rows
        sink.tail_start = sink.size
    return WrittenFile(rows, sink.size, sink.hexdigest, sink.size - sink.tail_start, sink.tail_crc32)


def row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows as tables of a row group each, in one piece of memory."""
    held: list[pa.RecordBatch] = []
    size = 0
    place: tuple[str, int] | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        before, place = place, (batch.column("brokerName")[0].as_py(), batch.column("queueId")[0].as_py())
        if held and place != before and size >= QUEUE_GROUP_BYTES:
            yield _joined(held)
            held, size = [], 0
        for rows, cost, is_full in portions(batch, size, ROW_GROUP_BYTES):
            held.append(rows)
            size += cost
            if is_full:
                yield _joined(held)
                held, size = [], 0
    if held:
        yield _joined(held)


def portions(batch: pa.RecordBatch, held: int, size_max: int) -> Iterator[tuple[pa.RecordBatch, int, bool]]:
    """The batch in parts that fill up to ``size_max`` bytes what has ``held`` already: rows, cost, whether it is full.

    Cut at the exact row, so that files do not depend on how a source cut its batches.
    """
    while batch.num_rows:
        costs = np.cumsum(row_costs(batch))
        if held + costs[-1] < size_max:
            yield batch, int(costs[-1]), False
            return
        count = int(np.searchsorted(costs, size_max - held)) + 1
        yield batch.slice(0, count), int(costs[count - 1]), True
        held, batch = 0, batch.slice(count)


def row_costs(batch: pa.RecordBatch) -> Integers:
    """About what each row takes in memory; the same number for the same row, wherever it was read."""
    body = batch.column("body")
    offsets = np.frombuffer(body.buffers()[1], np.int32)[body.offset :][: len(body) + 1]
    stored = batch.column("storeSize").to_numpy(zero_copy_only=False)
    costs: Integers = np.maximum(np.diff(offsets), stored).astype(np.int64) + _ROW_OVERHEAD
    return costs


def _joined(batches: list[pa.RecordBatch]) -> pa.Table:
    # One chunk a column: where pages end would otherwise depend on where batches did.
    return pa.Table.from_batches(batches).combine_chunks()
