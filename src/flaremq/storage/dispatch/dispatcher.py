"""Dispatch: the one function from log to views. Live dispatch, recovery and rebuild all go through it.

A record of transaction type none or commit gets one queue unit at place ``queue_offset``, unless its topic was deleted
after it (``deleted_topics``); a record with a UNIQ_KEY or KEYS gets index entries. Nothing else is written, and nothing
depends on when it runs: the same log with the same deletions always gives the same queue and index bytes.

A record that cannot be read, or that no queue can take, is set aside: its place in its queue becomes a filler once the
next record of that queue arrives, and ``damage`` counts it. Nothing behind it waits for it.

Small ranges are walked in Python; from ``BULK_BYTES`` on, compiled kernels parse and write in bulk (``bulk``, loaded
on first need). Both give the same bytes; tests run them side by side.
"""

from __future__ import annotations

import logging
import re
import struct
import sys
from dataclasses import dataclass

from flaremq.errors import InvalidArgumentError
from flaremq.message import properties as names
from flaremq.message.delay import DelayLevels
from flaremq.message.java_hash import tags_code
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.check import CheckReason, check_record
from flaremq.message.record.codec import INT, RECORD_SIZE_MIN
from flaremq.message.sys_flag import gets_index_entry, gets_queue_unit
from flaremq.message.topics import SCHEDULE_TOPIC
from flaremq.storage.dispatch.deleted_topics import DeletedTopics
from flaremq.storage.files.mapped_file import MappedFile
from flaremq.storage.index.index_service import IndexService
from flaremq.storage.kernels.loaded import kernels_are_loaded
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.log.resync import next_record
from flaremq.storage.log.walk import DamagedRange
from flaremq.storage.queue.batch_consume_queue import BatchUnit
from flaremq.storage.queue.consume_queue import UNIT, ConsumeQueue
from flaremq.storage.queue.table import ConsumeQueues

_log = logging.getLogger(__name__)

# What the values of a record can make dispatch fail with. Anything else is no fault of the record.
_OF_THE_RECORD = (ArithmeticError, UnicodeError, struct.error, InvalidArgumentError)
_JAVA_INT = re.compile(r"[+-]?[0-9]{1,64}")
_PROBE_RECORDS = 64
_GAP_MAX = 16
BULK_BYTES = 1 << 16  # below this, loading the kernels costs more than it saves


@dataclass(slots=True)
class WalkResult:
    """Where a walk stopped: ``reason`` is None at the asked end, else why ``offset`` is no record."""

    offset: int
    reason: CheckReason | None = None
    last_timestamp: int = 0
    last_offset: int = -1


@dataclass(slots=True)
class DamageNotes:
    """What was set aside since the store was opened."""

    count: int = 0
    bytes: int = 0
    last: DamagedRange | None = None


class ViewWriter:
    """Writes records into queues and index, wherever the records come from. One caller at a time."""

    __slots__ = (
        "damage",
        "damaged_bytes",
        "delay_levels",
        "deleted",
        "index",
        "index_from",
        "queues",
        "touched",
        "written",
    )

    def __init__(
        self,
        queues: ConsumeQueues,
        index: IndexService | None,
        delay_levels: DelayLevels,
        deleted: DeletedTopics,
    ) -> None:
        self.queues = queues
        self.index = index
        self.delay_levels = delay_levels
        self.deleted = deleted
        self.touched: set[tuple[str, int]] = set()  # queues that grew; whoever wakes readers empties it
        self.damaged_bytes = 0  # log bytes stepped over: their records are missing in the queues
        self.damage = DamageNotes()
        self.written: dict[str, dict[int, int]] = {}  # next queue offsets by topic, in a store that is being written
        self.index_from = 0  # records before this are in the index already

    def dispatch(self, message: MessageExt) -> None:
        """One record into its views."""
        sys_flag = message.sys_flag
        properties = message.properties
        if gets_queue_unit(sys_flag):
            self._put_unit(message, properties)
        if self.index is not None and gets_index_entry(sys_flag) and message.physical_offset >= self.index_from:
            unique_key = properties.get(names.UNIQUE_KEY)
            keys = properties.get(names.KEYS)
            if unique_key or keys:
                self.index.put(
                    message.topic,
                    unique_key,
                    keys.split(" ") if keys else (),
                    message.physical_offset,
                    message.store_timestamp,
                )

    def _put_unit(self, message: MessageExt, properties: dict[str, str]) -> None:
        topic, queue_id, queue_offset = message.topic, message.queue_id, message.queue_offset
        physical_offset, size = message.physical_offset, message.size
        if physical_offset < self.deleted.reach and self.deleted.hides(topic, physical_offset):
            return
        code = unit_tags_code(topic, properties, message.store_timestamp, self.delay_levels)
        end = physical_offset + size
        try:
            if message.is_inner_batch or (topic, queue_id) in self.queues.batch:
                if (topic, queue_id) not in self.queues.batch and (topic, queue_id) in self.queues.simple:
                    raise InvalidArgumentError(f"an inner batch for the simple queue {topic!r} {queue_id}")
                unit = BatchUnit(
                    physical_offset, size, code, message.store_timestamp, queue_offset, inner_count(properties)
                )
                self.queues.get_or_create_batch(topic, queue_id).append(unit)
            else:
                queue = self.queues.get_or_create(topic, queue_id)
                if queue_offset != queue.end and not self.is_plausible(queue, queue_offset):
                    raise InvalidArgumentError(f"queue offset {queue_offset} after {queue!r}")
                queue.append(queue_offset, UNIT.pack(physical_offset, size, code), max_physical_offset=end)
        except InvalidArgumentError as error:  # no put writes it: damage that no checksum covers
            self.set_aside(physical_offset, end, str(error))
            return
        self.touched.add((topic, queue_id))

    def is_plausible(self, queue: ConsumeQueue, queue_offset: int) -> bool:
        """Whether a record can have this queue offset: given out by the writer, or damaged log bytes explain the gap.

        The field has no checksum of its own; a flipped bit must not fill the disk with filler.
        """
        if fits_behind(queue, queue_offset, self.damaged_bytes):
            return True
        return queue_offset < self.written.get(queue.topic, {}).get(queue.queue_id, 0)

    def set_aside(self, start: int, end: int, reason: str) -> None:
        """Say that the records in these log bytes are in no queue."""
        _log.error("log bytes [%d, %d) are set aside, no queue shows them: %s", start, end, reason)
        self.damage.count += 1
        self.damage.bytes += end - start
        self.damage.last = DamagedRange(start, end, reason)


class Dispatcher(ViewWriter):
    """Feeds queues and index from the log. One caller at a time (the dispatch lock of the store)."""

    __slots__ = ("bulk_bytes", "last_timestamp", "log", "may_load_kernels", "position")

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
        self.last_timestamp = 0  # store time of the last record dispatched
        self.bulk_bytes = BULK_BYTES
        self.may_load_kernels = True  # a broker loads them on another thread instead

    def run(self, end: int, *, check: bool = False, strict: bool = False, one_slice: bool = False) -> WalkResult:
        """Dispatch records from ``position`` up to ``end``; stops at the first byte that is no record.

        ``check`` verifies checksums (recovery); live dispatch reads back what this process just wrote.
        ``one_slice`` returns after at most one table of records, so that the caller can let others in.
        """
        result = WalkResult(self.position)
        while self.position < end:
            file = self.log.files.find(self.position)
            if file is None:
                result.reason = CheckReason.EMPTY
                break
            limit = min(end, file.end) - file.start
            # In recovery the asked end is a file's end, however little was written: look before loading kernels.
            if check and limit - (self.position - file.start) >= self.bulk_bytes:
                before = self.position
                reason = self._walk(file, limit, result, check, strict, budget=_PROBE_RECORDS)
                if reason is not None or self.position == before:
                    result.reason = reason
                    break
                if self.position >= file.end:
                    continue
            if limit - (self.position - file.start) >= self._bulk_from():
                from flaremq.storage.dispatch.bulk import dispatch_bulk

                reason = dispatch_bulk(self, file, limit, result, check=check, strict=strict, one_slice=one_slice)
            else:
                reason = self._walk(file, limit, result, check, strict)
            if reason is not None:
                result.reason = reason
                break
            if one_slice:
                break
        result.offset = self.position
        self.last_timestamp = result.last_timestamp or self.last_timestamp
        return result

    def run_live(self, end: int) -> None:
        """Dispatch one slice of what this process appended, up to ``end``; what cannot be dispatched costs itself.

        Raises whatever else goes wrong, as when queues or index cannot be written: then the same records are tried
        again.
        """
        try:
            walk = self.run(end, one_slice=True)
        except _OF_THE_RECORD:
            _log.exception("a record from log offset %d on cannot be dispatched", self.position)
            self._run_singly(end)
            return
        if walk.reason is None or self.position >= end:
            return
        if walk.reason is CheckReason.BLANK and self._is_filler(end):
            return  # another thread is just going over to the next file
        following = next_record(self.log.files, self.position, end)
        self.step_over(end if following is None else following, walk.reason.value)

    def _is_filler(self, end: int) -> bool:
        """Whether the rest of a file that appends have left is one filler; its magic alone may be damage."""
        file = self.log.files.find(self.position)
        if file is None or end < file.end:
            return False
        return bool(INT.unpack_from(file.buffer, self.position - file.start)[0] == file.end - self.position)

    def _run_singly(self, end: int) -> None:
        """Go on without kernels up to the one record that made dispatch fail, and set it aside."""
        bulk_bytes, self.bulk_bytes = self.bulk_bytes, sys.maxsize
        try:
            self.run(end, one_slice=True)
        except _OF_THE_RECORD as error:
            header = self.log.header(self.position)
            self.step_over(end if header is None else self.position + header[0], f"{type(error).__name__}: {error}")
        finally:
            self.bulk_bytes = bulk_bytes

    def step_over(self, following: int, reason: str) -> None:
        """Set aside everything up to ``following``, where dispatch goes on."""
        self.damaged_bytes += following - self.position
        self.set_aside(self.position, following, reason)
        self.position = following

    def _bulk_from(self) -> int:
        """Range from which kernels pay: once they are loaded, a dozen records are enough."""
        if kernels_are_loaded() and self.bulk_bytes < sys.maxsize:
            return self.bulk_bytes // 64
        return self.bulk_bytes if self.may_load_kernels else sys.maxsize

    def _walk(
        self,
        file: MappedFile,
        limit: int,
        result: WalkResult,
        check: bool,
        strict: bool,
        budget: int = sys.maxsize,
    ) -> CheckReason | None:
        """Record by record to ``limit`` (a file offset), a blank or the budget; why, if something else stands there."""
        buffer = file.buffer
        at = self.position - file.start
        window = buffer[:limit]
        while at < limit and budget:
            budget -= 1
            verdict = check_record(window, at, physical_offset=file.start + at, check_body_crc=check, strict=strict)
            if verdict.reason is CheckReason.OK:
                message = MessageExt(window[at : at + verdict.size])
                self.dispatch(message)
                result.last_timestamp = message.store_timestamp
                result.last_offset = file.start + at
                at += verdict.size
                self.position = file.start + at
            elif verdict.reason is CheckReason.BLANK and verdict.size == file.size - at:
                if file is self.log.files.last:
                    return verdict.reason  # a filler with no file behind it is not part of the log yet
                self.position = file.end
                return None
            else:
                return verdict.reason
        return None


def fits_behind(queue: ConsumeQueue, queue_offset: int, damaged_bytes: int) -> bool:
    """Whether the records of so many damaged log bytes explain the gap between the queue's end and this offset."""
    return not queue.files.starts or queue_offset - queue.end <= damaged_bytes // RECORD_SIZE_MIN + _GAP_MAX


def unit_tags_code(topic: str, properties: dict[str, str], store_timestamp: int, delay_levels: DelayLevels) -> int:
    """A unit's third field: the tag's hash, or the due time of a delayed message."""
    if topic == SCHEDULE_TOPIC:
        level = _int_or_zero(properties.get(names.DELAY))
        if level > 0:
            due = delay_levels.due_ms(level, store_timestamp)
            return (due + 2**63) % 2**64 - 2**63  # as Java and the kernels add, should the store time be damaged
    tags = properties.get(names.TAGS)
    return tags_code(tags) if tags else 0


def _int_or_zero(text: str | None) -> int:
    """``Integer.parseInt`` for ASCII, as the kernels read it; 0 where Java would throw."""
    if not text or _JAVA_INT.fullmatch(text) is None:
        return 0
    number = int(text)
    return number if -(2**31) <= number < 2**31 else 0


def inner_count(properties: dict[str, str]) -> int:
    """Messages in an inner-batch record."""
    return max(1, min(_int_or_zero(properties.get(names.INNER_NUM)), 32767))
