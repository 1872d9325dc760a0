"""From a decision to a reply on the wire, and from an error to the code that a broker expects of a controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps

from flaremq.controller.outcomes import Reply
from flaremq.errors import InvalidArgumentError, ProtocolError
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.remoting.connection import Connection

Answer = Callable[[Connection, RemotingCommand], Awaitable[Reply]]
Handler = Callable[[Connection, RemotingCommand], Awaitable[RemotingCommand]]


def command_of(reply: Reply) -> RemotingCommand:
    """The reply as it is sent."""
    return RemotingCommand.response(
        reply.code,
        reply.remark,
        ext=None if reply.header is None else reply.header.encode(),
        body=b"" if reply.body is None else reply.body.to_json(),
    )


def answered(answer: Answer) -> Handler:
    """A handler of what answers by a :class:`Reply`; input that can never work is an invalid request."""

    @wraps(answer)
    async def handle(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        try:
            return command_of(await answer(connection, request))
        except (InvalidArgumentError, ProtocolError) as error:
            raise RequestError(ResponseCode.CONTROLLER_INVALID_REQUEST, str(error)) from error

    return handle
