"""ProcessQueue: what a consumer holds of one queue.

Messages are handed out in the order of their offsets and may be finished in any order; what is reported to the broker
is the offset below which everything is finished. So a crash repeats messages but never skips one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from flaremq.client.consumer.received import ReceivedMessage
from flaremq.client.options import ConsumerOptions
from flaremq.protocol.bodies.client import SubscriptionData
from flaremq.protocol.bodies.queue import MessageQueue

if TYPE_CHECKING:
    from flaremq.client.consumer.delivery import Delivery


class ProcessQueue:
    """One queue that belongs to this consumer at present. Event loop thread only."""

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
        self._unfinished: deque[int] = deque()  # offsets of both kinds, in order
        self._finished_early: set[int] = set()  # those of them that are finished, but not the first
        self._bytes = 0
        self._count_max = options.pull_threshold_for_queue
        self._bytes_max = options.pull_threshold_size_for_queue << 20
        self._span_max = options.consume_concurrently_max_span
        self._room: asyncio.Future[None] | None = None  # the pull loop waits until there is some
        self.is_dropped = False  # another consumer has it now: its offset is no longer reported
        self.is_paused = False
        self.is_listed = False  # among the queues that have a message to hand out
        self.broker_id = 0  # of the replica to pull from, as the broker suggests
        self.reported_offset = -1  # what the broker was last told
        self.reported_to = ""  # at which address: a master that is back does not know what a slave was told
        self.locked_until = 0.0  # orderly consumption: ours alone until then
        self.suspended_until = 0.0  # orderly consumption: nothing is handed out before
        self.last_pull = 0.0
        self.last_failure = ""  # of a pull, so that the same one is not told every second
        self.pull_task: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        """Messages that are not finished."""
        return len(self._unfinished)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    @property
    def commit_offset(self) -> int:
        """Everything before it is finished."""
        return self._unfinished[0] if self._unfinished else self.next_offset

    def add(self, messages: list[ReceivedMessage], next_offset: int) -> None:
        """Take what a pull brought."""
        self.waiting.extend(messages)
        self._unfinished.extend([message.queue_offset for message in messages])
        self._bytes += sum([len(message.record) for message in messages])
        self.next_offset = next_offset

    def finish(self, message: ReceivedMessage) -> None:
        """A message is done with, for good or because the broker has it again."""
        if self.is_dropped:
            return
        self.in_hand -= 1
        self._bytes -= len(message.record)
        unfinished, offset = self._unfinished, message.queue_offset
        if unfinished[0] != offset:
            self._finished_early.add(offset)
        else:
            unfinished.popleft()
            early = self._finished_early
            while early and unfinished and unfinished[0] in early:
                early.discard(unfinished.popleft())
        if self._room is not None and self.has_room:
            self.wake()

    @property
    def has_room(self) -> bool:
        """Whether another pull is welcome."""
        unfinished = self._unfinished
        if self.is_paused:
            return False
        if not unfinished:
            return True
        return (
            len(unfinished) < self._count_max
            and self._bytes < self._bytes_max
            and unfinished[-1] - unfinished[0] < self._span_max
        )

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
