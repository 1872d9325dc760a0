"""MergeTask: small files of one partition into large ones with the same rows, sorted by queue and offset.

Rows of a queue lie in many files, and there are many queues. So the files are copied one after the other into one
temporary file that is mapped, as Arrow has them in memory; from there rows are taken in their new order, without a copy
of them in memory.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, Final

import numpy as np
import pyarrow as pa

from flaremq.core.arrays import Integers
from flaremq.errors import CorruptionError
from flaremq.pipeline.archive.root import METADATA, ArchiveRoot
from flaremq.pipeline.model.columns import SCHEMA
from flaremq.pipeline.tables.files import PartitionedWriter
from flaremq.pipeline.tables.model.lake_table import FileLayout
from flaremq.pipeline.tables.model.staged import LiveFile, StagedFile
from flaremq.pipeline.tables.reading import read_live

_log = logging.getLogger(__name__)
_PLACE: Final = ("topic", "brokerName", "queueId", "queueOffset")


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Files of one partition; picklable, so without what a format needs to remove them."""

    run: str
    number: int
    location: str  # of the table
    layout: FileLayout
    files: tuple[LiveFile, ...]
    target_bytes: int


def run_merge_task(task: MergeTask) -> tuple[StagedFile, ...]:
    """The new files; with exactly as many rows as the old ones have."""
    root = ArchiveRoot(task.location, task.layout.objects)
    schema = _with_place(task.layout.schema)
    order = _Order()
    with (
        _spill(root) as spilled,
        PartitionedWriter(task.layout, f"{task.run}-{task.number:05d}", target_bytes=task.target_bytes) as writer,
    ):
        with pa.ipc.new_file(spilled, schema) as copy:
            for file in task.files:
                for batch in read_live(root, file, schema, task.layout.partitions):
                    copy.write_batch(batch)
                    order.add(batch)
        spilled.flush()
        for rows in _in_order(mmap.mmap(spilled.fileno(), 0, access=mmap.ACCESS_READ), order):
            writer.add_to(task.files[0].partition, rows)
        files = writer.close()
    before, after = sum(file.rows for file in task.files), sum(file.rows for file in files)
    if before != after:
        raise CorruptionError("merged files do not hold the rows of the files before", expected=before, found=after)
    return tuple(files)


def _spill(root: ArchiveRoot) -> IO[bytes]:
    """A file without a name, which goes with the process. Where the table is there is room for its rows; ``/tmp`` may
    be small or in memory. Only before an object store, or if the table's file system has no such files that can be
    mapped (FUSE), there is nothing else."""
    folder = root.full_path(METADATA) if root.is_local else None
    if folder is not None:
        try:
            os.makedirs(folder, exist_ok=True)
            return _mappable(folder)
        except OSError as error:
            _log.warning("a merge takes its room in %s: %s", tempfile.gettempdir(), error)
    return _mappable(None)


def _mappable(folder: str | None) -> IO[bytes]:
    with contextlib.ExitStack() as undo:
        made = undo.enter_context(tempfile.TemporaryFile(prefix="flaremq-merge-", dir=folder))
        made.truncate(1)
        mmap.mmap(made.fileno(), 1, access=mmap.ACCESS_READ).close()
        made.truncate(0)
        undo.pop_all()
    return made


def _in_order(mapped: mmap.mmap, order: _Order) -> Iterator[pa.RecordBatch]:
    """Rows are views of the map, which goes when the last of them does."""
    copy = pa.ipc.open_file(pa.py_buffer(mapped))
    for batch, first, count in order.pieces():
        yield copy.get_batch(batch).slice(first, count)


class _Order:
    """Where each row belongs; 24 bytes a row."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str, int], int] = {}
        self._rows: list[tuple[Integers, Integers]] = []  # of each batch: queue, offset

    def add(self, batch: pa.RecordBatch) -> None:
        topics, brokers = (batch.column(name).dictionary_encode() for name in _PLACE[:2])
        count = max(len(brokers.dictionary), 1)
        names = topics.indices.to_numpy().astype(np.int64) * count + brokers.indices.to_numpy()
        codes = names << 32 | batch.column("queueId").to_numpy().astype(np.int64)
        numbers = np.empty(batch.num_rows, np.int64)
        for code in np.unique(codes).tolist():
            topic, broker = divmod(code >> 32, count)
            queue = topics.dictionary[topic].as_py(), brokers.dictionary[broker].as_py(), code & 0xFFFF_FFFF
            numbers[codes == code] = self._queues.setdefault(queue, len(self._queues))
        self._rows.append((numbers, batch.column("queueOffset").to_numpy()))

    def pieces(self) -> Iterator[tuple[int, int, int]]:
        """Batch, first row and number of rows of each piece that stays together."""
        if not self._rows:
            return
        ranks = np.empty(len(self._queues), np.int64)
        ranks[[number for _, number in sorted(self._queues.items())]] = np.arange(len(self._queues))
        lengths = [len(numbers) for numbers, _ in self._rows]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        queues = ranks[np.concatenate([numbers for numbers, _ in self._rows])]
        order = np.lexsort((np.concatenate([offsets for _, offsets in self._rows]), queues))
        batches = np.searchsorted(starts, order, side="right") - 1
        cuts = np.flatnonzero((np.diff(order) != 1) | (np.diff(batches) != 0)) + 1
        bounds = [0, *cuts.tolist(), len(order)]
        for at, end in pairwise(bounds):
            if at < end:
                yield int(batches[at]), int(order[at] - starts[batches[at]]), end - at


def _with_place(schema: pa.Schema) -> pa.Schema:
    """Columns by which rows are sorted are read too if they are partitions, which files may lack."""
    for name in _PLACE:
        if name not in schema.names:
            schema = schema.append(SCHEMA.field(name))
    return schema
