"""One connection, either end of it: frames in, handlers called, replies out.

Everything runs on the event loop. Whatever arrived in one read is parsed and handled in one go, and whatever is
answered meanwhile is written in one go; nothing is written per reply. A peer that does not read its replies is not
read from either (back-pressure), so that it can fill nobody's memory but its own: its requests wait in its own
*backlog*, and so do those of a peer that sent more in one go than its share of the loop's time.

Long on purpose: reading, handling and writing look at each other's state with every read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from flaremq.errors import LocalProtocolError, RemoteProtocolError, UnavailableError
from flaremq.log_lines import LimitedLog
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import ONEWAY_FLAG, RESPONSE_FLAG, Body, RemotingCommand
from flaremq.protocol.frame import HEADER_SIZE_MAX, REPLY_HEADER_SIZE_MAX, FrameDecoder, encode_head, encode_parts
from flaremq.remoting.address import describe_peer
from flaremq.remoting.budget import SMALL_BYTES, ByteBudget
from flaremq.remoting.direct_write import socket_of, write_now
from flaremq.remoting.handlers import TAKEN, HandlerTable, after_guard, error_response
from flaremq.remoting.tls import certificate_name

if TYPE_CHECKING:
    from flaremq.remoting.options import RemotingOptions

_log = logging.getLogger(__name__)
_closings = LimitedLog(_log, lines_max=20)  # anybody who reaches a port can cause them
_BYTES_PER_SECOND_MIN = 65536  # a frame that comes slower than this does not come at all
_SLICE_SECONDS = 0.01  # so long one connection is served before the others get their turn
_CHECK_REQUESTS = 8  # so often in a read a connection asks whether to go on with it
_STILL_SECONDS = 1.0  # of no progress, when others wait for the memory
_REMARK_MAX = 4096  # characters of the sentence in a reply
_UNSENT_MAX = 65_536  # reply bytes that are sent at once: the peer works on them while we work on its next requests


class RequestTimeoutError(UnavailableError):
    """No reply came in time; whether the request was carried out is unknown."""


class Connection(asyncio.BaseProtocol):
    """A connection, made by RemotingServer or RemotingClient. Event loop thread only.

    No asyncio.Protocol, though it has its ``data_received``: uvloop would read by that from a subclass that offers a
    buffer of its own.
    """

    takes_places = False  # whether sends are told where they stand (``stored``) instead of being written a frame

    def __init__(
        self,
        table: HandlerTable,
        options: RemotingOptions,
        *,
        opened: Callable[[Connection], bool] | None = None,
        closed: Callable[[Connection], None] | None = None,
        budget: ByteBudget | None = None,
    ) -> None:
        self._table = table
        self._entries = table.entries
        self._guard = table.guard if opened is not None else None
        self._reads = table.reads
        self._latencies = table.latencies if opened is not None else None
        self._options = options
        self._opened = opened
        self._closed = closed
        self._budget = budget or ByteBudget(options.in_flight_bytes_max, options.half_received_bytes_max)
        self._loop = asyncio.get_running_loop()
        # A client reads replies, a server requests.
        self._decoder = FrameDecoder(header_limit=REPLY_HEADER_SIZE_MAX if opened is None else HEADER_SIZE_MAX)
        self._transport: asyncio.Transport | None = None
        self._out: list[Body] = []
        self._unsent = 0  # bytes in it
        self._descriptor = -1  # of a socket that may be written to directly
        self._corked = False  # inside data_received or with a flush on its way
        self._calls: dict[int, tuple[asyncio.Future[RemotingCommand], float]] = {}
        self._in_flight = 0
        self._in_flight_bytes = 0
        self._backlog: list[RemotingCommand] = []  # read, not handled yet
        self._continuing = False  # the loop will come back to the backlog
        self._half_received = 0  # as the budget knows it
        self.waits_for_room = False  # others receive their frames first
        self._rests = False  # others in the middle of large frames are read from first
        self._choked = False  # reading is paused: too much in flight
        self._listens = True  # until the server stops
        self._stalled_since: float | None = None  # the peer does not read
        self._drained: asyncio.Future[None] | None = None
        self.on_close: list[Callable[[Connection], None]] = []
        self.visitor: Any = None  # what a guard keeps of the connection
        self.peer = "unknown:0"
        self.peer_host = bytes(8)
        self.is_encrypted = False
        self.peer_certificate_name: str | None = None  # common name; None: no certificate was shown and checked
        self.is_open = False
        self.opened_at = self.last_activity = self._received_at = self._loop.time()
        self._frame_since: float | None = self.opened_at  # a frame is awaited or under way since then

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.peer, self.peer_host = describe_peer(transport.get_extra_info("peername"))
        tls = transport.get_extra_info("ssl_object")
        self.is_encrypted = tls is not None
        self.peer_certificate_name = certificate_name(tls)
        self.is_open = True
        self._descriptor = socket_of(transport)
        self._transport.set_write_buffer_limits(high=self._options.write_buffer_high_bytes)
        if self._opened is not None and not self._opened(self):
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self.last_activity = self._received_at = now = self._loop.time()
        self._reads.value += 1
        decoder = self._decoder
        if self._half_received and decoder.failure is None:
            # A read that ends in the middle of a frame must not keep the next one from the fast path.
            data = decoder.joined(data)
        fast_path = self._table.fast_path
        taken = 0
        if (
            fast_path is not None
            and (self._guard is None or self._table.verify_sends is not None)
            and data
            and not self._backlog
            and decoder.failure is None
        ):
            uncork = not self._corked
            self._corked = True
            taken = fast_path(self, data)
            self._corked = not uncork
            if self._out and uncork:
                self._flush()
        commands = decoder.receive(data, taken) if taken < len(data) else []
        self._take_in(commands, now, has_moved=bool(taken or commands))

    def _take_in(self, commands: list[RemotingCommand], now: float, *, has_moved: bool) -> None:
        """Serve what a read brought; ``has_moved``: frames were completed by it."""
        decoder = self._decoder
        if commands:
            if self._latencies is not None:
                arrived = monotonic()
                for command in commands:
                    command.received_at = arrived
            if self._backlog:
                self._backlog += commands
            else:
                self._handle(commands)
        if decoder.failure is not None:
            if not self._backlog:
                self._refuse(decoder.failure)
        elif decoder.buffered:
            if has_moved or self._frame_since is None or not self._half_received:
                self._frame_since = now  # its first bytes
        else:
            self._frame_since = None
        if decoder.buffered != self._half_received:
            self._note_half_received(decoder.buffered)

    def _handle(self, commands: list[RemotingCommand]) -> None:
        """Serve requests in order, until they are done or must wait."""
        uncork = not self._corked
        self._corked = True
        entries, guard = self._entries, self._guard
        until = monotonic() + _SLICE_SECONDS
        for number, command in enumerate(commands):
            if (
                number
                and not number % _CHECK_REQUESTS
                and self._opened is not None
                and (self._is_blocked or not self.is_open or monotonic() > until)
            ):
                self._backlog = commands[number:]
                break
            if command.flag & RESPONSE_FLAG:
                self._take_reply(command)
                continue
            entry = entries.get(command.code)
            if guard is not None:
                try:
                    verdict = guard(self, command, is_served=entry is not None)
                except Exception as error:  # what the guard cannot judge does not pass
                    verdict = error_response(error, command)
                if verdict is not None:
                    if type(verdict) is RemotingCommand:
                        self.reply(command, verdict)
                    elif verdict is not TAKEN:
                        assert entry is not None
                        entry[1].enter(self, command, after_guard(verdict, entry[0], self, command))  # type: ignore[arg-type]  # an awaitable
                    continue
            if entry is None:
                remark = f" request type {command.code} not supported"
                self.reply(command, RemotingCommand.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark))
                continue
            handler, lane = entry
            try:
                outcome = handler(self, command)
            except Exception as error:
                outcome = error_response(error, command)
            if outcome is None:
                continue
            if type(outcome) is RemotingCommand:
                self.reply(command, outcome)
            else:
                lane.enter(self, command, outcome)  # type: ignore[arg-type]  # a command was handled above
        if uncork:
            self._corked = False
            if self._out:
                self._flush()
        if self._backlog:
            self._update_reading()

    def _continue(self) -> None:
        """The loop has served the others: go on with what was left."""
        self._continuing = False
        backlog, self._backlog = self._backlog, []
        if not self.is_open:
            return
        self._handle(backlog)
        if not self._backlog:
            if self._decoder.failure is not None:
                self._refuse(self._decoder.failure)
            self._update_reading()

    def _note_half_received(self, size: int) -> None:
        difference, self._half_received = size - self._half_received, size
        if self._budget.half_received(self, difference):
            self.waits_for_room = True
            self._update_reading()
            self._budget.choose()
        elif difference > 0 and size >= SMALL_BYTES and self._budget.rests(self):
            self._rests = True
            self._update_reading()

    def _refuse(self, failure: RemoteProtocolError) -> None:
        if self.is_open:
            _closings.warning("closing the connection from %s: %s", self.peer, failure)
            self.close()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._descriptor = -1
        self._out.clear()
        self._unsent = 0
        self._backlog.clear()
        self._wake_drained()
        self._note_half_received(0)
        self._budget.forget(self)
        calls, self._calls = self._calls, {}
        for future, _ in calls.values():
            if not future.done():
                future.set_exception(UnavailableError(f"the connection to {self.peer} was closed"))
        if self._closed is not None:
            self._closed(self)
        callbacks, self.on_close = self.on_close, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                _log.exception("after the connection from %s was closed", self.peer)

    def pause_writing(self) -> None:
        self._stalled_since = self._loop.time()
        self._update_reading()

    def resume_writing(self) -> None:
        self._stalled_since = None
        self.last_activity = self._loop.time()
        self._wake_drained()
        self._update_reading()

    def _wake_drained(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    async def drain(self) -> None:
        """Wait until the peer has read enough that writing makes sense again, or is gone."""
        if self._stalled_since is None or not self.is_open:
            return
        if self._drained is None:
            self._drained = self._loop.create_future()
        await asyncio.shield(self._drained)

    @property
    def _is_blocked(self) -> bool:
        """Whether handling more requests of the peer would only fill memory."""
        # A client goes on reading while its requests pile up: the server may be waiting for just that.
        return (
            (self._stalled_since is not None and self._opened is not None)
            or self._in_flight >= self._options.in_flight_max
            or self._in_flight_bytes >= IN_FLIGHT_BYTES_MAX
            or self.waits_for_room
            or self._rests
            or self._budget.is_spent
            or not self._listens
        )

    def _update_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        blocked = self._is_blocked
        if self._backlog and not blocked and not self._continuing:
            self._continuing = True
            self._loop.call_soon(self._continue)
        choke = blocked or bool(self._backlog)
        if choke and not self._choked:
            self._choked = True
            transport.pause_reading()
            self._budget.choked.add(self)
        elif self._choked and not choke:
            self._choked = False
            if self._frame_since is not None:  # we did not read: its time begins anew
                self._frame_since = self._received_at = self._loop.time()
            transport.resume_reading()
            self._budget.choked.discard(self)

    def stop_reading(self) -> None:
        """Take no more requests; those that were taken are still answered."""
        self._listens = False
        self._update_reading()

    def look_again(self) -> None:
        """Something that kept the connection from being read may be over."""
        self.waits_for_room = False
        self._update_reading()

    def end_rest(self) -> None:
        """It is the connection's turn again to be read from."""
        self._rests = False
        times = self._frame_since, self._received_at
        self._update_reading()
        if not self._choked:
            self._frame_since, self._received_at = times  # a rest is short: its frame does not get more time for it

    def stands_still(self, now: float) -> bool:
        """Whether a frame is not complete and nothing more of it comes, though it could."""
        return self._half_received > 0 and not self._choked and now - self._received_at > _STILL_SECONDS

    @property
    def is_stalled(self) -> bool:
        """Whether the peer does not read what it is sent."""
        return self._stalled_since is not None

    # Requests of the peer that are under way

    def begin(self, request: RemotingCommand) -> None:
        """A request waits for its reply; too many of them, or too large, and nothing more is read."""
        size = len(request.body)
        self._in_flight += 1
        self._in_flight_bytes += size
        if (
            self._budget.take(size)
            or self._in_flight >= self._options.in_flight_max
            or self._in_flight_bytes >= IN_FLIGHT_BYTES_MAX
        ):
            self._update_reading()

    def finish(self, request: RemotingCommand) -> None:
        """The request is answered, or never will be."""
        size = len(request.body)
        self._in_flight -= 1
        self._in_flight_bytes -= size
        self._budget.give_back(size)
        if self._choked:
            self._update_reading()

    def begin_many(self, count: int) -> None:
        """``begin`` for several requests at once."""
        self._in_flight += count
        if self._in_flight >= self._options.in_flight_max:
            self._update_reading()

    def finish_many(self, count: int) -> None:
        self._in_flight -= count
        if self._choked:
            self._update_reading()

    # Writing

    def stored(self, queue_offset: int, physical_offset: int) -> None:
        """A send is stored; for those who take places."""
        raise NotImplementedError

    def reply(self, request: RemotingCommand, response: RemotingCommand) -> None:
        """Answer a request; nothing is sent to those who asked for no answer, or are gone."""
        if self._latencies is not None:
            self.answered(request, response.code)
        if request.flag & ONEWAY_FLAG or not self.is_open:
            return
        response.opaque = request.opaque
        response.flag |= RESPONSE_FLAG
        response.serialize_type = request.serialize_type
        remark = response.remark
        if remark is not None and (len(remark) > _REMARK_MAX or "\n" in remark):
            response.remark = remark[:_REMARK_MAX].replace("\n", " ")  # it may quote what the peer sent
        try:
            self.write(encode_parts(response))
        except LocalProtocolError as error:
            small = RemotingCommand.response(ResponseCode.SYSTEM_ERROR, str(error))
            small.opaque, small.serialize_type = request.opaque, request.serialize_type
            self.write([encode_head(small, 0)])

    def answered(self, request: RemotingCommand, code: int = 0) -> None:
        """Count a request. For those who write its answer by themselves, or answer nothing to who asked for nothing."""
        latencies = self._latencies
        if latencies is not None and request.received_at:
            result = _ONEWAY if request.flag & ONEWAY_FLAG else _SUCCESS if self.is_open else _NOT_WRITTEN
            latencies.note(request.code, code, result, request.was_held, monotonic() - request.received_at)

    def answered_sends(self, code: int, count: int, received_at: float, *, oneway: bool) -> None:
        """``answered`` for the sends of one read that the fast path has stored."""
        latencies = self._latencies
        if latencies is not None:
            result = _ONEWAY if oneway else _SUCCESS if self.is_open else _NOT_WRITTEN
            latencies.note_sends(code, result, monotonic() - received_at, count)

    def notify(self, command: RemotingCommand) -> None:
        """Send a request that expects no reply."""
        if self.is_open:
            self.write(encode_parts(command))

    def write(self, parts: list[Body]) -> None:
        """Put frames into the next write, or write now if they have become many bytes."""
        self._out += parts
        for part in parts:
            self._unsent += len(part)
        if self._unsent >= _UNSENT_MAX:
            self._flush()
        elif not self._corked:
            self._corked = True
            self._loop.call_soon(self._uncork)

    def write_alone(self, parts: list[Body]) -> None:
        """``write``, for what nothing else in this turn of the loop will join: it goes out now."""
        transport = self._transport
        if self._corked or self._descriptor < 0 or transport is None or not self.is_open:
            self.write(parts)
            return
        self.last_activity = self._loop.time()
        left = write_now(transport, self._descriptor, parts)
        if left:
            self.write(left)

    def _uncork(self) -> None:
        self._corked = False
        if self._out:
            self._flush()

    def _flush(self) -> None:
        out, self._out = self._out, []
        size, self._unsent = self._unsent, 0
        transport = self._transport
        if transport is None or not self.is_open:
            return
        self.last_activity = self._loop.time()
        if size >= _UNSENT_MAX and self._descriptor >= 0:
            out = write_now(transport, self._descriptor, out)
        if len(out) == 1:
            transport.write(out[0])
        elif size <= _JOIN_MAX:
            transport.write(b"".join(out))
        elif out:
            transport.writelines(out)

    # Requests of ours

    def call(self, command: RemotingCommand, timeout: float) -> asyncio.Future[RemotingCommand]:
        """Send a request; the future gets the reply whatever its code."""
        future = self._loop.create_future()
        if not self.is_open:
            future.set_exception(UnavailableError(f"the connection to {self.peer} is closed"))
            return future
        self._calls[command.opaque] = (future, self._loop.time() + timeout)
        # Who makes one call at a time waits for no turn of the loop.
        (self.write_alone if len(self._calls) == 1 else self.write)(encode_parts(command))
        return future

    async def request(self, command: RemotingCommand, timeout: float = 3.0) -> RemotingCommand:
        """Send a request and wait for its reply."""
        return await self.call(command, timeout)

    def _take_reply(self, command: RemotingCommand) -> None:
        call = self._calls.pop(command.opaque, None)
        if call is not None and not call[0].done():
            call[0].set_result(command)

    @property
    def calls(self) -> int:
        """Requests of ours without a reply yet."""
        return len(self._calls)

    # Housekeeping

    def sweep(self, now: float) -> None:
        """Give up calls that took too long and connections that are dead, idle or too slow."""
        if self._calls:
            late = [opaque for opaque, (future, deadline) in self._calls.items() if deadline <= now or future.done()]
            for opaque in late:
                future, _ = self._calls.pop(opaque)
                if not future.done():
                    future.set_exception(RequestTimeoutError(f"no reply from {self.peer} in time"))
        if self._stalled_since is not None and now - self._stalled_since > self._options.write_stall_seconds:
            self._drop("it does not read its replies")

    def sweep_server_side(self, now: float) -> None:
        """What a server also asks of its clients: frames that arrive, and some traffic."""
        self.sweep(now)
        if not self.is_open:
            return
        options = self._options
        if self._frame_since is not None and not self._choked:
            received = self._decoder.buffered
            allowed = options.frame_seconds + received / _BYTES_PER_SECOND_MIN
            if now - self._frame_since > (allowed if received else options.first_frame_seconds) or (
                received and now - self._received_at > options.frame_seconds
            ):
                self._drop("a frame takes too long")
                return
        if now - self.last_activity > options.server_channel_max_idle_time_seconds:
            self._drop("it is idle")

    @property
    def buffered(self) -> int:
        """Bytes of a half-received frame."""
        return self._decoder.buffered

    def drop_half_received(self) -> None:
        """Give up the frame that is coming in, and the connection with it."""
        self._decoder.discard()
        self._note_half_received(0)
        self.abort()

    def _drop(self, reason: str) -> None:
        _closings.info("closing the connection from %s: %s", self.peer, reason)
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Write what is waiting, then close."""
        if self._transport is not None and not self._transport.is_closing():
            if self._out:
                self._flush()
            self._transport.close()

    def abort(self) -> None:
        """Close now; unsent replies are lost."""
        if self._transport is not None:
            self._transport.abort()


# What became of an answer, in RocketMQ's words.
_SUCCESS, _ONEWAY, _NOT_WRITTEN = "success", "oneway", "write_channel_failed"
_JOIN_MAX = 16384  # below this one copy costs less than a gathered write
IN_FLIGHT_BYTES_MAX = 16 << 20  # request bytes of one connection that wait for replies before it is read from again
