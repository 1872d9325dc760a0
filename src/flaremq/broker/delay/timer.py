"""Messages with a time of their own (RocketMQ 5's timer): they wait in ``rmq_sys_wheel_timer`` until it has come.

The topic holds them in the order they were sent. The service reads it once and notes for each record when it is due
(``timer_index``); when the time has come it reads the record again and puts the message into its real topic. The wall
clock decides, since senders name points in time; a message is never put before it. Only if the clock is set back, what
waits then does not wait for the same hour twice: it is put when the time that was left has passed.

* Taking back: a record with TIMER_DEL_UNIQKEY sorts before all messages of its time slot and cancels the one it names.
* Rolling: a message that waits longer than half the time the log is kept (at most two days) is appended to the topic
  again, so that its record is not deleted with the expired part of the log. The newer record replaces the older.
* At least once: where the reading stands and what waits is saved together, when all that it counts is durable.
* Not twice: saved with it is the place in the log behind which deliveries are not counted yet; after a crash they are
  found there (``delivered_copies``).

A store that RocketMQ used last is taken over from its timer wheel, and handed over to it at a clean stop (see
``timer_wheel``): neither repeats what the other has delivered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from flaremq.broker.delay import message_rules as rules_of
from flaremq.broker.delay.clock_steps import STEP_MS, ClockSteps
from flaremq.broker.delay.delivered_copies import SEARCHED_BYTES_MAX, DeliveredCopies
from flaremq.broker.delay.delivery import Delivery
from flaremq.broker.delay.message_rules import TimerRules
from flaremq.broker.delay.timer_figures import TimerFigures
from flaremq.broker.delay.timer_forms import due, put_forms, rolled
from flaremq.broker.delay.timer_index import Entry, TimerIndex
from flaremq.broker.delay.timer_wheel import CHECK, TimerCheck, TimerWheelFiles, WaitingTimer
from flaremq.broker.statistics.rate import Rate
from flaremq.broker.store_loop.access import StoreAccess, is_durable, run_to_end
from flaremq.clock import Clock
from flaremq.errors import FlareMQError, RemoteProtocolError, StoreIOError
from flaremq.message import properties as names
from flaremq.message.java_hash import java_hash
from flaremq.message.message_ext import MessageExt
from flaremq.message.stored_form import StoredForm
from flaremq.message.topics import TIMER_TOPIC
from flaremq.storage.files.filesystem import FileSystem
from flaremq.storage.get.get_result import GetResult

_log = logging.getLogger(__name__)

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
_BATCH: Final = 512
_BATCH_BYTES: Final = 1 << 20
_BATCHES_PER_RUN: Final = 64
_MEMORY_ENTRIES_MAX: Final = 65_536
_RETRY_MS: Final = 100
_END_OF_TIME_MS: Final = 1 << 62
_HANDED_OVER_MAX: Final = 300_000  # timers; more would keep a stop waiting for long


class TimerService:
    """Delivers timed messages. Event loop only; the service calls ``run_due`` and ``persist`` by its own timing."""

    def __init__(
        self,
        store_loop: StoreAccess,
        clock: Clock,
        rules: TimerRules,
        filesystem: FileSystem,
        declare_topic: Callable[[str], object],
        *,
        roll_after_ms: int | None = None,
    ) -> None:
        self._store_loop = store_loop
        self._clock = clock
        self._rules = rules
        self._filesystem = filesystem
        self._given_roll_ms = roll_after_ms
        self._least_roll_ms = self._roll_after_ms  # of all that were in force since what waits was noted
        self._index = TimerIndex(filesystem, store_loop.store.path)
        self._delivery = Delivery(store_loop, TIMER_TOPIC, declare_topic)
        self._cursor = 0  # queue offset up to which the topic was read
        self._read_end = 0  # end of the last record read
        self._log_end = 0  # of the log: deliveries behind it are not counted in what was saved
        self._cancelled: dict[int, set[str]] = {}  # slot start -> delete keys
        self._wheel = TimerWheelFiles(filesystem, store_loop.store.path, rules.precision_ms)
        self._checks: list[str] = []  # states of RocketMQ's timercheck that tell us nothing new, in hexadecimal digits
        self._delivered: TimerCheck | None = None  # by RocketMQ, which left no more than this
        self._steps = ClockSteps(clock)
        self._retry_at = 0.0  # steady clock
        self._is_stopping = False
        self._running = asyncio.Lock()  # one step at a time
        self._saving = asyncio.Lock()
        self._is_changed = True
        self.enqueued = Rate(clock)
        self.dequeued = Rate(clock)
        self.malformed_count = 0
        self.figures = TimerFigures()

    # Starting

    @property
    def _roll_after_ms(self) -> int:
        """The age at which a record is rolled, so that retention, which may change at any time, does not take it."""
        if self._given_roll_ms is not None:
            return self._given_roll_ms
        return min(2 * DAY_MS, self._store_loop.store.options.file_reserved_time * HOUR_MS // 2)

    def load(self) -> None:
        """Take up where the last run ended; call it before the first step. Disk."""
        store = self._store_loop.store
        low, high = store.min_offset(TIMER_TOPIC, 0), store.next_offset(TIMER_TOPIC, 0)
        notes = self._index.load()
        if notes is not None and notes["cursor"] > high:
            _log.warning("the timer topic ends at %d, %d were read: it is read again", high, notes["cursor"])
            self._index.clear()
            notes = None
        if notes is not None:
            self._cursor = notes["cursor"]
            self._cancelled = {int(slot): set(keys) for slot, keys in notes["cancelled"].items()}
            self.figures.load(notes.get("waiting", {}))
            if self.waiting_count:
                self._least_roll_ms = min(self._least_roll_ms, notes.get("leastRollMs", 0))
            self._follow_clock(max(0, notes["savedMs"] - self._clock.now_ms()))
        try:
            check = self._news_of_rocketmq(notes)
            if check is not None:
                self._take_over(check, high)
            self._cursor = min(max(self._cursor, low), high)
            if notes is not None and "logEnd" in notes and check is None:
                self._log_end = notes["logEnd"]
                self._drop_delivered()
            # Before anything is delivered: what this life delivers lies behind this place, also if it never saves.
            self._log_end = store.flushed_offset
            self._index.save(self._notes())
        except StoreIOError as error:
            _log.warning("the progress of timers is not saved: %s", error)  # what was saved before still holds

    async def check_point(self) -> bytes:
        """GET_TIMER_CHECK_POINT: up to which time everything is delivered, and how far the topic was read."""
        async with self._running:  # what is being delivered is neither waiting nor in the log
            due_ms = self._index.next_due_ms()
            slots = [] if due_ms is None else [due_ms - self._rules.precision_ms]
            now_ms = self._clock.now_ms()
            return await run_to_end(self._store_loop, self._wheel.next_check, self._cursor, slots, 0, now_ms)

    def take_copy(self, check: bytes) -> None:
        """Remember, on a slave, what its master answered so; it begins there if it becomes the master. Disk."""
        if len(check) < CHECK.size:
            raise RemoteProtocolError(f"a timer check point has {CHECK.size} bytes, not {len(check)}")
        if self._wheel.check_bytes() != check[: CHECK.size]:
            self._wheel.write([], check[: CHECK.size], self._clock.now_ms())

    def _news_of_rocketmq(self, notes: dict[str, Any] | None) -> TimerCheck | None:
        """Where RocketMQ stands, if it was here after us."""
        check = self._wheel.check_bytes()
        if check is None:
            return None
        self._checks = [check.hex()]
        found = self._wheel.read_check(check, self._clock.now_ms())
        if notes is None or found is None:
            return found
        is_ours = check.hex() in notes["timerChecks"] if "timerChecks" in notes else found.read_ms <= notes["savedMs"]
        return None if is_ours else found

    def _take_over(self, check: TimerCheck, high: int) -> None:
        """Start from what RocketMQ has read and not delivered, by the end of its log or ``check``: what says less."""
        self._index.clear()
        self.figures.clear()
        self._cancelled.clear()
        waiting = self._wheel.waiting(check)
        if waiting is None:
            self._cursor, self._delivered = 0, check._replace(queue_offset=min(check.queue_offset, high))
            return
        read_end = 0
        for physical_offset, is_waiting in waiting:
            record = self._store_loop.store.read(physical_offset)
            if record is not None and record.topic == TIMER_TOPIC:
                read_end = max(read_end, record.queue_offset + 1)
                if is_waiting and record.queue_offset < check.queue_offset:
                    self._note(record)
            if self._index.memory_count >= _MEMORY_ENTRIES_MAX:
                self._index.save(self._notes() | {"timerChecks": []})  # from the beginning again, after a crash
        self._cursor = min(check.queue_offset, read_end) or (check.queue_offset if check.queue_offset <= high else 0)

    def _drop_delivered(self) -> None:
        """Forget what was delivered behind the place that was saved last, before a crash."""
        store = self._store_loop.store
        if not self._index.count and self.unread <= 0:
            return
        copies = DeliveredCopies(TIMER_TOPIC, put_forms)
        copies.read(store, self._log_end, store.max_physical_offset, names.TIMER_OUT_MS)
        while copies and self.unread > 0:
            if self._index.memory_count >= _MEMORY_ENTRIES_MAX:
                self._index.save(self._notes())
            if not self._take_in(self._read(self._cursor, _BATCH)):
                break
        kept: list[Entry] = []
        while copies and len(kept) < _MEMORY_ENTRIES_MAX:
            entries = self._index.take_due(_END_OF_TIME_MS, _BATCH)
            if not entries:
                break
            records = zip(entries, self._read_records(entries), strict=True)
            kept += [entry for entry, record in records if record is None or not copies.take(record)]
        for entry in kept:
            self._index.add(*entry)

    # Delivering

    async def run_due(self) -> int:
        """Read what is new, deliver what is due; the number of messages delivered."""
        if self._clock.monotonic() < self._retry_at:
            return 0
        async with self._running:
            count = 0
            self._follow_clock(self._steps.back_ms())
            try:
                for _ in range(_BATCHES_PER_RUN):
                    if self._is_stopping:
                        break
                    await self._read_topic()
                    entries = self._index.take_due(self._clock.now_ms(), _BATCH)
                    if not entries:
                        break
                    self._is_changed = True
                    count += await self._deliver(entries)
                    if self._clock.monotonic() < self._retry_at:
                        break
            except FlareMQError as error:
                _log.warning("the timer stands still: %s", error)
                self._retry_at = self._clock.monotonic() + 1.0
            self._forget_cancelled()
            return count

    def stop(self) -> None:
        """Begin no more deliveries; a step under way ends with those it has begun, so that they are counted."""
        self._is_stopping = True

    def _follow_clock(self, back_ms: int) -> None:
        """The clock was set back, or forwards again: what waits must wait neither longer nor shorter for that."""
        if abs(back_ms) > STEP_MS:
            _log.warning("the clock was set back by %d ms: waiting timers follow it", back_ms)
            self._index.shift(-back_ms)
            self._is_changed = True

    @property
    def unread(self) -> int:
        """Records of the topic that are not noted yet."""
        return max(self._store_loop.store.max_offset(TIMER_TOPIC, 0) - self._cursor, 0)

    async def _read_topic(self) -> None:
        """Note all new records, as far as memory allows."""
        while self.unread > 0:
            if self._index.memory_count >= _MEMORY_ENTRIES_MAX and not await self._save():
                return
            if not self._take_in(await self._store_loop.run(self._read, self._cursor, _BATCH)):
                return

    def _take_in(self, found: GetResult) -> bool:
        """Note the records read at the cursor; False if it did not move."""
        if found.next_offset == self._cursor:
            return False
        for record in found.messages:
            self._note(record)
            self._read_end = record.physical_offset + record.size
        self.enqueued.count(len(found.messages))
        self._cursor = found.next_offset
        self._is_changed = True
        return True

    def _read(self, queue_offset: int, count: int) -> GetResult:
        return self._store_loop.store.get(TIMER_TOPIC, 0, queue_offset, count, max_bytes=_BATCH_BYTES)

    def _note(self, record: MessageExt) -> None:
        due_ms = self._due_ms(record)
        if due_ms is None:
            self.malformed_count += 1
            _log.warning("%s in %s has no time and is left alone", record.message_id, TIMER_TOPIC)
            return
        out_ms = rules_of.out_ms(record) or 0
        if self._delivered is not None and self._delivered.is_past(record.queue_offset, out_ms):
            return
        roll_after_ms = self._roll_after_ms
        self._least_roll_ms = min(self._least_roll_ms, roll_after_ms)
        handled_ms = min(due_ms, record.store_timestamp + roll_after_ms)
        ahead_ms = record.store_timestamp - self._clock.now_ms()
        if ahead_ms > STEP_MS:  # stored before the clock was set back
            handled_ms -= ahead_ms
        self._index.add(handled_ms, record.queue_offset)
        self.figures.note_in(record, self._clock.now_ms())

    def _due_ms(self, record: MessageExt) -> int | None:
        """When a record is to be handled: a delete record before all messages of its slot."""
        out = rules_of.out_ms(record)
        if out is None or names.REAL_TOPIC not in record.properties:
            return None
        if names.TIMER_DELETE_KEY in record.properties:
            return out
        return rules_of.due_ms_of(record, out, self._rules.precision_ms)

    async def _deliver(self, entries: list[Entry]) -> int:
        """Handle taken entries; those that must be tried again are given back, also if this is cancelled."""
        now_ms = self._clock.now_ms()
        undone = set(entries)
        try:
            records = await self._store_loop.run(self._read_records, entries)
            found = [(entry, record) for entry, record in zip(entries, records, strict=True) if record is not None]
            work = [(entry, record) for entry, record in found if self._is_wanted(record, now_ms)]
            work = [(entry, record) for entry, record in work if not self._is_cancelled(record)]
            build = self._builder(now_ms)
            outcomes = await asyncio.gather(*(self._delivery.put(record, build) for _, record in work))
            undone = {entry for (entry, _), done in zip(work, outcomes, strict=True) if not done}
            for record in (record for entry, record in found if entry not in undone):
                self.figures.note_out(record, is_rolled=self._is_to_roll(record, now_ms))
        finally:
            for entry in undone:
                self._index.add(*entry)
                self._retry_at = self._clock.monotonic() + _RETRY_MS / 1000
        self.dequeued.count(sum(outcomes))
        return sum(outcomes)

    def _read_records(self, entries: list[Entry]) -> list[MessageExt | None]:
        records: list[MessageExt | None] = []
        for _, queue_offset in entries:
            found = self._read(queue_offset, 1).messages
            if found and found[0].queue_offset == queue_offset:
                records.append(found[0])
            else:
                _log.error("the record at %d of %s is gone", queue_offset, TIMER_TOPIC)
                records.append(None)
        return records

    def _is_wanted(self, record: MessageExt, now_ms: int) -> bool:
        """Whether a record is to be put somewhere; a due delete record is carried out here."""
        key = record.properties.get(names.TIMER_DELETE_KEY)
        out = rules_of.out_ms(record)
        if key is None or out is None or self._is_to_roll(record, now_ms):
            return True
        self._cancelled.setdefault(out, set()).add(key)
        return False

    def _is_cancelled(self, record: MessageExt) -> bool:
        keys = self._cancelled.get(rules_of.out_ms(record) or 0)
        key = record.uniq_key
        if not keys or key is None:
            return False
        # Up to RocketMQ 5.2 the key stands alone.
        return key in keys or rules_of.delete_key(record.properties.get(names.REAL_TOPIC, ""), key) in keys

    def _builder(self, now_ms: int) -> Callable[[MessageExt], StoredForm]:
        def build(record: MessageExt) -> StoredForm:
            if self._is_to_roll(record, now_ms):
                return rolled(record)
            return due(record, now_ms, self._rules.precision_ms)

        return build

    def _is_to_roll(self, record: MessageExt, now_ms: int) -> bool:
        """Whether the record may have been noted for the time it is rolled at rather than for the time it is due.

        Where the clock was set back, one noted for its due time is due before the clock says so.
        """
        due_ms = self._due_ms(record)
        return due_ms is not None and due_ms > max(now_ms, record.store_timestamp + self._least_roll_ms)

    def _forget_cancelled(self) -> None:
        """Drop delete keys of slots that are over."""
        if self._cancelled:
            next_due_ms = self._index.next_due_ms()
            over_ms = self._clock.now_ms() if next_due_ms is None else min(self._clock.now_ms(), next_due_ms)
            width = self._rules.precision_ms
            self._cancelled = {slot: keys for slot, keys in self._cancelled.items() if slot + width >= over_ms}

    # Remembering

    async def persist(self) -> bool:
        """Save what waits and how far the topic was read; False if that is not durable yet."""
        async with self._saving:
            async with self._running:
                if not await self._save():
                    return False
            while (merge := self._index.begin_merge()) is not None:
                merged = None
                try:
                    merged = await run_to_end(self._store_loop, self._index.merge, merge)
                finally:
                    async with self._running:
                        self._index.end_merge(merge, merged)
                async with self._running:
                    self._is_changed = True
                    if not await self._save():
                        return False
            return True

    async def _save(self) -> bool:
        store = self._store_loop.store
        if not self._is_changed and store.flushed_offset - self._log_end <= SEARCHED_BYTES_MAX:
            return True
        if not await is_durable(self._store_loop, max(self._delivery.reach, self._read_end)):
            return False
        self._log_end = store.flushed_offset  # no delivery is under way: all of them are counted, or follow
        await run_to_end(self._store_loop, self._index.save, self._notes())
        self._is_changed = False
        return True

    def _notes(self) -> dict[str, Any]:
        return {
            "cursor": self._cursor,
            "savedMs": self._clock.now_ms(),
            "logEnd": self._log_end,
            "leastRollMs": self._least_roll_ms,
            "timerChecks": self._checks,
            "waiting": self.figures.to_notes(),
            "cancelled": {str(slot): sorted(keys) for slot, keys in self._cancelled.items()},
        }

    async def hand_over(self) -> None:
        """At a clean stop, after ``persist``: leave what waits in RocketMQ's form too, if RocketMQ comes next."""
        async with self._running:
            if self._cursor and not self._is_changed:
                try:
                    await run_to_end(self._store_loop, self._hand_over)
                except FlareMQError as error:
                    _log.warning("what waits is not left for RocketMQ: %s", error)

    def _hand_over(self) -> None:
        offsets = self._index.queue_offsets()
        if len(offsets) > _HANDED_OVER_MAX:
            _log.warning("%d timers wait, too many to write them for RocketMQ as well", len(offsets))
            return
        now_ms = self._clock.now_ms()
        timers = [self._waiting_timer(record, now_ms) for record in self._records_at(offsets)]
        last = self._read(self._cursor - 1, 1).messages if offsets[-1:] != [self._cursor - 1] else []
        check = self._wheel.next_check(self._cursor, (each.slot_ms for each in timers), len(timers) + len(last), now_ms)
        over_ms = CHECK.unpack(check)[0] - self._rules.precision_ms
        timers += [self._waiting_timer(record, now_ms)._replace(slot_ms=over_ms) for record in last]
        self._checks = [check.hex(), *self._checks[:1]]  # the old one, if we die before the new one is written
        self._index.save(self._notes())
        self._wheel.write(timers, check, now_ms)

    def _waiting_timer(self, record: MessageExt, now_ms: int) -> WaitingTimer:
        return WaitingTimer(
            slot_ms=self._wheel.clamp(rules_of.out_ms(record) or 0, now_ms),
            physical_offset=record.physical_offset,
            size=record.size,
            topic_hash=java_hash(record.properties.get(names.REAL_TOPIC, "")),
            is_delete=names.TIMER_DELETE_KEY in record.properties,
        )

    def _records_at(self, offsets: list[int]) -> Iterator[MessageExt]:
        """The records of these ascending queue offsets that are still wanted."""
        at = 0
        while at < len(offsets):
            first = offsets[at]
            wanted = {offset for offset in offsets[at : at + _BATCH] if offset < first + _BATCH}
            found = self._read(first, max(wanted) - first + 1)
            yield from (
                record for record in found.messages if record.queue_offset in wanted and not self._is_cancelled(record)
            )
            at += max(sum(offset < found.next_offset for offset in wanted), 1)

    def close(self) -> None:
        """Give back files; ``persist`` first."""
        self._index.close()

    # Telling

    @property
    def waiting_count(self) -> int:
        return self._index.count

    @property
    def set_aside_count(self) -> int:
        return self._delivery.set_aside_count

    @property
    def cursor(self) -> int:
        """The next record of the topic to be noted."""
        return self._cursor

    @property
    def late_ms(self) -> int:
        """How long what is due next has been due."""
        due_ms = self._index.next_due_ms()
        return 0 if due_ms is None else max(self._clock.now_ms() - due_ms, 0)

    async def waiting_within(self, bounds_ms: Sequence[int]) -> list[int]:
        """How many are due up to each of these times, which ascend."""
        async with self._running:
            return await run_to_end(self._store_loop, self._index.counts_before, bounds_ms)

    def runtime_info(self) -> dict[str, str]:
        """The timer's rows of the broker's runtime information."""
        return {
            "timerReadBehind": str(self.late_ms // 1000),
            "timerOffsetBehind": str(self.unread),
            "timerCongestNum": str(self._index.count),
            "timerEnqueueTps": f"{self.enqueued.per_second():.1f}",
            "timerDequeueTps": f"{self.dequeued.per_second():.1f}",
        }
