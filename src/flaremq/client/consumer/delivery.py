"""Delivery: messages from the queues a consumer holds to the loops that consume them.

Any number of loops may iterate; each has at most one message (or batch) in hand and settles it by asking for the next.
Orderly consumption differs in one rule only: a queue whose message is in some hand offers no other.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable
from typing import Final

from flaremq.client.consumer.process_queue import ProcessQueue, settle_done
from flaremq.client.consumer.received import ReceivedMessage, Returning
from flaremq.errors import InvalidArgumentError

_TURN: Final = (
    31  # after so many messages (plus one) another queue has its turn, and other tasks of the loop have theirs
)


class Delivery:
    """Hands messages out and takes verdicts back. Event loop thread only."""

    def __init__(
        self,
        failed: Callable[[ReceivedMessage], asyncio.Task[None] | None],
        now: Callable[[], float],
        *,
        is_orderly: bool = False,
    ) -> None:
        self._failed = failed  # what to do with a message that is to come again; the task that does it
        self._loop = asyncio._get_running_loop()  # None where no loop runs: then there is one thread
        self._now = now
        self._is_orderly = is_orderly
        self._ready: deque[ProcessQueue] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._direct: deque[ReceivedMessage] = deque()  # sent here by an operator, outside of any queue
        self._turn = 0
        self.is_closed = False
        self.iterators: weakref.WeakSet[MessageIterator] = weakref.WeakSet()

    def offer(self, queue: ProcessQueue) -> None:
        """A queue may have something to hand out."""
        if queue.is_listed or not queue.waiting or queue.is_dropped or queue.is_paused:
            return
        if self._is_orderly and (queue.in_hand or queue.suspended_until > self._now()):
            return
        queue.is_listed = True
        self._ready.append(queue)
        for _ in range(1 if self._is_orderly else min(len(queue.waiting), len(self._waiters))):
            self._wake_one()

    def take(self) -> ReceivedMessage | None:
        """The next message, if there is one."""
        if self._direct:
            return self._direct.popleft()
        ready = self._ready
        while ready:
            queue = ready[0]
            waiting = queue.waiting
            if not waiting or queue.is_paused or (self._is_orderly and queue.locked_until <= self._now()):
                ready.popleft()
                queue.is_listed = False
                continue
            message = waiting.popleft()
            queue.in_hand += 1
            if self._is_orderly or not waiting:
                ready.popleft()
                queue.is_listed = False
            else:
                self._turn += 1
                if not self._turn & _TURN:
                    ready.rotate(-1)
            return message
        return None

    def take_more(self, messages: list[ReceivedMessage], count_max: int) -> None:
        """Add the next messages to a list until it has so many, or there are no more."""
        ready = self._ready
        while len(messages) < count_max and (ready or self._direct):
            if self._direct or self._is_orderly:
                message = self.take()
                if message is None:
                    return
                messages.append(message)
                continue
            queue = ready[0]
            if queue.waiting and not queue.is_paused:
                queue.hand_out(messages, count_max)
                if queue.waiting:
                    ready.rotate(-1)
                    continue
            ready.popleft()
            queue.is_listed = False

    async def next(self) -> ReceivedMessage:
        """The next message; ``StopAsyncIteration`` once the consumer is closed."""
        while True:
            message = self.take()
            if message is not None:
                return message
            if self.is_closed:
                raise StopAsyncIteration
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():  # woken and cancelled at once: let another one go
                    self._wake_one()
                raise

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def settle_all(self, messages: list[ReceivedMessage]) -> None:
        """A loop is through with these messages."""
        for message in messages if self._is_orderly else settle_done(messages):
            self.settle(message)

    def settle(self, message: ReceivedMessage) -> asyncio.Task[None] | None:
        """A loop is through with a message; the task that brings it back to the broker, if it failed."""
        if message.is_settled:
            return None
        message.is_settled = True
        queue = message.process_queue
        if queue is None:
            message.settle_alone(is_done=message.retry_level is None)
        elif message.retry_level is not None:
            return self._failed(message)
        else:
            queue.finish(message)
            if self._is_orderly:
                self.offer(queue)
        return None

    def return_now(self, message: ReceivedMessage) -> Returning:
        """Bring a failed message back without waiting for its loop to go on. Any thread; another than the event loop's
        waits until the broker has it. Where order counts, the loop that has it must be through with it first."""
        loop = self._loop
        if self._is_orderly or (loop is not None and loop.is_closed()):
            return Returning(None)
        if loop is None or asyncio._get_running_loop() is loop:
            return Returning(self.settle(message))
        asyncio.run_coroutine_threadsafe(self._settled(message), loop).result()
        return Returning(None)

    async def _settled(self, message: ReceivedMessage) -> None:
        await Returning(self.settle(message))

    def finish_now(self, message: ReceivedMessage) -> None:
        """Let a message count as done. Any thread."""
        loop = self._loop
        if loop is None or asyncio._get_running_loop() is loop:
            self.settle(message)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(self.settle, message)

    def hand_over(self, message: ReceivedMessage) -> asyncio.Future[bool]:
        """Deliver one message that is of no queue; the future says whether it went well."""
        outcome: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        message.outcome = outcome
        self._direct.append(message)
        self._wake_one()
        return outcome

    def withdraw(self, message: ReceivedMessage) -> bool:
        """Take back a message of :meth:`hand_over` that nobody has taken."""
        if message not in self._direct:
            return False
        self._direct.remove(message)
        return True

    def give_back(self, message: ReceivedMessage, *, is_attempt: bool = True) -> None:
        """Put a message that was in hand in front of its queue again; :meth:`offer` hands it out once more."""
        queue = message.process_queue
        if queue is None or queue.is_dropped:
            return
        message.is_settled = message.is_decided = False
        message.retry_level = None
        message.times_here += is_attempt
        queue.in_hand -= 1
        queue.waiting.appendleft(message)

    def abandon(self, messages: list[ReceivedMessage]) -> None:
        """Messages whose loop is gone."""
        for message in messages:
            if not message.is_settled:
                if message.retry_level is None:
                    message.retry_level = 0
                self.settle(message)

    def close(self) -> None:
        """End all loops."""
        self.is_closed = True
        self._ready.clear()
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class MessageIterator:
    """What a loop over messages has in hand.

    A loop that is left (by ``break``, or because its body raised) is gone with its message unsettled; which of the two
    it was cannot be known here, so the message counts as failed. Those who break call ``message.ack()`` before.
    """

    __slots__ = ("__weakref__", "_delivery", "_event_loop", "in_hand", "in_hand_since", "last_seen")

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._event_loop = asyncio.get_running_loop()
        self.in_hand: list[ReceivedMessage] = []
        self.last_seen: ReceivedMessage | None = None  # the first in hand when the consumer last looked
        self.in_hand_since = 0.0  # since when it was seen there
        delivery.iterators.add(self)

    def __del__(self) -> None:
        if not self.in_hand or self._delivery.is_closed or self._event_loop.is_closed():
            return
        if asyncio._get_running_loop() is self._event_loop:
            self._delivery.abandon(self.in_hand)
        else:
            self._event_loop.call_soon_threadsafe(self._delivery.abandon, self.in_hand)


class Deliveries(MessageIterator):
    """One loop over the messages of a consumer; made by ``async for``."""

    __slots__ = ("_count",)

    def __init__(self, delivery: Delivery) -> None:
        super().__init__(delivery)
        self._count = 0

    def __aiter__(self) -> Deliveries:
        return self

    async def __anext__(self) -> ReceivedMessage:
        delivery, in_hand = self._delivery, self.in_hand
        if in_hand:
            delivery.settle(in_hand.pop())
        self._count = count = self._count + 1
        if not count & _TURN:
            await asyncio.sleep(0)
        message = delivery.take()
        if message is None:
            message = await delivery.next()
        in_hand.append(message)
        return message


class Receiver(MessageIterator):
    """Messages one at a time, for a caller that wants to wait so long and no longer."""

    __slots__ = ("_is_waiting",)

    def __init__(self, delivery: Delivery) -> None:
        super().__init__(delivery)
        self._is_waiting = False

    async def receive(self, timeout: float | None) -> ReceivedMessage | None:
        """The next message; None if none comes in so many seconds, or the consumer is closed. What was in hand is
        done."""
        if self._is_waiting:
            raise InvalidArgumentError("another task waits in receive(): give each a loop of its own, or use run()")
        self.settle_all()
        message = self._delivery.take()
        if message is None and (timeout is None or timeout > 0):
            self._is_waiting = True
            try:
                async with asyncio.timeout(timeout):
                    message = await self._delivery.next()
            except (TimeoutError, StopAsyncIteration):
                return None
            finally:
                self._is_waiting = False
        if message is not None:
            self.in_hand.append(message)
        return message

    def settle_all(self) -> None:
        """What is in hand is done."""
        while self.in_hand:
            self._delivery.settle(self.in_hand.pop())


class BatchDeliveries(MessageIterator):
    """One loop over lists of messages; a list is settled as a whole, but for those marked by ``retry()``."""

    __slots__ = ("_count_max",)

    def __init__(self, delivery: Delivery, count_max: int) -> None:
        super().__init__(delivery)
        self._count_max = count_max

    def __aiter__(self) -> BatchDeliveries:
        return self

    async def __anext__(self) -> list[ReceivedMessage]:
        delivery = self._delivery
        in_hand, self.in_hand = self.in_hand, []
        delivery.settle_all(in_hand)
        del in_hand
        await asyncio.sleep(0)
        messages = [await delivery.next()]
        delivery.take_more(messages, self._count_max)
        self.in_hand = list(messages)
        return messages


class MessageExchange(MessageIterator):
    """The loop of another thread: messages it is through with for messages it has not seen, some at a time."""

    __slots__ = ()

    async def exchange(self, done: list[ReceivedMessage], count_max: int) -> list[ReceivedMessage]:
        """Settle ``done`` and hand out up to ``count_max`` messages, at least one."""
        delivery = self._delivery
        self.settle(done)
        messages = [await delivery.next()]
        delivery.take_more(messages, count_max)
        self.in_hand += messages
        return messages

    def settle(self, done: list[ReceivedMessage]) -> None:
        self._delivery.settle_all(done)
        self.in_hand = [message for message in self.in_hand if not message.is_settled]

    def leave(self, current: list[ReceivedMessage]) -> None:
        """The loop was left with ``current`` in hand; what it has not looked at is handed out to others."""
        self._delivery.abandon(current)
        unseen = [message for message in self.in_hand if not message.is_settled]
        self.in_hand = []
        for message in reversed(unseen):
            self._delivery.give_back(message, is_attempt=False)
        for message in unseen:
            if message.process_queue is not None:
                self._delivery.offer(message.process_queue)
