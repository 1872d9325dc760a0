"""The revive log: the topic that remembers what was popped, ``rmq_sys_REVIVE_LOG_<cluster>``.

Records go straight into its queues. (The original sends them through its timer, so that they arrive when they are due;
each carries the same TIMER_DELIVER_MS, by which a Java broker that opens this store knows when that is.) A queue is
read once, at start, from the offset committed for the revive group on: the last one below which every check point is
closed. After that we know what is in it, since we wrote it; records that somebody else put there, such as what a Java
broker had left in its timer, are read when they arrive.

Acknowledgements of one check point that come while a record is being written go into the next one together.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from flaremq.broker.catalog.groups import REVIVE_GROUP
from flaremq.broker.catalog.topics import revive_topic
from flaremq.broker.pop.check_point import (
    CHECK_POINT_TAG,
    MESSAGES_MAX,
    RESET_TAG,
    Ack,
    Key,
    PopCheckPoint,
    QueueKey,
    Reset,
    read_revive_record,
)
from flaremq.broker.pop.figures import ACK, CHECK_POINT, PopFigures
from flaremq.broker.store_loop.access import is_durable
from flaremq.digits import whole_number
from flaremq.errors import FlareMQError, UnavailableError
from flaremq.message.hosts import encode_host
from flaremq.message.properties import TAGS, TIMER_DELIVER_MS, UNIQUE_KEY, encode_properties
from flaremq.message.stored_form import StoredForm
from flaremq.storage.status import GetMessageStatus

if TYPE_CHECKING:
    from flaremq.broker.catalog.consumer_offsets import ConsumerOffsets
    from flaremq.broker.options import BrokerOptions
    from flaremq.broker.pop.table import PopTable
    from flaremq.broker.store_loop.access import StoreAccess
    from flaremq.clock import Clock
    from flaremq.message.message_ext import MessageExt

_log = logging.getLogger(__name__)

_CHECK_POINT_EARLY_MS: Final = 1000  # the original lets a check point arrive before its acknowledgements
_EARLY_ACKS_MAX: Final = 100_000
FOREIGN_MAX_MS: Final = 3 * 24 * 3600 * 1000  # as timerMaxDelaySec: what a Java broker's timer may hold for us
_PURGE_INTERVAL_MS: Final = 10_000
_READ_COUNT: Final = 256


class _ReviveQueue:
    """One queue of the log."""

    __slots__ = ("compact_at", "foreign", "open", "own", "position", "puts")

    def __init__(self, position: int) -> None:
        self.position = position  # every record below is known
        self.own: set[int] = set()  # our records at or beyond it
        self.puts = 0  # ours on their way
        self.foreign = True  # there may be records of others
        self.open: list[tuple[int, PopCheckPoint]] = []  # heap by offset; may hold some that need not be here
        self.compact_at = 1024

    def pass_own(self) -> None:
        while self.position in self.own:
            self.own.remove(self.position)
            self.position += 1

    @property
    def known(self) -> int:
        """The last offset up to which nothing is open."""
        while self.open and self.open[0][1].is_forgettable:
            heapq.heappop(self.open)
        if len(self.open) > self.compact_at:  # one that stays open for hours must not keep all later ones
            self.open = [entry for entry in self.open if not entry[1].is_forgettable]
            heapq.heapify(self.open)
            self.compact_at = 2 * len(self.open) + 1024
        return (self.open[0][0] if self.open else self.position) - 1


class ReviveLog:
    """Writes and reads the revive topic. Event loop only."""

    def __init__(
        self,
        options: BrokerOptions,
        clock: Clock,
        store_loop: StoreAccess,
        offsets: ConsumerOffsets,
        table: PopTable,
    ) -> None:
        self._store_loop = store_loop
        self._offsets = offsets
        self._clock = clock
        self._table = table
        self._options = options
        self._broker_name = options.broker_name
        self._host = encode_host(f"{options.broker_ip1}:{options.listen_port}")
        self.topic = revive_topic(options.broker_cluster_name)
        self.figures = PopFigures()
        self._early_acks: dict[Key, tuple[int, set[int]]] = {}  # until when, offsets: their check point will come
        self._next_purge = 0
        self.on_read: Callable[[MessageExt], None] = _ignore
        self.started_ms = clock.now_ms()  # whatever was popped since then is known here
        self._queues = [_ReviveQueue(self._committed(queue_id) + 1) for queue_id in range(options.revive_queue_num)]

    def behind(self) -> list[tuple[int, int]]:
        """Of each queue: how many records still say something that is open, and how long its first one is overdue."""
        store, now_ms = self._store_loop.store, self._clock.now_ms()
        found = []
        for queue_id, queue in enumerate(self._queues):
            behind = max(0, store.max_offset(self.topic, queue_id) - queue.known - 1)
            late_ms = max(0, now_ms - queue.open[0][1].revive_time) if queue.open else 0
            found.append((behind, late_ms))
        return found

    @property
    def queue_count(self) -> int:
        return len(self._queues)

    # Writing

    async def store_all(self, points: Sequence[PopCheckPoint]) -> bool:
        """Write the records of check points; False if some stay in memory for now."""
        outcomes = await asyncio.gather(*map(self.store, points), return_exceptions=True)
        failed = 0
        for point, outcome in zip(points, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                if not isinstance(outcome, FlareMQError):
                    raise outcome
                failed += 1
                self._table.put_back(point)
                _log.warning("%r stays in memory: %s", point, outcome)
            else:
                self._table.advance(point)
        return not failed

    async def store(self, point: PopCheckPoint) -> None:
        """Write the check point's record, once; UnavailableError if that is not possible now."""
        if point.is_stored:
            return
        if point.storing is None:
            point.storing = asyncio.ensure_future(self._store(point))
            point.storing.add_done_callback(_seen)
        await asyncio.shield(point.storing)

    async def _store(self, point: PopCheckPoint) -> None:
        try:
            # A message that moves to another check point is not acknowledged yet: the move may fail.
            acked = point.acked & ~point.moving
            offset, reach = await self._append(
                point.revive_queue_id,
                CHECK_POINT_TAG,
                point.to_json(acked),
                point.unique_key,
                point.revive_time - _CHECK_POINT_EARLY_MS,
            )
            self.figures.written.made((point.group, point.topic, CHECK_POINT, "PUT_OK")).value += 1
            self._table.depend(point, reach)
            point.revive_offset = offset
            point.logged |= acked
            heapq.heappush(self._queues[point.revive_queue_id].open, (offset, point))
        finally:
            point.storing = None

    async def log_acks(self, point: PopCheckPoint, bits: int) -> None:
        """Return when the log says that these are settled. Nothing to do for a check point it does not know."""
        if point.storing is not None:
            try:
                await asyncio.shield(point.storing)
            except FlareMQError:
                return  # it has no record, so nothing contradicts us
        while point.is_stored and bits & point.acked & ~point.moving & ~point.logged:
            if point.logging is None:
                point.logging = asyncio.ensure_future(self._log_acks(point))
                point.logging.add_done_callback(_seen)
            await asyncio.shield(point.logging)

    async def _log_acks(self, point: PopCheckPoint) -> None:
        try:
            await asyncio.sleep(0)  # acknowledgements of the same read belong together
            bits = point.acked & ~point.moving & ~point.logged
            if bits:
                ack = Ack(point.key, tuple(point.offsets_of(bits)))
                await self._append_ack(point.revive_queue_id, ack, point.revive_time)
                point.logged |= bits
        finally:
            point.logging = None

    async def log_early_ack(self, revive_queue_id: int, ack: Ack, revive_time: int) -> None:
        """Acknowledge what a check point holds that is not here yet: a Java broker may have left it in its timer."""
        if self._keep_early(ack, revive_time):
            await self._append_ack(revive_queue_id, ack, revive_time)

    def _keep_early(self, ack: Ack, revive_time: int) -> bool:
        """False if there is no room: then the message is given again."""
        found = self._early_acks.get(ack.key)
        if found is None:
            if len(self._early_acks) >= _EARLY_ACKS_MAX:
                return False
            revive_time = min(revive_time, self._clock.now_ms() + FOREIGN_MAX_MS)
            found = self._early_acks[ack.key] = (revive_time + self._options.revive_ack_wait_ms, set())
        offsets = found[1].union(ack.offsets)
        if len(offsets) > MESSAGES_MAX:
            return False
        found[1].update(offsets)
        return True

    async def _append_ack(self, revive_queue_id: int, ack: Ack, revive_time: int) -> None:
        topic, group, queue_id, _, pop_time = ack.key
        offsets = str(ack.offsets[0]) if len(ack.offsets) == 1 else str(list(ack.offsets))
        unique_key = f"{topic}@{queue_id}@{offsets}@{group}@{pop_time}@{self._broker_name}@{ack.tag}"
        await self._append(revive_queue_id, ack.tag, ack.to_json(self._broker_name), unique_key, revive_time)
        self.figures.written.made((group, topic, ACK, "PUT_OK")).value += len(ack.offsets)

    async def log_reset(self, queue_key: QueueKey, queue_ids: Sequence[int] | None = None) -> None:
        """What this log says about a queue so far no longer covers anything in it."""
        body = Reset(queue_key).to_json()
        unique_key = "@".join(map(str, (*queue_key, RESET_TAG)))
        now = self._clock.now_ms()
        for queue_id in range(len(self._queues)) if queue_ids is None else queue_ids:
            await self._append(queue_id, RESET_TAG, body, unique_key, now)

    async def _append(self, queue_id: int, tag: str, body: bytes, unique_key: str, deliver_ms: int) -> tuple[int, int]:
        """Queue offset of the new record, and its end in the log: stored it is, durable perhaps not yet."""
        form = StoredForm(
            topic=self.topic,
            queue_id=queue_id,
            body=body,
            properties=encode_properties(
                {TAGS: tag, UNIQUE_KEY: unique_key, TIMER_DELIVER_MS: str(max(0, deliver_ms))}
            ),
            born_timestamp=self._clock.now_ms(),
            born_host=self._host,
        )
        queue = self._queues[queue_id]
        queue.puts += 1
        try:
            result = await self._store_loop.put(form)
        finally:
            queue.puts -= 1
        if not result.status.stored:
            raise UnavailableError(f"the revive log takes no records: {result.status.name} {result.detail or ''}")
        queue.own.add(result.queue_offset)
        queue.pass_own()
        reach = result.physical_offset + result.size
        self._table.reach = max(self._table.reach, reach)
        return result.queue_offset, reach

    # Reading

    async def recover(self) -> int:
        """Read what the log knows at start; the number of check points that wait."""
        for queue_id in range(len(self._queues)):
            await self._check_committed(queue_id)
            covering: dict[QueueKey, list[PopCheckPoint]] = {}
            await self._read(queue_id, covering)
            self._cover(queue_id, covering)
            if self._queues[queue_id].known < self._committed(queue_id):
                await self._lower_committed(queue_id)
        return len(self._table)

    def _cover(self, queue_id: int, covering: dict[QueueKey, list[PopCheckPoint]]) -> None:
        for key, points in covering.items():
            covered = self._table.cover(key, {offset for point in points for offset in point.offsets})
            for point in points:
                point.covered_in = covered
                if point.is_closed and not point.is_forgettable:  # it must be read again until the offset has passed
                    heapq.heappush(self._queues[queue_id].open, (point.revive_offset, point))

    async def _check_committed(self, queue_id: int) -> None:
        """After a crash that took the end of the log the committed offset may lie beyond it: read all there is."""
        store = self._store_loop.store
        if self._committed(queue_id) >= store.next_offset(self.topic, queue_id):
            self._queues[queue_id].position = store.min_offset(self.topic, queue_id)

    async def _lower_committed(self, queue_id: int) -> None:
        # Whatever is committed, the record at 0 counts as known: if that is open it must have another record, and if
        # it does not exist it must not become a check point.
        queue = self._queues[queue_id]
        if queue.open and queue.known < 0:
            _, point = heapq.heappop(queue.open)
            point.revive_offset = -1
            await self.store(point)
        elif queue.known < 0:
            await self.log_reset((self.topic, REVIVE_GROUP, queue_id), [queue_id])
        if not await is_durable(self._store_loop, self._table.reach):
            raise UnavailableError("the revive log cannot be made durable")
        self._offsets.commit(REVIVE_GROUP, self.topic, queue_id, queue.known)

    def arrived(self, queue_id: int) -> None:
        """Records have come into a queue; perhaps not ours."""
        if 0 <= queue_id < len(self._queues):
            self._queues[queue_id].foreign = True

    async def follow(self) -> None:
        """Read the records that others have put into the log."""
        for queue_id, queue in enumerate(self._queues):
            # While one of ours is on its way we could not tell it from others'.
            if queue.foreign and not queue.puts:
                queue.foreign = False
                await self._read(queue_id, None)
        now = self._clock.now_ms()
        if self._early_acks and now >= self._next_purge:
            self._next_purge = now + _PURGE_INTERVAL_MS
            self._early_acks = {key: entry for key, entry in self._early_acks.items() if entry[0] >= now}

    async def _read(self, queue_id: int, covering: dict[QueueKey, list[PopCheckPoint]] | None) -> None:
        queue, store = self._queues[queue_id], self._store_loop.store
        while True:
            queue.pass_own()
            if queue.position >= store.max_offset(self.topic, queue_id):
                return
            result = await self._store_loop.run(store.get, self.topic, queue_id, queue.position, _READ_COUNT)
            for message in result.messages:
                if message.queue_offset >= queue.position and message.queue_offset not in queue.own:
                    self._take(queue, message, covering)
                queue.position = max(queue.position, message.queue_offset + 1)
            if not result.messages and (
                result.status is GetMessageStatus.OFFSET_OVERFLOW_BADLY or result.next_offset <= queue.position
            ):
                # Ahead of the log: an unclean end took records whose offset had been saved. Start at its end.
                queue.position = min(queue.position, result.max_offset)
                return
            queue.position = max(queue.position, result.next_offset)

    def _take(
        self, queue: _ReviveQueue, message: MessageExt, covering: dict[QueueKey, list[PopCheckPoint]] | None
    ) -> None:
        record = read_revive_record(message)
        if isinstance(record, PopCheckPoint | Ack):
            kind = CHECK_POINT if isinstance(record, PopCheckPoint) else ACK
            self.figures.read.made((record.key[1], record.key[0], message.queue_id, kind)).value += 1
            self.on_read(message)
        if isinstance(record, PopCheckPoint):
            self._take_check_point(queue, record)
            if covering is not None and record.is_covering:
                covering.setdefault(record.queue_key, []).append(record)
        elif isinstance(record, Ack):
            self._take_ack(record, message)
        elif isinstance(record, Reset):
            if covering is not None:
                covering.pop(record.queue_key, None)
        else:
            _log.warning("record %d of %s@%d is not understood", message.queue_offset, self.topic, message.queue_id)

    def _take_check_point(self, queue: _ReviveQueue, point: PopCheckPoint) -> None:
        if self._table.find(point.key) is not None:
            return
        early = self._early_acks.pop(point.key, None)
        if early is not None:
            for offset in early[1]:
                point.acked |= point.bit_of(offset)
            point.logged = point.acked
        if not point.is_closed:
            self._table.add_stored(point, self._clock.now_ms())
            heapq.heappush(queue.open, (point.revive_offset, point))

    def _take_ack(self, ack: Ack, message: MessageExt) -> None:
        point = self._table.find(ack.key)
        if point is not None:
            for offset in ack.offsets:
                point.acked |= point.bit_of(offset)
                point.logged |= point.bit_of(offset)
            self._table.advance(point)
        else:
            revive_time = whole_number(message.properties.get(TIMER_DELIVER_MS)) or 0
            if revive_time + self._options.revive_ack_wait_ms > self._clock.now_ms():
                self._keep_early(ack, revive_time)

    # Offsets

    async def commit(self) -> bool:
        """Commit held offsets, and up to where the log need not be read again; False if that has to wait.

        Both are taken at one moment, so a record is never given up before the offset that answers for it.
        """
        held = self._table.held()
        known = [(queue_id, queue.known) for queue_id, queue in enumerate(self._queues)]
        known = [(queue_id, offset) for queue_id, offset in known if offset > self._committed(queue_id)]
        if not held and not known:
            return True
        if not await is_durable(self._store_loop, self._table.reach):
            return False
        self._table.commit_held(held)
        for queue_id, offset in known:
            self._offsets.commit(REVIVE_GROUP, self.topic, queue_id, offset)
        return True

    def _committed(self, queue_id: int) -> int:
        return self._offsets.find(REVIVE_GROUP, self.topic, queue_id)


def _ignore(message: MessageExt) -> None:
    """Nobody wants to know."""


def _seen(task: asyncio.Future[None]) -> None:
    """Its waiters may be cancelled; a failure is then retried by the next acknowledgement or check."""
    if not task.cancelled():
        task.exception()
