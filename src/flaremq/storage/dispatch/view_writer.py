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
from typing import NoReturn

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
from flaremq.storage.queue.table import ConsumeQueues, QueueId

_log = logging.getLogger(__name__)
_GAP_MAX = 16

Run = tuple[str, int, int, int, int, int]  # see flaremq.core.queue.queue_runs


@dataclass(slots=True)
class DamageNotes:
    """What was set aside since the store was opened."""

    count: int = 0
    bytes: int = 0
    last: DamagedRange | None = None


class TopicBeganAnewError(Exception):
    """A replica's log shows that the master deleted a topic. Nothing is dispatched before that is done here, too."""

    def __init__(self, topic: str, end: int) -> None:
        super().__init__(f"topic {topic} was deleted on the master behind log offset {end}")
        self.topic = topic
        self.end = end


def stop_at_new_life(topic: str, end: int) -> NoReturn:
    """``on_new_life`` of a store in use: queues go only with locks that dispatch does not hold."""
    raise TopicBeganAnewError(topic, end)


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
        "on_new_life",
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
        # Set where another store gives out the queue offsets, and only the log says that it deleted a topic.
        self.on_new_life: Callable[[str, int], None] | None = None

    def append_runs(self, units: memoryview, runs: list[Run], read: Callable[[int, int], memoryview]) -> None:
        """Units by queue, as the core makes them; ``read`` gives the record at a physical offset and of a size."""
        simple, batch, touched, reach = self.queues.simple, self.queues.batch, self.touched, self.deleted.reach
        if self.on_new_life is not None and any(run[2] == 0 for run in runs):
            # As they stand in the log: those of an earlier life come before the first of the next one.
            runs = sorted(runs, key=lambda run: UNIT.unpack_from(units, run[3])[0])
        for topic, queue_id, queue_offset, first, end, physical_end in runs:
            if reach and UNIT.unpack_from(units, first)[0] < reach:
                hidden = self._hidden_bytes(topic, units[first:end])
                first += hidden
                queue_offset += hidden // UNIT_SIZE
                if first == end:
                    continue
            key = (topic, queue_id)
            if queue_offset == 0 and self.on_new_life is not None:
                self._look_for_new_life(key, UNIT.unpack_from(units, first)[0])
                simple, batch = self.queues.simple, self.queues.batch
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

    def _look_for_new_life(self, key: QueueId, physical_offset: int) -> None:
        """The first message of a queue, behind others of that queue: its topic was deleted in between.

        Nothing but 0 counts as a sign: it is what every queue begins with, and any other low number is more likely a
        wrong bit, for that field has no checksum. A record that is dispatched again is not behind the others.
        """
        queue = self.queues.find(*key)
        if queue is not None and queue.end > 0 and physical_offset >= queue.max_physical_offset > 0:
            assert self.on_new_life is not None
            self.on_new_life(key[0], queue.max_physical_offset)

    def begin_anew(self, topic: str, end: int) -> None:
        """Delete what queues show of a topic's earlier life, durably; ``end`` is where a record of that life ends.

        All units of a queue are of one life. So every queue that has one of before ``end`` goes, and what it showed
        last is of the earlier life, too. A queue that begins later stays: it may be one of the new life. If it is not,
        its own first message tells, or the master. This way a deletion never hides what its master shows.
        """
        left = {(queue.topic, queue.queue_id): queue for queue in self.queues.all() if queue.topic == topic}
        old: set[QueueId] = set()
        while found := {key for key, queue in left.items() if -1 < queue.first_place() < end}:
            end = max(end, *(left.pop(key).max_physical_offset for key in found))
            old |= found
        self.deleted.add([topic], max(end, self.deleted.end_of(topic)))
        self.queues.remove(old)
        _log.info("topic %s was deleted on the master: %d queues begin anew", topic, len(old))

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
        if queue_offset == 0 and self.on_new_life is not None:
            self._look_for_new_life((topic, queue_id), physical_offset)
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
