"""What a server's refusal means to the caller.

Every reply with an unexpected code becomes a :class:`ReplyError`. It is at the same time the general error that says
what to do next, so nobody needs to know codes: a missing topic is a ``NotFoundError``, a busy broker an
``UnavailableError``, a bad filter an ``InvalidArgumentError``. The code is kept for those who do know.
"""

from __future__ import annotations

from flaremq.errors import InvalidArgumentError, NotFoundError, UnavailableError
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError


class ReplyError(RequestError):
    """A server refused a request."""

    def __init__(self, code: int, remark: str, *, what: str, address: str) -> None:
        super().__init__(code, remark)
        self.address = address
        self.args = (f"{what} failed: {address} answered {code_name(code)}" + (f": {remark}" if remark else ""),)


class NotFoundReplyError(ReplyError, NotFoundError):
    """What was asked for does not exist there."""


class UnavailableReplyError(ReplyError, UnavailableError):
    """Not now or not there."""


class InvalidReplyError(ReplyError, InvalidArgumentError):
    """The server will never accept this."""


class TransactionStateError(InvalidArgumentError):
    """A transaction listener answered something that is no state."""


_KINDS: dict[int, type[ReplyError]] = {
    ResponseCode.SYSTEM_BUSY: UnavailableReplyError,
    ResponseCode.MESSAGE_ILLEGAL: InvalidReplyError,
    ResponseCode.SERVICE_NOT_AVAILABLE: UnavailableReplyError,
    ResponseCode.TOPIC_NOT_EXIST: NotFoundReplyError,
    ResponseCode.QUERY_NOT_FOUND: NotFoundReplyError,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: InvalidReplyError,
    ResponseCode.SUBSCRIPTION_NOT_EXIST: NotFoundReplyError,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: NotFoundReplyError,
    ResponseCode.INVALID_PARAMETER: InvalidReplyError,
    ResponseCode.CONSUMER_NOT_ONLINE: NotFoundReplyError,
    ResponseCode.CONSUME_MSG_TIMEOUT: UnavailableReplyError,
    ResponseCode.BROKER_NOT_EXIST: NotFoundReplyError,
    ResponseCode.FLOW_CONTROL: UnavailableReplyError,
    ResponseCode.GO_AWAY: UnavailableReplyError,
}


def reply_error(reply: RemotingCommand, what: str, address: str) -> ReplyError:
    """The error for a reply that says no."""
    kind = _KINDS.get(reply.code, ReplyError)
    return kind(reply.code, reply.remark or "", what=what, address=address)


def code_name(code: int) -> str:
    """``TOPIC_NOT_EXIST (17)``, or the number alone if it has no name here."""
    try:
        return f"{ResponseCode(code).name} ({code})"
    except ValueError:
        return f"code {code}"
