"""Settling: acknowledgements, and putting a message off.

An acknowledgement is a bit in a check point, and a record only if the check point has one. Putting a message off moves
it to a check point of its own, which is stored before the old one lets go of it; the old receipt is void from then on.

A receipt is a text that anybody can make up. It settles only what a check point says was handed out; after a crash that
took the check point the message is given again, whoever acknowledges it.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from flaremq.broker.pop.check_point import Ack, Key, PopCheckPoint, QueueKey
from flaremq.broker.pop.order_info import ILLEGAL
from flaremq.broker.pop.receipts import Receipt
from flaremq.broker.pop.revive_log import FOREIGN_MAX_MS
from flaremq.errors import FlareMQError

if TYPE_CHECKING:
    from flaremq.broker.catalog.consumer_offsets import ConsumerOffsets
    from flaremq.broker.pop.handed_out import HandedOut
    from flaremq.broker.statistics.counters import BrokerStatistics
    from flaremq.clock import Clock

_RETRY_MS: Final = 10_000


class PopSettling:
    """The part of POP that takes back. Event loop only."""

    def __init__(
        self,
        clock: Clock,
        offsets: ConsumerOffsets,
        statistics: BrokerStatistics,
        handed_out: HandedOut,
    ) -> None:
        self._clock = clock
        self._offsets = offsets
        self._statistics = statistics
        self._order_info = handed_out.order_info
        self._table = handed_out.table
        self._revive_log = handed_out.revive_log
        self._wake = handed_out.wake

    def was_given(self, key: QueueKey, receipt: Receipt, offset: int) -> bool:
        """Whether this message was handed out, by the pop the receipt names as far as that is still known."""
        point = self._find(key, receipt)
        if point is not None:
            return point.bit_of(offset) != 0
        topic, group, queue_id = key
        committed = self._offsets.find(group, topic, queue_id)
        queue = self._table.find_queue(key)
        is_covered = queue is not None and offset in queue.covered
        return committed >= 0 and (is_covered or offset < self._table.next_offset(key, committed))

    def _find(self, key: QueueKey, receipt: Receipt) -> PopCheckPoint | None:
        return self._table.find((*key, receipt.start_offset, receipt.pop_time))

    def ack(self, key: QueueKey, receipt: Receipt, offsets: Sequence[int]) -> Coroutine[Any, Any, None] | None:
        """Messages were consumed. None: that was all; else what to await before the client is told."""
        point = self._find(key, receipt)
        self._statistics.note_ack(key[1], key[0], len(offsets))
        if point is None:
            return self._ack_foreign(key, receipt, offsets)
        bits = 0
        for offset in offsets:
            bits |= point.bit_of(offset)
        news = bits & ~point.acked
        if not news:
            return None
        self._mark(point, news)
        if not point.is_stored and point.storing is None:
            return None
        return self._log_acks(point, news)

    def ack_now(self, key: Key, offset: int) -> bool:
        """A message was consumed, and that is all; False: nothing was done, as it was not handed out so or the log is
        to be told."""
        point = self._table.find(key)
        bit = 0 if point is None else point.bit_of(offset)
        if point is None or not bit:
            return False
        if not point.acked & bit:
            if point.is_stored or point.storing is not None:
                return False
            self._mark(point, bit)
        self._statistics.note_ack(key[1], key[0], 1)
        return True

    def _mark(self, point: PopCheckPoint, news: int) -> None:
        """More of it is acknowledged."""
        point.acked |= news
        if point.is_done:  # else no offset may follow, and it is looked for again
            self._table.advance(point)

    def _ack_foreign(self, key: QueueKey, receipt: Receipt, offsets: Sequence[int]) -> Coroutine[Any, Any, None] | None:
        """The check point is settled, or it was lost in a crash and its messages are given again, or it waits in the
        timer of the Java broker that had this store before us: only then the log has to know."""
        log = self._revive_log
        is_of_before_us = receipt.pop_time < log.started_ms and 0 <= receipt.invisible_time <= FOREIGN_MAX_MS
        if not is_of_before_us or receipt.revive_time <= self._clock.now_ms():
            return None
        if not 0 <= receipt.revive_queue_id < log.queue_count:
            return None
        ack = Ack((*key, receipt.start_offset, receipt.pop_time), tuple(offsets))
        return log.log_early_ack(receipt.revive_queue_id, ack, receipt.revive_time)

    async def _log_acks(self, point: PopCheckPoint, bits: int) -> None:
        try:
            await self._revive_log.log_acks(point, bits)
        except FlareMQError:
            self._table.schedule(point, self._clock.now_ms() + _RETRY_MS)
            raise

    async def change_invisible(
        self, key: QueueKey, receipt: Receipt, offset: int, invisible_time: int, *, suspend: bool
    ) -> Receipt | None:
        """Let a message come back at another time: its new receipt; None if the old one is no longer good."""
        topic, group, queue_id = key
        point = self._find(key, receipt)
        bit = 0 if point is None else point.bit_of(offset)
        if point is None or not bit & ~point.acked or point.is_reviving:
            return None
        pop_time = max(self._clock.now_ms(), point.pop_time + 1)
        while self._table.find((topic, group, queue_id, offset, pop_time)) is not None:
            pop_time += 1
        moved = PopCheckPoint(
            topic=topic,
            group=group,
            queue_id=queue_id,
            start_offset=offset,
            offsets=(offset,),
            pop_time=pop_time,
            invisible_time=invisible_time,
            revive_queue_id=point.revive_queue_id,
            broker_name=point.broker_name,
            suspended=suspend,
        )
        # Neither receipt settles the message while it moves; the old check point waits for the new one's record.
        point.acked |= bit
        point.moving |= bit
        try:
            await self._revive_log.store(moved)
            self._table.add_stored(moved, self._clock.now_ms())
            self._table.depend(point, moved.reach)
        except FlareMQError:
            point.acked &= ~bit
            self._table.schedule(point, max(point.revive_time, self._clock.now_ms() + _RETRY_MS))
            raise
        finally:
            point.moving &= ~bit
        self._table.advance(point)
        await self._log_acks(point, bit)
        return Receipt(
            offset, pop_time, invisible_time, moved.revive_queue_id, receipt.retry, moved.broker_name, queue_id, offset
        )

    # Order

    def ack_in_order(self, key: QueueKey, receipt: Receipt, offset: int) -> bool:
        """A message of an ordered pop was consumed; False if it is none of the batch."""
        topic, group, queue_id = key
        if offset < self._offsets.find(group, topic, queue_id):
            return True
        self._statistics.note_ack(group, topic, 1)
        next_offset = self._order_info.commit(key, offset, receipt.pop_time)
        if next_offset >= 0:
            self._offsets.commit(group, topic, queue_id, next_offset)
            if not self._order_info.is_blocked(key, None, self._clock.now_ms()):
                self._wake(key)
        return next_offset != ILLEGAL

    def change_invisible_in_order(
        self, key: QueueKey, receipt: Receipt, offset: int, invisible_time: int
    ) -> Receipt | None:
        """Let a message of an ordered pop stay hidden for another time; None if it is not in the batch."""
        topic, group, queue_id = key
        next_visible = self._clock.now_ms() + invisible_time
        if offset < self._offsets.find(group, topic, queue_id):
            return None
        if not self._order_info.set_next_visible(key, offset, receipt.pop_time, next_visible):
            return None
        if invisible_time <= 0:
            self._wake(key)
        return receipt._replace(invisible_time=next_visible - receipt.pop_time)
