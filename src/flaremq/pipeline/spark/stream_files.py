"""Streams whose tasks write Parquet themselves (``parquetPath``): a row of the stream is a file, no body meets the JVM.

A file is named by the offsets it holds and its columns, and takes its place whole. A batch that Spark runs again has
the same offsets and is cut alike, so it writes the same files once more: each message is in the directory once. Rows
of the stream say which files a batch made; where a batch is cut anew because options changed between its attempts,
they are what counts.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from typing import Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.planning.partitions import ScanPiece

_FILES: Final = pa.schema([("path", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())])
_COMPRESSION_LEVEL: Final = 1  # as in an archive
_ROW_GROUP_BYTES: Final = 16 << 20
# Dictionaries where values repeat: on bodies or keys the writer would fill one, find it useless and start again.
_REPEATING: Final = frozenset(
    ("topic", "brokerName", "queueId", "tags", "flag", "sysFlag", "bornHost", "storeHost", "reconsumeTimes")
)


def write_piece(
    folder: str, piece: ScanPiece, batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Write one task's messages to a file below ``folder``; the row that tells of it. None if there is no message."""
    root, name = ArchiveRoot(folder), f"part-{_name(piece, schema)}.parquet"
    groups = _row_groups(batches)
    first = next(groups, None)
    if first is None:
        return
    rows = 0
    dictionaries = [field.name for field in schema if field.name in _REPEATING]
    with root.replacing(name) as file:
        options = {"compression": "zstd", "compression_level": _COMPRESSION_LEVEL, "use_dictionary": dictionaries}
        with pq.ParquetWriter(pa.PythonFile(file, "w"), schema, **options) as writer:
            group: pa.Table | None = first
            while group is not None:
                writer.write_table(group, row_group_size=group.num_rows)
                rows += group.num_rows
                group = next(groups, None)
    path = root.full_path(name)
    yield pa.RecordBatch.from_pydict({"path": [path], "rows": [rows], "bytes": [os.path.getsize(path)]}, _FILES)


def _name(piece: ScanPiece, schema: pa.Schema) -> str:
    held = [(*span.queue, span.start, span.end) for span in piece.spans]
    return hashlib.blake2b(orjson.dumps([held, schema.names]), digest_size=8).hexdigest()


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= _ROW_GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)
