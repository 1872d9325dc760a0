"""table: bring tables up to their topics; once, or as the topics grow."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.jobs.follow import follow_up
from flaremq.pipeline.jobs.object_access import object_access, with_object_access
from flaremq.pipeline.jobs.runner import TaskRunner
from flaremq.pipeline.jobs.session import AnySession
from flaremq.pipeline.jobs.table.increment import DeadLetters, Increment, TableLossError, TableWork, add_increment
from flaremq.pipeline.jobs.table.leftovers import remove_killed
from flaremq.pipeline.jobs.table.progress import GroupReport
from flaremq.pipeline.jobs.table.task import TableColumns
from flaremq.pipeline.jobs.tasks import Progress
from flaremq.pipeline.model.source import Source
from flaremq.pipeline.model.spans import QueueRef
from flaremq.pipeline.options import ScanOptions, parse_options
from flaremq.pipeline.planning.by_topic import for_topic
from flaremq.pipeline.sources.open import open_source, source_spec
from flaremq.pipeline.tables.files import TARGET_BYTES
from flaremq.pipeline.tables.model.coverage import Covered
from flaremq.pipeline.tables.model.partitions import DEFAULT_PARTITIONS
from flaremq.pipeline.tables.model.target import TableTarget
from flaremq.pipeline.tables.open import create_table

FOLLOW_SECONDS: Final = 60.0
KEEP_SNAPSHOTS: Final = 50  # a commit reads what is known of all of them


@dataclass(frozen=True, slots=True)
class TableResult:
    """What a run added to a table."""

    table: str
    rows: int = 0
    dead_letters: int = 0
    files: int = 0
    file_bytes: int = 0
    commits: int = 0
    lost: int = 0  # messages that retention had deleted before they could be read
    version: str = ""  # of the table, as its format counts
    covered: int = 0  # offsets the table covers by now, of the queues of this run

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "rows": self.rows,
            "deadLetters": self.dead_letters,
            "files": self.files,
            "fileBytes": self.file_bytes,
            "commits": self.commits,
            "lost": self.lost,
            "version": self.version,
            "covered": self.covered,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """How tables are made and kept."""

    partition_by: str = DEFAULT_PARTITIONS
    target_bytes: int = TARGET_BYTES
    keep_snapshots: int = KEEP_SNAPSHOTS
    commit_bytes: int = 8 << 30
    with_body: bool = False  # beside its fields, where bodies are taken apart


def table(
    spark: AnySession | None,
    options: Mapping[str, str] | ScanOptions,
    target: TableTarget,
    settings: TableSettings | None = None,
    *,
    follow: bool = False,
    interval: float = FOLLOW_SECONDS,
    stop: threading.Event | None = None,
    on_progress: Progress | None = None,
    on_commit: Callable[[TableResult], None] | None = None,
) -> list[TableResult]:
    """Bring the table up to its topics, one for each if the target says so; with ``follow`` until ``stop``.

    ``options`` are those of a reader: ``path`` or ``nameServer``, ``topic`` and so on. Whatever is there already is not
    added again, whoever put it there and however they ended. Without a session tasks run in this process.
    """
    parsed = options if isinstance(options, ScanOptions) else parse_options(options)
    check_table_options(parsed)
    TableColumns.of(parsed)
    parsed = with_object_access(parsed, spark)
    target = replace(target, objects=object_access(target.objects, spark, target.path, target.warehouse))
    if follow and interval <= 0:
        raise InvalidArgumentError(f"an interval of {interval} seconds leaves no pause; give more than 0")
    run = _Run(TaskRunner(spark, on_progress), parsed, target, settings or TableSettings(), on_commit)
    if follow:
        follow_up(run.once, interval, stop or threading.Event(), what="the table", lasting=(TableLossError,))
    else:
        run.once()
    return list(run.results.values())


def check_table_options(options: ScanOptions) -> None:
    """Refuse what would put a part of a queue into the table and call it the whole."""
    for given, name in ((options.keys, "keys"), (options.columns, "columns")):
        if given:
            raise InvalidArgumentError(f"a table holds whole messages of whole queues; leave out {name}={given!r}")
    if options.tags:
        raise InvalidArgumentError(
            f"a table holds whole queues; leave out subExpression={options.sub_expression!r} and filter on reading"
        )


def topic_targets(source: Source, options: ScanOptions, target: TableTarget) -> list[tuple[TableTarget, ScanOptions]]:
    """The tables that a target names, and the topics of each."""
    topics = sorted({extent.queue.topic for extent in source.extents(options.selector)})
    if not target.is_for_each_topic:
        return [(target, options)] if topics else []
    return [(target.for_topic(topic), for_topic(options, topic)) for topic in topics]


class _Run:
    def __init__(
        self,
        runner: TaskRunner,
        options: ScanOptions,
        target: TableTarget,
        settings: TableSettings,
        on_commit: Callable[[TableResult], None] | None,
    ) -> None:
        self.results: dict[str, TableResult] = {}
        self._runner = runner
        self._options = options
        self._target = target
        self._settings = settings
        self._on_commit = on_commit
        self._works: dict[str, TableWork] = {}
        self._report = GroupReport(options)
        self._report.check()

    def once(self) -> None:
        """Everything that is there by now."""
        spec = source_spec(self._options)
        covered: dict[QueueRef, Covered] = {}
        with open_source(spec) as source:  # open until the commit: it keeps what was planned from being deleted
            for work in self._planned(source):
                while (added := add_increment(self._runner, work, source)) is not None:
                    self._note(work, added)
                    work.table.trim(self._settings.keep_snapshots)
                covered |= work.table.coverage([extent.queue for extent in source.extents(work.options.selector)])
        self._report.tell(covered)

    def _planned(self, source: Source) -> list[TableWork]:
        return [self._work(*each) for each in topic_targets(source, self._options, self._target)]

    def _work(self, target: TableTarget, options: ScanOptions) -> TableWork:
        known = self._works.get(target.text)
        if known is not None and known.options == options:
            return known
        settings = self._settings
        columns = TableColumns.of(options, with_body=settings.with_body)
        place = create_table(target, columns.schema, settings.partition_by)
        remove_killed(place)
        work = TableWork(
            options,
            source_spec(options),
            place,
            DeadLetters(target.dead_letters),
            settings.target_bytes,
            columns,
            settings.commit_bytes,
        )
        self._works[target.text] = work
        self.results.setdefault(target.text, TableResult(target.text, version=place.version()))
        return work

    def _note(self, work: TableWork, added: Increment) -> None:
        before = self.results[work.table.name]
        result = replace(
            before,
            rows=before.rows + added.rows,
            dead_letters=before.dead_letters + added.dead_letters,
            files=before.files + added.files,
            file_bytes=before.file_bytes + added.file_bytes,
            commits=before.commits + 1,
            lost=before.lost + sum(span.count for span in added.lost),
            version=work.table.version(),
            covered=sum(covered.next - covered.start for covered in added.after.values()),
        )
        self.results[work.table.name] = result
        if self._on_commit is not None:
            self._on_commit(result)
