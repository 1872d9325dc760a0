"""Transactions: half messages wait for their outcome; a producer that does not report it in time is checked.

Two topics are the whole truth, and a crash loses nothing else. The half topic holds each transactional message; the op
topic says which of its offsets are done with. A commit appends the message to its real topic first and notes the
outcome then; a rollback only notes it. Progress is an offset of group CID_RMQ_SYS_TRANS in both topics, as RocketMQ
keeps it, given out only when everything it counts is durable.

After a crash both topics are read from the saved offsets on. What was noted is done with. A copy (see
``transaction_rounds``) makes earlier records of its message history. A commit whose note was lost is found by its
unique key when the message would be asked about, and is not repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from flaremq.broker.catalog.consumer_offsets import ConsumerOffsets
from flaremq.broker.catalog.groups import TRANSACTION_GROUP
from flaremq.broker.catalog.names import check_sendable
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.delay.message_rules import TimerRules, is_timed, prepare_timer
from flaremq.broker.members.producers import ProducerTable
from flaremq.broker.options import BrokerOptions
from flaremq.broker.statistics.traffic import MessageTraffic
from flaremq.broker.store_loop.access import StoreAccess, is_durable
from flaremq.broker.store_loop.put_status import require_stored
from flaremq.broker.transactions.figures import TransactionFigures
from flaremq.broker.transactions.half_records import immunity_ms, is_copy
from flaremq.broker.transactions.half_table import HalfTable, Identity, identity_of
from flaremq.broker.transactions.operation_log import OperationLog
from flaremq.broker.transactions.rounds import CheckRounds
from flaremq.clock import Clock
from flaremq.errors import InvalidArgumentError
from flaremq.message import properties as names
from flaremq.message.message_ext import MessageExt
from flaremq.message.message_id import decode_message_id
from flaremq.message.stored_form import StoredForm
from flaremq.message.topics import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from flaremq.message.transaction import check_end_request, commit
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RequestError
from flaremq.storage.get.get_result import GetResult

_log = logging.getLogger(__name__)
_READ_COUNT: Final = 256
_READ_BYTES: Final = 1 << 20


class TransactionService:
    """Ends transactions and asks for their outcome. Event loop only.

    The service calls ``check_round`` every ``transactionCheckInterval`` and ``persist`` before it stops.
    """

    def __init__(
        self,
        options: BrokerOptions,
        clock: Clock,
        store_loop: StoreAccess,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        producers: ProducerTable,
        store_host: bytes,
    ) -> None:
        self._options = options
        self._clock = clock
        self._store_loop = store_loop
        self._topics = topics
        self._offsets = offsets
        self.half = HalfTable()
        self.figures = TransactionFigures()
        self.operations = OperationLog(
            store_loop, clock, store_host, body_bytes_max=lambda: options.transaction_op_msg_max_size
        )
        self.rounds = CheckRounds(options, clock, store_loop, producers, self.half, self.operations)
        self.rounds.on_end = self._given_up
        self._reach = 0  # end of the last commit

    def tell_traffic(self, traffic: MessageTraffic) -> None:
        """Count there what checks read, as RocketMQ counts it."""

        def note(records: Sequence[MessageExt]) -> None:
            if records:
                size = sum(record.size for record in records)
                traffic.note_out(HALF_TOPIC, TRANSACTION_GROUP, None, len(records), size)

        self.rounds.on_read = note

    # Starting

    async def load(self) -> None:
        """Read both topics from where the group stands; call it before requests are answered."""
        store = self._store_loop.store
        low, high = store.min_offset(HALF_TOPIC, 0), store.max_offset(HALF_TOPIC, 0)
        half = self.half
        end = store.next_offset(HALF_TOPIC, 0)
        half.cursor = min(max(self._offsets.find(TRANSACTION_GROUP, HALF_TOPIC, 0), low), end)
        op_cursor = self._offsets.find(TRANSACTION_GROUP, OP_HALF_TOPIC, 0)
        await self.operations.load(max(op_cursor, 0), half.finish)
        await self._read_copies(high)
        self.rounds.recovered_end = high

    async def _read_copies(self, end: int) -> None:
        """Find messages that were appended again: only the last copy counts."""
        seen: dict[Identity, list[int]] = {}
        position = self.half.cursor
        while position < end:
            found = await self._store_loop.run(self._read, position, _READ_COUNT)
            for record in found.messages:
                topic = record.properties.get(names.REAL_TOPIC, "")
                if self.half.is_open(record.queue_offset):
                    self.figures.began(topic)
                key = identity_of(record)
                if key is None:
                    continue
                if is_copy(record):
                    earlier = seen.pop(key, [])
                    for _ in filter(self.half.is_open, earlier):
                        self.figures.given_up(topic)
                    self.half.finish(earlier)
                    if self.half.is_open(record.queue_offset):
                        self.half.moved(record, record.queue_offset)
                seen.setdefault(key, []).append(record.queue_offset)
            if found.next_offset <= position:
                break
            position = found.next_offset

    def _read(self, queue_offset: int, count: int) -> GetResult:
        return self._store_loop.store.get(HALF_TOPIC, 0, queue_offset, count, max_bytes=_READ_BYTES)

    def check_room(self) -> None:
        """RequestError if so many half messages are not done with that no more are taken."""
        if not self.half.has_room(self._store_loop.store.max_offset(HALF_TOPIC, 0)):
            raise RequestError(
                ResponseCode.SYSTEM_BUSY, "[OVERLOAD]too many transactions are open, start flow control for a while"
            )

    # Ending

    async def end(
        self, *, producer_group: str, queue_offset: int, physical_offset: int, is_commit: bool, is_answer: bool
    ) -> None:
        """Commit or roll back; RequestError if that is not possible. ``is_answer``: we have asked for it."""
        record = await self._store_loop.run(self._store_loop.store.read, physical_offset)
        if record is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"there is no half message at {physical_offset}")
        try:
            check_end_request(
                record, producer_group=producer_group, queue_offset=queue_offset, physical_offset=physical_offset
            )
        except InvalidArgumentError as error:
            raise RequestError(ResponseCode.SYSTEM_ERROR, str(error)) from None
        if not is_answer:
            self._check_in_time(record)
        # Shielded: a request that is given up must not leave a commit without its note.
        await asyncio.shield(asyncio.ensure_future(self._end(record, is_commit=is_commit)))

    async def _end(self, record: MessageExt, *, is_commit: bool) -> None:
        half = self.half
        while True:
            offset = half.live_offset(record)
            if offset is None:
                message = f"the transaction of half message {record.queue_offset} has ended already"
                raise RequestError(ResponseCode.ILLEGAL_OPERATION, message)
            if not half.is_claimed(offset):
                break
            await half.released(offset)
        with half.claim(offset):
            if offset != record.queue_offset:
                record = await self._copy_at(offset)
            was_committed = await self.rounds.is_committed(record)
            if is_commit and not was_committed:
                await self._commit(record)
            half.finish((offset,))
            half.forget_copy(record, offset)
            self._ended(record, is_commit=is_commit and not was_committed, is_given_up=was_committed)
        is_noted = await self.operations.mark(offset)
        if is_commit:
            return
        if was_committed:
            message = f"the transaction of half message {record.queue_offset} was committed already"
            raise RequestError(ResponseCode.ILLEGAL_OPERATION, message)
        if not is_noted:
            raise RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, "the rollback could not be stored yet")

    def _ended(self, record: MessageExt, *, is_commit: bool, is_given_up: bool) -> None:
        topic = record.properties.get(names.REAL_TOPIC, "")
        if is_given_up:
            self.figures.given_up(topic)
        else:
            waited_ms = self._clock.now_ms() - record.born_timestamp
            self.figures.ended(topic, is_commit=is_commit, waited_ms=waited_ms)

    def _given_up(self, record: MessageExt) -> None:
        self.figures.given_up(record.properties.get(names.REAL_TOPIC, ""))

    def open_by_topic(self) -> TransactionFigures:
        """The figures, put right where nothing is open any more."""
        if self.half.cursor >= self._store_loop.store.max_offset(HALF_TOPIC, 0):
            self.figures.clear_open()
        return self.figures

    async def _copy_at(self, offset: int) -> MessageExt:
        found = await self._store_loop.run(self._read, offset, 1)
        if not found.messages or found.messages[0].queue_offset != offset:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"half message {offset} cannot be read")
        return found.messages[0]

    async def _commit(self, record: MessageExt) -> None:
        form = replace(commit(record), wait_store_msg_ok=True)
        self._check_place(form.topic, form.queue_id)
        if is_timed(form):
            form = prepare_timer(form, now_ms=self._clock.now_ms(), rules=TimerRules.of(self._options))
        result = await self._store_loop.put(form)
        require_stored(result)
        self._reach = max(self._reach, result.physical_offset + result.size)

    def _check_place(self, topic: str, queue_id: int) -> None:
        """The half message was let in for a queue that existed; a commit writes to no other."""
        check_sendable(topic)
        config = self._topics.find(topic)
        if config is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic[:255]}] not exist, apply first please!")
        if not 0 <= queue_id < max(config.read_queue_nums, config.write_queue_nums):
            raise RequestError(ResponseCode.INVALID_PARAMETER, f"request queueId[{queue_id}] is illegal")

    def _check_in_time(self, record: MessageExt) -> None:
        """Who asked for a time without checks has that long to answer, and then only when asked."""
        allowed_ms = immunity_ms(record, self._options.transaction_time_out)
        if allowed_ms is not None and self._clock.now_ms() - record.born_timestamp > allowed_ms:
            raise RequestError(
                ResponseCode.ILLEGAL_OPERATION,
                f"the transaction of half message {record.queue_offset} was to end within {allowed_ms} ms",
            )

    async def resume(self, message_id: str) -> None:
        """Let a message be asked about again that was put away (RESUME_CHECK_HALF_MESSAGE)."""
        try:
            _, physical_offset = decode_message_id(message_id)
        except InvalidArgumentError as error:
            raise RequestError(ResponseCode.SYSTEM_ERROR, str(error)) from None
        record = await self._store_loop.run(self._store_loop.store.read, physical_offset)
        if record is None or record.topic != CHECK_MAX_TIME_TOPIC:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{message_id} is no message of {CHECK_MAX_TIME_TOPIC}")
        form = replace(StoredForm.of_record(record), topic=HALF_TOPIC, queue_id=0, wait_store_msg_ok=True)
        result = await self._store_loop.put(form.with_properties({names.TRANSACTION_CHECK_TIMES: "0"}))
        require_stored(result)
        self.half.moved(record, result.queue_offset)

    # Asking and remembering

    async def check_round(self) -> int:
        """Walk the open half messages once; the number of producers asked."""
        asked = await self.rounds.run()
        await self.persist()
        return asked

    async def persist(self) -> bool:
        """Give out the progress; False if what it counts is not durable yet."""
        cursor = self.half.cursor
        if not await is_durable(self._store_loop, max(self._reach, self.rounds.reach, self.operations.reach)):
            return False
        self.operations.passed(cursor)
        self._offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, 0, cursor)
        self._offsets.commit(TRANSACTION_GROUP, OP_HALF_TOPIC, 0, self.operations.cursor)
        return True
