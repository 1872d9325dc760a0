"""The commit log in itself: records that say nothing impossible, bodies that can be read, an end that fits.

Records are judged as recovery would judge them. The same checker serves the walk over a whole log and over one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from flaremq.core.table import SYS_FLAG
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.check import CheckReason, check_record
from flaremq.message.sys_flag import COMPRESSED, INNER_BATCH
from flaremq.storage.arrow.bodies import place_of, unreadable_body
from flaremq.storage.at_rest.outlook import lost_bytes
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.log.walk import Blank, DamagedRange, LogItem, LogTail, RecordBatch
from flaremq.storage.verify.finding import Finding, Severity, Summary

BODY_UNDECODABLE = "body-undecodable"
BODIES_NAMED = 1000  # so many bodies that cannot be read are named, the rest is counted: any producer can make them
_MAY_FAIL = COMPRESSED | INNER_BATCH


class LogChecker:
    """Checks the items of one walk and adds them up in ``summary``."""

    def __init__(self, reader: StoreReader, summary: Summary, on_progress: Callable[[int], None] | None = None) -> None:
        self._reader = reader
        self._summary = summary
        self._on_progress = on_progress
        self.damaged: list[DamagedRange] = []
        self.first_record: tuple[int, int] | None = None  # its offset and store time
        self.last_timestamp = 0

    def check(self, items: Iterable[LogItem], check_views: Callable[[RecordBatch], None]) -> Iterator[Finding]:
        """The findings as the walk meets them; ``check_views`` gets every batch of records."""
        summary = self._summary
        for item in items:
            if isinstance(item, RecordBatch):
                summary.records += len(item.starts)
                summary.record_bytes += sum(item.sizes)
                if item.table is None:  # else the core has vouched for the fields
                    for offset, record in item.records():
                        yield from self._check_fields(offset, bytes(record))
                yield from self._check_times(item)
                yield from self._check_bodies(item)
                check_views(item)
                if self._on_progress is not None:
                    self._on_progress(item.base + item.starts[-1] + item.sizes[-1])
            elif isinstance(item, Blank):
                summary.blanks += 1
            elif isinstance(item, DamagedRange):
                self.damaged.append(item)
                span = f"physical offsets {item.start} to {item.end - 1} ({item.size} bytes)"
                yield _finding(self._reader, item.start, "record-damaged", f"{span} hold no record: {item.reason}")
            else:
                summary.log_end = item.physical_offset
                yield from self._check_tail(item)

    def _check_fields(self, offset: int, record: bytes) -> Iterator[Finding]:
        strict = check_record(record, physical_offset=offset, check_body_crc=False, strict=True)
        if not strict.ok:
            # Properties that are no text can be what a producer sent, so they alone prove no damage.
            severity = Severity.WARNING if strict.reason is CheckReason.PROPERTIES else Severity.DAMAGE
            self._summary.contradicted.add(offset)
            yield _finding(self._reader, offset, "record-odd", f"record {offset}: {strict.reason.value}", severity)

    def _check_times(self, batch: RecordBatch) -> Iterator[Finding]:
        times = batch.store_timestamps()
        last = self.last_timestamp
        if self.first_record is None:
            self.first_record = (batch.base + batch.starts[0], times[0])
        self.last_timestamp = times[-1]
        self._summary.newest_timestamp = max(self._summary.newest_timestamp, max(times))
        if times[0] >= last and times == sorted(times):
            return
        for start, time in zip(batch.starts, times, strict=True):
            if time < last:
                yield clock_set_back(self._reader, batch.base + start, last - time)
            last = time

    def _check_bodies(self, batch: RecordBatch) -> Iterator[Finding]:
        """Bodies that say they are compressed and are not. Their producer sent them so: a note, no damage."""
        flags = [] if batch.table is None else batch.table.column(SYS_FLAG, len(batch.starts))
        if flags and not any(flag & _MAY_FAIL for flag in flags):
            return
        summary = self._summary
        for offset, record in batch.records():
            error = unreadable_body(MessageExt(record))
            if error is None:
                continue
            summary.undecodable_bodies += 1
            if summary.undecodable_bodies <= BODIES_NAMED:
                detail = f"the body of {place_of(MessageExt(record))}: {error}"
                yield _finding(self._reader, offset, BODY_UNDECODABLE, detail, Severity.NOTE)

    def _check_tail(self, tail: LogTail) -> Iterator[Finding]:
        end = tail.physical_offset
        if tail.leftover_bytes:
            detail = f"{tail.leftover_bytes} bytes behind the log's end at {end} are not zero: {tail.reason}"
            if tail.records_follow:
                detail += "; whole records follow, but were never confirmed"
            yield _finding(self._reader, end, "leftover-bytes", detail, Severity.NOTE)
        if (loss := lost_bytes(self._reader, tail)) is not None:
            yield _finding(self._reader, end, "log-cut-short", loss)


def clock_set_back(reader: StoreReader, offset: int, by_ms: int) -> Finding:
    """The record at ``offset`` is older than the one in front of it."""
    detail = f"record {offset} was stored {by_ms} ms before the one in front of it: the clock was set back"
    return _finding(reader, offset, "store-time-backwards", detail, Severity.NOTE)


def _finding(reader: StoreReader, offset: int, kind: str, detail: str, severity: Severity = Severity.DAMAGE) -> Finding:
    file = reader.log.run.file_at(offset)
    if file is None:
        return Finding(reader.layout.commit_log_paths[0], None, kind, detail, severity)
    return Finding(file.path, offset - file.start, kind, detail, severity)
