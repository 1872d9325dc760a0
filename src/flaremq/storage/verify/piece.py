"""One piece of the log held against queues and index: what is right, and what the plain checkers must look at.

Only equality is decided: the core makes of a batch of records the very bytes its queues and index must hold, and
comparing them with what is there costs next to nothing. What differs, or is left out by the core, is
*in doubt*, and the plain checkers say what it means.

A piece knows nothing of those before it. So it says *which* units and entries it found right, in log order, and
``chain`` sees whether they follow each other from piece to piece.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from flaremq.core.arrays import Integers
from flaremq.core.index import index_keys
from flaremq.core.queue import fill_units
from flaremq.core.table import PHYSICAL_OFFSET, QUEUE_OFFSET
from flaremq.message.delay import DelayLevels
from flaremq.message.message_ext import MessageExt
from flaremq.storage.at_rest.pieces import LogPiece, PieceWalk
from flaremq.storage.at_rest.queues import StoredQueue
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.at_rest.record_table import is_read_singly, queue_groups
from flaremq.storage.dispatch.record_views import expected_index_hashes, expected_units
from flaremq.storage.log.walk import DamagedRange, RecordBatch
from flaremq.storage.queue.consume_queue import UNIT_SIZE
from flaremq.storage.queue.table import QueueId
from flaremq.storage.verify.finding import Finding, Summary
from flaremq.storage.verify.index_entries import EntryCursor
from flaremq.storage.verify.log import LogChecker


@dataclass(frozen=True, slots=True)
class RightUnits:
    """Units [first, end) are what the records of this queue say."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class RightEntries:
    """Entries [first, end), numbered through all index files, are what the records of [log_start, log_end) say."""

    first: int
    end: int
    log_start: int
    log_end: int


@dataclass(frozen=True, slots=True)
class InDoubt:
    """The records that start in the log's [start, end) are for the plain check."""

    start: int
    end: int


QueueSpan = RightUnits | InDoubt
IndexSpan = RightEntries | InDoubt


@dataclass(slots=True)
class PieceViews:
    """What one piece says about the views, in log order."""

    queues: dict[QueueId, list[QueueSpan]] = field(default_factory=dict)
    index: list[IndexSpan] = field(default_factory=list)
    keys_seen: bool = False


@dataclass(frozen=True, slots=True)
class PieceFindings:
    """Everything one piece of the log says."""

    begin: int
    end: int
    is_tail: bool
    findings: tuple[Finding, ...]
    summary: Summary  # of its records
    damaged: tuple[DamagedRange, ...]
    first_record: tuple[int, int] | None  # its offset and store time
    last_timestamp: int
    views: PieceViews
    unreadable: tuple[tuple[str, int, int], ...]


def check_piece(
    reader: StoreReader,
    piece: LogPiece,
    delay_levels: DelayLevels,
    *,
    find: Callable[[QueueId], StoredQueue | None],
    on_progress: Callable[[int], None] | None = None,
) -> PieceFindings:
    """Walk the piece and hold its records against the queues that ``find`` gives and the index."""
    walk = PieceWalk(reader, piece, odd_alone=True)
    summary = Summary()
    log = LogChecker(reader, summary, on_progress)
    views = _ViewsChecker(reader, delay_levels, find, walk.begin)
    findings = tuple(log.check(walk, views.check))
    return PieceFindings(
        walk.begin,
        walk.end,
        walk.is_tail,
        findings,
        summary,
        tuple(log.damaged),
        log.first_record,
        log.last_timestamp,
        views.views,
        tuple(reader.files.unreadable),
    )


class _ViewsChecker:
    """Gets the batches of one piece in log order."""

    def __init__(
        self,
        reader: StoreReader,
        delay_levels: DelayLevels,
        find: Callable[[QueueId], StoredQueue | None],
        begin: int,
    ) -> None:
        self._deleted = reader.deleted
        self._delay_levels = delay_levels
        self._delay_ms = np.array([0, *delay_levels.delays_ms], np.int64)
        self._find = find
        self._queues: dict[QueueId, StoredQueue | None] = {}
        self._entries = EntryCursor(reader.indexes, begin)
        self._with_tags = False  # RocketMQ 5.5 also indexes tags
        self.views = PieceViews()

    def check(self, batch: RecordBatch) -> None:
        in_doubt = InDoubt(batch.base, batch.base + batch.starts[-1] + batch.sizes[-1])
        if is_read_singly(batch):
            self._doubt_all(batch, in_doubt)
            return
        for place, members in queue_groups(batch):
            if batch.base < self._deleted.reach:
                members = members[batch.columns[PHYSICAL_OFFSET][members] >= self._deleted.end_of(place[0])]
                if not len(members):
                    continue
            self._add(place, self._right_units(place, batch.columns, members) or in_doubt)
        self._add_index(self._right_entries(batch, in_doubt) or in_doubt)

    def _add(self, place: QueueId, span: QueueSpan) -> None:
        add_span(self.views.queues.setdefault(place, []), span)

    def _add_index(self, span: IndexSpan) -> None:
        spans = self.views.index
        last = spans[-1] if spans else None
        if isinstance(last, RightEntries) and isinstance(span, RightEntries) and last.end == span.first:
            spans[-1] = RightEntries(last.first, span.end, last.log_start, span.log_end)
        elif isinstance(last, InDoubt) and isinstance(span, InDoubt):
            spans[-1] = InDoubt(last.start, span.end)
        else:
            spans.append(span)

    def _doubt_all(self, batch: RecordBatch, in_doubt: InDoubt) -> None:
        places: dict[QueueId, None] = {}
        for offset, record in batch.records():
            message = MessageExt(record)
            self.views.keys_seen |= bool(expected_index_hashes(message))
            for unit in expected_units(message, self._delay_levels):
                if not self._deleted.hides(unit.topic, offset):
                    places[unit.topic, unit.queue_id] = None
        for place in places:
            self._add(place, in_doubt)
        self._add_index(in_doubt)

    def _right_units(self, place: QueueId, columns: Integers, members: Integers) -> RightUnits | None:
        if place not in self._queues:
            self._queues[place] = self._find(place)
        queue = self._queues[place]
        if queue is None or queue.is_batch or queue.ext_run is not None:
            return None
        offsets = columns[QUEUE_OFFSET][members]
        first, count = int(offsets[0]), len(members)
        if not np.array_equal(offsets, np.arange(first, first + count)):
            return None
        units = np.empty(count * UNIT_SIZE, np.uint8)
        fill_units(columns, members, self._delay_ms, units)
        if queue.read_raw(first, count) != units.tobytes():
            return None
        return RightUnits(first, first + count)

    def _right_entries(self, batch: RecordBatch, covered: InDoubt) -> RightEntries | None:
        entries, rows = self._entries, len(batch.starts)
        in_doubt = self.views.index and isinstance(self.views.index[-1], InDoubt)
        if in_doubt and (entries.total or self.views.keys_seen):
            return None  # entries that are out of order make those behind them doubtful too
        first = entries.number
        for with_tags in (self._with_tags, not self._with_tags):
            found = index_keys(batch.data, batch.columns, 0, rows, 0, with_tags)
            keys: Integers = np.frombuffer(found, np.int64).reshape(-1, 3)
            self.views.keys_seen |= len(keys) > 0 and not with_tags
            # An entry left over for these records may be a tag's, so it decides between the two ways.
            if entries.matches(*keys.T) and not entries.leads_before(covered.end):
                self._with_tags = with_tags
                return RightEntries(first, entries.number, covered.start, covered.end)
            entries.number = first
        return None


def add_span(spans: list[QueueSpan], span: QueueSpan) -> None:
    """Append it, or lengthen the last by it if the one continues the other."""
    last = spans[-1] if spans else None
    if isinstance(last, RightUnits) and isinstance(span, RightUnits) and last.end == span.first:
        spans[-1] = RightUnits(last.first, span.end)
    elif isinstance(last, InDoubt) and isinstance(span, InDoubt) and last.end == span.start:
        spans[-1] = InDoubt(last.start, span.end)
    elif last != span:
        spans.append(span)
