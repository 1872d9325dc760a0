"""Delay levels: messages that wait in SCHEDULE_TOPIC_XXXX, one queue a level, until their delay is over.

All messages of a level wait equally long, so the head of its queue is due first and one cursor per level is all there
is to remember (``config/delayOffset.json``, as RocketMQ keeps it). Due messages are read and put in batches; the cursor
follows in order. What cannot be stored for good is put aside (see ``delivery``), so no message blocks its level.

At least once: a cursor is saved only when the deliveries it counts are durable. Never early: see ``arrival_marks``.
Not twice: with the cursors goes the place in the log behind which deliveries are not counted yet
(``flaremq.delay``, which RocketMQ does not look at); what was delivered behind it is found there after a crash, see
``delivered_copies``. If RocketMQ wrote the cursors last, they are taken as they are. A cursor that lies outside of its
queue is put right when it is loaded.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from flaremq.broker.delay.arrival_marks import ArrivalMarks, DueTime
from flaremq.broker.delay.delivered_copies import SEARCHED_BYTES_MAX, DeliveredCopies
from flaremq.broker.delay.delivery import Delivery
from flaremq.broker.statistics.traffic import MessageTraffic
from flaremq.broker.store_loop.access import StoreAccess, is_durable, run_to_end
from flaremq.clock import Clock
from flaremq.digits import whole_number
from flaremq.errors import FlareMQError, StoreIOError
from flaremq.message import properties as names
from flaremq.message.delay import DelayLevels, queue_id_of_level
from flaremq.message.message_ext import MessageExt
from flaremq.message.stored_form import delivered
from flaremq.message.topics import SCHEDULE_TOPIC
from flaremq.protocol.bodies.topic import DataVersion
from flaremq.storage.config.checked_json import read_checked_json, write_checked_json
from flaremq.storage.config.config_file import ConfigFile
from flaremq.storage.files.filesystem import FileSystem
from flaremq.storage.get.get_result import GetResult
from flaremq.storage.status import GetMessageStatus

_log = logging.getLogger(__name__)

_BATCH_FIRST: Final = 32  # usually few are due at a time; a backlog soon gets large batches
_BATCH_MAX: Final = 512
_BATCH_BYTES: Final = 1 << 20
_BATCHES_PER_RUN: Final = 64
_DELAY_MS_MAX: Final = 366 * 86_400_000  # a unit that asks for more is damaged
_RETRY_MS: Final = 100  # after the store refused to take anything
_RETRY_AFTER_ERROR_MS: Final = 1_000
_PROGRESS_VERSION: Final = 1
_NO_QUEUE: Final = (GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, GetMessageStatus.NO_MESSAGE_IN_QUEUE)


class _Progress(NamedTuple):
    """What is saved: cursors, what is delivered ahead of them, and the end of the log both account for."""

    offsets: dict[int, int]
    ahead: dict[int, list[int]]
    log_end: int


class _Level:
    """One delay level: where it stands and what is known of its head."""

    __slots__ = ("cursor", "delay_ms", "done_ahead", "head_due", "level", "marks", "queue_id", "retry_at_ms")

    def __init__(self, level: int, delay_ms: int) -> None:
        self.level = level
        self.queue_id = queue_id_of_level(level)
        self.delay_ms = delay_ms
        self.cursor = 0  # queue offset of the first message that is not delivered
        self.done_ahead: set[int] = set()  # delivered although one before them is not
        self.head_due: DueTime | None = None  # of the message at the cursor, if it was read
        self.retry_at_ms = 0  # steady clock
        self.marks = ArrivalMarks(delay_ms)

    def move_to(self, cursor: int) -> None:
        self.cursor = cursor
        self.head_due = None
        self.marks.passed(cursor)
        if self.done_ahead:
            self.done_ahead = {offset for offset in self.done_ahead if offset >= cursor}

    def pass_done(self) -> None:
        """Move the cursor over what is delivered already."""
        cursor = self.cursor
        while cursor in self.done_ahead:
            cursor += 1
        if cursor > self.cursor:
            self.move_to(cursor)


class ScheduleService:
    """Delivers delayed messages. Event loop only; the service calls ``run_due`` and ``persist`` by its own timing."""

    def __init__(
        self,
        store_loop: StoreAccess,
        clock: Clock,
        levels: DelayLevels,
        file: ConfigFile,
        filesystem: FileSystem,
        declare_topic: Callable[[str], object],
    ) -> None:
        self._store_loop = store_loop
        self._clock = clock
        self._file = file
        self._delivery = Delivery(store_loop, SCHEDULE_TOPIC, declare_topic)
        self._levels = {level: _Level(level, levels.delay_ms(level)) for level in range(1, levels.level_max + 1)}
        self._other_offsets: dict[int, int] = {}  # of levels this broker does not have: kept as they are
        self._data_version = DataVersion(timestamp=clock.now_ms())
        self._filesystem = filesystem
        self._progress_path = os.path.join(store_loop.store.path, "flaremq.delay")
        self._saved: _Progress | None = None
        self._filed: dict[int, int] | None = None  # the cursors RocketMQ's file holds, if it has a version
        self._is_stopping = False
        self._running = asyncio.Lock()  # one step at a time
        self._saving = asyncio.Lock()

    def tell_traffic(self, traffic: MessageTraffic) -> None:
        """Count there what is delivered."""
        self._delivery.on_stored = lambda record, form, result: traffic.note_delivered(
            bytes(record.raw_properties), record.size, form.topic, result.size
        )

    # Starting

    def load(self) -> None:
        """Read the cursors and put them right; call it before the first step. Disk."""
        table, version = self._file.load(_parse) or ({}, None)
        if version is not None:
            self._data_version, self._filed = version, table
        # RocketMQ 4.9 writes no version: such a table is not ours.
        progress = None if table and version is None else self._read_progress(version)
        if progress is not None:
            table = progress.offsets
        store = self._store_loop.store
        for number, offset in table.items():
            if number not in self._levels:
                self._other_offsets[number] = offset
        for number, level in self._levels.items():
            low = store.min_offset(SCHEDULE_TOPIC, level.queue_id)
            high = store.next_offset(SCHEDULE_TOPIC, level.queue_id)
            saved = table.get(number, low)
            cursor = min(max(saved, low), high)
            if cursor != saved:
                _log.warning("delay level %d stood at %d, outside of [%d, %d): it goes on", number, saved, low, high)
            level.move_to(cursor)
            self._note(level)
            if progress is not None:
                level.done_ahead = {offset for offset in progress.ahead.get(number, ()) if cursor <= offset < high}
        if progress is not None:
            self._pass_delivered(progress.log_end)
        # Before anything is delivered: what this life delivers lies behind this place, also if it never saves.
        try:
            self._write(self._progress(store.flushed_offset))
        except StoreIOError as error:
            _log.warning("the progress of delay levels is not saved: %s", error)  # what was saved before still holds

    def load_copy(self) -> None:
        """Read, on a slave, what was copied before. Disk."""
        table, version = self._file.load(_parse) or ({}, None)
        if version is not None:
            self._data_version, self._filed = version, table
        self._set_copied(table)

    def take_copy(self, offsets: Mapping[int, int], log_end: int) -> None:
        """Remember, on a slave, how far its master has delivered; what lies behind ``log_end`` may be counted or not.

        The log must have everything that the offsets count: a slave that becomes the master starts from here, and finds
        in the log what was delivered since. Disk.
        """
        self._set_copied(offsets)
        progress = self._progress(log_end)
        if self._is_news(progress):
            self._write(progress)

    def _set_copied(self, offsets: Mapping[int, int]) -> None:
        for number, offset in offsets.items():
            if number in self._levels:
                self._levels[number].move_to(offset)
            else:
                self._other_offsets[number] = offset

    def _read_progress(self, version: DataVersion | None) -> _Progress | None:
        """What we saved last; None if that is not where the cursors come from."""
        try:
            state = read_checked_json(self._filesystem, self._progress_path, _PROGRESS_VERSION)
            if state is None:
                return None
            # The second, if we died between writing this file and the other.
            known = [None if value is None else DataVersion.from_value(value) for value in state["dataVersions"]]
            if version not in known:
                return None
            offsets = {int(level): offset for level, offset in state["offsets"].items()}
            ahead = {int(level): delivered_ahead for level, delivered_ahead in state["ahead"].items()}
            return _Progress(offsets, ahead, state["logEnd"])
        except (FlareMQError, ValueError, KeyError, TypeError) as error:
            _log.warning("%s is not usable (%s): what was delivered last may be repeated", self._progress_path, error)
            return None

    def _pass_delivered(self, log_end: int) -> None:
        """Count what was delivered behind ``log_end``, before a crash."""
        store = self._store_loop.store
        waiting = [level for level in self._levels.values() if level.cursor < self._end(level)]
        if not waiting:
            return
        copies = DeliveredCopies(SCHEDULE_TOPIC, lambda record: (delivered(record),))
        copies.read(store, log_end, store.max_physical_offset, names.DELAY)
        for level in waiting:
            offset, unknown = level.cursor, 0
            # A delivery lies within a batch of the first message that is not delivered.
            while copies and unknown <= _BATCH_MAX and offset < self._end(level):
                found = self._read(level, offset, _BATCH_MAX)[0]
                for record in found.messages:
                    if record.queue_offset in level.done_ahead:
                        continue
                    if copies.take(record):
                        level.done_ahead.add(record.queue_offset)
                    else:
                        unknown += 1
                if found.next_offset <= offset:
                    break
                offset = found.next_offset
            level.pass_done()

    # Delivering

    async def run_due(self) -> int:
        """Deliver everything that is due; the number of messages."""
        async with self._running:
            work = [self._run_quietly(level) for level in self._levels.values() if self._may_have_due(level)]
            return sum(await asyncio.gather(*work)) if work else 0

    def stop(self) -> None:
        """Begin no more deliveries; a step under way ends with those it has begun, so that they are counted."""
        self._is_stopping = True

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
            due = [] if self._is_stopping else await self._read_due(level, size)
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
        store = self._store_loop.store
        while True:
            found, dues = await self._store_loop.run(self._read, level, level.cursor, size)
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

    def _read(self, level: _Level, offset: int, count: int) -> tuple[GetResult, list[DueTime]]:
        """Messages and when they are due: what their units say, so a changed table does not move them."""
        found = self._store_loop.store.get(SCHEDULE_TOPIC, level.queue_id, offset, count, max_bytes=_BATCH_BYTES)
        units = self._store_loop.store.inspector.units(
            SCHEDULE_TOPIC, level.queue_id, offset, found.next_offset - offset
        )
        due_by_place = {unit.physical_offset: unit.tags_code for unit in units}
        dues = []
        for record in found.messages:
            stored_ms = record.store_timestamp
            due_ms = due_by_place.get(record.physical_offset, 0)
            if not 0 <= due_ms - stored_ms <= _DELAY_MS_MAX:
                due_ms = stored_ms + level.delay_ms
            dues.append(DueTime(due_ms, due_ms - stored_ms))
        return found, dues

    def _advance(self, level: _Level, due: list[MessageExt]) -> bool:
        """Move the cursor over the delivered ones; False if one of them has to be tried again."""
        for record in due:
            if record.queue_offset not in level.done_ahead:
                level.move_to(record.queue_offset)
                return False
        level.move_to(due[-1].queue_offset + 1)
        return True

    def _is_due(self, level: _Level, offset: int, due: DueTime) -> bool:
        now_ms, steady_ms = self._now()
        return level.marks.remaining_ms(offset, due, now_ms=now_ms, steady_ms=steady_ms) <= 0

    def _note(self, level: _Level) -> None:
        now_ms, steady_ms = self._now()
        level.marks.note(self._end(level), now_ms=now_ms, steady_ms=steady_ms)

    def _end(self, level: _Level) -> int:
        return self._store_loop.store.max_offset(SCHEDULE_TOPIC, level.queue_id)

    def _now(self) -> tuple[int, int]:
        # The bit more is for seconds such as 9.999, which as a float are a little less.
        return self._clock.now_ms(), int(self._clock.monotonic() * 1000 + 0.001)

    # Remembering

    async def persist(self) -> bool:
        """Save the cursors; False if that has to wait, because what they count is not durable yet."""
        async with self._saving:
            async with self._running:  # no delivery is under way: all of them are counted, or follow
                reach = self._delivery.reach
                progress = self._progress(max(reach, self._store_loop.store.flushed_offset))
            if not self._is_news(progress):
                return True
            if not await is_durable(self._store_loop, reach):
                return False
            await run_to_end(self._store_loop, self._write, progress)
            return True

    def _is_news(self, progress: _Progress) -> bool:
        saved = self._saved
        if saved is None or (saved.offsets, saved.ahead) != (progress.offsets, progress.ahead):
            return True
        return progress.log_end - saved.log_end > SEARCHED_BYTES_MAX

    def _progress(self, log_end: int) -> _Progress:
        ahead = {number: sorted(level.done_ahead) for number, level in self._levels.items() if level.done_ahead}
        return _Progress(self._offsets(), ahead, log_end)

    def _write(self, progress: _Progress) -> None:
        """Our file first: it says which states of RocketMQ's it goes with. Disk."""
        version = self._data_version
        before = None if self._filed is None else version.to_value()
        is_moved = (self._filed or {}) != progress.offsets
        if is_moved:
            version = version.next(self._clock.now_ms())
        state = {
            "offsets": {str(level): offset for level, offset in progress.offsets.items()},
            "ahead": {str(level): delivered_ahead for level, delivered_ahead in progress.ahead.items()},
            "logEnd": progress.log_end,
            "dataVersions": [version.to_value() if is_moved else before, before],
        }
        write_checked_json(self._filesystem, self._progress_path, _PROGRESS_VERSION, state)
        if is_moved:
            self._file.save({"dataVersion": version.to_value(), "offsetTable": progress.offsets})
            self._data_version, self._filed = version, progress.offsets
        self._saved = progress

    def document(self) -> dict[str, Any]:
        """What delayOffset.json would hold now; the body of GET_ALL_DELAY_OFFSET."""
        return {"dataVersion": self._data_version.to_value(), "offsetTable": self._offsets()}

    def _offsets(self) -> dict[int, int]:
        known = {number: level.cursor for number, level in self._levels.items() if level.cursor or self._end(level)}
        return dict(sorted((self._other_offsets | known).items()))

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
        level = whole_number(key)
        if level is not None and type(value) is int:
            table[level] = value
        else:
            _log.warning("delayOffset.json: entry %r: %r makes no sense and is ignored", key, value)
    version = document.get("dataVersion")
    return table, None if version is None else DataVersion.from_value(version)
