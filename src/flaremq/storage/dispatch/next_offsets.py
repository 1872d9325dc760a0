"""Next queue offsets from the log itself: what queues that do not show all of it cannot say.

A master that waits for copies has records that no queue shows yet, and after a restart, or when a replica becomes the
master, their queue offsets must not be given out again.
"""

from __future__ import annotations

from array import array

from flaremq.core.queue import find_marked, queue_runs
from flaremq.core.record import walk
from flaremq.core.table import BLANK, END, FILE_OFFSET, FULL, MARK_BAD_TEXT, MARK_INNER_BATCH, SIZE, RecordTable
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.check import CheckReason, check_record
from flaremq.message.sys_flag import gets_queue_unit
from flaremq.storage.dispatch.deleted_topics import DeletedTopics
from flaremq.storage.dispatch.record_views import inner_count
from flaremq.storage.files.mapped_file import MappedFile
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.log.resync import next_record
from flaremq.storage.queue.consume_queue import UNIT, UNIT_SIZE

_ROWS = 2048
_SINGLY_MARKS = MARK_INNER_BATCH | MARK_BAD_TEXT

NextOffsets = dict[tuple[str, int], int]


def next_queue_offsets(
    log: CommitLog, start: int, end: int, delay_ms: array[int], deleted: DeletedTopics
) -> NextOffsets:
    """By (topic, queue id): the offset behind the last record of the queue in these bytes of the log."""
    found: NextOffsets = {}
    table = RecordTable(_ROWS)
    position = start
    while position < end:
        file = log.files.find(position)
        if file is None:
            break
        buffer = file.buffer
        limit = min(end, file.end) - file.start
        rows, at, stop = walk(buffer, position - file.start, limit, file.start, 0, table.cells)
        _note_rows(found, file, table, rows, delay_ms, deleted)
        position = file.start + at
        if stop in (END, FULL):
            continue
        if stop == BLANK:
            position = file.end
            continue
        verdict = check_record(buffer[:limit], at, physical_offset=position, check_body_crc=False)
        if verdict.reason is CheckReason.OK:  # the readable check has the last word on what a record is
            _note(found, MessageExt(buffer[at : at + verdict.size]), deleted)
            position += verdict.size
            continue
        following = next_record(log.files, position, end)
        position = end if following is None else following
    return found


def _note_rows(
    found: NextOffsets, file: MappedFile, table: RecordTable, rows: int, delay_ms: array[int], deleted: DeletedTopics
) -> None:
    buffer = file.buffer
    first = 0
    while first < rows:
        marked = find_marked(table.cells, first, rows, _SINGLY_MARKS)
        if marked == first:
            at = table.cell(FILE_OFFSET, first)
            _note(found, MessageExt(buffer[at : at + table.cell(SIZE, first)]), deleted)
            first += 1
            continue
        units, runs = queue_runs(buffer, table.cells, first, marked, delay_ms)
        for topic, queue_id, queue_offset, begin, end, _ in runs:
            if not deleted.hides(topic, UNIT.unpack_from(units, end - UNIT_SIZE)[0]):
                found[topic, queue_id] = queue_offset + (end - begin) // UNIT_SIZE
        first = marked


def _note(found: NextOffsets, message: MessageExt, deleted: DeletedTopics) -> None:
    if gets_queue_unit(message.sys_flag) and not deleted.hides(message.topic, message.physical_offset):
        count = inner_count(message.properties) if message.is_inner_batch else 1
        found[message.topic, message.queue_id] = message.queue_offset + count
