"""Batches of a scan in the sizes its readers like: not too many, not too large."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

_ROWS = 131_072
_BYTES = 4 << 20
_SMALL_BYTES = 1 << 20  # a batch of this size is passed on as it is: joining it would copy more than it saves


def grouped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small batches joined, in the same order."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and (rows + batch.num_rows > _ROWS or size + batch.nbytes > _BYTES or batch.nbytes > _SMALL_BYTES):
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        if batch.nbytes > _SMALL_BYTES:
            yield batch
            continue
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return batch
