"""Dispatch: the one function from log to views. Live dispatch, recovery and rebuild all go through it.

The core walks the log into a table of records and makes units and keys of its rows (``flaremq.core``); ``view_writer``
says what becomes of them. Records that the core leaves out, inner batches and text that is not UTF-8, go one by one in
their turn, so order is kept. A record that cannot be read is set aside; nothing behind it waits for it.
"""

from __future__ import annotations

import logging
import struct
from dataclasses import dataclass

from flaremq.core.index import index_keys
from flaremq.core.queue import find_marked, queue_runs
from flaremq.core.record import walk
from flaremq.core.table import (
    BLANK,
    CHECK_BODY_CRC,
    CHECK_RECORD_CRC,
    END,
    FILE_OFFSET,
    FULL,
    MARK_BAD_TEXT,
    MARK_INNER_BATCH,
    SIZE,
    STORE_TIMESTAMP,
    STRICT,
    RecordTable,
)
from flaremq.errors import InvalidArgumentError, StoreIOError
from flaremq.message.delay import DelayLevels
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.check import CheckReason, check_record
from flaremq.message.record.codec import INT
from flaremq.storage.dispatch.deleted_topics import DeletedTopics
from flaremq.storage.dispatch.view_writer import ViewWriter
from flaremq.storage.files.mapped_file import MappedFile
from flaremq.storage.index.index_service import IndexService
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.log.resync import next_record
from flaremq.storage.queue.consume_queue import ConsumeQueue
from flaremq.storage.queue.table import ConsumeQueues

_log = logging.getLogger(__name__)

# What the values of a record can make dispatch fail with. Anything else is no fault of the record.
_OF_THE_RECORD = (ArithmeticError, UnicodeError, struct.error, InvalidArgumentError)
_SINGLY_MARKS = MARK_INNER_BATCH | MARK_BAD_TEXT
_ROWS = 2048  # half a megabyte: it stays in the processor's cache while its rows are read again
_FEW_ROWS = 40
_FEW_BYTES = 4096


@dataclass(slots=True)
class WalkResult:
    """Where a walk stopped: ``reason`` is None at the asked end, else why ``offset`` is no record."""

    offset: int
    reason: CheckReason | None = None
    last_timestamp: int = 0


class Dispatcher(ViewWriter):
    """Feeds queues and index from the log. One caller at a time (the dispatch lock of the store)."""

    __slots__ = ("_few_rows", "_rows", "awaited_end", "is_silent", "last_timestamp", "log", "position")

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        index: IndexService | None,
        delay_levels: DelayLevels,
        deleted: DeletedTopics,
    ) -> None:
        super().__init__(queues, index, delay_levels, deleted)
        self.log = log
        self.position = 0
        self.awaited_end = 0  # before the log is readable to here there is nothing to do
        self.is_silent = False  # records are walked and checked, and no view hears of them
        self.last_timestamp = 0  # store time of the last record dispatched
        self._few_rows = RecordTable(_FEW_ROWS)
        self._rows: RecordTable | None = None

    def run(
        self, end: int, *, check: bool = False, strict: bool = False, one_slice: bool = False, singly: bool = False
    ) -> WalkResult:
        """Dispatch records from ``position`` up to ``end``; stops at the first byte that is no record.

        ``check`` verifies checksums (recovery); live dispatch reads back what this process just wrote.
        ``one_slice`` returns after at most one table of records, so that the caller can let others in; ``singly``
        moves ``position`` record by record, so that it tells where an error came from.
        """
        result = WalkResult(self.position)
        while self.position < end:
            file = self.log.files.find(self.position)
            if file is None:
                result.reason = CheckReason.EMPTY
                break
            limit = min(end, file.end) - file.start
            result.reason = self._run_table(file, limit, result, check, strict, singly)
            if one_slice or result.reason is not None:
                break
        result.offset = self.position
        self.last_timestamp = result.last_timestamp or self.last_timestamp
        return result

    def is_plausible(self, queue: ConsumeQueue, queue_offset: int) -> bool:
        """As for every writer of views; and a queue without a unit in a log that begins late begins anywhere.

        A replica's log may begin in the middle of its master's, and a kill leaves its queues with files, but without
        units. In a log that begins at 0 a queue does, too: there a far offset is a wrong bit.
        """
        if super().is_plausible(queue, queue_offset):
            return True
        if queue.end != queue.first_offset or self.log.min_offset == 0:
            return False
        queue.min_offset = queue_offset
        return True

    def run_live(self, end: int) -> None:
        """Dispatch one slice of what this process appended, up to ``end``; what cannot be dispatched costs itself.

        Raises whatever else goes wrong, as when queues or index cannot be written: then the same records are tried
        again.
        """
        try:
            walked = self.run(end, one_slice=True)
        except _OF_THE_RECORD:
            _log.exception("a record from log offset %d on cannot be dispatched", self.position)
            self._run_singly(end)
            return
        if walked.reason is None or self.position >= end:
            return
        if walked.reason is CheckReason.BLANK and self._is_filler(end):
            return  # another thread is just going over to the next file
        if self._awaits_rest(end):
            return
        following = next_record(self.log.files, self.position, end)
        self.step_over(end if following is None else following, walked.reason.value)

    def _awaits_rest(self, end: int) -> bool:
        """Whether ``end`` is only how far copies confirm the log: inside a record maybe, or in damage."""
        if end >= self.log.appended_readable:
            return False
        header = self.log.header(self.position)
        is_cut = header is not None and end < self.position + header[0] <= self.log.end_offset
        if not is_cut and next_record(self.log.files, self.position, end) is not None:
            return False
        self.awaited_end = end + 1
        return True

    def _is_filler(self, end: int) -> bool:
        """Whether the rest of a file that appends have left is one filler; its magic alone may be damage."""
        file = self.log.files.find(self.position)
        if file is None or end < file.end:
            return False
        return bool(INT.unpack_from(file.buffer, self.position - file.start)[0] == file.end - self.position)

    def _run_singly(self, end: int) -> None:
        """Go on up to the one record that made dispatch fail, and set it aside."""
        try:
            self.run(end, one_slice=True, singly=True)
        except _OF_THE_RECORD as error:
            header = self.log.header(self.position)
            self.step_over(end if header is None else self.position + header[0], f"{type(error).__name__}: {error}")

    def step_over(self, following: int, reason: str) -> None:
        """Set aside everything up to ``following``, where dispatch goes on."""
        self.damaged_bytes += following - self.position
        self.set_aside(self.position, following, reason)
        self.position = following

    def _run_table(
        self, file: MappedFile, limit: int, result: WalkResult, check: bool, strict: bool, singly: bool
    ) -> CheckReason | None:
        """One table of records from ``position`` to ``limit`` (a file offset), or a blank; why, if something else
        stands there."""
        log = file.buffer
        at = self.position - file.start
        table = self._few_rows
        if limit - at > _FEW_BYTES:
            table = self._rows = self._rows or RecordTable(_ROWS)
        flags = CHECK_RECORD_CRC | (CHECK_BODY_CRC if check else 0) | (STRICT if strict else 0)
        rows, next_at, stop = walk(log, at, limit, file.start, flags, table.cells)
        if rows:
            if not self.is_silent:
                self._dispatch_rows(file, log, table, rows, singly)
            result.last_timestamp = table.cell(STORE_TIMESTAMP, rows - 1)
            self.position = file.start + next_at
        if stop in (END, FULL):
            return None
        if stop == BLANK:
            if file is self.log.files.last:
                return CheckReason.BLANK  # a filler with no file behind it is not part of the log yet
            self.position = file.end
            return None
        # The readable check has the last word on what a record is.
        verdict = check_record(
            log[:limit], next_at, physical_offset=file.start + next_at, check_body_crc=check, strict=strict
        )
        if verdict.reason is not CheckReason.OK:
            return verdict.reason
        message = MessageExt(log[next_at : next_at + verdict.size])
        if not self.is_silent:
            self.dispatch(message)
        result.last_timestamp = message.store_timestamp
        self.position += verdict.size
        return None

    def _dispatch_rows(self, file: MappedFile, log: memoryview, table: RecordTable, rows: int, singly: bool) -> None:
        first = 0
        while first < rows:
            marked = find_marked(table.cells, first, rows, _SINGLY_MARKS)
            if marked == first:
                at = table.cell(FILE_OFFSET, first)
                self.dispatch(MessageExt(log[at : at + table.cell(SIZE, first)]))
                end = first + 1
            else:
                end = first + 1 if singly else marked
                units, runs = queue_runs(log, table.cells, first, end, self.delay_ms)
                if runs:
                    self.append_runs(memoryview(units), runs, lambda offset, size: log[offset - file.start :][:size])
                if self.index is not None:
                    self._put_keys(self.index, log, table, first, end)
            if end < rows:
                self.position = file.start + table.cell(FILE_OFFSET, end)
            first = end

    def _put_keys(self, index: IndexService, log: memoryview, table: RecordTable, first: int, end: int) -> None:
        skip_below = max(self.index_from, index.resume_offset)
        keys = index_keys(log, table.cells, first, end, skip_below, False)
        if keys:
            try:
                index.put_keys(keys)
            except StoreIOError:
                # Queues have this table; the index has it up to some key. Go on exactly there next time.
                self.position = index.resume_offset
                raise
