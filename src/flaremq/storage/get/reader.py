"""Reading a store: by queue offset, by physical offset, by key, by time. All answers are RocketMQ's.

Nothing is served unchecked: a unit must agree with its record (place, queue, queue offset) and the record with its
checksums. A unit that contradicts an intact log is repaired from the log; a damaged record costs only itself.
Messages are views into the mapped log: no body byte is copied before it is asked for, and the bytes of a deleted
file stay while such a view lives.

Over 500 lines on purpose: every way to read ends in the same checks and repairs, which live here once.
"""

from __future__ import annotations

import logging
import os
from typing import Any
from zlib import crc32

from flaremq.errors import StoreIOError
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.check import CheckReason, check_record
from flaremq.message.record.codec import HEADER, MAGIC_V1, MAGIC_V2, PREFIX_BY_FAMILY
from flaremq.storage.dispatch.dispatcher import Dispatcher
from flaremq.storage.dispatch.record_views import unit_tags_code
from flaremq.storage.get.collect import Limits, collect
from flaremq.storage.get.cursor import QueueCursors
from flaremq.storage.get.get_result import GetResult, parse_tags, tag_matches
from flaremq.storage.get.keys import query_one
from flaremq.storage.index.index_service import IndexService
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.log.common_record import check_common
from flaremq.storage.options import StoreOptions
from flaremq.storage.queue.batch_consume_queue import BatchConsumeQueue
from flaremq.storage.queue.consume_queue import FILLER, FILLER_SIZE, UNIT, ConsumeQueue
from flaremq.storage.queue.consume_queue_ext import is_ext_address
from flaremq.storage.queue.search import Answer, by_halves
from flaremq.storage.queue.table import ConsumeQueues
from flaremq.storage.status import GetMessageStatus

_log = logging.getLogger(__name__)
_RETRY_WALK_MAX = 64 << 20  # how far a repair looks through the log for a unit's record


class MessageReader:
    """The read side of a store. Any thread."""

    __slots__ = (
        "_dispatcher",
        "_index",
        "_log",
        "_options",
        "_queues",
        "cursors",
        "damaged_reads",
        "memory_bytes",
        "repaired_units",
        "scan_memory",
    )

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        index: IndexService | None,
        dispatcher: Dispatcher,
        options: StoreOptions,
    ) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._dispatcher = dispatcher
        self._options = options
        self.read_options(options)
        self.cursors = QueueCursors()
        self.scan_memory: list[Any] = []  # what one scan leaves to the next
        self.damaged_reads = 0
        self.repaired_units = 0

    def read_options(self, options: StoreOptions) -> None:
        """What may change while the store is open."""
        self.memory_bytes = _physical_memory() * options.access_message_in_memory_max_ratio // 100

    def get(
        self, topic: str, queue_id: int, offset: int, max_count: int, tags: str | None, max_bytes: int | None
    ) -> GetResult:
        """Messages from a queue offset on; see the status for why there are none."""
        status = GetMessageStatus
        queue = self._queues.simple.get((topic, queue_id))
        if queue is None:
            batch = self._queues.batch.get((topic, queue_id))
            if batch is not None:
                return self._get_batch(batch, offset, max_count, parse_tags(tags), max_bytes)
            return GetResult(status.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        low, high = queue.min_offset, queue.end
        options = self._options
        # A replica does not correct the offsets of its readers unless told to: it may just be behind.
        keep = options.broker_role == "SLAVE" and not options.offset_check_in_slave
        if high == 0:
            return GetResult(status.NO_MESSAGE_IN_QUEUE, offset if keep else 0, low, high)
        if offset < low:
            return GetResult(status.OFFSET_TOO_SMALL, offset if keep else low, low, high)
        if offset == high:
            return GetResult(status.OFFSET_OVERFLOW_ONE, offset, low, high)
        if offset > high:
            return GetResult(status.OFFSET_OVERFLOW_BADLY, offset if keep else high, low, high)
        examined_max = max(options.max_filter_message_size // UNIT.size, max_count)
        cursor, limits = self.cursors.of(queue), self._limits(max_count, max_bytes)
        # Without a filter nearly always as many units as messages are enough.
        units, first, count = cursor.read(offset, max_count if tags is None else examined_max)
        if not count:
            size = queue.files.file_size
            next_file = (offset * UNIT.size // size + 1) * size // UNIT.size
            return GetResult(status.OFFSET_FOUND_NULL, offset if keep else next_file, low, high)
        wanted = parse_tags(tags)
        result = self._collect(queue, offset, units, first, count, limits, wanted, low, high)
        if not result.messages and tags is None:
            units, first, count = cursor.read(offset, examined_max)
            result = self._collect(queue, offset, units, first, count, limits, wanted, low, high)
        for _ in range(options.travel_cq_file_num_when_get_message - 1):
            if result.messages:
                break
            units, first, count = cursor.read(result.next_offset, examined_max)
            if not count:
                break
            result = self._collect(queue, result.next_offset, units, first, count, limits, wanted, low, high)
        return result

    def message_at(self, queue: ConsumeQueue, queue_offset: int) -> MessageExt | None:
        """The message of one unit, repaired if need be; None for filler, expired and unreadable ones."""
        data = queue.read_units(queue_offset, 1)
        if not data:
            return None
        limits = (1, 0, 0, 1, 0, 1)
        found = self._collect(queue, queue_offset, data, 0, 1, limits, None, queue.min_offset, queue.end).messages
        return found[0] if found else None

    # Long on purpose: the same decisions about a unit as in ``collect``, in the same order, for those it leaves.
    def _collect(
        self,
        queue: ConsumeQueue,
        offset: int,
        units: bytes,
        first: int,
        count: int,
        limits: Limits,
        wanted: dict[int, set[str]] | None,
        low: int,
        high: int,
    ) -> GetResult:
        """Messages of ``count`` units from ``units[first]`` on, which is that of queue offset ``offset``."""
        log = self._log
        log_end = log.readable_offset
        found: list[MessageExt] = []
        found_bytes = 0
        removed = False
        skip_below = -1
        last_physical = 0
        number, stop = first, first + count
        while number < stop:
            physical_offset, size, code = UNIT.unpack_from(units, number * UNIT.size)
            file = log.files.find(physical_offset)
            buffer = None if file is None else file.borrow()
            if file is not None and buffer is not None:
                before = number
                number, found_bytes, seen, is_full = collect(
                    found,
                    found_bytes,
                    units,
                    number,
                    stop,
                    buffer,
                    file.start,
                    log_end,
                    queue.queue_id,
                    offset - first,
                    skip_below,
                    limits,
                    wanted,
                )
                last_physical = seen if seen >= 0 else last_physical
                if is_full or number == stop:
                    break
                if number > before:
                    continue  # in another file perhaps
            if size == FILLER_SIZE:
                number += 1
                continue
            if found and _is_full(limits, len(found), found_bytes, physical_offset, size):
                break
            last_physical = physical_offset
            number += 1
            if skip_below >= 0 and physical_offset < skip_below:
                continue
            if wanted is not None and not self._tag_may_match(queue, code, wanted):
                continue
            queue_offset = offset - first + number - 1
            message = self._message(queue.queue_id, queue_offset, physical_offset, size, log_end)
            if message is None:
                if 0 <= physical_offset < log.min_offset:
                    removed, skip_below = True, log.min_offset
                    continue
                message = self._repair(queue, queue_offset)
                if message is None:
                    removed = True
                    continue
                size = message.size
            if wanted is None or tag_matches(message, wanted):
                found.append(message)
                found_bytes += size
        if found:
            result = GetMessageStatus.FOUND
        else:
            result = GetMessageStatus.MESSAGE_WAS_REMOVING if removed else GetMessageStatus.NO_MATCHED_MESSAGE
        behind = log_end - last_physical > self.memory_bytes
        return GetResult(result, offset - first + number, low, high, found, found_bytes, behind)

    def _limits(self, max_count: int, max_bytes: int | None) -> Limits:
        if max_bytes is not None:
            return max_count, 0, max_bytes, max_count, max_bytes, max_count
        options = self._options
        return (
            max_count,
            self._log.readable_offset - self.memory_bytes,  # records before this are taken to be on disk
            options.max_transfer_bytes_on_message_in_disk,
            options.max_transfer_count_on_message_in_disk,
            options.max_transfer_bytes_on_message_in_memory,
            options.max_transfer_count_on_message_in_memory,
        )

    def _tag_may_match(self, queue: ConsumeQueue, code: int, wanted: dict[int, set[str]]) -> bool:
        if is_ext_address(code):
            ext = self._queues.ext.get((queue.topic, queue.queue_id))
            unit = ext.read(code) if ext is not None else None
            if unit is None:
                return True  # the record decides
            code = unit.tags_code
        return code & 0xFFFFFFFF in wanted

    def _message(
        self, queue_id: int, queue_offset: int, physical_offset: int, size: int, log_end: int
    ) -> MessageExt | None:
        """The record a unit points to, if it is there, says the same, and its checksums hold."""
        file = self._log.files.find(physical_offset)
        if file is None or size < 91 or physical_offset + size > log_end:
            return None
        view = file.view(physical_offset - file.start, size)
        if view is None:
            return None
        common = check_common(view)
        if common is not None:
            if common[:3] == (queue_id, queue_offset, physical_offset):
                return MessageExt(view)
            return None
        fields = HEADER.unpack_from(view)
        if (
            fields[0] != size
            or fields[1] not in (MAGIC_V1, MAGIC_V2)
            or fields[3] != queue_id
            or fields[5] != queue_offset
            or fields[6] != physical_offset
            or not self._checksums_hold(view, fields)
        ):
            return None
        return MessageExt(view)

    def _checksums_hold(self, view: memoryview, fields: tuple[int, ...]) -> bool:
        """Whole frame and checksums, the common case without a second parse."""
        prefix = PREFIX_BY_FAMILY[fields[7] >> 4 & 3]
        body_at = prefix.size
        body_end = body_at + int.from_bytes(view[body_at - 4 : body_at], "big", signed=True)
        if (
            body_at <= body_end < len(view) - 2
            and crc32(view[body_at:body_end]) & 0x7FFFFFFF == fields[2]
            and check_record(view, check_body_crc=False).ok
        ):
            return True
        self.damaged_reads += 1
        return False

    def _repair(self, queue: ConsumeQueue, queue_offset: int) -> MessageExt | None:
        """Find the record of a unit that does not fit by walking the log between its neighbours, and put it right."""
        log = self._log
        position = max(log.min_offset, self._dispatcher.deleted.end_of(queue.topic))
        for before in range(queue_offset - 1, max(queue.first_offset, queue_offset - 64) - 1, -1):
            unit = queue.unit(before)
            if unit is not None and unit[0] >= log.min_offset and self._agrees(queue, before, unit):
                position = unit[0] + unit[1]
                break
        stop = min(log.readable_offset, position + _RETRY_WALK_MAX)
        for after in range(queue_offset + 1, min(queue.end, queue_offset + 64)):
            unit = queue.unit(after)
            if unit is not None and unit[0] >= log.min_offset and self._agrees(queue, after, unit):
                stop = min(stop, unit[0])
                break
        while position < stop:
            file = log.files.find(position)
            buffer = None if file is None else file.borrow()
            if file is None or buffer is None:
                return None
            verdict = check_record(buffer, position - file.start, physical_offset=position, check_body_crc=False)
            if not verdict.ok:
                if verdict.reason.name == "BLANK":
                    position = file.end
                    continue
                return None
            view = buffer[position - file.start :][: verdict.size]
            message = MessageExt(view)
            if (message.queue_id, message.queue_offset) == (
                queue.queue_id,
                queue_offset,
            ) and message.topic == queue.topic:
                if not self._checksums_hold(view, HEADER.unpack_from(view)):
                    return None
                code = unit_tags_code(
                    queue.topic, message.properties, message.store_timestamp, self._dispatcher.delay_levels
                )
                try:
                    queue.replace(queue_offset, UNIT.pack(position, verdict.size, code))
                except StoreIOError as error:
                    _log.warning("unit %d of %r could not be repaired: %s", queue_offset, queue, error)
                self.repaired_units += 1
                _log.warning(
                    "unit %d of %s@%d contradicted the log and was repaired",
                    queue_offset,
                    queue.topic,
                    queue.queue_id,
                )
                return message
            position += verdict.size
        return None

    def _agrees(self, queue: ConsumeQueue, queue_offset: int, unit: tuple[int, int, int]) -> bool:
        fields = self._log.header(unit[0])
        return fields is not None and (fields[0], fields[3], fields[5]) == (
            unit[1],
            queue.queue_id,
            queue_offset,
        )

    def _get_batch(
        self,
        queue: BatchConsumeQueue,
        offset: int,
        max_count: int,
        wanted: dict[int, set[str]] | None,
        max_bytes: int | None,
    ) -> GetResult:
        status = GetMessageStatus
        low, high = queue.min_offset, queue.end
        if high == 0:
            return GetResult(status.NO_MESSAGE_IN_QUEUE, 0, low, high)
        if offset < low:
            return GetResult(status.OFFSET_TOO_SMALL, low, low, high)
        if offset >= high:
            one = offset == high
            return GetResult(status.OFFSET_OVERFLOW_ONE if one else status.OFFSET_OVERFLOW_BADLY, high, low, high)
        found: list[MessageExt] = []
        found_bytes = count = 0
        next_offset = offset
        limits = self._limits(max_count, max_bytes)
        number = queue.find(offset)
        while number < queue.unit_end and (unit := queue.unit(number)) is not None:
            if found and (
                count + unit.messages > max_count
                or _is_full(limits, count, found_bytes, unit.physical_offset, unit.record_size)
            ):
                break
            view = self._log.record(unit.physical_offset)
            next_offset = unit.base_offset + unit.messages
            number += 1
            if view is not None and check_record(view, physical_offset=unit.physical_offset).ok:
                message = MessageExt(view)
                # The messages inside a batch have tags of their own, which only its reader sees.
                if wanted is not None and not message.is_inner_batch and not tag_matches(message, wanted):
                    continue
                found.append(message)
                found_bytes += unit.record_size
                count += unit.messages
        return GetResult(
            status.FOUND if found else status.MESSAGE_WAS_REMOVING, next_offset, low, high, found, found_bytes
        )

    def read(self, physical_offset: int) -> MessageExt | None:
        """The message whose record starts exactly here.

        Bytes inside a body may look like a whole record that even knows its place. Only what its own queue points to is
        one: the unit of the queue and offset it claims, or, while no queue shows it yet, the walk that will.
        """
        message = self._whole(physical_offset)
        return message if message is not None and self._is_queued(message) else None

    def _whole(self, physical_offset: int) -> MessageExt | None:
        """What looks like a whole record here; for places that a unit or an index entry names."""
        view = self._log.record(physical_offset)
        if view is None or not (check_common(view) or check_record(view, physical_offset=physical_offset).ok):
            return None
        return MessageExt(view)

    def _is_queued(self, message: MessageExt) -> bool:
        """Whether the queue this claims to be of has it at the offset it claims, exactly here."""
        physical_offset, queue_offset = message.physical_offset, message.queue_offset
        undispatched = self._dispatcher.position
        if physical_offset >= undispatched:
            return self._is_record_start(undispatched, physical_offset)
        key = (message.topic, message.queue_id)
        queue = self._queues.simple.get(key)
        if queue is None:
            batch = self._queues.batch.get(key)
            batch_unit = None if batch is None else batch.unit(batch.find(queue_offset))
            return batch_unit is not None and batch_unit.physical_offset == physical_offset
        data = queue.read_units(queue_offset, 1)
        if not data or data == FILLER:
            return False
        unit = UNIT.unpack(data)
        if unit[:2] == (physical_offset, message.size):
            return True
        if self._agrees(queue, queue_offset, unit):
            return False
        repaired = self._repair(queue, queue_offset)
        return repaired is not None and repaired.physical_offset == physical_offset

    def _is_record_start(self, position: int, physical_offset: int) -> bool:
        """Whether a walk over the records from ``position`` on comes by here."""
        if physical_offset - position > _RETRY_WALK_MAX:
            return False
        while position < physical_offset:
            file = self._log.files.find(position)
            buffer = None if file is None else file.borrow()
            if file is None or buffer is None:
                return False
            verdict = check_record(buffer, position - file.start, physical_offset=position, check_body_crc=False)
            if verdict.reason is CheckReason.BLANK:
                position = file.end
            elif verdict.ok:
                position += verdict.size
            else:
                return False
        return position == physical_offset

    def query(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> list[MessageExt]:
        """Messages with this key (or unique key), oldest first; compared by text, not by hash."""
        if self._index is None:
            return []
        max_count = min(max_count, self._options.max_msgs_num_batch)
        deleted_before = self._dispatcher.deleted.end_of(topic)
        return query_one(self._log, self._index, topic, key, max_count, begin_ms, end_ms, deleted_before)

    def store_timestamp(self, queue: ConsumeQueue, queue_offset: int) -> int | None:
        """Store time of the record behind a unit; None for filler, expired and unreadable ones."""
        unit = queue.unit(queue_offset)
        if unit is None:
            return None
        return self._log.store_timestamp(unit[0])

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: str) -> int:
        """LOWER: first offset stored at or after the time; UPPER: last offset stored at or before it."""
        queue = self._queues.simple.get((topic, queue_id))
        if queue is None:
            batch = self._queues.batch.get((topic, queue_id))
            return 0 if batch is None else self._batch_offset_by_time(batch, timestamp_ms, boundary)
        low, high = queue.min_offset, queue.end
        if boundary == "UPPER":
            timestamp_ms += 1

        def ask(queue_offset: int, end: int) -> Answer | None:
            for at in range(queue_offset, end):  # a filler or damaged record says nothing: its successor is asked
                time = self.store_timestamp(queue, at)
                if time is not None:
                    return at, at + 1, time >= timestamp_ms
            return None

        low = by_halves(ask, low, high)
        if boundary == "UPPER":
            return max(low - 1, queue.min_offset) if low > queue.min_offset else queue.min_offset
        return low

    def _batch_offset_by_time(self, queue: BatchConsumeQueue, timestamp_ms: int, boundary: str) -> int:
        number = queue.first_unit
        previous = queue.min_offset
        while number < queue.unit_end and (unit := queue.unit(number)) is not None:
            if unit.store_timestamp >= timestamp_ms + (boundary == "UPPER"):
                return unit.base_offset if boundary == "LOWER" else previous
            previous = unit.base_offset
            number += 1
        return previous  # past the last unit: its base, as RocketMQ answers for batch queues


def _is_full(limits: Limits, count: int, total: int, physical_offset: int, size: int) -> bool:
    """Whether an answer of ``count`` messages and ``total`` bytes has no room for this record."""
    max_count, far, disk_bytes, disk_count, memory_bytes, memory_count = limits
    if physical_offset < far:
        return count >= min(max_count, disk_count) or total + size > disk_bytes
    return count >= min(max_count, memory_count) or total + size > memory_bytes


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 24 << 30
