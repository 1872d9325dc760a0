"""A connection without a socket: what handlers see of one, and a way to call them as a real one does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from flaremq.errors import UnavailableError
from flaremq.protocol.command import RESPONSE_FLAG, RemotingCommand
from flaremq.remoting.address import describe_peer
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable, error_response


class FakeConnection(Connection):
    """Keeps what is sent to the peer; needs no event loop to be made."""

    def __init__(self, peer: str = "127.0.0.1:40001") -> None:
        host, _, port = peer.rpartition(":")
        self.peer, self.peer_host = describe_peer((host, int(port)))
        self.is_open = True
        self._stalled_since = None
        self.on_close: list[Callable[[Connection], None]] = []
        self.replies: list[RemotingCommand] = []
        self.notified: list[RemotingCommand] = []
        self.asked: list[RemotingCommand] = []
        self.answers: list[RemotingCommand] = []  # what the peer will answer, in turn

    def reply(self, request: RemotingCommand, response: RemotingCommand) -> None:
        if self.is_open and not request.is_oneway:
            response.opaque = request.opaque
            response.flag |= RESPONSE_FLAG
            response.serialize_type = request.serialize_type
            self.replies.append(response)

    def notify(self, command: RemotingCommand) -> None:
        if self.is_open:
            self.notified.append(command)

    async def request(self, command: RemotingCommand, timeout: float = 3.0) -> RemotingCommand:
        self.asked.append(command)
        if not self.is_open or not self.answers:
            raise UnavailableError(f"no reply from {self.peer}")
        return self.answers.pop(0)

    def close(self) -> None:
        """The end, with everything that follows from it."""
        if self.is_open:
            self.is_open = False
            callbacks, self.on_close = self.on_close, []
            for callback in callbacks:
                callback(self)

    abort = close

    def take_notified(self) -> list[RemotingCommand]:
        """What was sent without being asked for, since the last time."""
        notified, self.notified = self.notified, []
        return notified


async def ask(table: HandlerTable, connection: FakeConnection, request: RemotingCommand) -> RemotingCommand:
    """Handle a request; the reply, whether it comes at once or later or is an error."""
    handler, _ = table.entries[request.code]
    before = len(connection.replies)
    try:
        outcome: Any = handler(connection, request)
        if outcome is not None and not isinstance(outcome, RemotingCommand):
            outcome = await outcome
    except asyncio.CancelledError:
        raise
    except Exception as error:
        outcome = error_response(error, request)
    if outcome is not None:
        return outcome  # type: ignore[no-any-return]
    assert len(connection.replies) > before, f"request {request.code} was not answered"
    return connection.replies[before]
