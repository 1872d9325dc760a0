"""The rounds of a check in pieces (storage/verify/chain.py) as tasks, with the digests a certificate needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from flaremq.pipeline.jobs.runner import TaskRunner
from flaremq.pipeline.jobs.store_place import StorePlace
from flaremq.storage.at_rest.digest import hash_log, hash_units
from flaremq.storage.at_rest.pieces import LogPiece
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.queue.table import QueueId
from flaremq.storage.verify.chain import QueueClaim, QueueVerdict, check_queue
from flaremq.storage.verify.index_soundness import IndexSoundness, check_index
from flaremq.storage.verify.piece import PieceFindings, check_piece

_QUEUES_A_TASK = 256
_Item = TypeVar("_Item")

QueueRange = tuple[QueueId, int, int]  # queue and the units [first, end)


@dataclass(frozen=True, slots=True)
class QueueBlock:
    """One stretch of a queue: its digest, and where the records of its first and last unit lie; None if it is gone."""

    place: QueueId
    first: int
    end: int
    digest: str | None
    first_physical: int = -1
    end_physical: int = -1


@dataclass(frozen=True, slots=True)
class Marks:
    """Where digests are asked for besides the ends of pieces and files: at these offsets of the piece that starts at
    the key, at this entry of the index file of that name."""

    log: Mapping[int, Sequence[int]] = field(default_factory=dict)
    index: Mapping[str, int] = field(default_factory=dict)


class TaskExecutor:
    """Runs the rounds as tasks."""

    def __init__(self, runner: TaskRunner, place: StorePlace, indexes: Sequence[str], marks: Marks | None) -> None:
        """``indexes`` names the files that hold entries and can be read; without ``marks`` the log gets no digests."""
        self._runner = runner
        self._place = place
        self._indexes = indexes
        self._marks = marks
        self._log_digests: dict[int, dict[int, str]] = {}  # piece start -> mark -> digest

    def check_log(self, pieces: Sequence[LogPiece]) -> list[PieceFindings]:
        tasks = [partial(_check_piece, self._place, piece, None) for piece in pieces]
        return [result.findings for result in self._runner.run(tasks, "log")]

    def check_log_and_index(self, pieces: Sequence[LogPiece]) -> tuple[list[PieceFindings], list[IndexSoundness]]:
        tasks: list[Callable[[], PieceResult | IndexSoundness]] = [
            partial(_check_index, self._place, name, self._marks.index.get(name, 0) if self._marks else 0)
            for name in self._indexes
        ]
        for piece in pieces:
            marks = None if self._marks is None else tuple(self._marks.log.get(piece.start, ()))
            tasks.append(partial(_check_piece, self._place, piece, marks))
        results = self._runner.run(tasks, "log and index")
        found = [result for result in results if isinstance(result, PieceResult)]
        for piece, result in zip(pieces, found, strict=True):
            self._log_digests[piece.start] = result.digests
        return [result.findings for result in found], [r for r in results if isinstance(r, IndexSoundness)]

    def check_queues(self, claims: Sequence[QueueClaim], log_end: int) -> list[QueueVerdict]:
        groups = _grouped(claims, self._runner.parallelism)
        tasks = [partial(_check_queues, self._place, group, log_end) for group in groups]
        return [verdict for verdicts in self._runner.run(tasks, "queues") for verdict in verdicts]

    def hash_queues(self, ranges: Sequence[QueueRange]) -> list[QueueBlock]:
        tasks = [partial(_hash_queues, self._place, group) for group in _grouped(ranges, self._runner.parallelism)]
        return [block for blocks in self._runner.run(tasks, "queue digests") for block in blocks]

    def log_digest(self, start: int, end: int) -> str | None:
        """Of a block of the log; read anew if its end was not known when its piece was read."""
        known = self._log_digests.get(start, {}).get(end)
        if known is not None:
            return known
        with self._place.open() as reader:
            return hash_log(reader, start, [end]).get(end)


@dataclass(frozen=True, slots=True)
class PieceResult:
    findings: PieceFindings
    digests: dict[int, str]


def _check_piece(place: StorePlace, piece: LogPiece, marks: tuple[int, ...] | None) -> PieceResult:
    with place.open() as reader:
        findings = check_piece(reader, piece, place.delay_levels, find=reader.find_queue)
        if marks is None:
            return PieceResult(findings, {})
        end = findings.end if findings.is_tail or piece.is_last else piece.end
        inside = [mark for mark in (*marks, end) if piece.start < mark <= piece.end]
        return PieceResult(findings, hash_log(reader, piece.start, inside))


def _check_index(place: StorePlace, name: str, mark: int) -> IndexSoundness:
    with place.open() as reader:
        (index,) = (index for index in reader.indexes if index.name == name)
        return check_index(index, mark)


def _check_queues(place: StorePlace, claims: Sequence[QueueClaim], log_end: int) -> list[QueueVerdict]:
    with place.open() as reader:
        return [check_queue(reader, reader.find_queue(claim.place), claim, log_end) for claim in claims]


def _hash_queues(place: StorePlace, ranges: Sequence[QueueRange]) -> list[QueueBlock]:
    with place.open() as reader:
        return [_block(reader, *wanted) for wanted in ranges]


def _block(reader: StoreReader, place: QueueId, first: int, end: int) -> QueueBlock:
    block = QueueBlock(place, first, end, None)
    queue = reader.find_queue(place)
    if queue is None or queue.is_batch:
        return block
    digest = hash_units(queue, first, end)
    head, last = queue.unit_at(first), queue.unit_at(end - 1)
    if digest is None or head is None or last is None:
        return block
    return replace(
        block, digest=digest, first_physical=head.physical_offset, end_physical=last.physical_offset + last.size
    )


def _grouped(items: Sequence[_Item], parallelism: int) -> list[Sequence[_Item]]:
    size = max(min(_QUEUES_A_TASK, -(-len(items) // max(parallelism, 1))), 1)
    return [items[first : first + size] for first in range(0, len(items), size)]
