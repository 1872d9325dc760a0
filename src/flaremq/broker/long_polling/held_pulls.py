"""PullRequestHoldService: pulls that found nothing and wait for something.

A held pull costs one small object. It is looked at when its queue grows, told by dispatch, and when its time is over,
told by one timer for the earliest of all; nothing is polled. Arrivals that its filter does not want move it forward
without an answer, so a rare tag does not make its consumer busy. It ends with its connection.

However many are woken at once, the loop serves others in between: they are tried in slices of bounded time and bytes.
Those of a client that does not read its replies stay where they are until it reads, so its answers fill no memory.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Final

from flaremq.remoting.handlers import error_response

if TYPE_CHECKING:
    from flaremq.broker.long_polling.pull_request import HeldPull
    from flaremq.broker.store_loop.dispatching import Dispatching
    from flaremq.remoting.connection import Connection

PER_CONNECTION_MAX: Final = 4096  # pulls one connection may have waiting
_SLICE_SECONDS: Final = 0.01
_SLICE_BYTES: Final = 1 << 20  # answered in one go, before it can be seen who reads

Attempt = Callable[["HeldPull", bool], bool]  # (pull, answer whatever is there) -> answered


class PullRequestHoldService:
    """All held pulls of a broker. Event loop only."""

    def __init__(self, dispatching: Dispatching, attempt: Attempt) -> None:
        self._dispatching = dispatching
        self._attempt = attempt
        self._held: dict[tuple[str, int], dict[HeldPull, None]] = {}
        self._of_connection: dict[Connection, dict[HeldPull, None]] = {}  # until it closes
        self._deadlines: list[tuple[float, int, HeldPull]] = []
        self._order = count()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        self._round: Iterator[HeldPull] | None = None  # those being tried, over several slices
        self._grown: dict[tuple[str, int], None] = {}  # queues for the next round
        self._reading: dict[Connection, None] = {}  # connections for the next round: they read again
        self._stalled: dict[Connection, asyncio.Future[None]] = {}  # whom we wait for to read
        self.size = 0
        dispatching.on_arrival.append(self.arrived)

    def has_room(self, connection: Connection) -> bool:
        """Whether the connection may have one more pull waiting."""
        return len(self._of_connection.get(connection, ())) < PER_CONNECTION_MAX

    def hold(self, pull: HeldPull, seconds: float) -> None:
        """Keep a pull until its queue grows, its time is over or its connection is."""
        connection = pull.connection
        own = self._of_connection.get(connection)
        if own is None:
            own = self._of_connection[connection] = {}
            connection.on_close.append(self._gone)
        own[pull] = None
        self._held.setdefault((pull.topic, pull.queue_id), {})[pull] = None
        self.size += 1
        self._dispatching.await_topic(pull.topic)
        deadline = self._loop.time() + seconds
        heapq.heappush(self._deadlines, (deadline, next(self._order), pull))
        if self._timer is None or deadline < self._timer_at:
            self._set_timer(deadline)

    def arrived(self, touched: set[tuple[str, int]]) -> None:
        """Queues grew: try those who wait there again."""
        held = self._held
        if held:
            for place in touched:
                if place in held:
                    self._grown[place] = None
            self._begin_round()

    def _begin_round(self) -> None:
        if self._round is None and (self._grown or self._reading):
            self._round = self._next_round()
            self._try_some()

    def _next_round(self) -> Iterator[HeldPull]:
        """Whom to try; what grows while they are is for the round after."""
        connections, self._reading = self._reading, {}
        places, self._grown = self._grown, {}
        for connection in connections:
            yield from list(self._of_connection.get(connection, ()))
        for place in places:
            yield from list(self._held.get(place, ()))

    def _try_some(self) -> None:
        """Try those of the round for a while; the loop then sends their answers and comes back for the others."""
        until, room = monotonic() + _SLICE_SECONDS, _SLICE_BYTES
        for pull in self._round or ():
            if pull.is_over:
                continue
            connection = pull.connection
            if not connection.is_open:
                self._remove(pull)
            elif connection.is_stalled:
                self._wait_for(connection)
            elif self._try(pull, pull.is_late):
                self._remove(pull)
                room -= pull.sent_bytes
            if room <= 0 or monotonic() > until:
                self._loop.call_soon(self._try_some)
                return
        self._round = None
        if self._grown or self._reading:
            self._loop.call_soon(self._begin_round)

    def release(self, pull: HeldPull) -> None:
        """A pull is answered by whoever looked for it elsewhere."""
        self._remove(pull)

    def wait_for_reader(self, connection: Connection) -> None:
        """There is something for a connection that does not read: its pulls are tried once it does."""
        self._wait_for(connection)

    def _wait_for(self, connection: Connection) -> None:
        """Try the pulls of a connection when its peer reads again; until then they would only fill memory."""
        if connection not in self._stalled:
            self._stalled[connection] = task = asyncio.ensure_future(connection.drain())
            task.add_done_callback(lambda _: self._drained(connection))

    def _drained(self, connection: Connection) -> None:
        self._stalled.pop(connection, None)
        if connection in self._of_connection:
            self._reading[connection] = None
            self._begin_round()

    def _try(self, pull: HeldPull, whatever: bool) -> bool:
        """Attempt it; one that cannot be served must not keep the others waiting."""
        try:
            return self._attempt(pull, whatever)
        except Exception as error:
            pull.connection.reply(pull.request, error_response(error, pull.request))
            return True

    def _gone(self, connection: Connection) -> None:
        for pull in list(self._of_connection.get(connection, ())):
            self._remove(pull)
        self._of_connection.pop(connection, None)
        self._reading.pop(connection, None)

    def _remove(self, pull: HeldPull) -> None:
        place = (pull.topic, pull.queue_id)
        waiting = self._held.get(place)
        if waiting is None or pull not in waiting:
            return
        del waiting[pull]
        if not waiting:
            del self._held[place]
        own = self._of_connection.get(pull.connection)
        if own is not None:
            own.pop(pull, None)
        pull.is_over = True
        self.size -= 1
        self._dispatching.forget_topic(pull.topic)
        if len(self._deadlines) > 1024 and len(self._deadlines) > 4 * self.size:
            self._deadlines = [entry for entry in self._deadlines if not entry[2].is_over]
            heapq.heapify(self._deadlines)

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        until, room = monotonic() + _SLICE_SECONDS, _SLICE_BYTES
        while self._deadlines and self._deadlines[0][0] <= now + 0.001:
            pull = heapq.heappop(self._deadlines)[2]
            if pull.is_over:
                continue
            if pull.connection.is_open and pull.connection.is_stalled:
                pull.is_late = True
                self._wait_for(pull.connection)
                continue
            self._remove(pull)
            if pull.connection.is_open:
                self._try(pull, True)
                room -= pull.sent_bytes
            if room <= 0 or monotonic() > until:
                self._timer_at = now
                self._timer = self._loop.call_soon(self._expire)
                return
        if self._deadlines:
            self._set_timer(self._deadlines[0][0])

    def answer_all(self) -> None:
        """The broker stops: nobody who reads is left waiting."""
        for waiting in list(self._held.values()):
            for pull in list(waiting):
                self._remove(pull)
                if pull.connection.is_open and not pull.connection.is_stalled:
                    self._try(pull, True)
        for task in self._stalled.values():
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
