"""Which client of a group consumes a queue in order: nobody else gets it while its lock lasts.

A lock ends by an unlock of its owner or 60 s after the owner last asked for it; owners ask every 20 s. It does not end
with a connection: a client that reconnects goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from flaremq.broker.options import BrokerOptions
from flaremq.clock import Clock
from flaremq.protocol.bodies.queue import MessageQueue

LOCK_SECONDS: Final = 60.0


class QueueLocks:
    """The locks of all groups. Event loop only."""

    def __init__(self, options: BrokerOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._locks: dict[str, dict[MessageQueue, tuple[str, float]]] = {}  # by group: owner, last asked for
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Those of the queues that the client holds now."""
        now = self._clock.monotonic()
        if self._count >= self._options.queue_locks_max:
            self.expire()
        locks = self._locks.setdefault(group, {})
        granted = []
        for queue in queues:
            held = locks.get(queue)
            if held is None:
                if self._count >= self._options.queue_locks_max:
                    continue
                self._count += 1
            elif held[0] != client_id and now - held[1] <= LOCK_SECONDS:
                continue
            locks[queue] = (client_id, now)
            granted.append(queue)
        if not locks:
            del self._locks[group]
        return granted

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Give up those of the queues that the client holds."""
        locks = self._locks.get(group)
        if locks is None:
            return
        for queue in queues:
            held = locks.get(queue)
            if held is not None and held[0] == client_id:
                del locks[queue]
                self._count -= 1
        if not locks:
            del self._locks[group]

    def owner(self, group: str, queue: MessageQueue) -> str | None:
        """Who holds a queue."""
        held = self._locks.get(group, {}).get(queue)
        if held is None or self._clock.monotonic() - held[1] > LOCK_SECONDS:
            return None
        return held[0]

    def is_ordered(self, group: str) -> bool:
        """Whether somebody holds a queue for the group."""
        oldest = self._clock.monotonic() - LOCK_SECONDS
        return any(asked >= oldest for _, asked in self._locks.get(group, {}).values())

    def expire(self) -> int:
        """Forget locks that nobody asked for any more; how many."""
        now = self._clock.monotonic()
        before = self._count
        for group, locks in list(self._locks.items()):
            dead = [queue for queue, (_, asked) in locks.items() if now - asked > LOCK_SECONDS]
            for queue in dead:
                del locks[queue]
            self._count -= len(dead)
            if not locks:
                del self._locks[group]
        return before - self._count
