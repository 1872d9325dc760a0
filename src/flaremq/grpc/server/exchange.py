"""Exchanges: one call each, from its headers to its last trailer; a class for each shape of call.

An exchange ends exactly once: answered (``finish``, ``fail``), or over before that (``abandon``: its client is gone or
has cancelled it). A unary handler that answers at once costs no task; one that gives a future costs no task either.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable
from typing import TYPE_CHECKING, Any, Final

from flaremq.errors import FlareMQError
from flaremq.grpc.call import Call, GrpcError, StatusCode
from flaremq.grpc.framing import PREFIX, PREFIX_SIZE, MessageReader, parse_timeout, prefixed
from flaremq.grpc.http2.header_blocks import RequestHeaders
from flaremq.grpc.http2.stream import Stream
from flaremq.grpc.messages.classes import DecodeError
from flaremq.grpc.messages.enums import Code
from flaremq.grpc.messages.methods import Shape

if TYPE_CHECKING:
    from flaremq.grpc.server.connection import GrpcConnection
    from flaremq.grpc.server.serving import Entry, Refusal, Serving

_log = logging.getLogger(__name__)
_UNSENT_MAX: Final = 65_536  # bytes of a stream that wait for their client before its handler does
_PUSHED_MAX: Final = 1 << 20  # bytes of a stream that may wait at all
_INBOX_MAX: Final = 256  # requests of a stream that may wait for its handler
_INTERNAL: Final = int(Code.INTERNAL_SERVER_ERROR)


class Exchange:
    """One call. Event loop only."""

    __slots__ = (
        "call", "connection", "entry", "granted", "half", "held", "is_over", "reader", "since", "stream", "task",
        "waits_for_turn",
    )  # fmt: skip

    def __init__(self, connection: GrpcConnection, stream: Stream, entry: Entry, call: Call, encoding: str) -> None:
        self.connection = connection
        self.stream = stream
        self.entry = entry
        self.call = call
        self.reader = MessageReader(connection.serving.message_max, encoding)
        self.task: asyncio.Future[Any] | None = None
        self.is_over = False
        self.half = 0  # bytes of a request that is not complete, as the budget knows them
        self.held = 0  # bytes of requests that are being answered
        self.granted = 0  # bytes of a large request that may come
        self.waits_for_turn = False
        self.since = connection.now  # when the request that is awaited was begun

    # What comes

    def message(self, data: bytes) -> None:
        """A request is complete."""
        raise NotImplementedError

    def half_closed(self) -> None:
        """The client sends no more."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing more has to come before the handler can work."""
        return self.task is not None

    def decode(self, data: bytes) -> Any:
        try:
            return self.entry.decode(data)
        except DecodeError:
            raise GrpcError(StatusCode.INTERNAL, f"the request of {self.call.method} cannot be read") from None

    def judge(self, request: Any) -> Refusal | None:
        """What every request is asked before its handler sees it."""
        if not self.call.client_id:
            return Code.CLIENT_ID_REQUIRED, "x-mq-client-id is missing"
        guard = self.connection.serving.guard
        return None if guard is None else guard.allow(self.entry.method, request, self.call, self.connection)

    def grant(self) -> None:
        """A large request has its turn."""
        self.since = self.connection.now
        self.connection.widen(self.stream, self.reader.missing)

    # What goes

    def work(self, outcome: Awaitable[Any]) -> None:
        """The handler is not done yet."""
        deadline = self.call.deadline
        if deadline is not None:
            self.connection.serving.deadlines.add(self, deadline)
        task = self.task = asyncio.ensure_future(outcome)
        task.add_done_callback(self.done)

    def done(self, task: asyncio.Future[Any]) -> None:
        """The handler is."""
        raise NotImplementedError

    def fail(self, error: BaseException) -> None:
        """The call ends with what its handler, or something before it, has raised."""
        if isinstance(error, GrpcError):
            self.close(error.status, error.message)
        elif isinstance(error, asyncio.CancelledError):
            self.close(StatusCode.CANCELLED, "the call was ended")
        else:
            self.refuse((_INTERNAL, describe(error, self.call)))

    def refuse(self, refusal: Refusal) -> None:
        """The call ends with a reply that says why there is no other."""
        raise NotImplementedError

    def turn_down(self, refusal: Refusal) -> None:
        """The guard does not know who calls."""
        self.refuse(refusal)

    def close(self, status: StatusCode, message: str = "") -> None:
        """The call ends with a status of gRPC."""
        if self.end():
            self.connection.send_end(self.stream, status, message)

    def late(self) -> None:
        """The deadline has passed."""
        if not self.is_over:
            self.close(StatusCode.DEADLINE_EXCEEDED, "the deadline has passed")
            self.stop_handler()

    def abandon(self) -> None:
        """The client cancelled the call, or is gone."""
        if self.end():
            self.stop_handler()

    def stop_handler(self) -> None:
        task = self.task
        if task is not None and not task.done():
            if not _has_begun(task):
                # Cancelled now it would never await what it was given; it begins in this turn of the loop.
                task.get_loop().call_soon(self.stop_handler)
                return
            task.cancel()
        self.call.cancel()

    def end(self) -> bool:
        """The call is over; False if it was before."""
        if self.is_over:
            return False
        self.is_over = True
        self.connection.ended(self)
        if self.task is not None and self.call.deadline is not None:
            self.connection.serving.deadlines.remove(self, self.call.deadline)
        return True


class Unary(Exchange):
    """One request, one reply."""

    __slots__ = ("_request",)

    def __init__(self, connection: GrpcConnection, stream: Stream, entry: Entry, call: Call, encoding: str) -> None:
        super().__init__(connection, stream, entry, call, encoding)
        self._request: bytes | None = None

    def message(self, data: bytes) -> None:
        if self._request is not None:
            raise GrpcError(StatusCode.INTERNAL, f"{self.call.method} takes one request")
        self._request = data
        if self.stream.remote_closed:
            self.half_closed()
        else:
            self.connection.hold(self, len(data))

    def half_closed(self) -> None:
        data = self._request
        if self.task is not None or self.is_over:
            return
        if data is None:
            raise GrpcError(StatusCode.INTERNAL, f"{self.call.method} takes a request, and there is none")
        deadline = self.call.deadline
        if deadline is not None and deadline <= self.connection.now:
            self.late()
            return
        request = self.decode(data)
        refusal = self.judge(request)
        if refusal is not None:
            self.refuse(refusal)
            return
        self._request = None
        self.begin(request, 0 if self.held else len(data))

    def begin(self, request: Any, size: int) -> None:
        try:
            outcome = self.entry.handler(request, self.call)
        except Exception as error:
            self.fail(error)
            return
        if type(outcome) is self.entry.reply:
            if self.end():
                self.connection.reply(self.stream, outcome)
            return
        self.connection.hold(self, size)
        self.work(outcome)

    def done(self, task: asyncio.Future[Any]) -> None:
        if self.is_over:
            if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, GrpcError):
                describe(error, self.call)
            return
        if task.cancelled():
            self.fail(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self.fail(error)
        elif self.end():
            self.connection.reply(self.stream, task.result())

    def refuse(self, refusal: Refusal) -> None:
        if self.end():
            self.connection.reply(self.stream, self.entry.method.failure(*refusal))


class ServerStream(Unary):
    """One request, many replies."""

    __slots__ = ()

    def begin(self, request: Any, size: int) -> None:
        self.connection.hold(self, size)
        self.work(self.entry.handler(request, self.call, self.send))

    async def send(self, message: Any) -> None:
        """Send a reply, or bytes that are several; return when the client has room for more. CancelledError when the
        call is over."""
        if self.is_over:
            raise asyncio.CancelledError
        self.connection.send(self.stream, message)
        while self.connection.is_stalled or self.stream.pending_bytes > _UNSENT_MAX:
            await self.connection.room(self.stream)
            if self.is_over:
                raise asyncio.CancelledError

    def push(self, message: Any) -> bool:
        """Send a reply without waiting; False: it was not sent."""
        if self.is_over or self.connection.is_stalled or self.stream.pending_bytes > _PUSHED_MAX:
            return False
        self.connection.send(self.stream, message)
        return True

    def done(self, task: asyncio.Future[Any]) -> None:
        if not self.is_over and not task.cancelled() and task.exception() is None:
            self.close(StatusCode.OK)
        else:
            super().done(task)

    def refuse(self, refusal: Refusal) -> None:
        if not self.is_over:
            self.connection.send(self.stream, self.entry.method.failure(*refusal))
            self.close(StatusCode.OK)


class Bidi(ServerStream):
    """Many of both. It is its handler's ``Stream``."""

    __slots__ = ("_inbox", "_refusal", "_wakes")

    def __init__(self, connection: GrpcConnection, stream: Stream, entry: Entry, call: Call, encoding: str) -> None:
        super().__init__(connection, stream, entry, call, encoding)
        self._inbox: deque[bytes] = deque()
        self._wakes: asyncio.Future[None] | None = None
        self._refusal: Refusal | None = None

    def turn_down(self, refusal: Refusal) -> None:
        """Clients write first, and take a stream that has ended by then for one that is broken."""
        self._refusal = refusal

    def message(self, data: bytes) -> None:
        if self._refusal is not None:
            self.refuse(self._refusal)
            return
        if len(self._inbox) >= _INBOX_MAX:
            raise GrpcError(StatusCode.RESOURCE_EXHAUSTED, "requests come faster than they are answered")
        self._inbox.append(data)
        self.connection.hold(self, len(data))
        if self.task is None:
            if not self.call.client_id:
                self.refuse((Code.CLIENT_ID_REQUIRED, "x-mq-client-id is missing"))
                return
            self.work(self.entry.handler(self, self.call))
        self._wake()

    def half_closed(self) -> None:
        if self.task is None and not self.is_over:
            self.close(StatusCode.OK)
        self._wake()

    def finish(self) -> None:
        if not self.is_over:
            self.close(StatusCode.OK)
            self.stop_handler()

    def _wake(self) -> None:
        if self._wakes is not None and not self._wakes.done():
            self._wakes.set_result(None)
        self._wakes = None

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        while not self._inbox:
            if self.stream.remote_closed or self.is_over:
                raise StopAsyncIteration
            self._wakes = asyncio.get_running_loop().create_future()
            await self._wakes
        data = self._inbox.popleft()
        self.connection.let_go(self, len(data))
        self.connection.took(self.stream)
        request = self.decode(data)
        refusal = self.judge(request)
        if refusal is not None:
            self.refuse(refusal)
            raise StopAsyncIteration
        return request


EXCHANGES: Final[dict[Shape, type[Exchange]]] = {
    Shape.UNARY: Unary, Shape.SERVER_STREAM: ServerStream, Shape.BIDI: Bidi,
}  # fmt: skip


def answer_at_once(serving: Serving, headers: RequestHeaders, data: bytes, peer: str) -> bytes | None:
    """The reply to a call that came whole, without an exchange; None: it takes one."""
    if headers.is_too_large:
        return None
    fields, size = headers.fields, len(data) - PREFIX_SIZE
    entry = serving.entries.get(headers.pseudo[":path"])
    if (
        entry is None
        or entry.at_once is None
        or serving.guard is not None
        or headers.pseudo[":method"] != "POST"
        or fields.get("content-type", "")[:16] != "application/grpc"
        or "grpc-encoding" in fields
        or not 0 <= size <= serving.message_max
        or data[:PREFIX_SIZE] != PREFIX.pack(0, size)
    ):
        return None
    timeout = fields.get("grpc-timeout")
    try:
        if timeout is not None and not parse_timeout(timeout):
            return None
    except ValueError:
        return None
    try:
        reply: bytes | None = entry.at_once(data, fields.get("x-mq-client-id", ""), peer)
    except Exception as error:  # it may be done: nobody else must do it again
        reply = encoded(entry.method.failure(_INTERNAL, describe(error, Call(entry.method.name, fields, peer=peer))))
    if reply is not None:
        serving.counts.calls += 1
    return reply


def _has_begun(task: asyncio.Future[Any]) -> bool:
    coroutine = task.get_coro() if isinstance(task, asyncio.Task) else None
    return not inspect.iscoroutine(coroutine) or inspect.getcoroutinestate(coroutine) != inspect.CORO_CREATED


def describe(error: BaseException, call: Call) -> str:
    """What a client is told of an exception that no handler expected."""
    if isinstance(error, FlareMQError):
        return str(error)[:1024]
    _log.error("%s from %s failed", call.method, call.peer, exc_info=error)
    return "the server could not answer; its log says why"


def encoded(message: Any) -> bytes:
    return prefixed(message.SerializeToString())
