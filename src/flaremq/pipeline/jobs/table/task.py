"""TableTask: one piece of the log into files of a table, in a Python worker; bodies pass through nothing else.

The queues of the piece are read one after the other, so files are sorted by queue and offset. Rows whose body does not
fit go to files of another table, with the reason. Nothing of it counts before the driver commits it, so a task may be
run as often as Spark likes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flaremq.errors import CorruptionError, InvalidArgumentError
from flaremq.pipeline.bodies.columns import ScanColumns
from flaremq.pipeline.bodies.format import DROP_MALFORMED
from flaremq.pipeline.model.columns import ALL_SCHEMA, BODY_ERROR, CORRUPT_BODY, SCHEMA
from flaremq.pipeline.model.source import ReadRequest, Source, SourceSpec
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.options import ScanOptions
from flaremq.pipeline.sources.open import open_source
from flaremq.pipeline.tables.files import PartitionedWriter
from flaremq.pipeline.tables.model.lake_table import FileLayout
from flaremq.pipeline.tables.model.staged import StagedFile
from flaremq.storage.arrow.bodies import AS_STORED, BodyRule

REASON: Final = "reason"
DEAD_LETTER_SCHEMA: Final = SCHEMA.append(pa.field(REASON, pa.string()))


@dataclass(frozen=True, slots=True)
class TableColumns:
    """What becomes of messages: the table's columns, or a dead letter. Picklable.

    The columns are those that a scan with the same options has, but for what it says of bodies that do not fit.
    """

    columns: ScanColumns
    with_body: bool = False  # beside its fields

    @classmethod
    def of(cls, options: ScanOptions, *, with_body: bool = False) -> TableColumns:
        columns = options.scan_columns
        if columns.decoder is not None and columns.decoder.form.mode == DROP_MALFORMED:
            raise InvalidArgumentError(
                "a table drops nothing: leave out bodyMode=DROPMALFORMED, and bodies that do not fit go to a table "
                "beside it"
            )
        return cls(columns, with_body)

    @property
    def schema(self) -> pa.Schema:
        fields = [field for field in self.columns.usual if field.name != CORRUPT_BODY]
        if self.with_body and "body" not in {field.name for field in fields}:
            fields.insert(SCHEMA.get_field_index("body"), SCHEMA.field("body"))
        return pa.schema(fields)

    def read(self, source: Source, span: Span, *, fail_on_data_loss: bool) -> Iterator[pa.RecordBatch]:
        """The table's columns, those of a dead letter, and why a body does not fit. A body that cannot be inflated
        comes as it is stored: no byte is lost."""
        wanted = self.schema
        for field in (*SCHEMA, ALL_SCHEMA.field(BODY_ERROR)):
            if field.name not in wanted.names:
                wanted = wanted.append(field)
        shape = self.columns.shape(wanted)
        stored = wanted if shape is None else shape.stored
        request = ReadRequest(stored, fail_on_data_loss=fail_on_data_loss, bodies=BodyRule(AS_STORED))
        batches = source.read([span], request)
        return iter(batches) if shape is None else shape.shaped(batches)


@dataclass(frozen=True, slots=True)
class TableTask:
    """Spans to put into a table; picklable. ``dead_from`` is where the table of dead letters goes on in each queue."""

    run: str
    number: int
    spec: SourceSpec
    spans: tuple[Span, ...]
    columns: TableColumns
    layout: FileLayout
    target_bytes: int
    dead_layout: FileLayout | None
    dead_from: Mapping[QueueRef, int]
    fail_on_data_loss: bool = True


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task wrote. ``lacks_dead_letters``: nothing, for a row did not fit and there was no table for it."""

    files: tuple[StagedFile, ...] = ()
    dead_files: tuple[StagedFile, ...] = ()
    lacks_dead_letters: bool = False


def run_table_task(task: TableTask) -> TaskResult:
    try:
        return _run(task)
    except _NoDeadLettersError:
        return TaskResult(lacks_dead_letters=True)


class _NoDeadLettersError(Exception):
    """A row does not fit, and where it belongs is not there yet."""


def _run(task: TableTask) -> TaskResult:
    name = f"{task.run}-{task.number:05d}"
    with ExitStack() as opened:
        source = opened.enter_context(open_source(task.spec))
        rows = opened.enter_context(PartitionedWriter(task.layout, name, target_bytes=task.target_bytes))
        dead = None
        if task.dead_layout is not None:
            dead = opened.enter_context(PartitionedWriter(task.dead_layout, name, target_bytes=task.target_bytes))
        for span in sorted(task.spans):
            first = task.dead_from.get(span.queue, 0)
            for batch in _checked(task.columns.read(source, span, fail_on_data_loss=task.fail_on_data_loss), span):
                fitting, misfits = split_misfits(batch)
                rows.add(fitting)
                if misfits.num_rows and dead is None:
                    raise _NoDeadLettersError
                if dead is not None:
                    dead.add(misfits.filter(pc.greater_equal(misfits.column("queueOffset"), first)))
        return TaskResult(tuple(rows.close()), tuple(dead.close()) if dead is not None else ())


def split_misfits(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows for the table, and those whose body cannot be inflated or does not fit, with the reason."""
    reasons = batch.column(BODY_ERROR)
    if reasons.null_count == len(reasons):
        return batch, pa.RecordBatch.from_pylist([], schema=DEAD_LETTER_SCHEMA)
    fits = pc.is_null(reasons)
    misfits = batch.filter(pc.invert(fits))
    letters = [*(misfits.column(name) for name in SCHEMA.names), misfits.column(BODY_ERROR)]
    return batch.filter(fits), pa.RecordBatch.from_arrays(letters, schema=DEAD_LETTER_SCHEMA)


def _checked(batches: Iterator[pa.RecordBatch], span: Span) -> Iterator[pa.RecordBatch]:
    """Rows of the span, in order, each once; anything else would be in the table for good."""
    position = span.start
    for batch in batches:
        if not batch.num_rows:
            continue
        offsets = batch.column("queueOffset").to_numpy()
        if offsets[0] < position or offsets[-1] >= span.end or (np.diff(offsets) <= 0).any():
            raise CorruptionError(f"rows {offsets[0]} to {offsets[-1]} of {span.queue} came twice, unasked or unsorted")
        position = int(offsets[-1]) + 1
        yield batch
