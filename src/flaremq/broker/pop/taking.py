"""Handing out: what a pop reads, and the check points it leaves.

A pop begins where the group's last one ended, whatever has become of that. A group that reads a queue for the first
time begins at its oldest or its latest message, as the client asks; one that an administrator has moved begins there.
The group's retry topic for the topic is looked into as well: first by a share of the pops, by the others if there is
room left.

Everything happens on the event loop. Only reads of old messages and those that ask a property filter leave it, and
meanwhile their queue is marked busy.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Final

from flaremq.broker.pop.answer import MIN_OFFSET_FIRST, PopAnswer, PopAsk, Record, split_records, under_normal_topic
from flaremq.broker.pop.check_point import PopCheckPoint, QueueKey
from flaremq.broker.pop.growth import Growth
from flaremq.broker.pop.receipts import ORDER_REVIVE_QUEUE
from flaremq.broker.pop.table import WAITING_PER_QUEUE_MAX
from flaremq.errors import FlareMQError
from flaremq.message.topics import is_retry_topic, pop_retry_topic, pop_retry_topic_v2
from flaremq.storage.status import GetMessageStatus

if TYPE_CHECKING:
    from flaremq.broker.catalog.catalog import Catalog
    from flaremq.broker.long_polling.pull_request import PullFilter
    from flaremq.broker.options import BrokerOptions
    from flaremq.broker.pop.handed_out import HandedOut
    from flaremq.broker.statistics.counters import BrokerStatistics
    from flaremq.broker.store_loop.store_loop import StoreLoop
    from flaremq.clock import Clock
    from flaremq.storage.get.pull import PullResult

_log = logging.getLogger(__name__)
_QUEUES_AT_ONCE: Final = 256  # looked at before the loop serves others: about 2 ms

_WRONG_OFFSET: Final = (
    GetMessageStatus.OFFSET_TOO_SMALL,
    GetMessageStatus.OFFSET_OVERFLOW_BADLY,
    GetMessageStatus.OFFSET_FOUND_NULL,
    GetMessageStatus.NO_MATCHED_LOGIC_QUEUE,
    GetMessageStatus.NO_MESSAGE_IN_QUEUE,
)


def retry_topics(options: BrokerOptions, group: str, topic: str) -> list[str]:
    """Where messages of a topic wait to be given to the group again; new ones go to the first."""
    if not options.enable_retry_topic_v2:
        return [pop_retry_topic(group, topic)]
    names = [pop_retry_topic_v2(group, topic)]
    if options.retrieve_message_from_pop_retry_topic_v1:
        names.append(pop_retry_topic(group, topic))
    return names


class PopTaking:
    """The part of POP that hands out. Event loop only."""

    def __init__(
        self,
        options: BrokerOptions,
        clock: Clock,
        store_loop: StoreLoop,
        catalog: Catalog,
        statistics: BrokerStatistics,
        handed_out: HandedOut,
        chance: random.Random,
    ) -> None:
        self._options = options
        self._store_loop = store_loop
        self._puller = store_loop.driver.puller
        self._clock = clock
        self._topics = catalog.topics
        self._offsets = catalog.offsets
        self._statistics = statistics
        self._order_info = handed_out.order_info
        self._table = handed_out.table
        self._revive_log = handed_out.revive_log
        self._chance = chance
        self._wake = handed_out.wake
        self._pops = count()
        self._growth = Growth()
        store_loop.dispatching.on_arrival.append(self._growth.arrived)
        handed_out.on_available.append(self._growth.available)

    async def pop(self, ask: PopAsk) -> PopAnswer:
        """Hand out what there is for a group, at most so many messages."""
        if self._store_loop.driver.undispatched > 0:
            self._store_loop.dispatching.catch_up()
        chance = self._chance.randrange(100)
        revive_queue_id = ORDER_REVIVE_QUEUE if ask.order else next(self._pops) % self._revive_log.queue_count
        answer = PopAnswer(self._clock.now_ms(), ask.invisible_time, revive_queue_id)
        points: list[PopCheckPoint] = []
        if ask.queue_id < 0 and self._queue_count(ask.topic) > _QUEUES_AT_ONCE:
            with self._growth.watch(self._topics_of(ask.group, ask.topic)) as watch:
                await self._pop_all(ask, answer, chance, points)
            answer.has_more = answer.has_more or watch.has_grown
        else:
            await self._pop_all(ask, answer, chance, points)
        if points and not self._options.enable_pop_buffer_merge:
            await self._revive_log.store_all(points)
        self._statistics.note_get(ask.group, ask.topic, answer.count, answer.size)
        return answer

    async def _pop_all(self, ask: PopAsk, answer: PopAnswer, chance: int, points: list[PopCheckPoint]) -> None:
        retry_first = chance < self._options.pop_from_retry_probability
        if retry_first and not ask.order:
            await self._pop_retries(ask, answer, chance, points)
        if ask.queue_id < 0:
            await self._pop_topic(ask, answer, ask.topic, chance, points)
        else:
            await self._pop_queue(ask, answer, ask.topic, ask.queue_id, points)
        if not retry_first and not ask.order and answer.count < ask.max_count:
            await self._pop_retries(ask, answer, chance, points)

    async def _pop_retries(self, ask: PopAsk, answer: PopAnswer, chance: int, points: list[PopCheckPoint]) -> None:
        for topic in retry_topics(self._options, ask.group, ask.topic):
            await self._pop_topic(ask, answer, topic, chance, points)

    async def _pop_topic(
        self, ask: PopAsk, answer: PopAnswer, topic: str, chance: int, points: list[PopCheckPoint]
    ) -> None:
        queue_count = self._queue_count(topic)
        for number in range(queue_count):  # each pop begins at another queue
            if number and not number % _QUEUES_AT_ONCE:
                await asyncio.sleep(0)  # others get their turn
            await self._pop_queue(ask, answer, topic, (chance + number) % queue_count, points)

    async def _pop_queue(
        self, ask: PopAsk, answer: PopAnswer, topic: str, queue_id: int, points: list[PopCheckPoint]
    ) -> None:
        key = (topic, ask.group, queue_id)
        queue = self._table.find_queue(key)
        is_busy = queue is not None and queue.is_busy
        if not is_busy and self._offsets.has_reset(ask.group, topic, queue_id):
            await self._reset(key)
            answer.has_more = True
        offset = self._next_offset(key, ask.init_mode)
        high = self._store_loop.store.max_offset(topic, queue_id)
        if offset == high or (ask.order and self._order_info.is_blocked(key, ask.attempt_id, answer.pop_time)):
            return
        queue = self._table.queue(key)
        bytes_max = self._store_loop.store.options.max_transfer_bytes_on_message_in_memory
        is_full = self._table.is_full or len(queue.waiting) >= WAITING_PER_QUEUE_MAX
        if queue.is_busy or is_full or answer.count >= ask.max_count or answer.size >= bytes_max:
            answer.rest_count += max(0, high - offset)
            answer.is_full = answer.is_full or is_full
            queue.is_wanted = queue.is_wanted or queue.is_busy
            self._table.release(key)
            return
        queue.is_busy = True
        # While a read is on another thread messages may come into queues looked at before: look again if need be.
        answer.has_more = answer.has_more or self._is_read_elsewhere(topic, queue_id, offset, ask.wanted)
        try:
            count_max = ask.max_count - answer.count
            found = await self._read(key, offset, count_max, bytes_max - answer.size, ask.wanted)
            if found.status in _WRONG_OFFSET and found.next_offset != offset:
                # The queue does not begin or end where the group stands: it goes on where there is something.
                self._table.move(key, found.next_offset)
                offset = found.next_offset
                found = await self._read(key, offset, count_max, bytes_max - answer.size, ask.wanted)
            self._take(ask, answer, key, offset, found, points)
        finally:
            queue.is_busy = False
            if queue.is_wanted:
                queue.is_wanted = False
                self._wake(key)
            self._table.release(key)

    async def _read(self, key: QueueKey, offset: int, count_max: int, bytes_max: int, wanted: PullFilter) -> PullResult:
        topic, group, queue_id = key
        if wanted.matches is not None:
            return await self._store_loop.run_filter(
                group, self._pull, topic, queue_id, offset, count_max, bytes_max, wanted
            )
        if self._puller.is_cold(topic, queue_id, offset):
            return await self._store_loop.run_cold(self._pull, topic, queue_id, offset, count_max, bytes_max, wanted)
        return self._pull(topic, queue_id, offset, count_max, bytes_max, wanted)

    def _is_read_elsewhere(self, topic: str, queue_id: int, offset: int, wanted: PullFilter) -> bool:
        return wanted.matches is not None or self._puller.is_cold(topic, queue_id, offset)

    def _pull(
        self, topic: str, queue_id: int, offset: int, count_max: int, bytes_max: int, wanted: PullFilter
    ) -> PullResult:
        """Any thread. One pull ends where a file or the written part of the queue does."""
        pull, codes, matches = self._puller.pull, wanted.codes, wanted.work()
        found = pull(topic, queue_id, offset, count_max, bytes_max, codes, matches)
        while 0 < found.count < count_max and found.size < bytes_max and found.next_offset < found.max_offset:
            count_left, bytes_left = count_max - found.count, bytes_max - found.size
            more = pull(topic, queue_id, found.next_offset, count_left, bytes_left, codes, matches)
            if not more.count:
                break
            found.views += more.views
            found.count += more.count
            found.size += more.size
            found.next_offset = more.next_offset
        return found

    def _take(
        self,
        ask: PopAsk,
        answer: PopAnswer,
        key: QueueKey,
        offset: int,
        found: PullResult,
        points: list[PopCheckPoint],
    ) -> None:
        """Hand out what was read, now that nothing else can happen in between."""
        topic, _, queue_id = key
        queue = self._table.queue(key)
        offsets, records = split_records(found.views, queue.covered)
        answer.rest_count += max(0, found.max_offset - found.next_offset)
        if not offsets:
            if found.next_offset > offset:
                answer.has_more = answer.has_more or found.next_offset < found.max_offset
                self._table.skip(key, found.next_offset)
            return
        if ask.order:
            parts = self._order_info.update(
                key,
                attempt_id=ask.attempt_id,
                pop_time=answer.pop_time,
                invisible_time=ask.invisible_time,
                offsets=offsets,
            )
            answer.order_info += parts
        else:
            point = PopCheckPoint(
                topic=topic,
                group=ask.group,
                queue_id=queue_id,
                start_offset=offset,
                offsets=offsets,
                pop_time=answer.pop_time,
                invisible_time=ask.invisible_time,
                revive_queue_id=answer.revive_queue_id,
                broker_name=self._options.broker_name,
                next_offset=found.next_offset,
            )
            if self._table.find(point.key) is not None:  # popped in this very millisecond, and the group moved back
                answer.rest_count += len(offsets)
                return
            self._table.add(point, self._clock.monotonic())
            self._statistics.note_check_point(ask.group, ask.topic, 1)
            points.append(point)
        self._note_out(ask, topic, records)
        if is_retry_topic(topic) and topic != ask.topic:
            records = [self._under_normal_topic(ask, answer, offset, record) for record in records]
        answer.add(topic, queue_id, offset, offsets, records)

    def _note_out(self, ask: PopAsk, topic: str, records: list[Record]) -> None:
        """Under the topic that was asked for, with a note whether this came from its retry topic."""
        is_retry = "true" if topic != ask.topic and is_retry_topic(topic) else "false"
        size = sum(map(len, records))
        self._statistics.traffic.note_out(ask.topic, ask.group, is_retry, len(records), size)

    def _under_normal_topic(self, ask: PopAsk, answer: PopAnswer, start_offset: int, record: Record) -> bytes:
        return under_normal_topic(
            record,
            topic=ask.topic,
            start_offset=start_offset,
            pop_time=answer.pop_time,
            invisible_time=answer.invisible_time,
            revive_queue_id=answer.revive_queue_id,
            broker_name=self._options.broker_name,
        )

    # Offsets

    def next_offset(self, group: str, topic: str, queue_id: int) -> int:
        """Where the group's next pop begins; -1 if it has not begun."""
        return self._table.next_offset((topic, group, queue_id), self._offsets.find(group, topic, queue_id))

    def _next_offset(self, key: QueueKey, init_mode: int) -> int:
        topic, group, queue_id = key
        committed = self._offsets.find(group, topic, queue_id)
        if committed < 0:
            committed = self._first_offset(topic, queue_id, init_mode)
            self._offsets.commit(group, topic, queue_id, committed)
        return self._table.next_offset(key, committed)

    def _first_offset(self, topic: str, queue_id: int, init_mode: int) -> int:
        store = self._store_loop.store
        low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        if init_mode == MIN_OFFSET_FIRST or is_retry_topic(topic):
            return low
        is_young = low <= 0 and not self._puller.is_cold(topic, queue_id, 0)
        if is_young and self._options.init_pop_offset_by_check_msg_in_mem:
            return 0
        return max(0, high - 1)  # the last message is handed out, as by the original

    async def _reset(self, key: QueueKey) -> None:
        topic, group, queue_id = key
        offset = self._offsets.take_reset(group, topic, queue_id)
        assert offset is not None
        self._table.reset(key)
        self._order_info.clear(key)
        self._offsets.commit(group, topic, queue_id, offset)
        try:
            await self._revive_log.log_reset(key)
        except FlareMQError as error:
            _log.warning("that %s starts again at %d of %s@%d is not stored: %s", group, offset, topic, queue_id, error)

    # Looking

    def range_of(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First and next offset of a queue."""
        store = self._store_loop.store
        return store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)

    def first_offset(self, topic: str, queue_id: int) -> int:
        """First offset of a queue."""
        return self._store_loop.store.min_offset(topic, queue_id)

    async def peek(self, group: str, topic: str, queue_id: int, max_count: int, wanted: PullFilter) -> PopAnswer:
        """What a pop would find, without taking it."""
        if self._store_loop.driver.undispatched > 0:
            self._store_loop.dispatching.catch_up()
        answer = PopAnswer(0, 0, 0)
        for number, key in enumerate(self._keys(group, topic, queue_id)):
            if number and not number % _QUEUES_AT_ONCE:
                await asyncio.sleep(0)
            offset = self._peek_offset(key)
            answer.rest_count += self._store_loop.store.max_offset(key[0], key[2]) - offset
            bytes_left = self._store_loop.store.options.max_transfer_bytes_on_message_in_memory - answer.size
            if answer.count < max_count and bytes_left > 0:
                found = await self._read(key, offset, max_count - answer.count, bytes_left, wanted)
                if found.status in _WRONG_OFFSET:
                    found = await self._read(key, found.next_offset, max_count - answer.count, bytes_left, wanted)
                if found.count:
                    is_retry = "true" if key[0] != topic else "false"
                    self._statistics.traffic.note_out(topic, group, is_retry, found.count, found.size)
                answer.records += found.views
                answer.count += found.count
                answer.size += found.size
        return answer

    async def has_messages(self, group: str, topic: str, queue_id: int, *, order: bool, attempt_id: str | None) -> bool:
        """Whether a pop would find something."""
        if self._store_loop.driver.undispatched > 0:
            self._store_loop.dispatching.catch_up()
        now = self._clock.now_ms()
        with self._growth.watch(self._topics_of(group, topic)) as watch:
            for number, key in enumerate(self._keys(group, topic, queue_id)):
                if number and not number % _QUEUES_AT_ONCE:
                    await asyncio.sleep(0)
                is_open = not (order and self._order_info.is_blocked(key, attempt_id, now))
                if is_open and self._store_loop.store.max_offset(key[0], key[2]) > self._peek_offset(key):
                    return True
        return watch.has_grown  # while the loop served others; the client pops and finds out

    def _topics_of(self, group: str, topic: str) -> list[str]:
        return [topic, *retry_topics(self._options, group, topic)]

    def _queue_count(self, topic: str) -> int:
        config = self._topics.find(topic)
        return 0 if config is None else config.read_queue_nums

    def _keys(self, group: str, topic: str, queue_id: int) -> Iterator[QueueKey]:
        for name in self._topics_of(group, topic):
            if queue_id >= 0 and name == topic:
                yield (name, group, queue_id)
            else:
                yield from ((name, group, number) for number in range(self._queue_count(name)))

    def _peek_offset(self, key: QueueKey) -> int:
        topic, group, queue_id = key
        committed = self._offsets.find(group, topic, queue_id)
        if committed < 0:
            committed = self._store_loop.store.min_offset(topic, queue_id)
        return self._table.next_offset(key, committed)
