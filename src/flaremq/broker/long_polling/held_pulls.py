"""PullRequestHoldService: pulls that found nothing and wait for something.

A held pull costs one small object. It is tried again when dispatch reports that its queue grew, and answered when its
time is over (``waiting_room``). Arrivals that its filter does not want move it forward without an answer, so a rare
tag does not make its consumer busy.

However many are woken at once, the loop serves others in between: they are tried in slices of bounded time and bytes.
Those of a client that does not read its replies are held until it reads, so its answers fill no memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from flaremq.broker.long_polling.waiting_room import Slice, WaitingRoom
from flaremq.remoting.handlers import error_response

if TYPE_CHECKING:
    from flaremq.broker.long_polling.pull_request import HeldPull
    from flaremq.broker.store_loop.dispatching import Dispatching
    from flaremq.remoting.connection import Connection

PER_CONNECTION_MAX: Final = 4096  # pulls one connection may have waiting

Attempt = Callable[["HeldPull", bool], bool]  # (pull, answer whatever is there) -> answered


class PullRequestHoldService:
    """All held pulls of a broker. Event loop only."""

    def __init__(self, dispatching: Dispatching, attempt: Attempt) -> None:
        self._attempt = attempt
        self._room: WaitingRoom[HeldPull] = WaitingRoom(
            dispatching, on_deadline=self._expire, on_removal=self._leave_queue
        )
        self._held: dict[tuple[str, int], dict[HeldPull, None]] = {}  # by topic and queue id
        self._loop = asyncio.get_running_loop()
        self._round: Iterator[HeldPull] | None = None  # those being tried, over several slices
        self._grown: dict[tuple[str, int], None] = {}  # queues for the next round
        self._reading: dict[Connection, None] = {}  # connections for the next round: they read again
        self._stalled: dict[Connection, asyncio.Future[None]] = {}  # connections whose peers do not read
        dispatching.on_arrival.append(self.arrived)

    @property
    def size(self) -> int:
        return self._room.size

    def has_room(self, connection: Connection) -> bool:
        """Whether the connection may have one more pull waiting."""
        return len(self._room.by_connection.get(connection, ())) < PER_CONNECTION_MAX

    def hold(self, pull: HeldPull, seconds: float) -> None:
        """Keep a pull until its queue grows, its time is over or its connection is."""
        if self._room.add(pull, self._room.now() + seconds):
            self._held.setdefault((pull.topic, pull.queue_id), {})[pull] = None

    def arrived(self, touched: set[tuple[str, int]]) -> None:
        """Queues grew: try the pulls held for them again."""
        held = self._held
        if held:
            for queue in touched:
                if queue in held:
                    self._grown[queue] = None
            self._begin_round()

    def _begin_round(self) -> None:
        if self._round is None and (self._grown or self._reading):
            self._round = self._next_round()
            self._try_some()

    def _next_round(self) -> Iterator[HeldPull]:
        """The pulls to try; queues that grow meanwhile are for the round after."""
        connections, self._reading = self._reading, {}
        queues, self._grown = self._grown, {}
        for connection in connections:
            yield from list(self._room.by_connection.get(connection, ()))
        for queue in queues:
            yield from list(self._held.get(queue, ()))

    def _try_some(self) -> None:
        """Try those of the round for a while; the loop then sends their answers and comes back for the others."""
        part = Slice()
        for pull in self._round or ():
            if pull.is_over:
                continue
            connection = pull.connection
            sent_bytes = 0
            if not connection.is_open:
                self._room.remove(pull)
            elif connection.is_stalled:
                self.wait_for_reader(connection)
            elif self._try(pull, pull.is_late):
                self._room.remove(pull)
                sent_bytes = pull.sent_bytes
            if part.is_used_up(sent_bytes):
                self._loop.call_soon(self._try_some)
                return
        self._round = None
        if self._grown or self._reading:
            self._loop.call_soon(self._begin_round)

    def release(self, pull: HeldPull) -> None:
        """A pull is answered by a look on the filter lane."""
        self._room.remove(pull)

    def wait_for_reader(self, connection: Connection) -> None:
        """Try the pulls of a connection when its peer reads again; until then their answers would only fill memory."""
        if connection not in self._stalled:
            self._stalled[connection] = task = asyncio.ensure_future(connection.drain())
            task.add_done_callback(lambda _: self._drained(connection))

    def _drained(self, connection: Connection) -> None:
        self._stalled.pop(connection, None)
        if connection in self._room.by_connection:
            self._reading[connection] = None
            self._begin_round()

    def _try(self, pull: HeldPull, whatever: bool) -> bool:
        """Attempt it; one that cannot be served must not keep the others waiting."""
        try:
            return self._attempt(pull, whatever)
        except Exception as error:
            pull.connection.reply(pull.request, error_response(error, pull.request))
            return True

    def _leave_queue(self, pull: HeldPull) -> None:
        queue = (pull.topic, pull.queue_id)
        waiting = self._held[queue]
        del waiting[pull]
        if not waiting:
            del self._held[queue]

    def _expire(self, pull: HeldPull) -> int:
        connection = pull.connection
        if connection.is_open and connection.is_stalled:
            pull.is_late = True
            self.wait_for_reader(connection)
            return 0
        self._room.remove(pull)
        if connection.is_open:
            self._try(pull, True)
        return pull.sent_bytes

    def answer_all(self) -> None:
        """The broker stops: every pull is answered whose client reads."""
        for pull in self._room.everything():
            self._room.remove(pull)
            if pull.connection.is_open and not pull.connection.is_stalled:
                self._try(pull, True)
        for task in self._stalled.values():
            task.cancel()
        self._room.close()
