"""ArchiveBuffer: takes messages as a source gives them, and hands them out sorted into topic, day, queue and offset.

It also keeps the books: for each queue the runs of offsets that were seen, one after the other without a hole, with
count, times and digest. A run ends where the day changes (a clock may go back, so a day may have several), where a
file ends, or where its span does. Offsets without a message belong to a run, unless there was one that is lost: then
the run ends before them, and they are told as lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from flaremq.core.arrays import Integers
from flaremq.errors import CorruptionError
from flaremq.pipeline.archive.entries import QueueRun
from flaremq.pipeline.archive.parquet import BODY_ERROR, FILE_SCHEMA
from flaremq.pipeline.archive.row_digest import RowDigest, digest_batch
from flaremq.pipeline.model.spans import QueueRef, Span

_DAY_US: Final = 86_400_000_000
_FILE_COLUMNS: Final = FILE_SCHEMA.names


@dataclass(slots=True)
class OpenRun:
    """A run that may still grow."""

    queue: QueueRef
    span: int  # its number
    day: int  # days since 1970
    start: int
    end: int
    batches: list[pa.RecordBatch] = field(default_factory=list)
    digest: RowDigest = field(default_factory=RowDigest)
    size_bytes: int = 0
    first_ms: int = -1
    last_ms: int = -1
    min_ms: int = -1
    max_ms: int = -1
    last_offset: int = -1
    last_physical: int = -1

    def add(self, rows: pa.RecordBatch, times_us: Integers, end: int) -> None:
        self.digest += digest_batch(rows)
        self.size_bytes += int(rows.column("storeSize").to_numpy(zero_copy_only=False).sum(dtype=np.int64))
        low, high = int(times_us.min()) // 1000, int(times_us.max()) // 1000
        if not self.batches:
            self.first_ms, self.min_ms, self.max_ms = int(times_us[0]) // 1000, low, high
        self.last_ms = int(times_us[-1]) // 1000
        self.min_ms, self.max_ms = min(self.min_ms, low), max(self.max_ms, high)
        self.batches.append(rows)
        self.last_offset = end - 1
        self.last_physical = int(rows.column("physicalOffset")[-1].as_py())
        self.end = end

    def closed(self) -> QueueRun:
        return QueueRun(
            self.queue,
            self.start,
            self.end,
            self.digest.count,
            self.size_bytes,
            self.first_ms,
            self.last_ms,
            self.min_ms,
            self.max_ms,
            self.digest.text,
            self.last_offset,
            self.last_physical,
        )


DrainedRuns: TypeAlias = dict[tuple[str, int], list[OpenRun]]  # by topic and day


class ArchiveBuffer:
    """Holds the rows of one file-to-be for each topic and day. Spans of one queue must be given in order.

    ``is_lost`` says whether offsets for which no row came should have had one; without it none should.
    """

    def __init__(self, spans: Sequence[Span], is_lost: Callable[[Span], bool] | None = None) -> None:
        self.lost: list[Span] = []
        self._is_lost = is_lost
        self._spans = spans
        self._positions = [span.start for span in spans]  # up to where each span is in some run
        self._by_queue: dict[QueueRef, list[int]] = {}
        for number, span in enumerate(spans):
            self._by_queue.setdefault(span.queue, []).append(number)
        places = {(span.queue.topic, span.queue.broker) for span in spans}
        self._place = places.pop() if len(places) == 1 else None
        self._runs: list[OpenRun] = []
        self._last: dict[int, OpenRun] = {}  # the newest run of a span, if it is still in here

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch with all columns; rows of one queue in order."""
        for queue, rows in split_by_queue(batch, self._place):
            numbers = self._by_queue.get(queue)
            if numbers is None:
                raise CorruptionError(f"rows of {queue} came that nobody asked for")
            offsets = rows.column("queueOffset").to_numpy()
            starts = np.array([self._spans[number].start for number in numbers])
            owner = np.searchsorted(starts, offsets, side="right") - 1
            times: Integers = rows.column("storeTimestamp").view(pa.int64()).to_numpy()
            days = times // _DAY_US
            ends_piece = (np.diff(owner) != 0) | (np.diff(days) != 0)
            if self._is_lost is not None:
                ends_piece |= np.diff(offsets) != 1
            cuts = np.flatnonzero(ends_piece) + 1
            bounds = [0, *cuts.tolist(), len(offsets)]
            for first, last in pairwise(bounds):
                piece = rows.slice(first, last - first)
                number = numbers[int(owner[first])] if owner[first] >= 0 else -1
                self._check(queue, number, offsets[first:last])
                self._pass_hole(number, int(offsets[first]))
                self._extend(number, int(days[first]), piece, times[first:last], int(offsets[last - 1]) + 1)

    def drain(self) -> DrainedRuns:
        """All rows held, as runs by topic and day, sorted by queue and offset; the buffer is empty then."""
        files: DrainedRuns = {}
        for run in sorted(self._runs, key=lambda run: (run.queue, run.start)):
            files.setdefault((run.queue.topic, run.day), []).append(run)
        self._runs, self._last = [], {}
        return files

    def finish(self) -> list[QueueRun]:
        """The spans were read to their ends: let the last runs reach there; what is left has no message at all."""
        empty = []
        for number, span in enumerate(self._spans):
            self._pass_hole(number, span.end)
            if self._positions[number] < span.end:
                run = self._last.get(number)
                if run is not None:
                    run.end = span.end
                else:
                    empty.append(
                        QueueRun(span.queue, self._positions[number], span.end, 0, 0, -1, -1, -1, -1, RowDigest().text)
                    )
                self._positions[number] = span.end
        return empty

    def _pass_hole(self, number: int, end: int) -> None:
        """No row came before ``end``: leave what is lost to nobody."""
        start = self._positions[number]
        if self._is_lost is None or start >= end:
            return
        hole = Span(self._spans[number].queue, start, end)
        if self._is_lost(hole):
            self.lost.append(hole)
            self._positions[number] = end
            self._last.pop(number, None)

    def _extend(self, number: int, day: int, rows: pa.RecordBatch, times: Integers, end: int) -> None:
        run = self._last.get(number)
        if run is None or run.day != day:
            queue = self._spans[number].queue
            run = OpenRun(queue, number, day, self._positions[number], self._positions[number])
            self._runs.append(run)
            self._last[number] = run
        run.add(rows, times, end)
        self._positions[number] = end

    def _check(self, queue: QueueRef, number: int, offsets: Integers) -> None:
        first, last = int(offsets[0]), int(offsets[-1])
        if number < 0 or first < self._positions[number] or last >= self._spans[number].end:
            raise CorruptionError(f"rows {first} to {last} of {queue} came twice or unasked")
        if len(offsets) > 1 and not (np.diff(offsets) > 0).all():
            raise CorruptionError(f"rows {first} to {last} of {queue} are not in order")


def split_by_queue(
    batch: pa.RecordBatch, place: tuple[str, str] | None = None
) -> list[tuple[QueueRef, pa.RecordBatch]]:
    """The rows of each queue, in the order they came, without the topic column.

    ``place`` is the topic and broker of all rows, if there is but one: it need not be looked for.
    """
    if not batch.num_rows:
        return []
    codes = batch.column("queueId").to_numpy().astype(np.int64)
    places = [place] if place is not None else []
    if place is None:
        numbers, places = _places(batch)
        codes += numbers << 32
    rows = batch.select([name for name in (*_FILE_COLUMNS, BODY_ERROR) if name in batch.schema.names])
    bounds = [0, len(codes)]
    if (codes != codes[0]).any():
        if (np.diff(codes) < 0).any():
            order = np.argsort(codes, kind="stable")
            rows, codes = rows.take(pa.array(order)), codes[order]
        bounds = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    found = []
    for first, last in pairwise(bounds):
        number, queue_id = divmod(int(codes[first]), 1 << 32)
        found.append((QueueRef(*places[number], queue_id), rows.slice(first, last - first)))
    return found


def _places(batch: pa.RecordBatch) -> tuple[Integers, list[tuple[str, str]]]:
    """Topic and broker of each row, as numbers of a list of them."""
    topics, brokers = batch.column("topic").dictionary_encode(), batch.column("brokerName").dictionary_encode()
    count = len(brokers.dictionary)
    numbers: Integers = topics.indices.to_numpy().astype(np.int64) * count + brokers.indices.to_numpy()
    return numbers, [
        (topic, broker) for topic in topics.dictionary.to_pylist() for broker in brokers.dictionary.to_pylist()
    ]


def day_text(day: int) -> str:
    """``YYYY-MM-DD`` of a day counted from 1970, UTC; of any year, for a record may claim any store time."""
    return str(np.datetime64(day, "D"))
