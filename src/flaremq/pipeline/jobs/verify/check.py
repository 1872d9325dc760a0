"""The check of a store in pieces, run as tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flaremq.pipeline.jobs.runner import TaskRunner
from flaremq.pipeline.jobs.store_place import StorePlace
from flaremq.pipeline.jobs.verify.tasks import Marks, TaskExecutor
from flaremq.storage.at_rest.pieces import LogPiece, cut_pieces
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.verify.chain import PieceChain
from flaremq.storage.verify.finding import Finding, Summary
from flaremq.storage.verify.index_entries import with_entries
from flaremq.storage.verify.verifier import StoreVerifier


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """A check that was made, with what certificates and comparisons take from it."""

    reader: StoreReader
    block_bytes: int
    pieces: Sequence[LogPiece]
    executor: TaskExecutor
    chain: PieceChain
    findings: tuple[Finding, ...]
    summary: Summary


def check_store(
    reader: StoreReader, place: StorePlace, runner: TaskRunner, block_bytes: int, marks: Marks | None
) -> StoreCheck:
    """``marks`` asks for digests of the log; None if nobody needs them."""
    executor = TaskExecutor(runner, place, [index.name for index in with_entries(reader.indexes)], marks)
    pieces = cut_pieces(reader, block_bytes)
    chain = PieceChain(reader, pieces, executor, place.delay_levels)
    verifier = StoreVerifier(reader, chain=chain)
    findings = tuple(verifier.findings())
    return StoreCheck(reader, block_bytes, pieces, executor, chain, findings, verifier.summary)
