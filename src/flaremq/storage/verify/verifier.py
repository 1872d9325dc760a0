"""``store verify``: everything a store says, held against everything else it says.

One walk over the log feeds two checkers: each record must be whole, must be in its queue at its offset, and
must be found under its keys; what queues and index say beyond that is surplus. Around it stand the checks
that need no walk: names and lengths of files, the checkpoint, the JSON state. Nothing is changed and
nothing is assumed: a file that cannot be read is a finding, not an exception.

Records are judged as recovery would judge them. After a crash, what opening the store repairs by itself
(units not written yet, units behind the end of the log) is a note; the same thing in a store that says it
was closed cleanly is damage.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from flaremq.errors import StoreIOError
from flaremq.java_json import parse_java_json
from flaremq.message.delay import DEFAULT_DELAY_LEVELS, DelayLevels, parse_delay_levels
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.check import CheckReason, check_record
from flaremq.message.sys_flag import COMPRESSED, INNER_BATCH
from flaremq.storage.arrow.bodies import place_of, unreadable_body
from flaremq.storage.at_rest.outlook import lost_bytes, lost_since, redispatch_start
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.dispatch.record_views import expected_index_hashes, expected_units, tag_index_hash
from flaremq.storage.files import layout
from flaremq.storage.files.checkpoint import CHECKPOINT_SIZE, is_our_abort
from flaremq.storage.files.directory import FileRun, read_small_file
from flaremq.storage.log.walk import Blank, DamagedRange, LogItem, LogTail, RecordBatch, wants_bulk
from flaremq.storage.verify.finding import Finding, Severity, Summary
from flaremq.storage.verify.index import IndexChecker
from flaremq.storage.verify.queues import QueueChecker

if TYPE_CHECKING:
    from flaremq.storage.verify.bulk import BulkVerdict

_MAY_FAIL = COMPRESSED | INNER_BATCH
_BODIES_NAMED = 1000  # so many bodies that cannot be read are named, the rest is counted: any producer can make them
_BULK_BYTES = 8 << 20  # loading the kernels takes as long as checking this much log without them


class StoreVerifier:
    """One check of one store: read ``findings`` to the end, then ``summary``."""

    def __init__(
        self,
        reader: StoreReader,
        *,
        delay_levels: DelayLevels | None = None,
        on_progress: Callable[[int], None] | None = None,
        bulk: bool | None = None,
    ) -> None:
        """``bulk`` chooses the compiled way or the plain one; by default the size of the log does."""
        self._reader = reader
        self._bulk = wants_bulk(reader.log, reader.log_min, _BULK_BYTES) if bulk is None else bulk
        self._delay_levels = delay_levels or parse_delay_levels(DEFAULT_DELAY_LEVELS)
        self._on_progress = on_progress
        self._damaged: list[DamagedRange] = []
        self._last_timestamp = 0
        self._newest_timestamp = 0
        self.summary = Summary(closed_cleanly=reader.closed_cleanly)
        self.contradicted: set[int] = set()  # physical offsets of records that queues, index or themselves deny

    def findings(self) -> Iterator[Finding]:
        """Every finding, those of the log as the walk meets them."""
        for finding in self._all():
            self.summary.counts[finding.severity] += 1
            yield finding

    def _all(self) -> Iterator[Finding]:
        reader, summary = self._reader, self.summary
        summary.queues, summary.index_files = len(reader.queues), len(reader.indexes)
        summary.log_min = reader.log_min
        yield from self._check_files()
        if self._bulk:
            yield from self._check_in_bulk()
        else:
            views = self._plain_views()
            yield from self._check_log(views.check)
            yield from views.findings(summary)
            self.contradicted |= views.contradicted
        yield from self._check_marks()
        yield from check_config(reader)
        for path, offset, length in reader.files.unreadable:
            detail = f"the disk gives no answer for {length} bytes"
            yield Finding(path, offset, "unreadable", detail, Severity.DAMAGE)

    def _check_in_bulk(self) -> Iterator[Finding]:
        """One fast walk that only knows right from not right, a plain one over what was not right."""
        from flaremq.storage.verify.bulk import BulkChecker

        reader, summary = self._reader, self.summary
        checker = BulkChecker(reader, self._delay_levels)
        yield from self._check_log(checker.check)
        verdict = checker.verdict(summary.log_end)
        summary.units, summary.index_entries = verdict.units, verdict.entries
        start = verdict.resume_offset
        if start is None:
            return
        views = self._plain_views(verdict)
        for item in reader.walk(start) if start < summary.log_end else ():
            if isinstance(item, RecordBatch):
                views.check(item)
        yield from views.findings(summary)
        self.contradicted |= views.contradicted

    def _plain_views(self, verdict: BulkVerdict | None = None) -> _PlainViews:
        reader = self._reader
        redispatch_from = redispatch_start(reader, reader.log_end)
        queues = QueueChecker(
            reader,
            redispatch_from=redispatch_from,
            known_topics=reader.known_topics,
            damaged=self._damaged,
            only=None if verdict is None else verdict.suspect_queues,
        )
        index = None
        if verdict is None or verdict.index_from is not None:
            index = IndexChecker(
                reader,
                redispatch_from=redispatch_from,
                damaged=self._damaged,
                log_from=0 if verdict is None else verdict.index_from or 0,
                entries_right=0 if verdict is None else verdict.entries_right,
            )
        return _PlainViews(queues, index, self._delay_levels)

    # Files

    def _check_files(self) -> Iterator[Finding]:
        reader = self._reader
        yield from _check_run(
            reader.log.run, "log", must_exist=bool(reader.queues), folder=reader.layout.commit_log_paths[0]
        )
        for queue in reader.queues:
            findings = [*_check_run(queue.run, "queue", must_exist=False, folder=queue.folder)]
            if queue.ext_run is not None:
                findings += _check_run(queue.ext_run, "ext", must_exist=False, folder=queue.folder)
            if findings and self._is_built_anew(queue.topic):
                findings = [replace(finding, severity=Severity.NOTE) for finding in findings]
            yield from findings
        for path in reader.foreign:
            detail = "does not belong here: RocketMQ 4.9 refuses to start with it; move it away"
            yield Finding(path, None, "foreign-file", detail, Severity.WARNING)

    def _is_built_anew(self, topic: str) -> bool:
        """Whether opening the store throws the topic's queues away: a deletion of it may not be finished."""
        reader = self._reader
        if reader.closed_cleanly or not reader.deleted.end_of(topic):
            return False
        return reader.deleted.was_deleted_since(topic, redispatch_start(reader, reader.log_end))

    # Log

    def _check_log(self, check_views: Callable[[RecordBatch], None]) -> Iterator[Finding]:
        summary = self.summary
        for item in self._items():
            if isinstance(item, RecordBatch):
                summary.records += len(item.starts)
                summary.record_bytes += sum(item.sizes)
                yield from self._check_batch(item)
                yield from self._check_bodies(item)
                check_views(item)
                if self._on_progress is not None:
                    self._on_progress(item.base + item.starts[-1] + item.sizes[-1])
            elif isinstance(item, Blank):
                summary.blanks += 1
            elif isinstance(item, DamagedRange):
                self._damaged.append(item)
                span = f"physical offsets {item.start} to {item.end - 1} ({item.size} bytes)"
                yield self._log_finding(item.start, "record-damaged", f"{span} hold no record: {item.reason}")
            else:
                summary.log_end = item.physical_offset
                yield from self._check_tail(item)

    def _items(self) -> Iterator[LogItem]:
        """The walk over the log."""
        return self._reader.walk(bulk=self._bulk, odd_alone=True)

    def _check_batch(self, batch: RecordBatch) -> Iterator[Finding]:
        """What a record says of itself beyond being a record."""
        if batch.columns is None:  # else the kernels have vouched for its fields
            for offset, record in batch.records():
                yield from self._check_fields(offset, bytes(record))
        times = batch.store_timestamps()
        last = self._last_timestamp
        for start, time in zip(batch.starts, times, strict=True):
            if time < last:
                offset = batch.base + start
                detail = f"record {offset} was stored {last - time} ms before the one in front of it"
                yield self._log_finding(
                    offset, "store-time-backwards", f"{detail}: the clock was set back", Severity.NOTE
                )
            last = time
        self._last_timestamp = last
        self._newest_timestamp = max(self._newest_timestamp, max(times))

    def _check_bodies(self, batch: RecordBatch) -> Iterator[Finding]:
        """Bodies that say they are compressed and are not. Their producer sent them so: a note, no damage."""
        if batch.columns is not None:
            from flaremq.storage.kernels.table import SYS_FLAG

            if not (batch.columns[SYS_FLAG, : len(batch.starts)] & _MAY_FAIL).any():
                return
        for offset, record in batch.records():
            error = unreadable_body(MessageExt(record))
            if error is None:
                continue
            self.summary.undecodable_bodies += 1
            if self.summary.undecodable_bodies <= _BODIES_NAMED:
                place = place_of(MessageExt(record))
                yield self._log_finding(offset, "body-undecodable", f"the body of {place}: {error}", Severity.NOTE)

    def _check_fields(self, offset: int, record: bytes) -> Iterator[Finding]:
        strict = check_record(record, physical_offset=offset, check_body_crc=False, strict=True)
        if not strict.ok:
            # Properties that are no text can be what a producer sent, so they alone prove no damage.
            severity = Severity.WARNING if strict.reason is CheckReason.PROPERTIES else Severity.DAMAGE
            self.contradicted.add(offset)
            yield self._log_finding(offset, "record-odd", f"record {offset}: {strict.reason.value}", severity)

    def _check_tail(self, tail: LogTail) -> Iterator[Finding]:
        end = tail.physical_offset
        if tail.leftover_bytes:
            detail = f"{tail.leftover_bytes} bytes behind the log's end at {end} are not zero: {tail.reason}"
            if tail.records_follow:
                detail += "; whole records follow, but were never confirmed"
            yield self._log_finding(end, "leftover-bytes", detail, Severity.NOTE)
        if (loss := lost_bytes(self._reader, tail)) is not None:
            yield self._log_finding(end, "log-cut-short", loss)

    def _log_finding(self, offset: int, kind: str, detail: str, severity: Severity = Severity.DAMAGE) -> Finding:
        file = self._reader.log.run.file_at(offset)
        if file is None:
            return Finding(self._reader.layout.commit_log_paths[0], None, kind, detail, severity)
        return Finding(file.path, offset - file.start, kind, detail, severity)

    # Checkpoint and markers

    def _check_marks(self) -> Iterator[Finding]:
        reader = self._reader
        if not reader.closed_cleanly:
            detail = "the store was not closed cleanly: opening it walks the log and completes queues and index"
            yield Finding(reader.layout.abort, None, "not-closed", detail, Severity.NOTE)
        if (copies := reader.deleted.whole_copies) < 2:
            detail = "one of its two copies is damaged" if copies else "the list of deleted topics cannot be read"
            severity = Severity.WARNING if copies else Severity.DAMAGE
            yield Finding(reader.layout.deleted_topics, None, "deletions-damaged", detail, severity)
        path = reader.layout.checkpoint
        checkpoint = reader.checkpoint
        if checkpoint is None:
            if reader.log.run.files:
                detail = "there is no whole checkpoint: recovery after a crash reads the log from its start"
                severity = Severity.WARNING if reader.filesystem.exists(path) else Severity.NOTE
                yield Finding(path, None, "checkpoint-absent", detail, severity)
            return
        if (size := reader.filesystem.size(path)) != CHECKPOINT_SIZE:
            yield Finding(path, None, "checkpoint-size", f"{size} bytes, not {CHECKPOINT_SIZE}", Severity.WARNING)
        for at, (name, value) in enumerate(checkpoint.items()):
            bound = self._newest_timestamp if at < 3 else self.summary.log_end
            if value < 0 or (value > bound and self.summary.records and name != "masterFlushedOffset"):
                detail = f"{name} is {value}, the log reaches {bound}: the checkpoint claims more than is there"
                severity = Severity.WARNING if reader.closed_cleanly else Severity.NOTE
                if at == 0 and (loss := lost_since(reader, self._newest_timestamp)) is not None:
                    detail, severity = f"{name}: {loss}", self._severity_of_loss()
                yield Finding(path, at * 8, "checkpoint-ahead", detail, severity)

    def _severity_of_loss(self) -> Severity:
        """Our checkpoint vouches for what was synced; RocketMQ's also for what waits in its transient pool."""
        reader = self._reader
        offsets = reader.noted_offsets
        ours = offsets is not None and is_our_abort(reader.filesystem, reader.layout.abort, offsets)
        return Severity.DAMAGE if ours else Severity.WARNING


class _PlainViews:
    """Queues and index, checked record by record."""

    __slots__ = ("_delay_levels", "_index", "_queues")

    def __init__(self, queues: QueueChecker, index: IndexChecker | None, delay_levels: DelayLevels) -> None:
        self._queues = queues
        self._index = index
        self._delay_levels = delay_levels

    @property
    def contradicted(self) -> set[int]:
        return self._queues.contradicted | (set() if self._index is None else self._index.contradicted)

    def check(self, batch: RecordBatch) -> None:
        for offset, record in batch.records():
            message = MessageExt(record)
            timestamp = message.store_timestamp
            for unit in expected_units(message, self._delay_levels):
                self._queues.check(unit, physical_offset=offset, size=len(record), store_timestamp=timestamp)
            if self._index is not None:
                self._index.check(
                    expected_index_hashes(message),
                    tag_hash=tag_index_hash(message),
                    physical_offset=offset,
                    store_timestamp=timestamp,
                )

    def findings(self, summary: Summary) -> Iterator[Finding]:
        yield from self._queues.findings(log_end=summary.log_end)
        summary.units += self._queues.units
        if self._index is not None:
            yield from self._index.findings()
            summary.index_entries = self._index.entries


def _check_run(run: FileRun, what: str, *, must_exist: bool, folder: str) -> Iterator[Finding]:
    if must_exist and not run.files:
        detail = "there are queues but no log: is this the right path, is the disk mounted?"
        yield Finding(folder, None, "log-absent", detail, Severity.DAMAGE)
    for file in run.misfits:
        if file.size == 0 and file.start >= run.end:
            yield Finding(file.path, None, "file-empty", f"a {what} file of no length", Severity.NOTE)
        elif file.size != run.file_size:
            detail = f"{file.size} bytes, where the {what}'s other files have {run.file_size}"
            yield Finding(file.path, None, "file-size", detail, Severity.DAMAGE)
        else:
            detail = f"starts at {file.start}, inside another {what} file of {run.file_size} bytes"
            yield Finding(file.path, None, "file-overlap", detail, Severity.DAMAGE)
    for start, end in run.gaps:
        detail = f"no {what} file holds offsets {start} to {end - 1}"
        yield Finding(os.path.join(folder, layout.file_name(start)), None, "file-missing", detail, Severity.DAMAGE)


def check_config(reader: StoreReader) -> Iterator[Finding]:
    """The JSON state: each file, or the backup RocketMQ falls back to, must be readable."""
    filesystem, folder = reader.filesystem, reader.layout.config
    names = filesystem.list_directory(folder)
    for name in names:
        if not name.endswith(".json"):
            continue
        path = os.path.join(folder, name)
        problem = _json_problem(reader, path)
        if problem is None:
            continue
        backup_good = name + ".bak" in names and _json_problem(reader, path + ".bak") is None
        detail = f"{problem}; the backup {'is good and would be used' if backup_good else 'does not help either'}"
        yield Finding(path, 0, "config-unreadable", detail, Severity.WARNING if backup_good else Severity.DAMAGE)


def _json_problem(reader: StoreReader, path: str) -> str | None:
    try:
        data = read_small_file(reader.filesystem, path)
    except StoreIOError as error:
        return str(error)
    if not data:
        return "the file is empty"
    try:
        parse_java_json(data.decode())
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    return None
