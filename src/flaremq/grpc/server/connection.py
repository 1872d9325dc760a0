"""GrpcConnection: one client's connection, asyncio around the protocol.

Whatever arrived in one read is taken apart and handled in one go, and whatever was answered meanwhile is written in one
go. A client that does not read is not read from; one that reads, but gives calls no room, gets no new ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, cast

from flaremq.grpc.call import Call, GrpcError, StatusCode
from flaremq.grpc.framing import ENCODINGS, parse_timeout, percent_encoded
from flaremq.grpc.http2 import header_blocks
from flaremq.grpc.http2.connection import ServerConnection
from flaremq.grpc.http2.frames import ErrorCode
from flaremq.grpc.http2.header_blocks import RequestHeaders, literal
from flaremq.grpc.http2.stream import Stream
from flaremq.grpc.server.exchange import EXCHANGES, Exchange, answer_at_once, encoded
from flaremq.remoting.address import describe_peer

if TYPE_CHECKING:
    from flaremq.grpc.server.serving import Refusal, Serving

_log = logging.getLogger(__name__)
_HEAD: Final = header_blocks.status(200) + literal("content-type", "application/grpc")
_OK: Final = literal("grpc-status", "0")
_PENDING_MAX: Final = 4 << 20  # reply bytes of a connection that its client has no room for, before calls are refused
_BYTES_PER_SECOND_MIN: Final = 65_536  # a request that comes slower than this does not come at all
_UNWRITTEN_MAX: Final = 131_072
_WINDOW_PART: Final = 2
_SILENCE_SECONDS: Final = 60.0  # after which a client with open calls is asked whether it is there


class GrpcConnection(asyncio.Protocol):
    """One connection; the listener of its HTTP/2. Event loop only."""

    def __init__(
        self,
        serving: Serving,
        *,
        opened: Callable[[GrpcConnection], bool],
        closed: Callable[[GrpcConnection], None],
    ) -> None:
        self.serving = serving
        self._opened = opened
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._http = ServerConnection(self, serving.limits, serving.budget.replies)
        self._sender = self._http.sender
        self._transport: asyncio.Transport | None = None
        self._corked = False  # inside data_received or with a flush on its way
        self._awaiting: dict[Exchange, None] = {}  # whose request has not come in whole
        self._rooms: dict[int, asyncio.Future[None]] = {}  # handlers that wait for their client to read, by stream
        self._stalled_since: float | None = None  # the peer does not read
        self._incomplete_since: float | None = None  # a frame is under way
        self._is_leaving = False
        self.visitor: Any = None  # what a guard keeps of the connection
        self.calls = 0
        self.peer = self.local_address = "unknown:0"
        self.is_encrypted = False
        self.is_open = False
        self.now = self.last_activity = self._heard = self._loop.time()
        self._pinged_at: float | None = None
        self._closing_since: float | None = None

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.peer, _ = describe_peer(transport.get_extra_info("peername"))
        self.local_address, _ = describe_peer(transport.get_extra_info("sockname"))
        self.is_encrypted = transport.get_extra_info("ssl_object") is not None
        self._transport.set_write_buffer_limits(high=self.serving.remoting.write_buffer_high_bytes)
        self.is_open = True
        if not self._opened(self):
            self._transport.abort()
            return
        self._incomplete_since = self.now
        self._http.start()
        self._flush()

    def data_received(self, data: bytes) -> None:
        self.now = self.last_activity = self._heard = now = self._loop.time()
        self.serving.counts.reads += 1
        self._corked = True
        http = self._http
        http.receive(data, now)
        self._corked = False
        if self._sender.out:
            self._flush()
        if http.is_over:
            self._give_up()
        elif not http.is_in_frame:
            self._incomplete_since = None
        elif self._incomplete_since is None or len(data) > 4096:  # what is large comes in pieces
            self._incomplete_since = now

    def _give_up(self) -> None:
        _log.info("closing the connection from %s: %s", self.peer, self._http.failure)
        self._http.lost()
        self._close_transport()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._http.lost()
        self.serving.budget.forget(self)
        for room in self._rooms.values():
            _set(room)
        self._rooms.clear()
        self._closed(self)

    def pause_writing(self) -> None:
        self._stalled_since = self._loop.time()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._stalled_since = None
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        rooms, self._rooms = self._rooms, {}
        for room in rooms.values():
            _set(room)

    @property
    def is_stalled(self) -> bool:
        """Whether the peer does not read what it is sent."""
        return self._stalled_since is not None

    # The listener of HTTP/2

    def begin(self, stream: Stream, headers: RequestHeaders) -> None:
        serving = self.serving
        pseudo, fields = headers.pseudo, headers.fields
        path = pseudo.get(":path")
        entry = serving.entries.get(path) if path is not None else None
        if entry is None or self._is_busy or headers.is_too_large:
            self._turn_away(stream, headers)
            return
        content_type = fields.get("content-type", "")
        if pseudo[":method"] != "POST" or content_type[:16] != "application/grpc":
            self._turn_away(stream, headers)
            return
        timeout = fields.get("grpc-timeout")
        try:
            seconds = None if timeout is None else parse_timeout(timeout)
            call = Call(
                entry.method.name,
                fields,
                peer=self.peer,
                local_address=self.local_address,
                deadline=None if seconds is None else self.now + seconds,
                is_encrypted=self.is_encrypted,
            )
            exchange = EXCHANGES[entry.method.shape](self, stream, entry, call, fields.get("grpc-encoding", ""))
        except (ValueError, GrpcError) as error:
            status = error.status if isinstance(error, GrpcError) else StatusCode.INTERNAL
            self.send_end(stream, status, str(error))
            return
        stream.owner = exchange
        self.calls += 1
        serving.budget.calls += 1
        serving.counts.calls += 1
        self._awaiting[exchange] = None
        if serving.guard is not None:
            self._identify(exchange)
        if stream.remote_closed and not exchange.is_over:
            self._feed(exchange, b"")

    def answer(self, headers: RequestHeaders, data: bytes) -> tuple[bytes, bytes, bytes] | None:
        if self._is_busy:
            return None
        reply = answer_at_once(self.serving, headers, data, self.peer)
        return None if reply is None else (_HEAD, reply, _OK)

    @property
    def _is_busy(self) -> bool:
        """Whether there is no room for another call."""
        budget = self.serving.budget
        return (
            self._is_leaving
            or budget.calls >= self.serving.options.grpc_calls_max
            or budget.is_spent
            or self._sender.pending_bytes > _PENDING_MAX
        )

    def _turn_away(self, stream: Stream, headers: RequestHeaders) -> None:
        """No handler will see this call: say why."""
        pseudo, fields = headers.pseudo, headers.fields
        if headers.is_too_large:
            text = f"the headers have more than {self.serving.limits.header_list_max} bytes"
            self.send_end(stream, StatusCode.RESOURCE_EXHAUSTED, text)
        elif pseudo.get(":method") != "POST":
            self._send_http_status(stream, 405)
        elif not fields.get("content-type", "").startswith("application/grpc"):
            self._send_http_status(stream, 415)
        elif pseudo.get(":path") not in self.serving.entries:
            path = pseudo.get(":path", "")
            self.send_end(stream, StatusCode.UNIMPLEMENTED, f"there is no call {path[:200]}")
        elif self._is_leaving:
            self.send_end(stream, StatusCode.UNAVAILABLE, "the server stops")
        else:
            self.send_end(stream, StatusCode.RESOURCE_EXHAUSTED, "too many calls are under way")

    def _identify(self, exchange: Exchange) -> None:
        guard = self.serving.guard
        assert guard is not None
        refusal = guard.identify(exchange.call, self)
        if isinstance(refusal, tuple):
            exchange.turn_down(refusal)
        elif refusal is not None:
            exchange.work(self._refuse_later(exchange, refusal))

    async def _refuse_later(self, exchange: Exchange, refusal: Awaitable[Refusal]) -> None:
        exchange.refuse(await refusal)

    def receive(self, stream: Stream, data: bytes) -> None:
        self._http.credit(len(data))
        exchange = stream.owner
        if exchange is not None and not exchange.is_over:
            self._feed(exchange, data)

    def _feed(self, exchange: Exchange, data: bytes) -> None:
        reader, stream = exchange.reader, exchange.stream
        try:
            for message in reader.feed(data):
                if exchange.granted:
                    self.serving.budget.leave(exchange)
                exchange.message(message)
                if exchange.is_over:
                    return
                if exchange.is_complete:
                    self._awaiting.pop(exchange, None)
            if stream.remote_closed:
                self._awaiting.pop(exchange, None)
                if reader.buffered:
                    raise GrpcError(StatusCode.INTERNAL, "the request is cut off")
                exchange.half_closed()
            if exchange.is_over:
                return
            buffered = reader.buffered
            if buffered or exchange.half:
                self._note_half(exchange, buffered)
        except Exception as error:
            exchange.fail(error)
            exchange.stop_handler()

    def _note_half(self, exchange: Exchange, buffered: int) -> None:
        difference, exchange.half = buffered - exchange.half, buffered
        budget = self.serving.budget
        if not budget.received(exchange, difference):
            raise GrpcError(StatusCode.RESOURCE_EXHAUSTED, "too many requests come in at once")
        if buffered:
            if difference == buffered or difference <= 0:
                exchange.since = self.now  # its first bytes
            self._awaiting[exchange] = None
            if exchange.reader.missing > exchange.stream.receive_window:
                budget.ask(exchange)
        else:
            budget.leave(exchange)

    def reset(self, stream: Stream) -> None:
        if stream.owner is not None:
            stream.owner.abandon()
        room = self._rooms.pop(stream.id, None)
        if room is not None:
            _set(room)

    def writable(self, stream: Stream) -> None:
        if not self.is_stalled:
            room = self._rooms.pop(stream.id, None)
            if room is not None:
                _set(room)

    # What exchanges ask for

    def widen(self, stream: Stream, missing: int) -> None:
        """Let the rest of a large request come."""
        self._http.widen(stream, missing - stream.receive_window)
        self._schedule()

    def took(self, stream: Stream) -> None:
        """A handler took a request of a stream that stays open: there is room for others."""
        window = self.serving.limits.stream_window
        if not stream.remote_closed and stream.receive_window * _WINDOW_PART < window:
            self._http.widen(stream, window - stream.receive_window)
            self._schedule()

    def hold(self, exchange: Exchange, size: int) -> None:
        """A request waits for its answer."""
        exchange.held += size
        self.serving.budget.begin(self, size)

    def let_go(self, exchange: Exchange, size: int) -> None:
        """A handler has taken one of several requests."""
        if exchange.held:
            exchange.held -= size
            self.serving.budget.end(size)

    def hold_back(self, holds: bool) -> None:
        self._http.hold_back(holds)
        self._schedule()

    def ended(self, exchange: Exchange) -> None:
        """A call is over."""
        budget = self.serving.budget
        self.calls -= 1
        budget.calls -= 1
        self._awaiting.pop(exchange, None)
        if exchange.half:
            budget.received(exchange, -exchange.half)
            exchange.half = 0
        if exchange.granted or exchange.waits_for_turn:
            budget.leave(exchange)
        if exchange.held:
            budget.end(exchange.held)
            exchange.held = 0

    def reply(self, stream: Stream, message: Any) -> None:
        """The answer of a unary call."""
        self._sender.reply(stream, _HEAD, encoded(message), _OK)
        self._http.finish(stream)
        if not self._corked:
            self._schedule()

    def send(self, stream: Stream, message: Any) -> None:
        """One of several replies, or bytes that are some of them with their lengths."""
        if not stream.head_sent:
            self._sender.headers(stream, _HEAD)
        self._sender.data(stream, message if type(message) is bytes else encoded(message))
        if self._sender.out_bytes > _UNWRITTEN_MAX:
            self._flush()  # now, so that a handler that sends and sends hears when its client does not read
        else:
            self._schedule()

    def send_end(self, stream: Stream, status: StatusCode, message: str = "") -> None:
        """Trailers; the headers as well, if there were none."""
        block = _OK if status is StatusCode.OK else literal("grpc-status", str(int(status)))
        if message:
            block += literal("grpc-message", percent_encoded(message))
        if status is StatusCode.UNIMPLEMENTED:
            block += literal("grpc-accept-encoding", ENCODINGS)
        if stream.head_sent:
            self._sender.end(stream, block)
        else:
            self._sender.headers(stream, _HEAD + block, end=True)
        self._http.finish(stream)
        self._schedule()

    def _send_http_status(self, stream: Stream, status: int) -> None:
        self._sender.headers(stream, header_blocks.status(status), end=True)
        self._http.finish(stream)

    async def room(self, stream: Stream) -> None:
        """Wait until the client has read, or the call is over."""
        room = self._rooms.get(stream.id)
        if room is None:
            room = self._rooms[stream.id] = self._loop.create_future()
        await asyncio.shield(room)

    def _schedule(self) -> None:
        if not self._corked:
            self._corked = True
            self._loop.call_soon(self._uncork)

    def _uncork(self) -> None:
        self._corked = False
        if self._sender.out:
            self._flush()

    def _flush(self) -> None:
        out = self._sender.take()
        transport = self._transport
        if transport is None or not self.is_open or not out:
            return
        self.last_activity = self._loop.time()
        transport.write(out[0] if len(out) == 1 else b"".join(out))

    # Housekeeping

    def sweep(self, now: float) -> None:
        """Give up what takes too long: requests that do not come, replies that are not read, silence."""
        if not self.is_open:
            return
        self.now = self._sender.now = now
        remoting = self.serving.remoting
        since = self._stalled_since if self._closing_since is None else self._closing_since
        if since is not None and now - since > remoting.write_stall_seconds:
            self._drop("it does not read its replies")
            return
        if self._is_silent(now):
            self._drop("it has been silent, also when it was asked")
            return
        if self._incomplete_since is not None and self._stalled_since is None:
            patience = remoting.frame_seconds if self._http.last_stream else remoting.first_frame_seconds
            if now - self._incomplete_since > patience:
                self._drop("a frame takes too long")
                return
        for exchange in list(self._awaiting):
            allowed = remoting.frame_seconds + exchange.reader.buffered / _BYTES_PER_SECOND_MIN
            if now - exchange.since > allowed and not exchange.waits_for_turn and not self.is_stalled:
                exchange.close(StatusCode.DEADLINE_EXCEEDED, "the request takes too long to come")
                exchange.stop_handler()
        for stream in self._sender.blocked():
            if now - stream.waits_since > remoting.write_stall_seconds:
                self._http.cancel(stream, ErrorCode.CANCEL)
                self.reset(stream)
                self._schedule()
        if not self.calls and now - self.last_activity > self.serving.options.grpc_client_idle_time_mills / 1000:
            self.close()

    def _is_silent(self, now: float) -> bool:
        """A client with open calls may say nothing for as long as it likes, if only it is there: ask."""
        if not self.calls or self.is_stalled or now - self._heard < _SILENCE_SECONDS:
            self._pinged_at = None
        elif self._pinged_at is None:
            self._pinged_at = now
            self._http.ping()
            self._schedule()
        else:
            return now - self._pinged_at > self.serving.remoting.write_stall_seconds
        return False

    def leave(self, *, final: bool) -> None:
        """Tell the client that its next calls are for others to answer."""
        self._is_leaving = final
        if self.is_open and not self._http.is_over:
            self._http.go_away(final=final)
            self._schedule()

    def end_polls(self) -> None:
        """End the calls that only wait, as polls do."""
        for stream in list(self._http.streams.values()):
            exchange = stream.owner
            if exchange is not None and not exchange.is_over and exchange.entry.method.shape.is_stream:
                exchange.close(StatusCode.UNAVAILABLE, "the server stops")
                exchange.stop_handler()

    def end_calls(self) -> None:
        """End all calls."""
        for stream in list(self._http.streams.values()):
            exchange = stream.owner
            if exchange is not None and not exchange.is_over:
                exchange.close(StatusCode.UNAVAILABLE, "the server stops")
                exchange.stop_handler()

    def _drop(self, reason: str) -> None:
        _log.info("closing the connection from %s: %s", self.peer, reason)
        self.abort()

    def close(self) -> None:
        """Say goodbye, write what is waiting, then close."""
        if self._transport is not None and not self._transport.is_closing():
            if not self._http.is_over:
                self._http.go_away(final=True)
            self._flush()
            self._close_transport()

    def _close_transport(self) -> None:
        if self._transport is not None:
            self._closing_since = self._loop.time()
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
