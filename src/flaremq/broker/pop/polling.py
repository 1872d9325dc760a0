"""Pops that found nothing and wait: woken when a message arrives, ended when their time is over.

Polls wait per topic, group and queue asked for (``ANY_QUEUE``: whichever). A message that arrives wakes the poll that
has waited longest for any queue and the one that has waited longest for its queue; if there is more than they take,
they wake the next. A message that arrives in a group's retry topic wakes a poll for the topic itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from flaremq.broker.long_polling.waiting_room import WaitingRequest, WaitingRoom
from flaremq.broker.pop.receipts import RETRY_V1, RETRY_V2, real_topic
from flaremq.protocol.queue_allocation import ANY_QUEUE

if TYPE_CHECKING:
    from flaremq.broker.store_loop.dispatching import Dispatching
    from flaremq.clock import Clock


@dataclass(slots=True, eq=False)
class Poll(WaitingRequest):
    """A pop or notification that waits until ``deadline`` of the monotonic clock."""

    _: KW_ONLY
    deadline: float
    again: Callable[[Poll], None]  # called when it is woken or its time is over, on the event loop


class PopPolling:
    """The polls of one kind. Event loop only."""

    __slots__ = ("_dispatching", "_held", "_retry", "_room")

    def __init__(self, dispatching: Dispatching, clock: Clock) -> None:
        self._dispatching = dispatching
        self._room: WaitingRoom[Poll] = WaitingRoom(
            dispatching, now=clock.monotonic, on_deadline=self._try_again, on_removal=self._leave_queue
        )
        # topic -> group -> queue id -> polls, longest waiting first (a dict keeps that order and drops in one step)
        self._held: dict[str, dict[str, dict[int, dict[Poll, None]]]] = {}
        self._retry: dict[str, tuple[str, str]] = {}  # retry topic -> topic and group that wait for it

    def __len__(self) -> int:
        return self._room.size

    def count(self, topic: str, group: str, queue_id: int) -> int:
        """Polls that wait for this."""
        return len(self._held.get(topic, {}).get(group, {}).get(queue_id, ()))

    def hold(self, poll: Poll, *, count_max: int, total_max: int) -> bool:
        """Let a request wait; False if too many do already."""
        if self._room.size >= total_max or self.count(poll.topic, poll.group, poll.queue_id) > count_max:
            return False
        if not self._room.add(poll, poll.deadline):
            return True  # its client is gone and gets no answer
        groups = self._held.setdefault(poll.topic, {})
        queues = groups.get(poll.group)
        if queues is None:
            queues = groups[poll.group] = {}
            for retry_topic in _retry_topics(poll):
                self._retry[retry_topic] = (poll.topic, poll.group)
                self._dispatching.await_topic(retry_topic)
        queues.setdefault(poll.queue_id, {})[poll] = None
        return True

    def arrived(self, queues: set[tuple[str, int]]) -> None:
        """Messages have come into these queues."""
        if not self._room.size:
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
            self._try_again(poll)
            if poll.connection.is_open:
                return True
        return False

    def expire(self) -> None:
        """Answer those whose time is over."""
        self._room.expire()

    def close(self) -> None:
        """Answer everybody now."""
        for poll in self._room.everything():
            self._try_again(poll)
        self._room.close()

    def _try_again(self, poll: Poll) -> int:
        self._room.remove(poll)
        if poll.connection.is_open:
            poll.again(poll)
        return 0  # it is answered later

    def _leave_queue(self, poll: Poll) -> None:
        groups = self._held[poll.topic]
        queues = groups[poll.group]
        polls = queues[poll.queue_id]
        del polls[poll]
        if polls:
            return
        del queues[poll.queue_id]
        if queues:
            return
        del groups[poll.group]
        for retry_topic in _retry_topics(poll):
            if self._retry.pop(retry_topic, None) is not None:
                self._dispatching.forget_topic(retry_topic)
        if not groups:
            del self._held[poll.topic]


def _retry_topics(poll: Poll) -> list[str]:
    return [real_topic(poll.topic, poll.group, retry) for retry in (RETRY_V1, RETRY_V2)]
