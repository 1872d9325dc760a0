"""ReplayTask: one queue of the source, in order, to the target; each message once, however often the task runs.

The messages of a source queue are one write stream of the sink (``message/write_stream.py``), named by the replay and
the queue. What of it is stored already, by an attempt or a run before, is found through the target's index and passed
over.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from flaremq.client.streams.sending import Parcel
from flaremq.message.write_stream import NOTHING_STORED, Stored, stem_of
from flaremq.pipeline.jobs.replay.rows import origin_of, sink_rows
from flaremq.pipeline.model.source import ReadRequest, Source, SourceSpec
from flaremq.pipeline.model.spans import QueueRef
from flaremq.pipeline.options import index_geometry
from flaremq.pipeline.planning.partitions import ScanPiece, read_piece
from flaremq.pipeline.sink.ledger import StoreLedger
from flaremq.pipeline.sink.options import SinkOptions
from flaremq.pipeline.sink.staging import StagedFile, StagingTarget, batch_folder
from flaremq.pipeline.sink.task import LaneKey, SinkTarget, SinkTask, TaskIdentity, TaskReport
from flaremq.pipeline.sink.wire import WireTarget
from flaremq.pipeline.sources.open import open_source
from flaremq.storage.at_rest.reader import StoreReader

_SLICES_PER_SECOND: Final = 10  # a rate is kept in steps of a tenth of a second
_QUEUES_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """Messages of one queue; picklable."""

    spec: SourceSpec
    piece: ScanPiece
    request: ReadRequest
    sink: SinkOptions
    replay_id: str
    keep_queues: bool = False
    rate: float | None = None  # messages a second of this task

    @property
    def queue(self) -> QueueRef:
        return self.piece.spans[0].queue

    @property
    def identity(self) -> TaskIdentity:
        """The same for the same queue in every run. Neighbouring queues get neighbouring numbers, so target queues."""
        text = f"{self.queue.topic}\0{self.queue.broker}".encode()
        base = int.from_bytes(hashlib.blake2b(text, digest_size=5).digest(), "big") * _QUEUES_MAX
        return TaskIdentity(self.replay_id, 0, base + self.queue.queue_id)


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What a task did; ``staged`` for a target that is a store."""

    rows: int
    stored_before: int
    missing: int
    skipped: int
    staged: StagedFile | None = None


def run_replay_task(task: ReplayTask) -> ReplayReport:
    """Read, send, and wait until everything is stored (or staged)."""
    with open_source(task.spec) as source:
        return replay_from(source, task)


def replay_from(source: Source, task: ReplayTask) -> ReplayReport:
    """The same from a source at hand."""
    skipped: list[int] = []
    batches = _rows(source, task, skipped)
    if task.sink.name_server:
        with WireTarget(task.sink, task.identity) as wire:
            report = _write(wire, task, batches)
        return ReplayReport(report.rows, report.stored_before, report.missing, sum(skipped))
    folder = batch_folder(task.sink.path, stem_of("write", task.replay_id), 0)
    with _StoreTarget(folder, task, uuid.uuid4().hex[:12]) as staging:
        report = _write(staging, task, batches)
    staged = None
    if staging.size:
        staged = StagedFile(staging.name, staging.size, task.identity.partition, report.rows)
    return ReplayReport(report.rows, report.stored_before, report.missing, sum(skipped), staged)


def _write(target: SinkTarget, task: ReplayTask, batches: Iterable[pa.RecordBatch]) -> TaskReport:
    if task.rate is not None:
        target = PacedTarget(target, task.rate)
    # A replay may be repeated for less than before: what does not come again is counted and told.
    sink = SinkTask(
        target,
        task.identity,
        task.sink.row_rules,
        request_bytes=task.sink.request_bytes,
        sends_in_doubt=True,
        name_row=lambda batch, row: f"message {origin_of(batch, row)}",
    )
    return sink.write(batches)


def _rows(source: Source, task: ReplayTask, skipped: list[int]) -> Iterator[pa.RecordBatch]:
    step = max(1, int(task.rate / _SLICES_PER_SECOND)) if task.rate is not None else None
    for batch in read_piece(source, task.piece, task.request):
        rows, left_out = sink_rows(batch, task.replay_id, to_topic=task.sink.topic, keep_queues=task.keep_queues)
        skipped.append(left_out)
        for first in range(0, rows.num_rows, step or max(1, rows.num_rows)):
            yield rows.slice(first, step)


class PacedTarget:
    """A target that takes so many messages a second; each portion is stored before the next is due."""

    def __init__(
        self,
        inner: SinkTarget,
        rate: float,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._inner = inner
        self._rate = rate
        self._now = now
        self._sleep = sleep
        self._due = now()  # when the next portion may go

    def open(self, lane: LaneKey) -> Stored:
        return self._inner.open(lane)

    def chains(self, lane: LaneKey, numbers: Iterable[int]) -> dict[int, int]:
        return self._inner.chains(lane, numbers)

    def put(self, lane: LaneKey, parcel: Parcel) -> None:
        ahead = self._due - self._now()
        if ahead > 0:
            self._sleep(ahead)
        # Time that passed without sending is not made up for: a rate is a promise about every second.
        self._due = max(self._due, self._now()) + parcel.count / self._rate
        self._inner.put(lane, parcel)
        self._inner.finish()

    def finish(self) -> None:
        self._inner.finish()


class _StoreTarget(StagingTarget):
    """Staging that knows what the closed store holds already, as a broker would tell."""

    def __init__(self, folder: str, task: ReplayTask, attempt: str) -> None:
        super().__init__(folder, task.identity, attempt)
        self._root = task.sink.path
        self._geometry = index_geometry(task.sink.store)
        self._identity = task.identity

    def open(self, lane: LaneKey) -> Stored:
        if not os.path.isdir(os.path.join(self._root, "commitlog")):
            return NOTHING_STORED
        with self._opened() as reader:
            return StoreLedger(reader.query, f"the store {self._root}").stored(lane.topic, lane.stem(self._identity))

    def chains(self, lane: LaneKey, numbers: Iterable[int]) -> dict[int, int]:
        with self._opened() as reader:
            ledger, stem = StoreLedger(reader.query, f"the store {self._root}"), lane.stem(self._identity)
            return {number: ledger.chain(lane.topic, stem, number) for number in numbers}

    def _opened(self) -> StoreReader:
        return StoreReader.open(self._root, lock=False, index_geometry=self._geometry)
