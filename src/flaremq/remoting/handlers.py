"""Which request goes to which handler, and how many of a kind run at a time.

A handler is called on the event loop, at once. It returns the reply, or None if there is none (or it will come later
by ``connection.reply``), or an awaitable for work that takes time. Awaitables run in the *lane* of their request: so
many at a time, so many waiting, none waiting longer than its limit; beyond that the client is told to slow down
instead of queues growing. Lanes are RocketMQ's thread pools: sends, pulls, queries and administration do not hold up
each other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from flaremq.errors import FlareMQError, UnavailableError
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection

_log = logging.getLogger(__name__)

Outcome = RemotingCommand | None | Awaitable[RemotingCommand | None]
Handler = Callable[["Connection", RemotingCommand], Outcome]


class Taken:
    """Said by a guard that answers a request by itself, now or later."""


TAKEN = Taken()


class Guard(Protocol):
    """Says of each request whether it may reach its handler: None, or its answer, or what will come to be either."""

    def __call__(self, connection: Connection, request: RemotingCommand, *, is_served: bool) -> Outcome | Taken: ...


class Lane:
    """A bounded share of the broker for one family of requests."""

    __slots__ = ("_queue", "concurrency", "name", "queue_max", "refused", "running", "wait_seconds")

    def __init__(self, name: str, *, concurrency: int, queue_max: int, wait_seconds: float) -> None:
        self.name = name
        self.concurrency = concurrency
        self.queue_max = queue_max
        self.wait_seconds = wait_seconds
        self.running = 0
        self.refused = 0
        self._queue: deque[tuple[float, Connection, RemotingCommand, Awaitable[RemotingCommand | None]]] = deque()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def head_wait_ms(self, now: float) -> int:
        """How long the request at the head has waited."""
        return int((now - self._queue[0][0]) * 1000) if self._queue else 0

    def enter(self, connection: Connection, request: RemotingCommand, work: Awaitable[RemotingCommand | None]) -> None:
        """Run ``work`` now or when its turn comes, and send what it answers."""
        if self.running >= self.concurrency and len(self._queue) >= self.queue_max:
            self._refuse(connection, request, work, "[OVERLOAD]system busy, start flow control for a while")
            return
        connection.begin(request)
        if self.running < self.concurrency:
            self._start(connection, request, work)
        else:
            self._queue.append((asyncio.get_running_loop().time(), connection, request, work))

    def _start(self, connection: Connection, request: RemotingCommand, work: Awaitable[RemotingCommand | None]) -> None:
        self.running += 1
        task = asyncio.ensure_future(_answer(connection, request, work))
        task.add_done_callback(self._done)

    def _done(self, _: asyncio.Future[None]) -> None:
        self.running -= 1
        now = asyncio.get_running_loop().time()
        while self._queue and self.running < self.concurrency:
            since, connection, request, work = self._queue.popleft()
            if not connection.is_open:
                connection.finish(request)
                _discard(work)
            elif connection.is_stalled:
                connection.finish(request)
                self._refuse(
                    connection, request, work, "[OVERLOAD]replies are not read, start flow control for a while"
                )
            elif now - since > self.wait_seconds:
                connection.finish(request)
                waited = int((now - since) * 1000)
                remark = (
                    "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
                    f"period in queue: {waited}ms, size of queue: {len(self._queue)}"
                )
                self._refuse(connection, request, work, remark)
            else:
                self._start(connection, request, work)

    def _refuse(
        self,
        connection: Connection,
        request: RemotingCommand,
        work: Awaitable[RemotingCommand | None],
        remark: str,
    ) -> None:
        self.refused += 1
        _discard(work)
        connection.reply(request, RemotingCommand.response(ResponseCode.SYSTEM_BUSY, remark))


def _discard(work: Awaitable[RemotingCommand | None]) -> None:
    if asyncio.iscoroutine(work):
        work.close()
    elif isinstance(work, asyncio.Future):
        work.cancel()


async def _answer(connection: Connection, request: RemotingCommand, work: Awaitable[RemotingCommand | None]) -> None:
    try:
        response = await work
    except asyncio.CancelledError:
        raise
    except Exception as error:
        response = error_response(error, request)
    finally:
        connection.finish(request)
    if response is not None:
        connection.reply(request, response)


# Whether this peer may store these messages: connection, account, topic, signatures and what each of them signs.
VerifySends = Callable[["Connection", str, str, Sequence[bytes], Sequence[memoryview]], bool]


async def after_guard(
    verdict: Awaitable[RemotingCommand | None], handler: Handler, connection: Connection, request: RemotingCommand
) -> RemotingCommand | None:
    """Serve a request about which the guard had to find something out, or give its refusal."""
    refusal = await verdict
    if refusal is not None:
        return refusal
    outcome = handler(connection, request)
    return outcome if outcome is None or isinstance(outcome, RemotingCommand) else await outcome


def error_response(error: Exception, request: RemotingCommand) -> RemotingCommand:
    """The reply for an error; unexpected ones are logged with their traceback, the peer gets one line."""
    if isinstance(error, RequestError):
        return RemotingCommand.response(error.code, error.remark)
    if isinstance(error, FlareMQError) and isinstance(code := getattr(error, "code", None), int):
        return RemotingCommand.response(code, str(error))
    if isinstance(error, UnavailableError):
        return RemotingCommand.response(ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
    if isinstance(error, FlareMQError):
        return RemotingCommand.response(ResponseCode.SYSTEM_ERROR, str(error)[:1024])
    _log.error("request %d failed", request.code, exc_info=error)
    return RemotingCommand.response(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}"[:1024])


# name: concurrency, waiting at most, seconds of waiting at most (WP 4.9; the original's queue sizes and limits)
_LANES = {
    "send": (1024, 10_000, 0.2),
    "pull": (1024, 100_000, 5.0),
    "lite_pull": (1024, 100_000, 5.0),
    "ack": (256, 100_000, 3.0),
    "reply": (256, 10_000, 3.0),
    "query": (16, 20_000, 5.0),
    "client": (64, 1_000_000, 31.0),
    "heartbeat": (64, 50_000, 31.0),
    "end_transaction": (256, 100_000, 3.0),
    "admin": (16, 10_000, 31.0),
    "filter": (4096, 20_000, 5.0),  # ours: pulls that ask a property filter wait for each other, for nobody else
    "relay": (64, 1_000, 31.0),  # ours: these wait for a client, which may be mute, and hold up nothing else
}


class Latencies(Protocol):
    """Hears how long each request took, from its arrival to its answer."""

    def note(
        self, code: int, response_code: int, result: str, is_held: bool, seconds: float, count: int = 1
    ) -> None: ...

    def note_sends(self, code: int, result: str, seconds: float, count: int) -> None: ...


class ReadCount:
    """How often anything was read from connections, ever: who may hold up the loop asks whether others came."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class HandlerTable:
    """Handlers by request code."""

    def __init__(self) -> None:
        self.lanes = {
            name: Lane(name, concurrency=concurrency, queue_max=queue_max, wait_seconds=wait)
            for name, (concurrency, queue_max, wait) in _LANES.items()
        }
        self.entries: dict[int, tuple[Handler, Lane]] = {}
        self.reads = ReadCount()
        # Answers whole frames at the start of what was read, past the handlers, and returns their bytes; 0: none.
        self.fast_path: Callable[[Connection, bytes], int] | None = None
        # Stores a plain message past the handlers, if nothing has to be waited for: topic, queue, body, properties,
        # time and host of its birth. Its offset in the queue; -1: nothing was done, the handler decides.
        self.place: Callable[[str, int, bytes, bytes, int, bytes], int] | None = None
        # Acknowledges what a pop has handed out, past the handlers, if nothing has to be written for that: topic it was
        # read from, group, queue, offset, first offset and time of the pop. False: nothing was done, ask the handler.
        self.settle: Callable[[str, str, int, int, int, int], bool] | None = None
        # Asked about every request before anything else is done with it; None lets everybody in.
        self.guard: Guard | None = None
        # The guard's word on sends that the fast path has taken apart: it stands still where there is none.
        self.verify_sends: VerifySends | None = None
        # Told of every answer of a server, if there is one.
        self.latencies: Latencies | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way or waiting for its turn."""
        return not any(lane.running or lane.waiting for lane in self.lanes.values())

    def register(self, code: int, handler: Handler, lane: str = "admin") -> None:
        """Let ``handler`` answer requests of this code."""
        if code in self.entries:
            raise ValueError(f"request code {int(code)} has a handler already")
        self.entries[int(code)] = (handler, self.lanes[lane])

    def without(self, *codes: int) -> HandlerTable:
        """The same handlers in the same lanes but for some codes."""
        table = HandlerTable()
        table.lanes = self.lanes
        table.reads = self.reads
        table.guard = self.guard
        table.latencies = self.latencies
        table.entries = {code: entry for code, entry in self.entries.items() if code not in codes}
        return table
