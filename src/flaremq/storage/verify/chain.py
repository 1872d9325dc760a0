"""Pieces of the log, checked apart from each other, put together to the check of the whole store.

Round one checks each piece (records, their units, their keys) and each index file in itself; round two the units of
each queue that no record of the log stands for. Both only tell right from in doubt. Here it is proved that the pieces
make up one walk (at_rest/pieces.py) and that the units of each queue and the entries of the index follow each other
from piece to piece; what does not goes to the plain checkers (doubts.py). So a healthy store never pays for those, and
the findings are theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from flaremq.core.queue import parse_units
from flaremq.message.delay import DelayLevels
from flaremq.storage.at_rest.outlook import redispatch_start
from flaremq.storage.at_rest.pieces import LogPiece, chain_pieces, whole_log
from flaremq.storage.at_rest.queues import StoredQueue
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.log.walk import DamagedRange
from flaremq.storage.queue.consume_queue import FILLER_SIZE, UNIT_SIZE
from flaremq.storage.queue.table import QueueId
from flaremq.storage.verify.doubts import DoubtfulIndex, DoubtfulQueues, IndexPart
from flaremq.storage.verify.finding import Finding, Summary
from flaremq.storage.verify.index_entries import EntryCursor, with_entries
from flaremq.storage.verify.index_soundness import IndexSoundness, check_index
from flaremq.storage.verify.log import BODIES_NAMED, BODY_UNDECODABLE, clock_set_back
from flaremq.storage.verify.piece import InDoubt, PieceFindings, QueueSpan, RightUnits, add_span, check_piece


@dataclass(frozen=True, slots=True)
class QueueClaim:
    """A queue whose units [first, end) are right by the log; -1 if the log holds none of its records."""

    place: QueueId
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class QueueVerdict:
    """``units`` counts all units if nothing stands in the queue but what may; None if it is in doubt."""

    place: QueueId
    first: int
    end: int
    units: int | None


class PieceExecutor(Protocol):
    """Where the rounds are run: in this process, or on many machines."""

    def check_log(self, pieces: Sequence[LogPiece]) -> list[PieceFindings]: ...

    def check_log_and_index(self, pieces: Sequence[LogPiece]) -> tuple[list[PieceFindings], list[IndexSoundness]]:
        """The pieces, and every index file that holds entries."""
        ...

    def check_queues(self, claims: Sequence[QueueClaim], log_end: int) -> list[QueueVerdict]: ...


def check_queue(reader: StoreReader, queue: StoredQueue | None, claim: QueueClaim, log_end: int) -> QueueVerdict:
    """Whether the units before the right ones are expired or filler and nothing stands behind."""
    first, end = claim.first, claim.end
    in_doubt = QueueVerdict(claim.place, first, end, None)
    if queue is None or queue.is_batch or queue.ext_run is not None:
        return in_doubt
    if first < 0:
        first = end = queue.written_end()
    start, stop = queue.run.start // UNIT_SIZE, queue.run.end // UNIT_SIZE
    head = queue.read_raw(start, first - start)
    if queue.run.misfits or queue.run.gaps or len(head) != (first - start) * UNIT_SIZE:
        return in_doubt
    offsets, sizes, codes = units = np.empty((3, len(head) // UNIT_SIZE), np.int64)
    parse_units(head, units)
    filler = (offsets == 0) & (sizes == FILLER_SIZE) & (codes == 0)
    expired = (offsets >= 0) & (sizes > 0) & (offsets < reader.log_min) & (offsets + sizes <= log_end)
    if not np.all(filler | expired) or queue.written_end() > max(end, start) or end > stop:
        return in_doubt
    return QueueVerdict(claim.place, first, end, max(end - start, 0))


def chain_here(reader: StoreReader, delay_levels: DelayLevels, on_progress: Callable[[int], None] | None) -> PieceChain:
    """The whole log as one piece, checked in this process."""
    executor = _LocalExecutor(reader, delay_levels, on_progress)
    return PieceChain(reader, [whole_log(reader)], executor, delay_levels)


class _LocalExecutor:
    def __init__(
        self, reader: StoreReader, delay_levels: DelayLevels, on_progress: Callable[[int], None] | None
    ) -> None:
        self._reader = reader
        self._delay_levels = delay_levels
        self._on_progress = on_progress
        self._queues = {(queue.topic, queue.queue_id): queue for queue in reader.queues}

    def check_log(self, pieces: Sequence[LogPiece]) -> list[PieceFindings]:
        return [
            check_piece(self._reader, piece, self._delay_levels, find=self._queues.get, on_progress=self._on_progress)
            for piece in pieces
        ]

    def check_log_and_index(self, pieces: Sequence[LogPiece]) -> tuple[list[PieceFindings], list[IndexSoundness]]:
        indexes = with_entries(self._reader.indexes)
        return self.check_log(pieces), [check_index(index, digests=False) for index in indexes]

    def check_queues(self, claims: Sequence[QueueClaim], log_end: int) -> list[QueueVerdict]:
        return [check_queue(self._reader, self._queues.get(claim.place), claim, log_end) for claim in claims]


class PieceChain:
    """The check of log, queues and index of one store: read ``findings`` to the end, then the rest."""

    def __init__(
        self, reader: StoreReader, pieces: Sequence[LogPiece], executor: PieceExecutor, delay_levels: DelayLevels
    ) -> None:
        self._reader = reader
        self._pieces = pieces
        self._executor = executor
        self._delay_levels = delay_levels
        self._damaged: list[DamagedRange] = []
        self.found: list[PieceFindings] = []  # the pieces that make up the walk
        self.indexes: list[IndexSoundness] = []
        self.queues: list[QueueVerdict] = []  # those that are not in doubt

    def findings(self, summary: Summary) -> Iterator[Finding]:
        """Every finding; totals are added to ``summary``."""
        executor = self._executor
        found, self.indexes = executor.check_log_and_index(self._pieces)
        self.found = chain_pieces(self._pieces, found, lambda piece: executor.check_log([piece])[0])
        yield from self._check_log(summary)
        yield from self._check_queues(summary)
        yield from self._check_indexes(summary)

    def _check_log(self, summary: Summary) -> Iterator[Finding]:
        reader, last, bodies = self._reader, 0, 0
        for piece in self.found:
            if piece.first_record is not None and 0 <= piece.first_record[1] < last:
                yield clock_set_back(reader, piece.first_record[0], last - piece.first_record[1])
            for finding in piece.findings:
                bodies += finding.kind == BODY_UNDECODABLE
                if finding.kind != BODY_UNDECODABLE or bodies <= BODIES_NAMED:
                    yield finding
            last = piece.last_timestamp if piece.first_record is not None else last
            summary.add_records(piece.summary)
            self._damaged += piece.damaged
            unreadable = reader.files.unreadable
            unreadable += [page for page in piece.unreadable if page not in unreadable]
        summary.log_end = self.found[-1].end

    # Queues

    def _check_queues(self, summary: Summary) -> Iterator[Finding]:
        reader = self._reader
        spans: dict[QueueId, list[QueueSpan]] = {}
        for piece in self.found:
            for place, parts in piece.views.queues.items():
                joined = spans.setdefault(place, [])
                for part in parts:
                    add_span(joined, part)
        in_doubt: dict[QueueId, list[QueueSpan]] = {}
        claims = {
            QueueClaim((q.topic, q.queue_id), -1, -1) for q in reader.queues if (q.topic, q.queue_id) not in spans
        }
        for place, parts in spans.items():
            if len(parts) == 1 and isinstance(parts[0], RightUnits):
                claims.add(QueueClaim(place, parts[0].first, parts[0].end))
            else:
                in_doubt[place] = parts
        for verdict in self._executor.check_queues(sorted(claims, key=lambda claim: claim.place), summary.log_end):
            if verdict.units is None:
                in_doubt[verdict.place] = spans.get(verdict.place, [])
            else:
                summary.units += verdict.units
                self.queues.append(verdict)
        if not in_doubt:
            return
        checker = DoubtfulQueues(
            reader,
            in_doubt,
            redispatch_from=redispatch_start(reader, reader.log_end),
            known_topics=reader.known_topics,
            damaged=self._damaged,
            delay_levels=self._delay_levels,
        )
        checker.look()
        yield from checker.findings(log_end=summary.log_end)
        summary.units += checker.units
        summary.contradicted |= checker.contradicted

    # Index

    def _check_indexes(self, summary: Summary) -> Iterator[Finding]:
        reader = self._reader
        known = [index for index in reader.indexes if index.geometry is not None]
        cursor = EntryCursor(known, reader.log_min)
        summary.index_entries = cursor.total
        unsound = {index.name for index in self.indexes if not index.is_sound}
        if len(known) < len(reader.indexes):
            part: IndexPart | None = IndexPart(0, cursor.total, reader.log_min, summary.log_end)
            unsound = {index.name for index in known}
        else:
            part = self._part_in_doubt(cursor, summary.log_end)
        if part is None and not unsound:
            return
        if part is None or (not reader.indexes and reader.closed_cleanly):
            part = IndexPart(0, 0, 0, 0)  # without an index the log need not be read to say so
        checker = DoubtfulIndex(
            reader,
            part,
            unsound,
            redispatch_from=redispatch_start(reader, reader.log_end),
            damaged=self._damaged,
        )
        checker.look(any(piece.views.keys_seen for piece in self.found))
        yield from checker.findings()
        summary.contradicted |= checker.contradicted

    def _part_in_doubt(self, cursor: EntryCursor, log_end: int) -> IndexPart | None:
        """The entries from the first to the last that no piece vouches for; None if there are none."""
        doubts: list[tuple[int, int, int, int]] = []
        right_to, log_to = cursor.number, self._reader.log_min  # vouched for so far, expired entries included
        after_doubt = False
        for span in (span for piece in self.found for span in piece.views.index):
            if isinstance(span, InDoubt):
                after_doubt = True
                continue
            if after_doubt or span.first != right_to:
                doubts.append((right_to, span.first, log_to, span.log_start))
            right_to, log_to, after_doubt = span.end, span.log_end, False
        if after_doubt or right_to != cursor.total:
            doubts.append((right_to, cursor.total, log_to, log_end))
        if not doubts:
            return None
        if any(first > end for first, end, _, _ in doubts):
            return IndexPart(0, cursor.total, self._reader.log_min, log_end)
        first, end = doubts[0][0], doubts[-1][1]
        return IndexPart(first, end, doubts[0][2], doubts[-1][3], cursor.offset_at(first - 1), cursor.offset_at(end))
