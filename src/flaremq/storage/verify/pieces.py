"""``store verify`` in pieces: the same findings, with the long walk shared out.

Round one checks pieces of the log (records, their units, their keys) and each index file in itself; round two the
units of each queue that no record of the log stands for. Both only tell right from not right. The driver proves that
the pieces make up the serial walk (at_rest/pieces.py), that the units of each queue and the entries of the index follow
each other from piece to piece, and gives what does not to the plain checkers (verify/parts.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from flaremq.message.delay import DelayLevels
from flaremq.message.message_ext import MessageExt
from flaremq.storage.at_rest.outlook import redispatch_start
from flaremq.storage.at_rest.pieces import LogPiece, PieceWalk, chain_pieces
from flaremq.storage.at_rest.queues import QueueId, StoredQueue
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.kernels.table import STORE_TIMESTAMP
from flaremq.storage.log.walk import DamagedRange, LogItem, RecordBatch
from flaremq.storage.verify.bulk import count_units
from flaremq.storage.verify.finding import Finding, Severity
from flaremq.storage.verify.index_soundness import IndexSoundness
from flaremq.storage.verify.parts import IndexPart, IndexPartChecker, QueuePartsChecker
from flaremq.storage.verify.piece import EntryCursor, PieceChecker, PieceViews, QueueSpan, RightUnits
from flaremq.storage.verify.verifier import StoreVerifier


@dataclass(frozen=True, slots=True)
class PieceFindings:
    """Everything one piece of the log says."""

    begin: int
    end: int
    is_tail: bool
    findings: tuple[Finding, ...]
    damaged: tuple[DamagedRange, ...]
    records: int
    record_bytes: int
    blanks: int
    undecodable_bodies: int
    first_offset: int  # of its first record, -1 without one
    first_timestamp: int
    last_timestamp: int
    newest_timestamp: int
    views: PieceViews
    unreadable: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class QueueAsk:
    """A queue whose units [first, end) are right by the log; -1 if the log holds none of its records."""

    place: QueueId
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class QueueRest:
    """``units`` counts all units if nothing else stands in the queue but what may; None if somebody must look."""

    place: QueueId
    first: int
    end: int
    units: int | None


class VerifyRounds(Protocol):
    """How the rounds are done: here, or on many machines."""

    def log(self, pieces: Sequence[LogPiece]) -> list[PieceFindings]: ...

    def log_and_index(self, pieces: Sequence[LogPiece]) -> tuple[list[PieceFindings], list[IndexSoundness]]:
        """The pieces, and every index file that holds entries."""
        ...

    def queues(self, asks: Sequence[QueueAsk], log_end: int) -> list[QueueRest]: ...


def check_piece(reader: StoreReader, piece: LogPiece, delay_levels: DelayLevels) -> PieceFindings:
    """Round one for one piece."""
    walk = PieceWalk(reader, piece, odd_alone=True)
    indexes = None if any(index.geometry is None for index in reader.indexes) else reader.indexes
    checker = PieceChecker(reader, delay_levels, indexes, walk.begin)
    log = _PieceLog(reader, walk)
    findings = tuple(log.check(checker))
    summary = log.summary
    return PieceFindings(
        walk.begin,
        walk.end,
        walk.is_tail,
        findings,
        tuple(log.damaged),
        summary.records,
        summary.record_bytes,
        summary.blanks,
        summary.undecodable_bodies,
        log.first_offset,
        log.first_timestamp,
        log.last_timestamp,
        log.newest_timestamp,
        checker.views,
        tuple(reader.files.unreadable),
    )


def check_rest(reader: StoreReader, queue: StoredQueue | None, ask: QueueAsk, log_end: int) -> QueueRest:
    """Round two for one queue."""
    if queue is None or queue.is_batch:
        return QueueRest(ask.place, ask.first, ask.end, None)
    first, end = ask.first, ask.end
    if first < 0:
        first = end = queue.written_end()
    units = count_units(queue, first, end, log_min=reader.log_min, log_end=log_end)
    return QueueRest(ask.place, first, end, units)


class _PieceLog(StoreVerifier):
    """The part of a check that is about the log itself, over one piece."""

    def __init__(self, reader: StoreReader, walk: PieceWalk) -> None:
        super().__init__(reader, bulk=True)
        self._piece_walk = walk
        self.first_offset = -1
        self.first_timestamp = 0

    def check(self, checker: PieceChecker) -> Iterator[Finding]:
        return self._check_log(checker.check)

    @property
    def damaged(self) -> list[DamagedRange]:
        return self._damaged

    @property
    def last_timestamp(self) -> int:
        return self._last_timestamp

    @property
    def newest_timestamp(self) -> int:
        return self._newest_timestamp

    def _items(self) -> Iterator[LogItem]:
        return iter(self._piece_walk)

    def _check_batch(self, batch: RecordBatch) -> Iterator[Finding]:
        if self.first_offset < 0:
            self.first_offset, record = next(batch.records())
            self.first_timestamp = MessageExt(record).store_timestamp
        if batch.columns is not None:
            times = batch.columns[STORE_TIMESTAMP, : len(batch.starts)]
            if times[0] >= self._last_timestamp and bool(np.all(times[1:] >= times[:-1])):
                self._last_timestamp = int(times[-1])
                self._newest_timestamp = max(self._newest_timestamp, self._last_timestamp)
                return iter(())
        return super()._check_batch(batch)


class PieceVerifier(StoreVerifier):
    """A check of one store whose walk is done in rounds of tasks."""

    def __init__(
        self,
        reader: StoreReader,
        pieces: Sequence[LogPiece],
        rounds: VerifyRounds,
        *,
        delay_levels: DelayLevels | None = None,
    ) -> None:
        super().__init__(reader, delay_levels=delay_levels, bulk=True)
        self._pieces = pieces
        self._rounds = rounds
        self.chain: list[PieceFindings] = []
        self.indexes: list[IndexSoundness] = []
        self.queue_ranges: list[QueueRest] = []

    def _check_in_bulk(self) -> Iterator[Finding]:
        found, self.indexes = self._rounds.log_and_index(self._pieces)
        self.chain = chain_pieces(self._pieces, found, lambda piece: self._rounds.log([piece])[0])
        yield from self._check_chain()
        self.summary.log_end = self.chain[-1].end
        yield from self._check_queues()
        yield from self._check_indexes()

    def _check_chain(self) -> Iterator[Finding]:
        summary, last = self.summary, 0
        for piece in self.chain:
            if 0 <= piece.first_timestamp < last and piece.first_offset >= 0:
                before = last - piece.first_timestamp
                detail = f"record {piece.first_offset} was stored {before} ms before the one in front of it"
                yield self._log_finding(
                    piece.first_offset, "store-time-backwards", f"{detail}: the clock was set back", Severity.NOTE
                )
            yield from piece.findings
            last = piece.last_timestamp if piece.records else last
            self._newest_timestamp = max(self._newest_timestamp, piece.newest_timestamp)
            self._damaged += piece.damaged
            summary.records += piece.records
            summary.record_bytes += piece.record_bytes
            summary.blanks += piece.blanks
            summary.undecodable_bodies += piece.undecodable_bodies
            unreadable = self._reader.files.unreadable
            unreadable += [page for page in piece.unreadable if page not in unreadable]

    # Queues

    def _check_queues(self) -> Iterator[Finding]:
        reader, log_end = self._reader, self.summary.log_end
        spans = _joined(piece.views.queues for piece in self.chain)
        suspects: dict[QueueId, list[QueueSpan]] = {}
        asks = [QueueAsk((q.topic, q.queue_id), -1, -1) for q in reader.queues if (q.topic, q.queue_id) not in spans]
        for place, parts in spans.items():
            if len(parts) == 1 and isinstance(parts[0], RightUnits):
                asks.append(QueueAsk(place, parts[0].first, parts[0].end))
            else:
                suspects[place] = parts
        for rest in self._rounds.queues(sorted(set(asks), key=lambda ask: ask.place), log_end):
            if rest.units is None:
                suspects[rest.place] = spans.get(rest.place, [])
            else:
                self.summary.units += rest.units
                self.queue_ranges.append(rest)
        if not suspects:
            return
        checker = QueuePartsChecker(
            reader,
            suspects,
            redispatch_from=redispatch_start(reader, reader.log_end),
            known_topics=reader.known_topics,
            damaged=self._damaged,
            delay_levels=self._delay_levels,
        )
        checker.look()
        yield from checker.findings(log_end=log_end)
        self.summary.units += checker.units

    # Index

    def _check_indexes(self) -> Iterator[Finding]:
        reader = self._reader
        known = [index for index in reader.indexes if index.geometry is not None]
        cursor = EntryCursor(known, reader.log_min)
        self.summary.index_entries = cursor.total
        unsound = {index.name for index in self.indexes if not index.is_sound}
        if len(known) < len(reader.indexes):
            part: IndexPart | None = IndexPart(0, cursor.total, reader.log_min, self.summary.log_end)
            unsound = {index.name for index in known}
        else:
            part = self._part_in_doubt(cursor)
        if part is None and not unsound:
            return
        part = part or IndexPart(0, 0, 0, 0)
        if not reader.indexes and reader.closed_cleanly:
            part = IndexPart(0, 0, 0, 0)  # there is no index: no need to read the log to say so
        checker = IndexPartChecker(
            reader,
            part,
            unsound,
            redispatch_from=redispatch_start(reader, reader.log_end),
            damaged=self._damaged,
        )
        checker.look(any(piece.views.keys_seen for piece in self.chain))
        yield from checker.findings()

    def _part_in_doubt(self, cursor: EntryCursor) -> IndexPart | None:
        """The entries from the first to the last that no piece vouches for; None if there are none."""
        doubts: list[tuple[int, int, int, int]] = []
        right_to, log_to = cursor.number, self._reader.log_min  # vouched for so far, expired entries included
        for piece in self.chain:
            views = piece.views
            if views.index_right:
                if views.entries_first != right_to or log_to != piece.begin:
                    doubts.append((right_to, views.entries_first, log_to, piece.begin))
                right_to, log_to = views.entries_end, piece.end
        if right_to != cursor.total or log_to != self.summary.log_end:
            doubts.append((right_to, cursor.total, log_to, self.summary.log_end))
        if not doubts:
            return None
        if any(first > end for first, end, _, _ in doubts):
            return IndexPart(0, cursor.total, self._reader.log_min, self.summary.log_end)
        first, end = doubts[0][0], doubts[-1][1]
        return IndexPart(first, end, doubts[0][2], doubts[-1][3], cursor.offset_at(first - 1), cursor.offset_at(end))


def _joined(pieces: Iterable[dict[QueueId, list[QueueSpan]]]) -> dict[QueueId, list[QueueSpan]]:
    """The spans of each queue over all pieces, neighbours that follow each other made one."""
    joined: dict[QueueId, list[QueueSpan]] = {}
    for piece in pieces:
        for place, parts in piece.items():
            spans = joined.setdefault(place, [])
            for part in parts:
                last = spans[-1] if spans else None
                if isinstance(last, RightUnits) and isinstance(part, RightUnits) and last.end == part.first:
                    spans[-1] = RightUnits(last.first, part.end)
                else:
                    spans.append(part)
    return joined
