"""Digests of messages by queue and block of offsets, of the log and of a table's files: what a proof compares.

A body that is no column of the table is left out on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.archive.root import ArchiveRoot
from flaremq.pipeline.archive.row_digest import DIGEST_COLUMNS, RowDigest, digest_batch
from flaremq.pipeline.jobs.archive.buffer import split_by_queue
from flaremq.pipeline.jobs.runner import TaskRunner
from flaremq.pipeline.model.columns import SCHEMA
from flaremq.pipeline.model.source import ReadRequest, Source, SourceSpec
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.options import ScanOptions
from flaremq.pipeline.planning.partitions import plan_pieces
from flaremq.pipeline.sources.open import open_source
from flaremq.pipeline.tables.model.lake_table import FileLayout, LakeTable
from flaremq.pipeline.tables.model.staged import LiveFile
from flaremq.pipeline.tables.reading import read_live
from flaremq.storage.arrow.bodies import AS_STORED, BodyRule

BLOCK_ROWS: Final = 8192
_TASK_BYTES: Final = 256 << 20


class Block(NamedTuple):
    queue: QueueRef
    number: int


Digests: TypeAlias = dict[Block, RowDigest]


class Wanted(NamedTuple):
    """Which offsets of which queues, in blocks of how many, and whether with bodies."""

    spans: Mapping[QueueRef, Span]
    block_rows: int
    with_body: bool

    @property
    def schema(self) -> pa.Schema:
        names = ["topic", "brokerName", *(name for name in DIGEST_COLUMNS if self.with_body or name != "body")]
        return pa.schema([SCHEMA.field(name) for name in names])


def has_body(table: LakeTable) -> bool:
    """Whether bodies are in the table as they are; InvalidArgumentError if it lacks anything else."""
    names = table.columns().names
    for name in DIGEST_COLUMNS:
        if name != "body" and name not in names:
            raise InvalidArgumentError(f"{table.name} has no column {name}, without which nothing can be proved")
    return "body" in names


def log_digests(runner: TaskRunner, source: Source, spec: SourceSpec, options: ScanOptions, wanted: Wanted) -> Digests:
    pieces = plan_pieces(source, spec, list(wanted.spans.values()), options, ReadRequest(wanted.schema))
    tasks = [partial(_of_log, spec, piece.spans, wanted) for piece in pieces]
    return _summed(runner.run(tasks, "verify log"))


def table_digests(runner: TaskRunner, table: LakeTable, wanted: Wanted) -> Digests:
    files = table.live_files()
    if not all(file.is_whole for file in files):  # rows were deleted: only the format's own reader knows which
        found: Digests = {}
        _add(found, _conformed(table.read(wanted.schema.names), wanted.schema), wanted)
        return found
    layout = table.layout()
    plain = [LiveFile(file.location, file.rows, file.size_bytes, file.partition, None) for file in files]
    tasks = [partial(_of_files, table.root.location, layout, group, wanted) for group in _grouped(plain)]
    return _summed(runner.run(tasks, "verify table"))


def _of_log(spec: SourceSpec, spans: Sequence[Span], wanted: Wanted) -> Digests:
    found: Digests = {}
    request = ReadRequest(wanted.schema, fail_on_data_loss=spec.fail_on_data_loss, bodies=BodyRule(AS_STORED))
    with open_source(spec) as source:
        _add(found, source.read(sorted(spans), request), wanted)
    return found


def _of_files(location: str, layout: FileLayout, files: Sequence[LiveFile], wanted: Wanted) -> Digests:
    found: Digests = {}
    root = ArchiveRoot(location, layout.objects)
    # By ids of the table's columns, where it has such.
    schema = pa.schema([_column(layout.schema, field) for field in wanted.schema])
    for file in files:
        _add(found, _conformed(read_live(root, file, schema, layout.partitions), wanted.schema), wanted)
    return found


def _column(schema: pa.Schema, field: pa.Field) -> pa.Field:
    at = schema.get_field_index(field.name)
    return field if at < 0 else schema.field(at)


def _conformed(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterable[pa.RecordBatch]:
    for batch in batches:
        columns = [batch.column(field.name).cast(field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _add(found: Digests, batches: Iterable[pa.RecordBatch], wanted: Wanted) -> None:
    for batch in batches:
        if not wanted.with_body:
            batch = batch.append_column("body", pa.repeat(pa.scalar(b"", pa.binary()), batch.num_rows))
        for queue, rows in split_by_queue(batch):
            span = wanted.spans.get(queue)
            if span is None:
                continue
            offsets = rows.column("queueOffset").to_numpy()
            blocks = np.where((offsets >= span.start) & (offsets < span.end), offsets // wanted.block_rows, -1)
            bounds = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(blocks)]
            for first, last in pairwise(bounds):
                if blocks[first] >= 0:
                    block = Block(queue, int(blocks[first]))
                    found[block] = found.get(block, RowDigest()) + digest_batch(rows.slice(first, last - first))


def _summed(parts: Iterable[Digests]) -> Digests:
    total: Digests = {}
    for part in parts:
        for block, digest in part.items():
            total[block] = total.get(block, RowDigest()) + digest
    return total


def _grouped(files: Sequence[LiveFile]) -> list[list[LiveFile]]:
    groups: list[list[LiveFile]] = []
    size = _TASK_BYTES
    for file in sorted(files, key=lambda file: file.location):
        if size + file.size_bytes > _TASK_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size_bytes
    return groups
