"""One increment of a table: what is missing, the tasks that write it, and the commit. Knows no Spark.

A run marks itself as a writer, has its tasks write files, commits the dead letters and then the table, and takes the
mark away. Both tables say themselves how far they are, and letters are committed first: a run that is killed between
the two commits leaves letters that the next run finds there already. Killed anywhere else, it leaves files that nobody
names; ``leftovers`` removes them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from flaremq.errors import UnavailableError
from flaremq.pipeline.jobs.runner import TaskRunner
from flaremq.pipeline.jobs.table.leftovers import new_run, remove_files_of
from flaremq.pipeline.jobs.table.signs import signs_before
from flaremq.pipeline.jobs.table.task import (
    DEAD_LETTER_SCHEMA,
    TableColumns,
    TableTask,
    TaskResult,
    run_table_task,
)
from flaremq.pipeline.model.source import ReadRequest, Source, SourceSpec
from flaremq.pipeline.model.spans import QueueExtent, QueueRef, Span
from flaremq.pipeline.options import ScanOptions
from flaremq.pipeline.planning.partitions import plan_pieces, scan_spans
from flaremq.pipeline.planning.planner import take_bytes
from flaremq.pipeline.tables.leases import leased
from flaremq.pipeline.tables.model.coverage import Covered
from flaremq.pipeline.tables.model.lake_table import LakeTable
from flaremq.pipeline.tables.model.partitions import DEFAULT_PARTITIONS
from flaremq.pipeline.tables.model.staged import TableCommit
from flaremq.pipeline.tables.model.target import TableTarget
from flaremq.pipeline.tables.open import create_table, find_table

_log = logging.getLogger(__name__)
COMMIT_BYTES: Final = 8 << 30  # of the log in one commit; more is done in several, so that little is lost by a crash
_FEW_MESSAGES: Final = 10_000
_REPLANS_MAX: Final = 20


class TableLossError(UnavailableError):
    """Topic and table do not fit together, and will not by waiting."""


class DeadLetters:
    """The table for rows that do not fit; it is made when the first one turns up. An increment looks for it once: what
    it plans, marks and commits is all about the same ``table``."""

    def __init__(self, target: TableTarget) -> None:
        self.table: LakeTable | None = None
        self._target = target

    def find(self) -> LakeTable | None:
        if self.table is None:
            self.table = find_table(self._target)
        return self.table

    def make(self) -> None:
        self.table = create_table(self._target, DEAD_LETTER_SCHEMA, DEFAULT_PARTITIONS)


@dataclass(frozen=True, slots=True)
class TableWork:
    """What an increment needs: where from, where to, and how."""

    options: ScanOptions
    spec: SourceSpec
    table: LakeTable
    dead: DeadLetters
    target_bytes: int
    columns: TableColumns
    commit_bytes: int = COMMIT_BYTES


@dataclass(frozen=True, slots=True)
class Increment:
    """What one commit added; ``lost`` are offsets that retention had deleted before they could be read."""

    rows: int = 0
    dead_letters: int = 0
    files: int = 0
    file_bytes: int = 0
    lost: tuple[Span, ...] = ()
    after: Mapping[QueueRef, Covered] = field(default_factory=dict)
    conflicts: int = 0


@dataclass(frozen=True, slots=True)
class Missing:
    """What the table lacks, and what it covers by now and will then; ``letters`` is what the dead letters cover."""

    spans: tuple[Span, ...]
    before: Mapping[QueueRef, Covered]
    after: Mapping[QueueRef, Covered]
    letters: Mapping[QueueRef, Covered]
    lost: tuple[Span, ...] = ()


def add_increment(runner: TaskRunner, work: TableWork, source: Source) -> Increment | None:
    """Bring the table forward by one commit; ``None`` if there is nothing to add."""
    for conflicts in range(_REPLANS_MAX):
        missing = find_missing(work, source)
        if missing.before == missing.after:
            return None
        run = new_run()
        with ExitStack() as opened:
            tables = [table for table in (work.table, work.dead.table) if table is not None]
            marks = [opened.enter_context(leased(table.root, run)) for table in tables]
            results = _written(runner, work, source, missing, run)
            if any(result.lacks_dead_letters for result in results):
                _discard(work, results)
                work.dead.make()
                continue
            for mark in marks:
                mark.check()
            if _commit(work, missing, run, results):
                return _told(missing, results, conflicts)
            _discard(work, results)
        _log.info("another run brought %s forward; planning anew", work.table.name)
    raise UnavailableError(f"other runs bring {work.table.name} forward all the time; start again")


def find_missing(work: TableWork, source: Source) -> Missing:
    """From where the table ends to where the topic does, at most ``commit_bytes`` of it."""
    extents = {extent.queue: extent for extent in source.extents(work.options.selector)}
    before = work.table.coverage(extents)
    spans = []
    lost = []
    for span in _held(source, work.options, extents, before):
        covered = before.get(span.queue)
        start = span.start if covered is None else covered.next
        low = extents[span.queue].min_offset
        if start < low:
            _refuse_loss(work, Span(span.queue, start, low))
            lost.append(Span(span.queue, start, low))
            start = low
        if start < span.end:
            spans.append(Span(span.queue, start, span.end))
    taken = _taken(work, source, spans)
    after = dict(before)
    signs = signs_before(source, {span.queue: span.end for span in taken if span.count > 0})
    for span in taken:
        covered = before.get(span.queue)
        start, end = span.start if covered is None else covered.start, max(span.end, span.start)
        if covered is None or end > covered.next:
            after[span.queue] = Covered(start, end, signs.get(span.queue, 0))
    dead = work.dead.find()
    letters = {} if dead is None else dead.coverage(after)
    return Missing(tuple(span for span in taken if span.count > 0), before, after, letters, tuple(lost))


def _taken(work: TableWork, source: Source, spans: list[Span]) -> list[Span]:
    """As much of the spans as goes into one commit; their sizes are asked for only where they can matter."""
    if sum(span.count for span in spans) <= _FEW_MESSAGES:
        return spans
    ends = take_bytes(source.profiles(spans), work.commit_bytes)
    return [span._replace(end=ends[span.queue]) for span in spans]


def _held(
    source: Source, options: ScanOptions, extents: Mapping[QueueRef, QueueExtent], before: Mapping[QueueRef, Covered]
) -> list[Span]:
    """What the options ask for, in queues that are those the table was made of."""
    found = []
    spans = scan_spans(source, options)
    other = _other_logs(source, {span.queue: extents[span.queue] for span in spans}, before)
    for span in spans:
        text = other.get(span.queue)
        if text is not None:
            if options.fail_on_data_loss:
                raise TableLossError(
                    f"{text}: the topic was deleted and made anew, or this is not the store the table was made of. "
                    "Write it to another table, or set failOnDataLoss=false to leave it out"
                )
            _log.warning("%s; it is left out", text)
            continue
        found.append(span)
    return found


def _other_logs(
    source: Source, extents: Mapping[QueueRef, QueueExtent], before: Mapping[QueueRef, Covered]
) -> dict[QueueRef, str]:
    """Queues that are not those the table was made of, and what is different."""
    other: dict[QueueRef, str] = {}
    ends: dict[QueueRef, int] = {}
    for queue, extent in extents.items():
        covered = before.get(queue)
        if covered is None:
            continue
        if extent.max_offset < covered.next:
            other[queue] = f"queue {queue} ends at {extent.max_offset}, but the table holds it up to {covered.next}"
        elif covered.sign and extent.min_offset < covered.next < extent.max_offset:  # else there is nothing new
            ends[queue] = covered.next
    for queue, sign in signs_before(source, ends).items():
        if sign != before[queue].sign:
            other[queue] = f"message {ends[queue] - 1} of queue {queue} is another one than the table holds"
    return other


def _refuse_loss(work: TableWork, span: Span) -> None:
    text = (
        f"queue {span.queue} begins at {span.end}, but the table holds it up to {span.start}: retention deleted "
        "messages before they were in the table"
    )
    if work.options.fail_on_data_loss:
        raise TableLossError(f"{text}. Set failOnDataLoss=false to go on without them")
    _log.warning("%s", text)


def _written(runner: TaskRunner, work: TableWork, source: Source, missing: Missing, run: str) -> list[TaskResult]:
    """What the tasks wrote; if one failed, nothing stays of the others."""
    tasks = _tasks(work, source, missing, run)
    try:
        return runner.run([partial(run_table_task, task) for task in tasks], "table")
    except Exception:
        for table in (work.table, work.dead.table):
            if table is not None:
                remove_files_of(table, run)
        raise


def _tasks(work: TableWork, source: Source, missing: Missing, run: str) -> list[TableTask]:
    dead, letters = work.dead.table, missing.letters
    layout, dead_layout = work.table.layout(), None if dead is None else dead.layout()
    pieces = plan_pieces(source, work.spec, missing.spans, work.options, ReadRequest(work.columns.schema))
    return [
        TableTask(
            run,
            number,
            work.spec,
            piece.spans,
            work.columns,
            layout,
            work.target_bytes,
            dead_layout,
            {span.queue: letters[span.queue].next for span in piece.spans if span.queue in letters},
            work.options.fail_on_data_loss,
        )
        for number, piece in enumerate(pieces)
    ]


def _commit(work: TableWork, missing: Missing, run: str, results: Sequence[TaskResult]) -> bool:
    letters = [file for result in results for file in result.dead_files]
    dead = work.dead.table
    if letters and dead is not None:
        # From where the tasks were told to begin: letters that another run has committed since would be there twice.
        before = missing.letters
        after = {
            queue: Covered(covered.start, max(covered.next, before.get(queue, covered).next))
            for queue, covered in missing.after.items()
        }
        if not dead.commit(TableCommit(run, letters, before, after)):
            dead.discard(letters)
            return False
    files = [file for result in results for file in result.files]
    notes = {"flaremq.lost": str(sum(span.count for span in missing.lost))} if missing.lost else {}
    return work.table.commit(TableCommit(run, files, missing.before, missing.after, notes))


def _discard(work: TableWork, results: Sequence[TaskResult]) -> None:
    """Files of a run that came to no commit. Letters that are committed stay: they are where they belong."""
    work.table.discard(file for result in results for file in result.files)


def _told(missing: Missing, results: Sequence[TaskResult], conflicts: int) -> Increment:
    files = [file for result in results for file in result.files]
    return Increment(
        rows=sum(file.rows for file in files),
        dead_letters=sum(file.rows for result in results for file in result.dead_files),
        files=len(files),
        file_bytes=sum(file.size_bytes for file in files),
        lost=missing.lost,
        after=missing.after,
        conflicts=conflicts,
    )
