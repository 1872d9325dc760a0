"""The commit log cut into pieces that are walked apart from each other, with the result of one walk from end to end.

A piece is a range of physical offsets, cut without looking at the bytes. It owns what the walk meets *from* a position
inside it: the records that start there, however far they reach, the filler, the damaged range. Who walks a piece does
not know where its first record starts: at the start of a file it is taken for granted, elsewhere the first bytes that
are a whole record naming its own place are (``find_record``). That is a guess, if a good one: a body may hold bytes
that look like a record, damage may reach over the cut.

So the guess is proved: a walk depends on nothing but where it is, hence if piece *i* ends (behind its last record,
filler or damage) exactly where piece *i + 1* began, both are parts of the one serial walk. Where the two differ,
``chain_pieces`` has the second walked again from where the first ended. By induction the chain is the serial walk, on
damaged logs too; a damaged seam costs one more piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.log.walk import Blank, DamagedRange, LogItem, LogTail, RecordBatch, find_record

PIECE_BYTES = 256 << 20
_END_OF_LOG = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Physical offsets [start, end); ``begin`` is where its first record is known (or taken) to start, if it is."""

    number: int
    start: int
    end: int
    begin: int | None

    @property
    def is_last(self) -> bool:
        return self.end == _END_OF_LOG


class PieceSpan(Protocol):
    """What every result of a piece says about its place in the walk."""

    @property
    def begin(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def is_tail(self) -> bool:
        """Whether the log ended in this piece."""
        ...


_Result = TypeVar("_Result", bound=PieceSpan)


def cut_pieces(reader: StoreReader, piece_bytes: int = PIECE_BYTES) -> list[LogPiece]:
    """Pieces that tile the log, cut anew at each file, none for space that was never written; at least one."""
    run = reader.log.run
    cuts = [run.start]
    exact = {run.start}
    for file in run.files:
        data_end = reader.log.data_end(file)
        if file.start > cuts[-1] and data_end > file.start:
            cuts.append(file.start)
            exact.add(file.start)
        cuts += range(file.start + piece_bytes, data_end, piece_bytes)
    ends = [*cuts[1:], _END_OF_LOG]
    return [
        LogPiece(number, start, end, start if start in exact else None)
        for number, (start, end) in enumerate(zip(cuts, ends, strict=True))
    ]


def whole_log(reader: StoreReader) -> LogPiece:
    """The one piece of a log that is not cut."""
    return LogPiece(0, reader.log_min, _END_OF_LOG, reader.log_min)


class PieceWalk:
    """One walk over one piece: iterate to the end, then ask where it began and ended."""

    __slots__ = ("_odd_alone", "_piece", "_reader", "begin", "end", "is_tail")

    def __init__(self, reader: StoreReader, piece: LogPiece, *, odd_alone: bool = False) -> None:
        self._reader = reader
        self._piece = piece
        self._odd_alone = odd_alone
        begin = piece.begin
        if begin is None:
            begin = find_record(reader.log, piece.start)
        self.begin = piece.start if begin is None else begin  # None: the walk says what stands here instead
        self.end = self.begin
        self.is_tail = False

    def __iter__(self) -> Iterator[LogItem]:
        if self.begin >= self._piece.end:
            return
        for item in self._reader.walk(self.begin, odd_alone=self._odd_alone):
            if isinstance(item, RecordBatch):
                item = _before(item, self._piece.end)
                self.end = item.base + item.starts[-1] + item.sizes[-1]
            elif isinstance(item, Blank):
                self.end = item.physical_offset + item.size
            elif isinstance(item, DamagedRange):
                self.end = item.end
            else:
                assert isinstance(item, LogTail)
                self.end = item.physical_offset
                self.is_tail = True
            yield item
            if self.end >= self._piece.end:
                return


def chain_pieces(
    pieces: Sequence[LogPiece], results: Sequence[_Result], again: Callable[[LogPiece], _Result]
) -> list[_Result]:
    """The results that make up the serial walk; ``again`` walks a piece from the ``begin`` it is given."""
    chain: list[_Result] = []
    position = pieces[0].start
    for piece, result in zip(pieces, results, strict=True):
        if position >= piece.end:
            continue  # a record, or damage, of a piece before reaches over all of this one
        if result.begin != position:
            result = again(replace(piece, begin=position))
        chain.append(result)
        position = result.end
        if result.is_tail:
            break
    return chain


def _before(batch: RecordBatch, end: int) -> RecordBatch:
    """The batch without the records that start at or behind ``end``."""
    keep = len(batch.starts)
    while batch.base + batch.starts[keep - 1] >= end:
        keep -= 1
    if keep == len(batch.starts):
        return batch
    return replace(batch, starts=batch.starts[:keep], sizes=batch.sizes[:keep])
