"""The sink of ``format("flaremq")``: what Spark calls on the driver and in tasks.

``make_writer`` and ``make_stream_writer`` check on the driver whatever can be known before a job starts: options, the
schema, whether the cluster or the store can be written to. Tasks check rows before they send any of a batch.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.message.write_stream import DoubtError, stem_of
from flaremq.pipeline.sink.begun import batch_begun_ms
from flaremq.pipeline.sink.options import SinkOptions, parse_sink_options
from flaremq.pipeline.sink.partitions import check_partitions
from flaremq.pipeline.sink.rows import check_topic
from flaremq.pipeline.sink.staging import (
    StagedBatch,
    StagedFile,
    StagingTarget,
    batch_folder,
    decide,
    last_done,
    remove_batch,
)
from flaremq.pipeline.sink.store import check_queue, check_store, take_in
from flaremq.pipeline.sink.task import SinkTask, TaskIdentity, TaskReport
from flaremq.pipeline.sink.wire import WireTarget
from flaremq.pipeline.sources.worker import settle
from flaremq.pipeline.spark.shipped import reduced
from flaremq.pipeline.spark.told_errors import told_plainly
from flaremq.pipeline.spark.writer_schema import OF_SOURCE, check_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)

# Local properties that Spark sets on the jobs of a micro-batch; the Python API hands neither to write().
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
# With both of these and its topic a row is still as it was read.
_PLACE = ("brokerName", "queueOffset")


@dataclass
class SinkCommitMessage(WriterCommitMessage):
    """What a task tells the driver."""

    task: TaskIdentity
    report: TaskReport
    staged: StagedFile | None = None


@told_plainly
class SinkWriter:
    """What batch and stream writers have in common; picklable."""

    def __init__(self, options: SinkOptions, write_id: str, *, is_stream: bool) -> None:
        self._options = options
        self._write_id = write_id
        self._is_stream = is_stream

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced(self)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommitMessage:
        """In a task: write its rows."""
        try:
            return self._write(iterator)
        finally:
            settle()

    def _write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommitMessage:
        options = self._options
        context = TaskContext.get()
        if context is None:
            raise UnavailableError("rows are written by tasks of a Spark job, and this is none")
        task = self._identity(context)
        rules = options.row_rules
        if options.name_server:
            begun_ms = batch_begun_ms(options.checkpoint, task.batch_id) if self._is_stream else 0
            with WireTarget(options, task, begun_ms=begun_ms) as target:
                report = SinkTask(
                    target,
                    task,
                    rules,
                    request_bytes=options.request_bytes,
                    sends_in_doubt=options.sends_in_doubt,
                ).write(iterator)
            return SinkCommitMessage(task, report)
        folder = batch_folder(options.path, stem_of("write", task.write_id), task.batch_id)
        attempt = f"{context.attemptNumber()}-{uuid.uuid4().hex[:12]}"
        check_lane = partial(check_queue, options.path, queues=options.queues)
        with StagingTarget(folder, task, attempt, check_lane) as staging:
            report = SinkTask(staging, task, rules, request_bytes=options.request_bytes).write(iterator)
        staged = StagedFile(staging.name, staging.size, task.partition, report.rows) if staging.size else None
        return SinkCommitMessage(task, report, staged)

    def _identity(self, context: TaskContext) -> TaskIdentity:
        if not self._is_stream:
            return TaskIdentity(self._write_id, 0, context.partitionId())
        query_id, batch_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query_id is None or batch_id is None:
            raise UnavailableError(
                f"Spark does not tell this task its query and batch (local properties {QUERY_ID} and {BATCH_ID}), "
                "without which rows cannot be written exactly once"
            )
        # A write id beside the query's own tells two sinks of one query apart.
        write_id = query_id if not self._write_id else f"{query_id}/{self._write_id}"
        return TaskIdentity(write_id, int(batch_id), context.partitionId())

    def commit(self, messages: Sequence[Any], batchId: int = 0) -> None:
        """On the driver, when all tasks have succeeded."""
        told = [message for message in messages if isinstance(message, SinkCommitMessage)]
        missing = sum(message.report.missing for message in told)
        if missing:
            _log.warning(
                "%d rows that an earlier attempt of this batch stored did not come again: what the query computes is "
                "not the same each time, so its sink cannot be exactly-once",
                missing,
            )
        path = self._options.path
        if not told:
            return
        if not path:
            self._check_partitions(told)
            return
        task = told[0].task
        write = stem_of("write", task.write_id)
        keep_done = self._is_stream or bool(self._options.write_id)
        files = tuple(message.staged for message in told if message.staged is not None)
        if last_done(path, write) >= task.batch_id:
            remove_batch(path, write, task.batch_id)  # it came again, and is in the store
            return
        if files:
            decide(path, StagedBatch(write, task.batch_id, task.write_id, keep_done, files))
            take_in(self._options)

    def _check_partitions(self, told: Sequence[SinkCommitMessage]) -> None:
        """Where the write may be a repetition: each batch of a stream is not asked about, only one that was."""
        is_again = any(message.report.stored_before for message in told)
        if not is_again and (self._is_stream or not self._options.write_id):
            return
        try:
            check_partitions(self._options, [(message.task, message.report) for message in told])
        except DoubtError as error:
            if not self._options.sends_in_doubt:
                raise
            _log.warning("%s", error)

    def abort(self, messages: Sequence[Any], batchId: int = 0) -> None:
        """On the driver, when the job failed: staged rows go; rows sent over the wire stay, and are known by key."""
        path = self._options.path
        told = [message for message in messages if isinstance(message, SinkCommitMessage)]
        if not path:
            return
        if told:
            remove_batch(path, stem_of("write", told[0].task.write_id), told[0].task.batch_id, undecided_only=True)
        elif not self._is_stream:
            remove_batch(path, stem_of("write", self._write_id), 0, undecided_only=True)


class BatchWriter(SinkWriter, DataSourceArrowWriter):
    """Writes a DataFrame."""


def make_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """The writer of a batch; raises on the driver for whatever is wrong."""
    parsed = _checked(options, schema, overwrite)
    return BatchWriter(parsed, parsed.write_id or uuid.uuid4().hex, is_stream=False)


def make_stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> Any:
    """The writer of a micro-batch."""
    from flaremq.pipeline.spark.writer_stream import make

    parsed = _checked(options, schema, overwrite)
    return make(parsed, schema)


def _checked(options: Mapping[str, str], schema: StructType, overwrite: bool) -> SinkOptions:
    if not options:
        raise InvalidArgumentError(
            "no options came with this write: it needs nameServer or path, and where rows have none a topic. INSERT "
            'INTO a table of a catalog hands none over: use df.write.format("flaremq").options(…).mode("append").save()'
        )
    parsed = parse_sink_options(options)
    if overwrite:
        raise InvalidArgumentError(
            'mode("overwrite") and output mode "complete" would have to delete what topics hold: append is the only way'
        )
    check_schema(schema, has_topic=bool(parsed.topic), encoder=parsed.encoder)
    if parsed.topic:
        check_topic(parsed.topic)
    names = schema.fieldNames()
    were_read = not OF_SOURCE.isdisjoint(names)
    if parsed.topic and {"topic", *_PLACE}.issubset(names):  # a stream would feed itself
        raise InvalidArgumentError(
            f"the option names topic {parsed.topic!r} for rows without one, but the rows' column topic says where each "
            f"of them goes, back to where it was read: drop('topic', 'queueId') sends all of them there. If the column "
            f"is of your making, drop{_PLACE!r} says so"
        )
    if were_read and "reservedproperties" not in map(str.lower, options):
        parsed = replace(parsed, reserved_properties="drop")  # rows as they were read: a message gets its own
    if not parsed.name_server:
        return check_store(parsed)
    with WireTarget(parsed, None) as target:
        target.check_topic(parsed.topic)
    return parsed
