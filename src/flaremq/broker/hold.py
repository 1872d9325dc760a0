"""PullRequestHoldService: pulls that found nothing and wait for something.

A held pull costs one small object. It is looked at when its queue grows, told by dispatch, and when its time is over,
told by one timer for the earliest of all; nothing is polled. Arrivals that its filter does not want move it forward
without an answer, so a rare tag does not make its consumer busy. It ends with its connection.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from flaremq.remoting.handlers import error_response

if TYPE_CHECKING:
    from flaremq.broker.gate import StoreGate
    from flaremq.broker.pull_request import HeldPull
    from flaremq.remoting.connection import Connection

Attempt = Callable[["HeldPull", bool], bool]  # (pull, answer whatever is there) -> answered


class PullRequestHoldService:
    """All held pulls of a broker. Event loop only."""

    def __init__(self, gate: StoreGate, attempt: Attempt) -> None:
        self._gate = gate
        self._attempt = attempt
        self._held: dict[tuple[str, int], dict[HeldPull, None]] = {}
        self._of_connection: dict[Connection, dict[HeldPull, None]] = {}  # until it closes
        self._deadlines: list[tuple[float, int, HeldPull]] = []
        self._order = count()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self.size = 0
        gate.on_arrival.append(self.arrived)

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
        self._gate.eager += 1
        deadline = self._loop.time() + seconds
        heapq.heappush(self._deadlines, (deadline, next(self._order), pull))
        if self._timer is None or deadline < self._timer_at:
            self._set_timer(deadline)
        if self._gate.driver.undispatched > 0:
            self._gate.hurry()

    def arrived(self, touched: set[tuple[str, int]]) -> None:
        """Queues grew: try those who wait there again."""
        held = self._held
        if not held:
            return
        for place in touched:
            waiting = held.get(place)
            if waiting is not None:
                for pull in list(waiting):
                    if not pull.connection.is_open or self._try(pull, False):
                        self._remove(pull)

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
        self._gate.eager -= 1
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
        while self._deadlines and self._deadlines[0][0] <= now + 0.001:
            pull = heapq.heappop(self._deadlines)[2]
            if not pull.is_over:
                self._remove(pull)
                if pull.connection.is_open:
                    self._try(pull, True)
        if self._deadlines:
            self._set_timer(self._deadlines[0][0])

    def answer_all(self) -> None:
        """The broker stops: nobody is left waiting."""
        for waiting in list(self._held.values()):
            for pull in list(waiting):
                self._remove(pull)
                if pull.connection.is_open:
                    self._try(pull, True)
        if self._timer is not None:
            self._timer.cancel()
