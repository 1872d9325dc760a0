"""Pops that found nothing and wait: woken when a message arrives, given up when their time is over.

Polls wait per topic, group and queue asked for (-1: any). A message that arrives wakes the one that has waited longest
for any queue and the one that has waited longest for just that queue; if there is more than they take, they wake the
next. A message that arrives in a group's retry topic wakes whoever waits for the topic itself.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from flaremq.broker.pop.receipts import RETRY_V1, RETRY_V2, real_topic

if TYPE_CHECKING:
    from flaremq.broker.store_loop.dispatching import Dispatching
    from flaremq.clock import Clock
    from flaremq.protocol.command import RemotingCommand
    from flaremq.remoting.connection import Connection

ANY_QUEUE = -1


class Poll:
    """A request that waits."""

    __slots__ = ("again", "connection", "deadline", "group", "is_held", "queue_id", "request", "topic")

    def __init__(
        self,
        connection: Connection,
        request: RemotingCommand,
        *,
        topic: str,
        group: str,
        queue_id: int,
        deadline: float,
        again: Callable[[Poll], None],
    ) -> None:
        self.connection = connection
        self.request = request
        self.topic = topic
        self.group = group
        self.queue_id = queue_id
        self.deadline = deadline  # of the monotonic clock
        self.again = again  # called when it is woken or its time is over, on the event loop
        self.is_held = False


class PopPolling:
    """The polls of one kind. Event loop only."""

    __slots__ = ("_clock", "_deadlines", "_dispatching", "_held", "_number", "_retry", "_total")

    def __init__(self, dispatching: Dispatching, clock: Clock) -> None:
        self._dispatching = dispatching
        self._clock = clock
        # topic -> group -> queue id -> polls, longest waiting first (a dict keeps that order and drops in one step)
        self._held: dict[str, dict[str, dict[int, dict[Poll, None]]]] = {}
        self._retry: dict[str, tuple[str, str]] = {}  # retry topic -> topic and group that wait for it
        self._deadlines: list[tuple[float, int, Poll]] = []
        self._number = count()
        self._total = 0

    def __len__(self) -> int:
        return self._total

    def count(self, topic: str, group: str, queue_id: int) -> int:
        """Polls that wait for this."""
        return len(self._held.get(topic, {}).get(group, {}).get(queue_id, ()))

    def hold(self, poll: Poll, *, count_max: int, total_max: int) -> bool:
        """Let a request wait; False if too many do already."""
        if self._total >= total_max or self.count(poll.topic, poll.group, poll.queue_id) > count_max:
            return False
        groups = self._held.setdefault(poll.topic, {})
        queues = groups.get(poll.group)
        if queues is None:
            queues = groups[poll.group] = {}
            for retry in (RETRY_V1, RETRY_V2):
                retry_topic = real_topic(poll.topic, poll.group, retry)
                self._retry[retry_topic] = (poll.topic, poll.group)
                self._dispatching.await_topic(retry_topic)
        queues.setdefault(poll.queue_id, {})[poll] = None
        poll.is_held = True
        self._total += 1
        self._dispatching.await_topic(poll.topic)
        heapq.heappush(self._deadlines, (poll.deadline, next(self._number), poll))
        if len(self._deadlines) > 4 * self._total + 1024:  # mostly woken since
            self._deadlines = [entry for entry in self._deadlines if entry[2].is_held]
            heapq.heapify(self._deadlines)
        return True

    def arrived(self, queues: set[tuple[str, int]]) -> None:
        """Messages have come into these queues."""
        if not self._total:
            return
        for topic, queue_id in queues:
            for group in list(self._held.get(topic, ())):
                self.wake(topic, group, queue_id)
            if topic in self._retry:
                self.wake_any(*self._retry[topic])

    def wake(self, topic: str, group: str, queue_id: int) -> None:
        """There may be something for the group in this queue."""
        queues = self._held.get(topic, {}).get(group)
        if queues is None:
            if topic in self._retry:
                self.wake_any(*self._retry[topic])
            return
        self._wake_first(queues.get(ANY_QUEUE))
        if queue_id != ANY_QUEUE:
            self._wake_first(queues.get(queue_id))

    def wake_same(self, topic: str, group: str, queue_id: int) -> None:
        """There is more than a poll took: let the next of its kind have it."""
        self._wake_first(self._held.get(topic, {}).get(group, {}).get(queue_id))

    def wake_any(self, topic: str, group: str) -> None:
        """There is something that any poll of the group for this topic may have."""
        for polls in list(self._held.get(topic, {}).get(group, {}).values()):
            if self._wake_first(polls):
                return

    def _wake_first(self, polls: dict[Poll, None] | None) -> bool:
        while polls:
            poll = next(iter(polls))
            self._release(poll)
            if poll.connection.is_open:
                poll.again(poll)
                return True
        return False

    def expire(self) -> None:
        """Give up those whose time is over; forget those whose client is gone."""
        now = self._clock.monotonic()
        while self._deadlines and self._deadlines[0][0] <= now:
            poll = heapq.heappop(self._deadlines)[2]
            if poll.is_held:
                self._release(poll)
                if poll.connection.is_open:
                    poll.again(poll)

    def forget_closed(self) -> None:
        """Forget the polls of clients that are gone; a client may have asked to wait for long."""
        for _, _, poll in list(self._deadlines):
            if poll.is_held and not poll.connection.is_open:
                self._release(poll)

    def close(self) -> None:
        """Answer everybody now."""
        for _, _, poll in sorted(self._deadlines):
            if poll.is_held:
                self._release(poll)
                if poll.connection.is_open:
                    poll.again(poll)
        self._deadlines.clear()

    def _release(self, poll: Poll) -> None:
        groups = self._held[poll.topic]
        queues = groups[poll.group]
        polls = queues[poll.queue_id]
        del polls[poll]
        poll.is_held = False
        self._total -= 1
        self._dispatching.forget_topic(poll.topic)
        if not polls:
            del queues[poll.queue_id]
            if not queues:
                del groups[poll.group]
                for retry in (RETRY_V1, RETRY_V2):
                    retry_topic = real_topic(poll.topic, poll.group, retry)
                    if self._retry.pop(retry_topic, None) is not None:
                        self._dispatching.forget_topic(retry_topic)
                if not groups:
                    del self._held[poll.topic]
