"""What becomes of records in queues and index: runs of units by queue, single records that the core leaves out.

A record of transaction type none or commit gets one queue unit at place ``queue_offset``, unless its topic was deleted
after it (``deleted_topics``); a record with a UNIQ_KEY or KEYS gets index entries. Nothing else is written, and nothing
depends on when it runs: the same log with the same deletions always gives the same queue and index bytes.

A record that no queue can take is set aside: its place in its queue becomes a filler once the next record of that queue
arrives, and ``damage`` counts it. Nothing behind it waits for it.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable
from dataclasses import dataclass

from flaremq.errors import InvalidArgumentError
from flaremq.message import properties as names
from flaremq.message.delay import DelayLevels
from flaremq.message.message_ext import MessageExt
from flaremq.message.record.codec import RECORD_SIZE_MIN
from flaremq.message.sys_flag import gets_index_entry, gets_queue_unit
from flaremq.storage.dispatch.deleted_topics import DeletedTopics
from flaremq.storage.dispatch.record_views import inner_count, unit_tags_code
from flaremq.storage.index.index_service import IndexService
from flaremq.storage.log.walk import DamagedRange
from flaremq.storage.queue.batch_consume_queue import BatchUnit
from flaremq.storage.queue.consume_queue import UNIT, UNIT_SIZE, ConsumeQueue
from flaremq.storage.queue.table import ConsumeQueues

_log = logging.getLogger(__name__)
_GAP_MAX = 16

Run = tuple[str, int, int, int, int, int]  # see flaremq.core.queue.queue_runs


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
        "delay_ms",
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
        self.delay_ms = array("q", [0, *delay_levels.delays_ms])  # as the core wants them
        self.deleted = deleted
        self.touched: set[tuple[str, int]] = set()  # queues that grew; whoever wakes readers empties it
        self.damaged_bytes = 0  # log bytes stepped over: their records are missing in the queues
        self.damage = DamageNotes()
        self.written: dict[str, dict[int, int]] = {}  # next queue offsets by topic, in a store that is being written
        self.index_from = 0  # records before this are in the index already

    def append_runs(self, units: memoryview, runs: list[Run], read: Callable[[int, int], memoryview]) -> None:
        """Units by queue, as the core makes them; ``read`` gives the record at a physical offset and of a size."""
        simple, batch, touched, reach = self.queues.simple, self.queues.batch, self.touched, self.deleted.reach
        for topic, queue_id, queue_offset, first, end, physical_end in runs:
            if reach and UNIT.unpack_from(units, first)[0] < reach:
                hidden = self._hidden_bytes(topic, units[first:end])
                first += hidden
                queue_offset += hidden // UNIT_SIZE
                if first == end:
                    continue
            key = (topic, queue_id)
            if batch and key in batch:
                for physical_offset, size, _ in UNIT.iter_unpack(units[first:end]):
                    self._put_unit(MessageExt(read(physical_offset, size)))
                continue
            try:
                queue = simple.get(key)
                if queue is None:
                    queue = self.queues.get_or_create(topic, queue_id)
                if queue_offset != queue.end and not self.is_plausible(queue, queue_offset):
                    raise InvalidArgumentError(f"queue offset {queue_offset} after {queue!r}")
            except InvalidArgumentError as error:  # no put writes it: damage that no checksum covers
                for physical_offset, size, _ in UNIT.iter_unpack(units[first:end]):
                    self.set_aside(physical_offset, physical_offset + size, str(error))
                continue
            queue.append(queue_offset, units[first:end], max_physical_offset=physical_end)
            touched.add(key)

    def _hidden_bytes(self, topic: str, units: memoryview) -> int:
        """How many bytes of a run are units of records that were deleted after they were written: its first ones."""
        end = self.deleted.end_of(topic)
        hidden = 0
        while end and hidden < len(units) and UNIT.unpack_from(units, hidden)[0] < end:
            hidden += UNIT_SIZE
        return hidden

    def dispatch(self, message: MessageExt) -> None:
        """One record into its views."""
        sys_flag, physical_offset = message.sys_flag, message.physical_offset
        is_hidden = physical_offset < self.deleted.reach and self.deleted.hides(message.topic, physical_offset)
        if gets_queue_unit(sys_flag) and not is_hidden:
            self._put_unit(message)
        if self.index is not None and gets_index_entry(sys_flag) and physical_offset >= self.index_from:
            unique_key = message.properties.get(names.UNIQUE_KEY)
            keys = message.properties.get(names.KEYS)
            if unique_key or keys:
                self.index.put(
                    message.topic,
                    unique_key,
                    keys.split(" ") if keys else (),
                    physical_offset,
                    message.store_timestamp,
                )

    def _put_unit(self, message: MessageExt) -> None:
        topic, queue_id, queue_offset = message.topic, message.queue_id, message.queue_offset
        physical_offset, size, properties = message.physical_offset, message.size, message.properties
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


def fits_behind(queue: ConsumeQueue, queue_offset: int, damaged_bytes: int) -> bool:
    """Whether the records of so many damaged log bytes explain the gap between the queue's end and this offset."""
    return not queue.files.starts or queue_offset - queue.end <= damaged_bytes // RECORD_SIZE_MIN + _GAP_MAX
