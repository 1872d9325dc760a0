"""The rounds of a check (bulk_verify_pieces.py) as tasks, with the digests a certificate needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from flaremq.pipeline.jobs.runner import TaskRunner
from flaremq.pipeline.jobs.store_place import StorePlace
from flaremq.storage.at_rest.digest import hash_log, hash_units
from flaremq.storage.at_rest.pieces import LogPiece
from flaremq.storage.at_rest.queues import QueueId
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.verify.index_soundness import IndexSoundness, check_index
from flaremq.storage.verify.piece import find_queue
from flaremq.storage.verify.pieces import PieceFindings, QueueAsk, QueueRest, check_piece, check_rest

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


@dataclass(slots=True)
class TaskRounds:
    """The rounds on a runner. ``log_marks`` asks for digests at these offsets of the piece that starts at the key,
    ``index_marks`` at this entry of the index file of that name; None for no digests of the log at all."""

    runner: TaskRunner
    place: StorePlace
    indexes: Sequence[str]  # names of the files that hold entries and can be read
    log_marks: Mapping[int, Sequence[int]] | None = None
    index_marks: Mapping[str, int] = field(default_factory=dict)
    log_digests: dict[int, dict[int, str]] = field(default_factory=dict)  # piece start -> mark -> digest

    def log(self, pieces: Sequence[LogPiece]) -> list[PieceFindings]:
        tasks = [_PieceTask(self.place, piece, None) for piece in pieces]
        return [result.findings for result in self.runner.run(tasks, run_piece, "log")]

    def log_and_index(self, pieces: Sequence[LogPiece]) -> tuple[list[PieceFindings], list[IndexSoundness]]:
        tasks: list[_PieceTask | _IndexTask] = [
            _IndexTask(self.place, name, self.index_marks.get(name, 0)) for name in self.indexes
        ]
        for piece in pieces:
            marks = None if self.log_marks is None else tuple(self.log_marks.get(piece.start, ()))
            tasks.append(_PieceTask(self.place, piece, marks))
        results = self.runner.run(tasks, _run_either, "log and index")
        found = [result for result in results if isinstance(result, PieceResult)]
        for piece, result in zip(pieces, found, strict=True):
            self.log_digests[piece.start] = result.digests
        return [result.findings for result in found], [r for r in results if isinstance(r, IndexSoundness)]

    def queues(self, asks: Sequence[QueueAsk], log_end: int) -> list[QueueRest]:
        groups = _grouped(asks, self.runner.parallelism)
        tasks = [_QueueTask(self.place, tuple(group), log_end) for group in groups]
        return [rest for rests in self.runner.run(tasks, _run_queues, "queues") for rest in rests]

    def hash_queues(self, ranges: Sequence[QueueRange]) -> list[QueueBlock]:
        tasks = [_HashTask(self.place, tuple(group)) for group in _grouped(ranges, self.runner.parallelism)]
        return [block for blocks in self.runner.run(tasks, _run_hashes, "queue digests") for block in blocks]

    def hash_log_block(self, start: int, end: int) -> str | None:
        """For a block whose end was not known when its piece was read."""
        with self.place.open() as reader:
            return hash_log(reader, start, [end]).get(end)


@dataclass(frozen=True, slots=True)
class _PieceTask:
    place: StorePlace
    piece: LogPiece
    marks: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class _IndexTask:
    place: StorePlace
    name: str
    mark: int


@dataclass(frozen=True, slots=True)
class _QueueTask:
    place: StorePlace
    asks: tuple[QueueAsk, ...]
    log_end: int


@dataclass(frozen=True, slots=True)
class _HashTask:
    place: StorePlace
    ranges: tuple[QueueRange, ...]


@dataclass(frozen=True, slots=True)
class PieceResult:
    findings: PieceFindings
    digests: dict[int, str]


def run_piece(task: _PieceTask) -> PieceResult:
    with task.place.open() as reader:
        findings = check_piece(reader, task.piece, task.place.delay_levels)
        if task.marks is None:
            return PieceResult(findings, {})
        end = findings.end if findings.is_tail or task.piece.is_last else task.piece.end
        marks = [mark for mark in (*task.marks, end) if task.piece.start < mark <= task.piece.end]
        return PieceResult(findings, hash_log(reader, task.piece.start, marks))


def _run_either(task: _PieceTask | _IndexTask) -> PieceResult | IndexSoundness:
    if isinstance(task, _PieceTask):
        return run_piece(task)
    with task.place.open() as reader:
        (index,) = (index for index in reader.indexes if index.name == task.name)
        return check_index(index, task.mark)


def _run_queues(task: _QueueTask) -> list[QueueRest]:
    with task.place.open() as reader:
        return [check_rest(reader, find_queue(reader, ask.place), ask, task.log_end) for ask in task.asks]


def _run_hashes(task: _HashTask) -> list[QueueBlock]:
    with task.place.open() as reader:
        return [_block(reader, *wanted) for wanted in task.ranges]


def _block(reader: StoreReader, place: QueueId, first: int, end: int) -> QueueBlock:
    block = QueueBlock(place, first, end, None)
    queue = find_queue(reader, place)
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
