"""ProcessQueue: what a consumer holds of one queue.

Messages are handed out in the order of their offsets and may be finished in any order; what is reported to the broker
is the offset below which everything is finished. So a crash repeats messages but never skips one.

Compiled, because every message passes through: in with the pull that brought it, to a loop, and out when it is done.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import deque
from typing import TYPE_CHECKING

import cython

from flaremq.client.options import ConsumerOptions
from flaremq.protocol.bodies.client import SubscriptionData
from flaremq.protocol.bodies.queue import MessageQueue

if TYPE_CHECKING:
    from flaremq.client.consumer.delivery import Delivery

if not cython.compiled:
    from flaremq.client.consumer.received import ReceivedMessage
    from flaremq.core.memory import Longs, writable_longs_of

_CROWDED = 256  # finished places at the front of the table before it is worth while to move the rest


class ProcessQueue:
    """One queue that belongs to this consumer at present. Event loop thread only."""

    __slots__ = (
        "_bytes",
        "_bytes_max",
        "_count_max",
        "_first",
        "_first_place",
        "_last",
        "_offsets",
        "_room",
        "_span_max",
        "broker_id",
        "delivery",
        "in_hand",
        "is_dropped",
        "is_listed",
        "is_paused",
        "last_failure",
        "last_pull",
        "locked_until",
        "next_offset",
        "pull_task",
        "queue",
        "reported_offset",
        "reported_to",
        "subscription",
        "suspended_until",
        "waiting",
    )

    def __init__(
        self,
        queue: MessageQueue,
        subscription: SubscriptionData,
        offset: int,
        options: ConsumerOptions,
        delivery: Delivery,
    ) -> None:
        self.queue = queue
        self.delivery = delivery  # takes the verdicts on its messages
        self.subscription = subscription
        self.next_offset = offset  # of the next pull
        self.waiting: deque[ReceivedMessage] = deque()  # not handed out yet
        self.in_hand = 0  # handed out, not finished
        # Offsets of both kinds, in order, from ``_first`` on; -1 - offset of those that are finished before the first.
        # A message knows its place: that of ``_offsets[0]`` is ``_first_place``.
        self._offsets = array("q")
        self._first = 0
        self._first_place = 0
        self._last = offset  # the last of them
        self._bytes = 0
        self._count_max = options.pull_threshold_for_queue
        self._bytes_max = options.pull_threshold_size_for_queue << 20
        self._span_max = options.consume_concurrently_max_span
        self._room: asyncio.Future[None] | None = None  # the pull loop waits until there is some
        self.is_dropped = False  # another consumer has it now: its offset is no longer reported
        self.is_paused = False
        self.is_listed = False  # among the queues that have a message to hand out
        self.broker_id = 0  # of the replica to pull from, as the broker suggests
        self.reported_offset = -1  # last reported to the broker
        self.reported_to = ""  # at which address: a master that returns does not have what was reported to a slave
        self.locked_until = 0.0  # orderly consumption: ours alone until then
        self.suspended_until = 0.0  # orderly consumption: nothing is handed out before
        self.last_pull = 0.0
        self.last_failure = ""  # of a pull, so that the same one is not logged every second
        self.pull_task: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        """Messages that are not finished."""
        return len(self._offsets) - self._first

    @property
    def size_bytes(self) -> int:
        return self._bytes

    @property
    def commit_offset(self) -> int:
        """Everything before it is finished."""
        offset: int = self._offsets[self._first] if self._first < len(self._offsets) else self.next_offset
        return offset

    def add(self, messages: list[ReceivedMessage], next_offset: int) -> None:
        """Take what a pull brought."""
        self._tidy()
        end = len(self._offsets)
        self._offsets.frombytes(bytes(8 * len(messages)))
        offsets = writable_longs_of(self._offsets)
        for message in messages:
            message.place = self._first_place + end
            self._last = message.queue_offset
            offsets.data[end] = self._last
            end += 1
            self._bytes += message.length
        self.waiting.extend(messages)
        self.next_offset = next_offset

    def hand_out(self, messages: list[ReceivedMessage], count_max: int) -> None:
        """Move messages from those that wait to the end of a list, until it has so many."""
        count = min(count_max - len(messages), len(self.waiting))
        self.in_hand += count
        take = self.waiting.popleft
        for _ in range(count):
            messages.append(take())

    def finish(self, message: ReceivedMessage) -> None:
        """A message is done with, for good or because the broker has it again."""
        if self.is_dropped:
            return
        offsets = writable_longs_of(self._offsets)
        self._finish(message, offsets)
        if self._room is not None and self.has_room:
            self.wake()

    def _finish(self, message: ReceivedMessage, offsets: Longs) -> None:
        number = message.place - self._first_place
        self.in_hand -= 1
        self._bytes -= message.length
        if number < self._first or number >= offsets.size:
            return
        if number != self._first:
            if offsets.data[number] >= 0:
                offsets.data[number] = -1 - offsets.data[number]
            return
        number += 1
        while number < offsets.size and offsets.data[number] < 0:
            number += 1
        self._first = number

    def _tidy(self) -> None:
        """Forget places that are finished."""
        first = self._first
        if first == len(self._offsets) or (first >= _CROWDED and 2 * first >= len(self._offsets)):
            del self._offsets[:first]
            self._first_place += first
            self._first = 0

    @property
    def has_room(self) -> bool:
        """Whether another pull is welcome."""
        if self.is_paused:
            return False
        count = len(self._offsets) - self._first
        if count == 0:
            return True
        if count >= self._count_max or self._bytes >= self._bytes_max:
            return False
        return self._last - self.commit_offset < self._span_max

    async def wait_for_room(self) -> None:
        while not self.has_room and not self.is_dropped:
            self._room = asyncio.get_running_loop().create_future()
            try:
                await self._room
            finally:
                self._room = None

    def wake(self) -> None:
        """Let the pull loop look again."""
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def drop(self) -> None:
        """Not ours any more."""
        self.is_dropped = True
        self.waiting.clear()
        self.wake()
        if self.pull_task is not None:
            self.pull_task.cancel()


def settle_done(messages: list[ReceivedMessage]) -> list[ReceivedMessage]:
    """Settle those messages of a batch that are simply done; the others, in order, are for the delivery."""
    others: list[ReceivedMessage] = []
    held: ProcessQueue | None = None
    offsets = writable_longs_of(_NOTHING)
    for message in messages:
        if message.is_settled:
            continue
        if message.retry_level is not None or message.process_queue is None:
            others.append(message)
            continue
        message.is_settled = True
        if message.process_queue is not held:
            if held is not None and held._room is not None and held.has_room:
                held.wake()
            held = message.process_queue
            offsets = writable_longs_of(held._offsets)
        if not held.is_dropped:
            held._finish(message, offsets)
    if held is not None and held._room is not None and held.has_room:
        held.wake()
    return others


_NOTHING = array("q")
