"""Which queue a message goes to: round robin, around brokers that were slow or failed lately.

A broker that took long, or did not answer, is left out for a while that grows with how bad it was (RocketMQ's table).
If that leaves nobody, the rule is dropped rather than the message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from flaremq.errors import UnavailableError
from flaremq.message.java_hash import java_hash
from flaremq.protocol.bodies.queue import MessageQueue

# From this latency on (seconds) a broker is shunned for so long (seconds).
_SHUNNED: Final = ((15.0, 30.0), (5.0, 10.0), (3.0, 6.0), (1.8, 5.0), (0.55, 2.0))
_FAILED: Final = 10.0  # what a send that failed counts as, in seconds of latency


class FaultTable:
    """Until when which broker is shunned."""

    __slots__ = ("_now", "_until", "is_enabled")

    def __init__(self, now: Callable[[], float], *, is_enabled: bool = True) -> None:
        self._now = now
        self._until: dict[str, float] = {}
        self.is_enabled = is_enabled

    def record(self, broker_name: str, latency: float, *, failed: bool = False) -> None:
        """A send took ``latency`` seconds, or failed."""
        if not self.is_enabled:
            return
        if failed:
            latency = max(latency, _FAILED)
        elif latency < _SHUNNED[-1][0]:
            if self._until:
                self._until.pop(broker_name, None)
            return
        self._until[broker_name] = self._now() + next(pause for least, pause in _SHUNNED if latency >= least)

    def is_shunned(self, broker_name: str) -> bool:
        until = self._until.get(broker_name)
        if until is None:
            return False
        if until <= self._now():
            del self._until[broker_name]
            return False
        return True

    @property
    def is_empty(self) -> bool:
        return not self._until


class QueueSelector:
    """Round robin over the queues of a topic."""

    __slots__ = ("_faults", "_turn")

    def __init__(self, faults: FaultTable, start: int = 0) -> None:
        self._faults = faults
        self._turn = start

    def pick(self, queues: Sequence[MessageQueue], *, last_broker: str | None = None) -> MessageQueue:
        """The next queue; not on ``last_broker``, where the message just failed, if there is another one."""
        count = len(queues)
        if not count:
            raise UnavailableError("the topic has no queue that can be written to at the moment")
        self._turn = turn = self._turn + 1
        if last_broker is None and self._faults.is_empty:
            return queues[turn % count]
        in_turn = [queues[(turn + step) % count] for step in range(count)]
        shunned = self._faults.is_shunned
        for queue in in_turn:
            if queue.broker_name != last_broker and not shunned(queue.broker_name):
                return queue
        for queue in in_turn:
            if queue.broker_name != last_broker:
                return queue
        return in_turn[0]


def queue_of_key(queues: Sequence[MessageQueue], key: str) -> MessageQueue:
    """The queue of an ordering key: the same one that Java's selector by hash takes for the same queues."""
    if not queues:
        raise UnavailableError("the topic has no queue that can be written to at the moment")
    return queues[abs(java_hash(key)) % len(queues)]
