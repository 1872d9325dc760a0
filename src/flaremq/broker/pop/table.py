"""Everything that is handed out and not settled yet, and how far each group may be said to have come.

A group's committed offset in a queue may only pass a message that is settled or that a stored check point answers for:
then a crash loses nothing, whatever part of memory was ahead of the disk. So the check points of a queue wait in the
order of their pops, and the offset follows as its front becomes settled or stored. Most are settled within moments and
never stored at all.

Stored is not durable: an offset that passed a check point because of a record (its own, or a copy of a message that is
given again) is *held* until the log is durable that far, and only then committed.

After a crash the committed offsets may be older than the log. What the log then says was handed out is *covered*: it is
not handed out again from the queue but acknowledged already, or given again when its time comes.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from flaremq.broker.pop.check_point import Key, PopCheckPoint, QueueKey

if TYPE_CHECKING:
    from flaremq.broker.catalog.consumer_offsets import ConsumerOffsets

CHECK_POINTS_MAX: Final = 200_000  # as popCkMaxBufferSize; here of all that wait, stored or not
WAITING_PER_QUEUE_MAX: Final = 20_000  # as popCkOffsetMaxQueueSize


class PopQueue:
    """One group in one queue."""

    __slots__ = ("covered", "covered_end", "is_busy", "is_wanted", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[PopCheckPoint] = deque()  # in the order of their pops
        self.covered: set[int] = set()
        self.covered_end = 0  # beyond all of them
        self.is_busy = False  # a pop is reading it on another thread
        self.is_wanted = False  # and another pop found it busy

    @property
    def is_idle(self) -> bool:
        return not (self.waiting or self.covered or self.is_busy)


@dataclass(slots=True, eq=False)
class HeldOffset:
    """Where a group has come, once the log is durable up to ``reach``."""

    offset: int
    reach: int


class PopTable:
    """The check points that wait. Event loop only."""

    __slots__ = ("_by_key", "_due", "_flushed_offset", "_fresh", "_held", "_number", "_offsets", "_queues", "reach")

    def __init__(self, offsets: ConsumerOffsets, flushed_offset: Callable[[], int]) -> None:
        self._offsets = offsets
        self._flushed_offset = flushed_offset  # up to where the log is durable
        self._held: dict[QueueKey, HeldOffset] = {}
        self.reach = 0  # end of the newest record that any offset depends on
        self._by_key: dict[Key, PopCheckPoint] = {}
        self._queues: dict[QueueKey, PopQueue] = {}
        self._due: list[tuple[int, int, PopCheckPoint]] = []  # heap by the end of the invisible time
        self._fresh: deque[tuple[float, PopCheckPoint]] = deque()  # not stored, by the time of the pop (steady clock)
        self._number = count()  # the heap never compares check points

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def waiting_count(self) -> int:
        """Check points that an offset waits for."""
        return sum(len(queue.waiting) for queue in self._queues.values())

    @property
    def is_full(self) -> bool:
        return len(self._by_key) >= CHECK_POINTS_MAX

    def find(self, key: Key) -> PopCheckPoint | None:
        return self._by_key.get(key)

    def find_queue(self, key: QueueKey) -> PopQueue | None:
        return self._queues.get(key)

    def queue(self, key: QueueKey) -> PopQueue:
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = PopQueue()
        return queue

    def release(self, key: QueueKey) -> None:
        """Forget a queue in which nothing goes on."""
        queue = self._queues.get(key)
        if queue is not None and queue.is_idle:
            del self._queues[key]

    def next_offset(self, key: QueueKey, committed: int) -> int:
        """Where the next pop of the group begins."""
        held = self._held.get(key)
        if held is not None:
            committed = max(committed, held.offset)
        queue = self._queues.get(key)
        return committed if queue is None or not queue.waiting else max(committed, queue.waiting[-1].next_offset)

    # Coming in

    def add(self, point: PopCheckPoint, monotonic: float) -> None:
        """A pop handed these out."""
        self._by_key[point.key] = point
        self.queue(point.queue_key).waiting.append(point)
        point.is_waiting = True
        self._fresh.append((monotonic, point))
        self.schedule(point, point.revive_time)

    def add_stored(self, point: PopCheckPoint, now_ms: int) -> None:
        """A check point that has its record; no offset waits for it."""
        if not point.is_done:
            self._by_key[point.key] = point
            # It may be of before the clock was set back.
            self.schedule(point, min(point.revive_time, now_ms + point.invisible_time))

    def skip(self, key: QueueKey, next_offset: int) -> None:
        """Nothing up to this offset is for the group."""
        queue = self._queues.get(key)
        if queue is not None and queue.waiting:
            last = queue.waiting[-1]
            last.next_offset = max(last.next_offset, next_offset)
        else:
            self._pass(key, next_offset, 0)

    def move(self, key: QueueKey, offset: int) -> None:
        """The queue does not have what lies between: the group goes on here, whatever was held."""
        self._held.pop(key, None)
        self._offsets.commit(key[1], key[0], key[2], offset)

    def cover(self, key: QueueKey, offsets: Iterable[int]) -> set[int] | None:
        """The log answers for these: the queue's covered offsets, if any of these is among them."""
        committed = self._offsets.find(key[1], key[0], key[2])
        ahead = {offset for offset in offsets if offset >= committed}
        if not ahead:
            return None
        queue = self.queue(key)
        queue.covered |= ahead
        queue.covered_end = max(queue.covered_end, max(ahead) + 1)
        return queue.covered

    # Going out

    def advance(self, point: PopCheckPoint) -> None:
        """Something about it changed: forget it if it is done, and let the offset follow."""
        if point.is_done:
            self._by_key.pop(point.key, None)
        queue = self._queues.get(point.queue_key)
        if queue is None:
            return
        offset, reach = -1, 0
        while queue.waiting and (queue.waiting[0].is_done or queue.waiting[0].is_stored):
            passed = queue.waiting.popleft()
            passed.is_waiting = False
            offset, reach = passed.next_offset, max(reach, passed.reach)
        if offset >= 0:
            self._pass(point.queue_key, offset, reach)
            self.release(point.queue_key)

    def depend(self, point: PopCheckPoint, reach: int) -> None:
        """The offset may pass this check point only when the log is durable up to ``reach``."""
        point.reach = max(point.reach, reach)
        self.reach = max(self.reach, reach)

    def reset(self, key: QueueKey) -> None:
        """The group goes on elsewhere in this queue; what it holds is no longer about its offset."""
        self._held.pop(key, None)
        queue = self._queues.get(key)
        if queue is not None:
            for point in queue.waiting:
                point.is_covering = point.is_waiting = False
            queue.waiting.clear()
            queue.covered.clear()
            self.release(key)

    def _pass(self, key: QueueKey, offset: int, reach: int) -> None:
        held = self._held.get(key)
        if held is not None:
            held.offset, held.reach = max(held.offset, offset), max(held.reach, reach)
        elif reach > self._flushed_offset():
            self._held[key] = HeldOffset(offset, reach)
        else:
            self._commit(key, offset)

    def held(self) -> list[tuple[QueueKey, HeldOffset, int]]:
        """What is held now, for :meth:`commit_held` when the log is durable up to what is now ``reach``."""
        return [(key, held, held.offset) for key, held in self._held.items()]

    def commit_held(self, durable: Iterable[tuple[QueueKey, HeldOffset, int]]) -> None:
        """The log is durable for these; what came on top meanwhile stays held."""
        for key, held, offset in durable:
            if self._held.get(key) is not held:
                continue  # the group was moved
            if held.offset == offset:
                del self._held[key]
            topic, group, queue_id = key
            if self._offsets.find(group, topic, queue_id) >= 0:  # else the group or topic was deleted
                self._commit(key, offset)
                self.release(key)

    def _commit(self, key: QueueKey, offset: int) -> None:
        topic, group, queue_id = key
        if offset > self._offsets.find(group, topic, queue_id):
            self._offsets.commit(group, topic, queue_id, offset)
            queue = self._queues.get(key)
            if queue is not None and queue.covered and offset >= queue.covered_end:
                queue.covered.clear()

    # By time

    def schedule(self, point: PopCheckPoint, at_ms: int) -> None:
        """Look at it again then."""
        heapq.heappush(self._due, (at_ms, next(self._number), point))
        if len(self._due) > 4 * len(self._by_key) + 1024:  # mostly long settled
            self._due = [entry for entry in self._due if not entry[2].is_done]
            heapq.heapify(self._due)

    def set_back(self, back_ms: int) -> None:
        """The clock was set back: what is hidden must not stay so for longer."""
        self._due = [(at_ms - back_ms, number, point) for at_ms, number, point in self._due]

    def take_due(self, now_ms: int, count_max: int) -> list[PopCheckPoint]:
        """Check points whose invisible time is over."""
        due = self._due
        found: list[PopCheckPoint] = []
        while due and due[0][0] <= now_ms and len(found) < count_max:
            point = heapq.heappop(due)[2]
            if not point.is_done or (point.is_stored and not point.is_closed):
                found.append(point)
        return found

    def take_fresh(self, popped_before: float, count_max: int) -> list[PopCheckPoint]:
        """Check points of before that moment of the steady clock which have no record and need one."""
        fresh = self._fresh
        found: list[PopCheckPoint] = []
        while fresh and len(found) < count_max:
            popped, point = fresh[0]
            settled = point.is_done or point.is_stored
            if popped > popped_before and not settled:
                break
            fresh.popleft()
            if not settled:
                found.append(point)
        return found

    def put_back(self, point: PopCheckPoint) -> None:
        """It could not be stored: try again."""
        self._fresh.appendleft((0.0, point))
