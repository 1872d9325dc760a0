"""Rounds of checks: ask the producers of transactions that have been open for too long.

A round walks the half topic from the first open message to what was its end when the round began. A message that
waited long enough is appended again with a count one higher, then its producer is asked about that copy; the older
record is done with. So the cursor moves on, the count survives, and an open message never expires with its log file. A
message asked about too often, or older than the log is kept, goes to TRANS_CHECK_MAX_TIME_TOPIC. One whose sender asked
for a time without checks is appended again as it is until that time is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from flaremq.broker.members.producers import ProducerTable
from flaremq.broker.options import BrokerOptions
from flaremq.broker.store_loop.access import StoreAccess
from flaremq.broker.transactions.check import check_request
from flaremq.broker.transactions.half_records import first_queue_offset, has_place, immunity_ms, was_committed
from flaremq.broker.transactions.half_table import HalfTable
from flaremq.broker.transactions.operation_log import OperationLog
from flaremq.clock import Clock
from flaremq.errors import FlareMQError
from flaremq.message import properties as names
from flaremq.message.message_ext import MessageExt
from flaremq.message.stored_form import StoredForm, real_place
from flaremq.message.topics import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from flaremq.message.transaction import check_times, given_up, half_again
from flaremq.storage.get.get_result import GetResult
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.status import PutMessageStatus

_log = logging.getLogger(__name__)

HOUR_MS: Final = 3_600_000
_BATCH: Final = 64
_BATCH_BYTES: Final = 1 << 20
_ROUND_SECONDS_MAX: Final = 60.0
_ASKED_BYTES_MAX: Final = 32 << 20  # questions of one round; what is left is asked in the next
_REFUSED_FOR_GOOD: Final = frozenset({PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED})

Action = Callable[[MessageExt], Awaitable[bool]]


class CheckRounds:
    """Walks the half topic. Event loop only; one round at a time."""

    def __init__(
        self,
        options: BrokerOptions,
        clock: Clock,
        store_loop: StoreAccess,
        producers: ProducerTable,
        half: HalfTable,
        operations: OperationLog,
    ) -> None:
        self._options = options
        self._clock = clock
        self._store_loop = store_loop
        self._producers = producers
        self._half = half
        self._operations = operations
        self._running = asyncio.Lock()
        self._asked = 0
        self._asked_bytes = 0
        self.recovered_end = 0  # half messages below were there when we started: their commit may be as well
        self.reach = 0  # end of the last copy
        self.on_end: Callable[[MessageExt], None] = _ignore  # told of half messages that end without their producer
        self.on_read: Callable[[Sequence[MessageExt]], None] = _ignore  # and of all that are read

    async def run(self) -> int:
        """One round; the number of questions sent."""
        async with self._running:
            self._asked = self._asked_bytes = 0
            try:
                await self._operations.retry()
                await self._walk()
            except FlareMQError as error:
                _log.warning("a round of transaction checks ended early: %s", error)
            return self._asked

    async def _walk(self) -> None:
        half = self._half
        end = self._store_loop.store.max_offset(HALF_TOPIC, 0)
        position = half.cursor
        deadline = self._clock.monotonic() + _ROUND_SECONDS_MAX
        while position < end and self._clock.monotonic() < deadline and self._asked_bytes < _ASKED_BYTES_MAX:
            found = await self._store_loop.run(self._read, position)
            work: list[tuple[MessageExt, Action]] = []
            self.on_read(found.messages)
            is_last = found.next_offset <= position
            for record in found.messages:
                offset = record.queue_offset
                if offset >= end:
                    is_last = True
                    break
                half.skip_to(offset, position)
                position = offset + 1
                if not half.is_open(offset) or half.is_claimed(offset):
                    continue
                action = self._action(record, is_final=position == end)
                if action is None:
                    is_last = True
                    break
                work.append((record, action))
            else:
                half.skip_to(min(found.next_offset, end), position)
                position = max(position, found.next_offset)
            outcomes = await asyncio.gather(*(self._handle(record, action) for record, action in work))
            if not all(outcomes) or is_last:
                return

    def _read(self, queue_offset: int) -> GetResult:
        return self._store_loop.store.get(HALF_TOPIC, 0, queue_offset, _BATCH, max_bytes=_BATCH_BYTES)

    def _action(self, record: MessageExt, *, is_final: bool) -> Action | None:
        """What to do about an open half message; None: it is too young, and so are all behind it."""
        options, now_ms = self._options, self._clock.now_ms()
        born_ago_ms = now_ms - record.born_timestamp
        kept_ms = self._store_loop.store.options.file_reserved_time * HOUR_MS
        if check_times(record) >= options.transaction_check_max or born_ago_ms > kept_ms or not has_place(record):
            return self._give_up
        immune_ms = immunity_ms(record, options.transaction_time_out)
        if immune_ms is not None:
            if born_ago_ms < immune_ms:
                return None if is_final else self._put_back
        elif 0 <= now_ms - record.store_timestamp < options.transaction_time_out:
            return None
        return self._ask

    async def _handle(self, record: MessageExt, action: Action) -> bool:
        """Do it; False if the round has to end, since the store takes nothing."""
        half, offset = self._half, record.queue_offset
        if half.is_claimed(offset) or not half.is_open(offset):
            return True  # its end came just now
        try:
            with half.claim(offset):
                if await self.is_committed(record):
                    half.finish((offset,))
                    half.forget_copy(record, offset)
                    self.on_end(record)
                    return await self._operations.mark(offset)
                return await action(record)
        except FlareMQError as error:
            _log.warning("half message %d is left for the next round: %s", offset, error)
            return False

    async def is_committed(self, record: MessageExt) -> bool:
        """Whether an open half message was committed before we started and only the note of it was lost."""
        if record.queue_offset >= self.recovered_end:
            return False
        return await self._store_loop.run(was_committed, self._store_loop.store, record)

    async def _ask(self, record: MessageExt) -> bool:
        result = await self._put(half_again(record))
        if result.status in _REFUSED_FOR_GOOD:
            return await self._give_up(record)
        if not result.status.stored:
            return False
        self._replace(record, result)
        group = record.properties.get(names.PRODUCER_GROUP, "")
        producer = self._producers.pick(group, real_place(record)[0])
        if producer is None:
            _log.info("nobody of producer group %s is there to be asked about %s", group, record.message_id)
            return True
        request = check_request(
            record,
            queue_offset=result.queue_offset,
            physical_offset=result.physical_offset,
            broker_name=self._options.broker_name,
        )
        producer.notify(request)
        self._asked += 1
        self._asked_bytes += len(request.body)
        return True

    async def _put_back(self, record: MessageExt) -> bool:
        result = await self._put(half_again(record, prepared_queue_offset=first_queue_offset(record)))
        if result.status in _REFUSED_FOR_GOOD:
            return await self._give_up(record)
        if result.status.stored:
            self._replace(record, result)
        return result.status.stored

    def _replace(self, record: MessageExt, copy: PutResult) -> None:
        self._half.moved(record, copy.queue_offset)
        self._half.finish((record.queue_offset,))

    async def _give_up(self, record: MessageExt) -> bool:
        result = await self._put(given_up(record))
        if not result.status.stored and result.status not in _REFUSED_FOR_GOOD:
            return False
        if result.status.stored:
            _log.warning("%s was asked about in vain and is in %s now", record.message_id, CHECK_MAX_TIME_TOPIC)
        else:
            _log.error("%s was asked about in vain and cannot be put away: %s", record.message_id, result.detail)
        self._half.finish((record.queue_offset,))
        self._half.forget_copy(record, record.queue_offset)
        self.on_end(record)
        return True

    async def _put(self, form: StoredForm) -> PutResult:
        result = await self._store_loop.put(replace(form, wait_store_msg_ok=True))
        if result.status.stored:
            self.reach = max(self.reach, result.physical_offset + result.size)
        return result


def _ignore(told: object) -> None:
    """Nobody wants to know."""
