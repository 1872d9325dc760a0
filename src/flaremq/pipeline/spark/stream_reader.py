"""The streaming reader: Spark's checkpoint is the truth, a group's progress on a broker its shadow for admin tools.

One object lives as long as the query, in a process of the driver; it answers where the stream starts, how far the next
batch goes and how a batch is cut. Copies of it, pickled, read in tasks. It keeps its source open between calls, because
opening one is most of what a small batch costs, and opens it anew when a call fails.

Spark 4.2 and newer say where the batch starts and how large it may be. Older ones ask for the latest offset and nothing
else; there the object remembers the end of the last batch it planned and applies the limit itself. After a restart
such a Spark plans the empty batch at its last offset first, which is where the memory comes from.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from flaremq.errors import FlareMQError, InvalidArgumentError, NotFoundError, UnavailableError
from flaremq.pipeline.model.source import Source
from flaremq.pipeline.model.spans import QueueExtent, QueueRef, Span
from flaremq.pipeline.options import NO_TIME, ScanOptions, read_request
from flaremq.pipeline.planning.offsets import LATEST, Offsets, from_nested, to_nested
from flaremq.pipeline.planning.partitions import (
    ScanPiece,
    chosen_extents,
    plan_pieces,
    read_piece,
    starting_offsets,
)
from flaremq.pipeline.planning.planner import checked_spans, share_out, take_bytes
from flaremq.pipeline.sources.open import open_source, source_spec
from flaremq.pipeline.sources.worker import kept_source
from flaremq.pipeline.spark.shipped import reduced
from flaremq.pipeline.spark.told_errors import told_plainly

if TYPE_CHECKING:
    import pyarrow as pa

    from flaremq.pipeline.spark.group_progress import ProgressWriter

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@told_plainly
class StreamReader(DataSourceStreamReader):
    """A stream of messages over all queues of its topics."""

    def __init__(self, options: ScanOptions, schema: pa.Schema) -> None:
        if options.ending_offsets or options.ending_timestamp != NO_TIME or options.ending_offsets_by_timestamp:
            raise InvalidArgumentError("endingOffsets and endingTimestamp are for batches; a stream has no end")
        if options.keys:
            raise InvalidArgumentError("keys is for batches; filter a stream by its keys column")
        self.options = options
        self.spec = source_spec(options)
        self.request = read_request(options, schema)
        self._source: Source | None = None
        self._extents: dict[QueueRef, QueueExtent] = {}  # as of the last look, for cutting the batch planned then
        self._target: Offsets | None = None  # where AvailableNow ends
        self._planned_end: Offsets | None = None
        self._waiting_since: float | None = None
        self._progress: ProgressWriter | None = None
        self._reported: dict[str, Any] | None = None
        self._warned: set[QueueRef] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced(self)

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "spec": self.spec, "request": self.request}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._source = None

    # Where the next batch ends

    def initialOffset(self) -> dict[str, Any]:
        self._open_progress()
        self._planned_end = self._ask_source(self._starting_offsets)
        return to_nested(self._planned_end)

    def _starting_offsets(self, source: Source) -> Offsets:
        extents = chosen_extents(source, self.options)
        self._extents = {extent.queue: extent for extent in extents}
        start = starting_offsets(source, self.options, extents, default=LATEST)
        checked_spans(start, {}, extents, fail_on_data_loss=self.options.fail_on_data_loss)
        return start

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        begin = self._planned_end or {} if start is None else from_nested(start)
        rows_max, bytes_max = self._limits(limit)
        self._open_progress()
        self._report_progress(to_nested(begin))
        return to_nested(self._ask_source(lambda source: self._batch_end(source, begin, rows_max, bytes_max)))

    def _batch_end(self, source: Source, begin: Offsets, rows_max: int, bytes_max: int) -> Offsets:
        held = self._refresh_extents(source)
        begin_here = {queue: begin.get(queue, extent.min_offset) for queue, extent in held.items()}
        end = self._available(begin, held)
        waiting = {queue: max(0, end[queue] - begin_here[queue]) for queue in begin_here}
        if self._should_wait(sum(waiting.values())):
            return begin
        if bytes_max and any(waiting.values()):
            spans = [Span(queue, begin_here[queue], end[queue]) for queue in sorted(waiting) if waiting[queue]]
            end |= take_bytes(source.profiles(spans), bytes_max)
            waiting = {queue: max(0, end[queue] - begin_here[queue]) for queue in begin_here}
        if rows_max and sum(waiting.values()) > rows_max:
            shares = share_out({queue: count for queue, count in waiting.items() if count}, rows_max)
            end |= {queue: begin_here[queue] + count for queue, count in shares.items()}
        return end

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """What is there now, for the progress of the query: the batch's end behind it is its lag."""
        return to_nested({queue: extent.max_offset for queue, extent in self._extents.items()}) or None

    def _limits(self, limit: Any) -> tuple[int, int]:
        """Messages and bytes of a batch at most. The engine says one of the two, and may lift both."""
        own = self.options
        if type(limit).__name__ == "ReadAllAvailable":
            return 0, 0
        rows_max = getattr(limit, "max_rows", own.max_offsets_per_trigger)
        return rows_max, getattr(limit, "max_bytes", own.max_bytes_per_trigger)

    def _refresh_extents(self, source: Source) -> dict[QueueRef, QueueExtent]:
        try:
            extents = source.extents(self.options.selector)
        except NotFoundError:
            if self.options.fail_on_data_loss or not self._extents:
                raise
            extents = []  # every topic is gone: nothing to read until one is back
        self._extents = {extent.queue: extent for extent in extents}
        return self._extents

    def _available(self, begin: Offsets, held: dict[QueueRef, QueueExtent]) -> Offsets:
        end = {queue: extent.max_offset for queue, extent in held.items()}
        if self._target is not None:
            end = {
                queue: min(offset, self._target.get(queue, begin.get(queue, held[queue].min_offset)))
                for queue, offset in end.items()
            }
        for queue, offset in begin.items():
            if queue not in held:
                self._report_loss(queue, f"queue {queue} is gone; the stream had come to offset {offset}")
                end[queue] = offset
            elif held[queue].max_offset < offset:
                self._report_loss(
                    queue,
                    f"queue {queue} ends at {held[queue].max_offset}, before {offset}, which the stream had come to; "
                    "was the store replaced?",
                )
        return end

    def _report_loss(self, queue: QueueRef, sentence: str) -> None:
        if self.options.fail_on_data_loss:
            raise UnavailableError(f"{sentence} Set failOnDataLoss=false to go on with what is left")
        if queue not in self._warned:
            self._warned.add(queue)
            _log.warning("%s", sentence)

    def _should_wait(self, waiting: int) -> bool:
        """Whether a small batch waits for more; never longer than ``maxTriggerDelay``, never under AvailableNow."""
        if self._target is not None or not 0 < waiting < self.options.min_offsets_per_trigger:
            self._waiting_since = None
            return False
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        if now - self._waiting_since < self.options.max_trigger_delay / 1000:
            return True
        self._waiting_since = None
        return False

    # The batch

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begin, finish = from_nested(start), from_nested(end)
        self._planned_end = finish
        self._open_progress()
        if begin == finish:
            return []
        pieces = self._ask_source(lambda source: self._pieces(source, begin, finish))
        return [InputPartition(piece) for piece in pieces]

    def _pieces(self, source: Source, begin: Offsets, end: Offsets) -> list[ScanPiece]:
        held = self._extents
        if any(queue not in held or held[queue].max_offset < offset for queue, offset in end.items()):
            held = self._refresh_extents(source)
        for queue in sorted(queue for queue in end if queue not in held and begin.get(queue) != end[queue]):
            self._report_loss(queue, f"queue {queue} is gone; offsets up to {end[queue]} are wanted")
        extents = [held[queue] for queue in sorted(end) if queue in held]
        spans, warnings = checked_spans(begin, end, extents, fail_on_data_loss=self.options.fail_on_data_loss)
        for warning in warnings:
            _log.warning("%s", warning)
        return plan_pieces(source, self.spec, spans, self.options, self.request, repeatable=True)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from flaremq.pipeline.spark.datasource import conforming

        piece = getattr(partition, "value", None)
        if isinstance(piece, ScanPiece):
            with kept_source(self.spec) as source:
                batches = conforming(read_piece(source, piece, self.request), self.request.schema)
                if self.options.parquet_path:
                    from flaremq.pipeline.spark.stream_files import write_piece  # brings Parquet

                    batches = write_piece(self.options.parquet_path, piece, batches, self.request.schema)
                yield from batches

    # Progress of the group

    def commit(self, end: dict[str, Any]) -> None:
        self._report_progress(end)

    def _report_progress(self, done: dict[str, Any]) -> None:
        """Best effort: the checkpoint decides where the stream goes on, this only shows it to others.

        Spark calls ``commit`` when it starts the next batch, so for the last batch of AvailableNow never. But it asks
        for the end of a batch only when all before its start is done, so that is told too.
        """
        if self._progress is None or done == self._reported:
            return
        try:
            self._progress.commit(done)
            self._reported = done
        except (FlareMQError, OSError) as error:
            _log.warning("progress of group %s was not committed: %s", self.options.group, error)

    def _open_progress(self) -> None:
        if not self.options.group or self._progress is not None:
            return
        from flaremq.pipeline.spark.group_progress import ProgressWriter

        own = self.options
        progress = ProgressWriter(self.spec, own.group, commit_name_server=own.commit_name_server or None)
        try:
            progress.check()
        except BaseException:
            progress.close()
            raise
        self._progress = progress

    # The source

    def stop(self) -> None:
        self._close()
        if self._progress is not None:
            self._progress.close()
            self._progress = None

    def _ask_source(self, question: Callable[[Source], _T]) -> _T:
        """The answer of the open source; a failure is asked once more of a new one, unless the question is wrong."""
        if self._source is not None:
            try:
                return question(self._source)
            except InvalidArgumentError:
                raise
            except (FlareMQError, OSError, EOFError) as error:
                _log.info("the source is opened again after: %s", error)
                self._close()
        self._source = open_source(self.spec)
        return question(self._source)

    def _close(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            try:
                source.close()
            except (FlareMQError, OSError):
                pass  # it failed before


@told_plainly
class RefusedStream(DataSourceStreamReader):
    """A stream whose options are wrong: whatever Spark asks first is answered with what is wrong with them."""

    def __init__(self, error: FlareMQError) -> None:
        self._error = error

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise self._error

    initialOffset = latestOffset = partitions = read = _refuse


def make_stream_reader(options: ScanOptions, schema: pa.Schema) -> StreamReader:
    """The reader that this Spark can use: with admission control and AvailableNow from 4.2 on."""
    try:
        from flaremq.pipeline.spark.stream_admission import AdmittingStreamReader
    except ImportError:
        return StreamReader(options, schema)
    return AdmittingStreamReader(options, schema)
