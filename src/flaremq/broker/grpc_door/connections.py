"""Connections that no socket has: what the broker's handlers see of a gRPC client.

A handler takes a connection and a request. For one request of a call there is a :class:`CallConnection`, which hands
the reply to who waits for it and ends when the call does. A client that is registered is a :class:`MemberConnection`
as long as it is there: brokers push requests over it and know by its end that the client is gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from flaremq.access.callers.caller_guard import Registered
from flaremq.errors import FlareMQError, UnavailableError
from flaremq.grpc.backends.backend import Member, SendOutcome
from flaremq.grpc.backends.requests import send_outcome
from flaremq.message.hosts import encode_host
from flaremq.protocol.command import Body, RemotingCommand
from flaremq.protocol.frame import REPLY_HEADER_SIZE_MAX, FrameDecoder
from flaremq.remoting.connection import Connection, RequestTimeoutError
from flaremq.remoting.handlers import HandlerTable, Taken, error_response

_log = logging.getLogger(__name__)
NOBODY: Final = bytes(8)
_UNDER_WAY_SECONDS: Final = 1.0


class _NoSocket(Connection):
    """What both have in common: no transport, so nothing of the base class that reads or writes one."""

    def __init__(self, peer: str) -> None:  # the base's attributes are a socket's
        self._loop = asyncio.get_running_loop()
        self.on_close: list[Callable[[Connection], None]] = []
        self.visitor: Any = None
        self.peer = peer
        self.peer_host = stored_form(peer)
        self.is_encrypted = True  # whoever opened the door to the client has judged that
        self.peer_certificate_name: str | None = None
        self.is_open = True
        self.waits_for_room = False

    @property
    def is_stalled(self) -> bool:
        return False

    def begin(self, request: RemotingCommand) -> None:
        """Nothing: a call has its limits where it came in."""

    def finish(self, request: RemotingCommand) -> None:
        """Nothing."""

    def begin_many(self, count: int) -> None:
        """Nothing."""

    def finish_many(self, count: int) -> None:
        """Nothing."""

    def answered(self, request: RemotingCommand, code: int = 0) -> None:
        """Nothing."""

    def answered_sends(self, code: int, count: int, received_at: float, *, oneway: bool) -> None:
        """Nothing."""

    def write_alone(self, parts: list[Body]) -> None:
        """There is no turn of a loop to wait for."""
        self.write(parts)

    async def drain(self) -> None:
        """Nothing: who takes a reply has room for it."""

    def close(self) -> None:
        """No more of it: everybody who waits on behalf of the connection hears so."""
        if not self.is_open:
            return
        self.is_open = False
        callbacks, self.on_close = self.on_close, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                _log.exception("after a client of gRPC at %s was gone", self.peer)

    def abort(self) -> None:
        self.close()


class _AskedConnection(_NoSocket):
    """One request, whose reply somebody waits for."""

    def write(self, parts: list[Body]) -> None:
        """Some handlers answer with frames that they have put together by themselves."""
        for command in _decoder().receive(b"".join(parts), 0):
            self.reply(command, command)


class SendConnection(_AskedConnection):
    """One send: what is told of it is where its message stands."""

    takes_places = True

    def __init__(self, peer: str) -> None:
        super().__init__(peer)
        self.outcome: asyncio.Future[SendOutcome] = self._loop.create_future()

    def stored(self, queue_offset: int, physical_offset: int) -> None:
        if not self.outcome.done():
            self.outcome.set_result(
                SendOutcome(code=0, remark=None, queue_offset=queue_offset, physical_offset=physical_offset)
            )

    def reply(self, request: RemotingCommand, response: RemotingCommand) -> None:
        if not self.outcome.done():
            self.outcome.set_result(send_outcome(response))


class CallConnection(_AskedConnection):
    """One request on behalf of a call."""

    def __init__(self, peer: str) -> None:
        super().__init__(peer)
        self.answer: asyncio.Future[RemotingCommand] = self._loop.create_future()

    def reply(self, request: RemotingCommand, response: RemotingCommand) -> None:
        if not self.answer.done():
            self.answer.set_result(response)

    def expire(self, code: int, seconds: float) -> None:
        """There is no answer in time."""
        if not self.answer.done():
            self.answer.set_exception(RequestTimeoutError(f"request {code} was not answered within {seconds} s"))
            self.answer.exception()  # retrieved: the caller may have gone as well

    def close(self) -> None:
        super().close()
        if not self.answer.done():
            # What is under way may still bring messages, which are to be given back; who waited hears nothing more.
            self._loop.call_later(_UNDER_WAY_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if not self.answer.done():
            self.answer.set_exception(UnavailableError("the client has gone"))
            self.answer.exception()  # retrieved: the caller may have gone as well


class MemberConnection(_NoSocket):
    """A client that is registered."""

    def __init__(self, member: Member, broker: str) -> None:
        super().__init__(member.peer)
        self.visitor = Registered.at(member.peer, member.account)
        self._member = member
        self._broker = broker
        self._tasks: set[asyncio.Task[None]] = set()

    def notify(self, command: RemotingCommand) -> None:
        if self.is_open:
            task = self._loop.create_task(self._notify(command))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _notify(self, command: RemotingCommand) -> None:
        try:
            await self._member.asked(self._broker, command)
        except FlareMQError as error:
            _log.info("client %s was not told request %d: %s", self._member.client_id, command.code, error)

    def call(self, command: RemotingCommand, timeout: float) -> asyncio.Future[RemotingCommand]:
        return self._loop.create_task(self._ask(command, timeout))

    async def request(self, command: RemotingCommand, timeout: float = 3.0) -> RemotingCommand:
        return await self._ask(command, timeout)

    async def _ask(self, command: RemotingCommand, timeout: float) -> RemotingCommand:
        async with asyncio.timeout(timeout):
            answer = await self._member.asked(self._broker, command)
        if answer is None:
            raise UnavailableError(f"client {self._member.client_id} does not answer request {command.code}")
        return answer

    def reply(self, request: RemotingCommand, response: RemotingCommand) -> None:
        """Of its registrations; who registers waits for the outcome itself."""

    def write(self, parts: list[Body]) -> None:
        """Nothing is written to a client but what ``notify`` and ``call`` are given."""


def begin(table: HandlerTable, connection: _AskedConnection, request: RemotingCommand) -> None:
    """Let the broker answer a request that came by no wire; its guard has been asked about the call."""
    entry = table.entries.get(request.code)
    if entry is None:
        raise UnavailableError(f"request {request.code} is not served")
    handler, lane = entry
    try:
        outcome: Any = handler(connection, request)
    except Exception as error:
        outcome = error_response(error, request)
    if type(outcome) is RemotingCommand:
        connection.reply(request, outcome)
    elif isinstance(outcome, Coroutine | asyncio.Future):
        lane.enter(connection, request, outcome)
    assert not isinstance(outcome, Taken)


def serve(
    table: HandlerTable, connection: CallConnection, request: RemotingCommand, seconds: float
) -> RemotingCommand | Awaitable[RemotingCommand]:
    """What the broker answers, if it does so at once, or what will be that."""
    begin(table, connection, request)
    answer = connection.answer
    if answer.done():
        connection.close()
        return answer.result()
    return _answer_of(connection, request, seconds)


async def _answer_of(connection: CallConnection, request: RemotingCommand, seconds: float) -> RemotingCommand:
    answer = connection.answer
    # A timer and no asyncio.timeout: acknowledgements come here.
    timer = asyncio.get_running_loop().call_later(seconds, connection.expire, request.code, seconds)
    try:
        return await answer
    finally:
        timer.cancel()
        connection.close()


_kept_decoder = FrameDecoder(header_limit=REPLY_HEADER_SIZE_MAX)


def _decoder() -> FrameDecoder:
    """One for all replies: they are whole frames, after which a decoder is as it was before."""
    global _kept_decoder
    if _kept_decoder.failure is not None or _kept_decoder.buffered:
        _kept_decoder = FrameDecoder(header_limit=REPLY_HEADER_SIZE_MAX)
    return _kept_decoder


def stored_form(peer: str) -> bytes:
    try:
        return encode_host(peer)
    except FlareMQError:
        return NOBODY
