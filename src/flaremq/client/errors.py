"""What a refusal of a server means: which :class:`~flaremq.errors.ReplyError` a code becomes. Names for error texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flaremq.errors import InvalidReplyError, NotFoundReplyError, ReplyError, UnavailableReplyError
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand

if TYPE_CHECKING:  # the command line asks a name server without these bodies
    from flaremq.protocol.bodies.queue import MessageQueue

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
    ResponseCode.CONTROLLER_NOT_LEADER: UnavailableReplyError,
    ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST: NotFoundReplyError,
}


def reply_error(reply: RemotingCommand, what: str, address: str) -> ReplyError:
    """The error for a reply that says no."""
    kind = _KINDS.get(reply.code, ReplyError)
    return kind(reply.code, reply.remark or "", what=what, address=address, name=code_name(reply.code))


def code_name(code: int) -> str:
    """``TOPIC_NOT_EXIST (17)``, or the number alone if it has no name here."""
    try:
        return f"{ResponseCode(code).name} ({code})"
    except ValueError:
        return f"code {code}"


def queue_name(queue: MessageQueue) -> str:
    """A queue as logs and errors call it."""
    return f"queue {queue.queue_id} of topic {queue.topic} on {queue.broker_name}"
