"""Dispatch in bulk: the compiled twin of ``Dispatcher.dispatch`` for long ranges of one log file.

Records are parsed into a table, grouped by queue, written to each queue in one piece and to the index in one call,
all without the GIL. What the kernels leave to plain code (inner batches, text that is not UTF-8) goes record by record
through the plain path, chunk by chunk, so order is kept. Imported only when a range is long enough to pay for it.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from flaremq.errors import InvalidArgumentError, StoreIOError
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.check import CheckReason, check_record
from flaremq.storage.files.mapped_file import MappedFile
from flaremq.storage.index.index_service import IndexService
from flaremq.storage.kernels import preload  # noqa: F401  # batches and pulls use kernels once all are loaded
from flaremq.storage.kernels.compile import Bytes, Integers
from flaremq.storage.kernels.index import index_keys, index_put
from flaremq.storage.kernels.memory import as_array
from flaremq.storage.kernels.queue import fill_units, group_queues
from flaremq.storage.kernels.record import walk
from flaremq.storage.kernels.table import (
    BLANK,
    CHECK_BODY_CRC,
    CHECK_RECORD_CRC,
    END,
    FILE_OFFSET,
    FULL,
    MARK_BAD_TEXT,
    MARK_INNER_BATCH,
    MARKS,
    PHYSICAL_OFFSET,
    QUEUE_ID,
    QUEUE_OFFSET,
    SIZE,
    STORE_TIMESTAMP,
    STRICT,
    TOPIC_AT,
    TOPIC_LENGTH,
    RecordTable,
)
from flaremq.storage.queue.consume_queue import UNIT_SIZE

if TYPE_CHECKING:
    from flaremq.storage.dispatch.deleted_topics import DeletedTopics
    from flaremq.storage.dispatch.dispatcher import Dispatcher, WalkResult

_ROWS = 16_384
_PLAIN_MARKS = MARK_INNER_BATCH | MARK_BAD_TEXT
_local = threading.local()  # one table a thread: it is four megabytes


def dispatch_bulk(
    dispatcher: Dispatcher,
    file: MappedFile,
    limit: int,
    result: WalkResult,
    *,
    check: bool,
    strict: bool,
    one_slice: bool,
) -> CheckReason | None:
    """Dispatch ``file`` from the dispatcher's position to file offset ``limit``; the reason if it stops before."""
    table = getattr(_local, "table", None)
    if table is None:
        table = _local.table = RecordTable(_ROWS)
    columns = table.columns
    flags = CHECK_RECORD_CRC  # as the plain check does, wherever a record has one
    if check:
        flags |= CHECK_BODY_CRC
    if strict:
        flags |= STRICT
    log = as_array(file.buffer)
    delays = np.array([0, *dispatcher.delay_levels.delays_ms], np.int64)
    while (at := dispatcher.position - file.start) < limit:
        rows, next_at, stop = walk(log, at, limit, file.start, flags, columns)
        if rows:
            _dispatch_rows(dispatcher, file, log, columns, rows, delays)
            result.last_timestamp = int(columns[STORE_TIMESTAMP, rows - 1])
            result.last_offset = int(columns[PHYSICAL_OFFSET, rows - 1])
        dispatcher.position = file.start + next_at
        if stop == BLANK:
            if file is dispatcher.log.files.last:
                return CheckReason.BLANK
            dispatcher.position = file.end
            return None
        if stop not in (END, FULL):
            verdict = check_record(
                file.buffer[:limit],
                next_at,
                physical_offset=file.start + next_at,
                check_body_crc=check,
                strict=strict,
            )
            # The plain check has the last word on what a record is.
            if verdict.reason is not CheckReason.OK:
                return verdict.reason
            dispatcher.dispatch(MessageExt(file.buffer[next_at : next_at + verdict.size]))
            dispatcher.position += verdict.size
        if one_slice:
            break
    return None


def _dispatch_rows(
    dispatcher: Dispatcher, file: MappedFile, log: Bytes, columns: Integers, rows: int, delays: Integers
) -> None:
    if dispatcher.queues.batch or np.any(columns[MARKS, :rows] & _PLAIN_MARKS):
        for row in range(rows):
            at, size = int(columns[FILE_OFFSET, row]), int(columns[SIZE, row])
            dispatcher.dispatch(MessageExt(file.buffer[at : at + size]))
            dispatcher.position = file.start + at + size
        return
    order, starts = group_queues(log, columns, rows)
    bounds = starts.tolist()
    if dispatcher.position < dispatcher.deleted.reach:
        order, bounds = _without_deleted(dispatcher.deleted, log, columns, order, bounds)
    _append_units(dispatcher, log, columns, order, bounds, delays)
    if dispatcher.index is not None:
        _put_keys(dispatcher, dispatcher.index, file, log, columns, rows)


def _without_deleted(
    deleted: DeletedTopics, log: Bytes, columns: Integers, order: Integers, starts: list[int]
) -> tuple[Integers, list[int]]:
    """The groups less the rows of topics that were deleted after them."""
    kept: list[Integers] = []
    bounds = [0]
    for first, end in pairwise(starts):
        head = order.item(first)
        at = columns.item(TOPIC_AT, head)
        topic = log[at : at + columns.item(TOPIC_LENGTH, head)].tobytes().decode()
        members = order[first:end]
        members = members[columns[PHYSICAL_OFFSET][members] >= deleted.end_of(topic)]
        if len(members):
            kept.append(members)
            bounds.append(bounds[-1] + len(members))
    return (np.concatenate(kept) if kept else order[:0]), bounds


def _append_units(
    dispatcher: Dispatcher, log: Bytes, columns: Integers, order: Integers, starts: list[int], delays: Integers
) -> None:
    """Units of all rows, queue by queue, in runs of consecutive queue offsets.

    Few calls on long arrays: each of them gives up the GIL and waits for it beside a busy writer.
    """
    if not len(order):
        return
    units = np.empty(len(order) * UNIT_SIZE, np.uint8)
    fill_units(columns, order, delays, units)
    data = memoryview(units.data)
    queue_offsets = columns[QUEUE_OFFSET][order]
    ends = columns[PHYSICAL_OFFSET][order] + columns[SIZE][order]
    breaks = (np.flatnonzero(np.diff(queue_offsets) != 1) + 1).tolist()
    # With thousands of queues most groups are one record long: their fields are fetched in one go, not one by one.
    heads = order[starts[:-1]]
    places = columns[TOPIC_AT][heads].tolist()
    lengths = columns[TOPIC_LENGTH][heads].tolist()
    queue_ids = columns[QUEUE_ID][heads].tolist()
    topics: dict[bytes, str] = {}
    simple, touched = dispatcher.queues.simple, dispatcher.touched
    for number, (first, end) in enumerate(pairwise(starts)):
        name = log[places[number] : places[number] + lengths[number]].tobytes()
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = name.decode()
        key = (topic, queue_ids[number])
        queue = simple.get(key)
        if queue is None:
            try:
                queue = dispatcher.queues.get_or_create(*key)
            except InvalidArgumentError as error:
                _set_aside(dispatcher, columns, order[first:end], str(error))
                continue
        inner = breaks[bisect_right(breaks, first) : bisect_left(breaks, end)] if end - first > 1 and breaks else ()
        for run_first, run_end in pairwise([first, *inner, end]) if inner else ((first, end),):
            queue_offset = queue_offsets.item(run_first)
            if queue_offset != queue.end and not dispatcher.is_plausible(queue, queue_offset):
                reason = f"queue offset {queue_offset} after {queue!r}"
                _set_aside(dispatcher, columns, order[run_first:run_end], reason)
                continue
            queue.append(
                queue_offset,
                data[run_first * UNIT_SIZE : run_end * UNIT_SIZE],
                max_physical_offset=ends.item(run_end - 1),
            )
        touched.add(key)


def _set_aside(dispatcher: Dispatcher, columns: Integers, rows: Integers, reason: str) -> None:
    for row in rows.tolist():
        start = columns.item(PHYSICAL_OFFSET, row)
        dispatcher.set_aside(start, start + columns.item(SIZE, row), reason)


def _put_keys(
    dispatcher: Dispatcher, index: IndexService, file: MappedFile, log: Bytes, columns: Integers, rows: int
) -> None:
    skip_below = max(dispatcher.index_from, index.resume_offset)
    hashes, offsets, times = index_keys(log, columns, 0, rows, skip_below, False)
    at = index.resume_keys if len(offsets) and int(offsets[0]) == index.resume_offset else 0
    while at < len(hashes):
        try:
            target = index.writable_file()
            target.reserve(target.count)
        except StoreIOError:
            # Queues have this chunk; the index has it up to this key. Go on exactly here next time.
            record = int(offsets[at])
            index.note_unfinished(record, at - int(np.searchsorted(offsets, record)))
            dispatcher.position = record
            raise
        array = as_array(target.buffer)
        at, _why = index_put(array, target.slots, target.entries, target.reserved_entries, hashes, offsets, times, at)
        del array
        target.load_header()
    index.note_unfinished(-1, 0)
