"""Delay levels: messages that wait in SCHEDULE_TOPIC_XXXX, one queue a level, until their delay is over.

All messages of a level wait equally long, so the head of its queue is due first and one cursor per level is all there
is to remember (``config/delayOffset.json``, as RocketMQ keeps it). Due messages are read and put in batches; the cursor
follows in order. What cannot be stored for good is put aside (see ``delivery``), so no message blocks its level.

At least once: a cursor is saved only when the deliveries it counts are durable. Never early: see ``arrival_marks``.
After a crash the deliveries since the last save are repeated. A cursor that lies outside of its queue is put right when
it is loaded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from flaremq.broker.arrival_marks import ArrivalMarks, Due
from flaremq.broker.config_file import ConfigFile
from flaremq.broker.delivery import Delivery
from flaremq.broker.store_access import StoreAccess, is_durable
from flaremq.clock import Clock
from flaremq.errors import FlareMQError
from flaremq.message.delay import DelayLevels, queue_id_of_level
from flaremq.message.message_ext import MessageExt
from flaremq.message.stored_form import delivered
from flaremq.message.topics import SCHEDULE_TOPIC
from flaremq.protocol.bodies import DataVersion
from flaremq.storage.get_result import GetResult
from flaremq.storage.inspection import StoreInspector
from flaremq.storage.status import GetMessageStatus

_log = logging.getLogger(__name__)

_BATCH_FIRST: Final = 32  # usually few are due at a time; a backlog soon gets large batches
_BATCH_MAX: Final = 512
_BATCH_BYTES: Final = 1 << 20
_BATCHES_PER_RUN: Final = 64
_DELAY_MS_MAX: Final = 366 * 86_400_000  # a unit that asks for more is damaged
_RETRY_MS: Final = 100  # after the store refused to take anything
_RETRY_AFTER_ERROR_MS: Final = 1_000
_NO_QUEUE: Final = (GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, GetMessageStatus.NO_MESSAGE_IN_QUEUE)


class _Level:
    """One delay level: where it stands and what is known of its head."""

    __slots__ = ("cursor", "delay_ms", "done_ahead", "head_due", "level", "marks", "queue_id", "retry_at_ms")

    def __init__(self, level: int, delay_ms: int) -> None:
        self.level = level
        self.queue_id = queue_id_of_level(level)
        self.delay_ms = delay_ms
        self.cursor = 0  # queue offset of the first message that is not delivered
        self.done_ahead: set[int] = set()  # delivered although one before them is not
        self.head_due: Due | None = None  # of the message at the cursor, if it was read
        self.retry_at_ms = 0  # steady clock
        self.marks = ArrivalMarks(delay_ms)

    def move_to(self, cursor: int) -> None:
        self.cursor = cursor
        self.head_due = None
        self.marks.passed(cursor)
        if self.done_ahead:
            self.done_ahead = {offset for offset in self.done_ahead if offset >= cursor}


class ScheduleService:
    """Delivers delayed messages. Event loop only; the service calls ``run_due`` and ``persist`` by its own timing."""

    def __init__(
        self,
        gate: StoreAccess,
        clock: Clock,
        levels: DelayLevels,
        file: ConfigFile,
        declare_topic: Callable[[str], object],
    ) -> None:
        self._gate = gate
        self._clock = clock
        self._file = file
        self._inspector = StoreInspector(gate.store)
        self._delivery = Delivery(gate, SCHEDULE_TOPIC, declare_topic)
        self._levels = {level: _Level(level, levels.delay_ms(level)) for level in range(1, levels.level_max + 1)}
        self._other_offsets: dict[int, int] = {}  # of levels this broker does not have: kept as they are
        self._data_version = DataVersion(timestamp=clock.now_ms())
        self._saved: dict[int, int] | None = None
        self._running = asyncio.Lock()  # one step at a time

    # Starting

    def load(self) -> None:
        """Read the cursors and put them right; call it before the first step."""
        table, version = self._file.load(_parse) or ({}, None)
        if version is not None:
            self._data_version = version
        store = self._gate.store
        for number, offset in table.items():
            if number not in self._levels:
                self._other_offsets[number] = offset
        for number, level in self._levels.items():
            low = store.min_offset(SCHEDULE_TOPIC, level.queue_id)
            high = store.max_offset(SCHEDULE_TOPIC, level.queue_id)
            saved = table.get(number, low)
            cursor = min(max(saved, low), high)
            if cursor != saved:
                _log.warning("delay level %d stood at %d, outside of [%d, %d): it goes on", number, saved, low, high)
            level.move_to(cursor)
            self._note(level)

    # Delivering

    async def run_due(self) -> int:
        """Deliver everything that is due; the number of messages."""
        async with self._running:
            work = [self._run_quietly(level) for level in self._levels.values() if self._may_have_due(level)]
            return sum(await asyncio.gather(*work)) if work else 0

    def next_due_ms(self) -> int | None:
        """The wall-clock time of the next step worth taking; None if nothing waits."""
        now_ms, steady_ms = self._now()
        waits = []
        for level in self._levels.values():
            if self._end(level) <= level.cursor:
                continue
            remaining = 0
            if level.head_due is not None:
                remaining = level.marks.remaining_ms(level.cursor, level.head_due, now_ms=now_ms, steady_ms=steady_ms)
            waits.append(max(remaining, level.retry_at_ms - steady_ms, 0))
        return now_ms + min(waits) if waits else None

    def _may_have_due(self, level: _Level) -> bool:
        self._note(level)
        if self._end(level) <= level.cursor:
            return False
        if self._now()[1] < level.retry_at_ms:
            return False
        return level.head_due is None or self._is_due(level, level.cursor, level.head_due)

    async def _run_quietly(self, level: _Level) -> int:
        """One level; what goes wrong there is no concern of the others."""
        try:
            return await self._run_level(level)
        except FlareMQError as error:
            _log.warning("delay level %d stands still at %d: %s", level.level, level.cursor, error)
            level.retry_at_ms = self._now()[1] + _RETRY_AFTER_ERROR_MS
            return 0

    async def _run_level(self, level: _Level) -> int:
        count, size = 0, _BATCH_FIRST
        for _ in range(_BATCHES_PER_RUN):
            due = await self._read_due(level, size)
            if not due:
                break
            waiting = [record for record in due if record.queue_offset not in level.done_ahead]
            outcomes = await asyncio.gather(*(self._delivery.put(record, delivered) for record in waiting))
            level.done_ahead.update(record.queue_offset for record, done in zip(waiting, outcomes, strict=True) if done)
            count += sum(outcomes)
            if not self._advance(level, due):
                level.retry_at_ms = self._now()[1] + _RETRY_MS
                break
            if len(due) == size:
                size = min(size * 4, _BATCH_MAX)
        return count

    async def _read_due(self, level: _Level, size: int) -> list[MessageExt]:
        """The due messages at the cursor, as many as fit a batch; moves the cursor over what is gone."""
        store = self._gate.store
        while True:
            found, dues = await self._gate.run(self._read, level, level.cursor, size)
            if found.messages:
                break
            if found.status in _NO_QUEUE or found.next_offset == level.cursor:
                return []
            _log.warning("delay level %d skips to %d: %s", level.level, found.next_offset, found)
            level.move_to(found.next_offset)
            if level.cursor >= store.max_offset(SCHEDULE_TOPIC, level.queue_id):
                return []
        self._note(level)
        due: list[MessageExt] = []
        for record, record_due in zip(found.messages, dues, strict=True):
            if not self._is_due(level, record.queue_offset, record_due):
                if not due:
                    level.move_to(record.queue_offset)
                    level.head_due = record_due
                break
            due.append(record)
        return due

    def _read(self, level: _Level, offset: int, count: int) -> tuple[GetResult, list[Due]]:
        """Messages and when they are due: what their units say, so a changed table does not move them."""
        found = self._gate.store.get(SCHEDULE_TOPIC, level.queue_id, offset, count, max_bytes=_BATCH_BYTES)
        units = self._inspector.units(SCHEDULE_TOPIC, level.queue_id, offset, found.next_offset - offset)
        due_by_place = {unit.physical_offset: unit.tags_code for unit in units}
        dues = []
        for record in found.messages:
            stored_ms = record.store_timestamp
            due_ms = due_by_place.get(record.physical_offset, 0)
            if not 0 <= due_ms - stored_ms <= _DELAY_MS_MAX:
                due_ms = stored_ms + level.delay_ms
            dues.append(Due(due_ms, due_ms - stored_ms))
        return found, dues

    def _advance(self, level: _Level, due: list[MessageExt]) -> bool:
        """Move the cursor over the delivered ones; False if one of them has to be tried again."""
        for record in due:
            if record.queue_offset not in level.done_ahead:
                level.move_to(record.queue_offset)
                return False
        level.move_to(due[-1].queue_offset + 1)
        return True

    def _is_due(self, level: _Level, offset: int, due: Due) -> bool:
        now_ms, steady_ms = self._now()
        return level.marks.remaining_ms(offset, due, now_ms=now_ms, steady_ms=steady_ms) <= 0

    def _note(self, level: _Level) -> None:
        now_ms, steady_ms = self._now()
        level.marks.note(self._end(level), now_ms=now_ms, steady_ms=steady_ms)

    def _end(self, level: _Level) -> int:
        return self._gate.store.max_offset(SCHEDULE_TOPIC, level.queue_id)

    def _now(self) -> tuple[int, int]:
        # The bit more is for seconds such as 9.999, which as a float are a little less.
        return self._clock.now_ms(), int(self._clock.monotonic() * 1000 + 0.001)

    # Remembering

    async def persist(self) -> bool:
        """Save the cursors; False if that has to wait, because what they count is not durable yet."""
        offsets = self._offsets()
        if offsets == self._saved:
            return True
        if not await is_durable(self._gate, self._delivery.reach):
            return False
        self._data_version = self._data_version.next(self._clock.now_ms())
        await self._gate.run(self._file.save, self._document(offsets))
        self._saved = offsets
        return True

    def document(self) -> dict[str, Any]:
        """What delayOffset.json would hold now; the body of GET_ALL_DELAY_OFFSET."""
        return self._document(self._offsets())

    def _offsets(self) -> dict[int, int]:
        known = {number: level.cursor for number, level in self._levels.items() if level.cursor or self._end(level)}
        return dict(sorted((self._other_offsets | known).items()))

    def _document(self, offsets: dict[int, int]) -> dict[str, Any]:
        return {"dataVersion": self._data_version.to_value(), "offsetTable": offsets}

    # Telling

    def runtime_info(self) -> dict[str, str]:
        """``scheduleMessageOffset_N``: cursor and end of each level in use."""
        return {
            f"scheduleMessageOffset_{number}": f"{level.cursor},{self._end(level)}"
            for number, level in self._levels.items()
            if self._end(level) > 0
        }

    @property
    def set_aside_count(self) -> int:
        """Messages that could not be delivered and are dead letters now."""
        return self._delivery.set_aside_count


def _parse(document: Mapping[str, Any]) -> tuple[dict[int, int], DataVersion | None]:
    """Cursors by level and their version; an entry that makes no sense is left out and its level starts anew."""
    table: dict[int, int] = {}
    entries = document.get("offsetTable")
    for key, value in entries.items() if isinstance(entries, dict) else ():
        if key.isascii() and key.isdigit() and type(value) is int:
            table[int(key)] = value
        else:
            _log.warning("delayOffset.json: entry %r: %r makes no sense and is ignored", key, value)
    version = document.get("dataVersion")
    return table, None if version is None else DataVersion.from_value(version)
