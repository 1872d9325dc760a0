"""WaitingRoom: requests that found nothing, kept until messages arrive, their time is over or their connection closes.

Held pulls, pops and notifications are kept the same way: one heap of deadlines with one timer for the earliest, an
index by connection, and a note at dispatching for each topic that is waited for. Nothing is polled. Which of them an
arrival concerns is known to their service alone (``held_pulls``, ``pop.polling``).

The deadlines that fall together are handled in slices of bounded time and bytes, so the loop serves others in between.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from flaremq.broker.store_loop.dispatching import Dispatching
    from flaremq.protocol.command import RemotingCommand
    from flaremq.remoting.connection import Connection

_SLICE_SECONDS: Final = 0.01
_SLICE_BYTES: Final = 1 << 20  # answered in one go, before it can be seen which connections are read
_TIMER_SECONDS_MIN: Final = 0.001  # timers of uvloop have whole milliseconds and may fire before the deadline


@dataclass(slots=True, eq=False)
class WaitingRequest:
    """A request that waits for messages of a queue; ``group`` is the one that asked."""

    connection: Connection
    request: RemotingCommand
    group: str
    topic: str
    queue_id: int
    is_over: bool = field(default=False, kw_only=True)  # it waits no longer


_Waiting = TypeVar("_Waiting", bound=WaitingRequest)


class WaitingRoom(Generic[_Waiting]):
    """All waiting requests of one kind. Event loop only."""

    def __init__(
        self,
        dispatching: Dispatching,
        *,
        now: Callable[[], float] | None = None,
        on_deadline: Callable[[_Waiting], int],
        on_removal: Callable[[_Waiting], None],
    ) -> None:
        self._dispatching = dispatching
        self._loop = asyncio.get_running_loop()
        self.now = now or self._loop.time  # seconds; deadlines are readings of it
        self._on_deadline = on_deadline  # handles one whose time is over: removes it; the bytes of its answer
        self._on_removal = on_removal
        self.by_connection: dict[Connection, dict[_Waiting, None]] = {}  # until it closes
        self._deadlines: list[tuple[float, int, _Waiting]] = []
        self._order = count()
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        self.size = 0

    def add(self, waiting: _Waiting, deadline: float) -> bool:
        """Keep a request; False if its connection is closed, so that nothing would ever end it."""
        connection = waiting.connection
        if not connection.is_open:
            return False
        own = self.by_connection.get(connection)
        if own is None:
            own = self.by_connection[connection] = {}
            connection.on_close.append(self._closed)
        own[waiting] = None
        waiting.request.was_held = True
        self.size += 1
        self._dispatching.await_topic(waiting.topic)
        heapq.heappush(self._deadlines, (deadline, next(self._order), waiting))
        if self._timer is None or deadline < self._timer_at:
            self._set_timer(deadline)
        return True

    def remove(self, waiting: _Waiting) -> bool:
        """It is answered, or not to be answered any more; False if it was removed before."""
        own = self.by_connection.get(waiting.connection)
        if own is None or waiting not in own:
            return False
        del own[waiting]
        waiting.is_over = True
        self.size -= 1
        self._dispatching.forget_topic(waiting.topic)
        self._on_removal(waiting)
        if len(self._deadlines) > 1024 and len(self._deadlines) > 4 * self.size:
            self._deadlines = [entry for entry in self._deadlines if not entry[2].is_over]
            heapq.heapify(self._deadlines)
        return True

    def everything(self) -> list[_Waiting]:
        return [waiting for own in self.by_connection.values() for waiting in own]

    def expire(self) -> None:
        """Handle those whose time is over. The timer calls it, and who moves a clock by hand."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now, part = self.now(), Slice()
        while self._deadlines and self._deadlines[0][0] <= now:
            waiting = heapq.heappop(self._deadlines)[2]
            if not waiting.is_over and part.is_used_up(self._on_deadline(waiting)):
                self._timer_at = now
                self._timer = self._loop.call_soon(self.expire)
                return
        if self._deadlines:
            self._set_timer(self._deadlines[0][0])

    def close(self) -> None:
        """No deadline is kept any more."""
        self._deadlines.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _closed(self, connection: Connection) -> None:
        for waiting in list(self.by_connection.get(connection, ())):
            self.remove(waiting)
        self.by_connection.pop(connection, None)

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_later(max(deadline - self.now(), _TIMER_SECONDS_MIN), self.expire)


class Slice:
    """What may be done in one turn of the loop."""

    __slots__ = ("_bytes", "_until")

    def __init__(self) -> None:
        self._until = monotonic() + _SLICE_SECONDS
        self._bytes = _SLICE_BYTES

    def is_used_up(self, sent_bytes: int) -> bool:
        """Count one more that was tried; True if the others come in the next turn."""
        self._bytes -= sent_bytes
        return self._bytes <= 0 or monotonic() > self._until
