"""Endpoint: a small HTTP server on the event loop, by h11. It answers GET and HEAD and nothing else.

Nobody who asks is known here, so all that a stranger can use up is bounded: connections, bytes of a request's head,
the time it may take, the time an answer may stay unread. A request with a body is refused. Pages are coroutines, so a
long one does not hold up the others; there is no thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import parse_qs, urlsplit

import h11

from flaremq.errors import UnavailableError

_log = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 64
HEAD_BYTES_MAX: Final = 8192
_REQUEST_SECONDS: Final = 10.0  # from the connection, or the last answer, to a whole request
_ANSWER_SECONDS: Final = 60.0  # for a page to be made
_STALL_SECONDS: Final = 20.0  # for a peer that reads nothing
_BUFFER_BYTES: Final = 1 << 20
_PARAMETERS_MAX: Final = 512
TEXT: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked."""

    path: str
    query: Mapping[str, Sequence[str]]
    accept: str


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; several askers may share one."""

    body: Sequence[bytes]
    status: int = 200
    content_type: str = TEXT


Page = Callable[[Request], Awaitable[Response]]


@dataclass(slots=True, eq=False)
class Endpoint:
    """One port. ``start`` and ``stop`` it on the loop."""

    pages: Mapping[str, Page]
    connections_max: int = CONNECTIONS_MAX
    request_seconds: float = _REQUEST_SECONDS
    stall_seconds: float = _STALL_SECONDS
    connections: set[HttpConnection] = field(default_factory=set)
    refused: int = 0
    port: int = 0
    _server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one. UnavailableError if it is taken."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: HttpConnection(self), host, port, backlog=16)
        except OSError as error:
            raise UnavailableError(f"cannot listen for metrics on {host}:{port}: {error.strerror or error}") from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the port; answers under way are lost."""
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            await connection.abort()

    async def answer(self, method: str, target: str, accept: str) -> Response:
        """The page that was asked for."""
        if method not in ("GET", "HEAD"):
            return _plain(405, "only GET and HEAD")
        try:
            parts = urlsplit(target)
            query = parse_qs(parts.query, max_num_fields=_PARAMETERS_MAX)
        except ValueError:
            return _plain(400, "the address of the page cannot be read")
        page = self.pages.get(parts.path)
        if page is None:
            return _plain(404, "there is no such page")
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await page(Request(parts.path, query, accept))
        except TimeoutError:
            return _plain(503, "this takes too long")
        except Exception:
            _log.exception("the page %s cannot be made", parts.path)
            return _plain(500, "this went wrong; the log says more")


def _plain(status: int, sentence: str) -> Response:
    return Response((f"{sentence}\n".encode(),), status)


class HttpConnection(asyncio.Protocol):
    """One connection: request, answer, request, as long as both ends like."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        if len(self._endpoint.connections) >= self._endpoint.connections_max:
            self._endpoint.refused += 1
            self._transport.abort()
            return
        self._endpoint.connections.add(self)
        self._expect_request()

    def connection_lost(self, error: Exception | None) -> None:
        self._endpoint.connections.discard(self)
        self._transport = None
        self._cancel_timer()
        self._writable.set()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        if self._http.their_state is h11.ERROR:
            return
        try:
            self._http.receive_data(data)
        except h11.RemoteProtocolError:
            self._close()
            return
        if self._task is None:
            self._next()
        elif len(self._http.trailing_data[0]) > HEAD_BYTES_MAX:
            self._close()  # it asks and asks and reads nothing

    def eof_received(self) -> bool:
        return self._task is not None  # the answer may still be read

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def abort(self) -> None:
        """Close now."""
        task = self._task
        self._close()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # One request

    def _expect_request(self) -> None:
        self._cancel_timer()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._endpoint.request_seconds, self._close)

    def _next(self) -> None:
        """See whether there is a request; one without a body."""
        try:
            event = self._http.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return
            if not isinstance(event, h11.Request):
                self._close()
                return
            end = self._http.next_event()
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint)
            return
        if not isinstance(end, h11.EndOfMessage):
            self._refuse(413)  # it has a body, or announces one
            return
        self._cancel_timer()
        self._task = asyncio.get_running_loop().create_task(self._serve(event))

    async def _serve(self, request: h11.Request) -> None:
        accept = b",".join(value for name, value in request.headers if name == b"accept").decode("ascii", "replace")
        target = request.target.decode("ascii", "replace")
        response = await self._endpoint.answer(request.method.decode("ascii"), target, accept)
        await self._send(response, request.method == b"HEAD")
        self._task = None
        if self._transport is None:
            return
        if self._http.our_state is h11.MUST_CLOSE or self._http.our_state is h11.CLOSED:
            self._close()
            return
        self._http.start_next_cycle()
        self._expect_request()
        self._next()

    async def _send(self, response: Response, is_head: bool) -> None:
        size = sum(map(len, response.body))
        headers = [
            ("Content-Type", response.content_type),
            ("Content-Length", str(size)),
            ("Cache-Control", "no-store"),
        ]
        if response.status == 405:
            headers.append(("Allow", "GET, HEAD"))
        self._write(h11.Response(status_code=response.status, headers=headers))
        if not is_head:
            for piece in response.body:
                self._write(h11.Data(data=piece))
                if not self._writable.is_set():
                    await self._until_writable()
        self._write(h11.EndOfMessage())

    async def _until_writable(self) -> None:
        try:
            async with asyncio.timeout(self._endpoint.stall_seconds):
                await self._writable.wait()
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()
            raise asyncio.CancelledError from None

    def _write(self, event: Any) -> None:
        data = self._http.send(event)
        if data and self._transport is not None:
            self._transport.write(data)

    def _refuse(self, status: int) -> None:
        """Say why and hang up; the rest of what comes is not read."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [("Content-Length", "0"), ("Connection", "close")]
            self._write(h11.Response(status_code=status, headers=headers))
            self._write(h11.EndOfMessage())
        self._close()

    def _close(self) -> None:
        self._cancel_timer()
        if self._transport is not None:
            self._transport.close()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
