"""What a refusal of a server means: which :class:`~flaremq.errors.ReplyError` a code becomes. Names for error texts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from flaremq.errors import AccessDeniedError, InvalidReplyError, NotFoundReplyError, ReplyError, UnavailableReplyError
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

# Brokers answer NO_PERMISSION for a topic that nobody may write to, too, and those of 4.9 SYSTEM_ERROR for a wrong
# signature. So it is the remark that tells a refusal because of who asks: of ACL 1.0, of 2.0, and of our servers.
_REFUSED_CODES: Final = frozenset((ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION))
_OF_ACL: Final = re.compile(r"(?:\w+\.)*AclException: (.*?)(?:, [\w.$]+\([\w.]+:\d+\))?", re.DOTALL)
_ACCESS_REFUSAL: Final = re.compile(
    r"access denied|check signature failed|username cannot be null|User:.* is (?:not found|disabled)\."
    r"|has no permission (?:to access|for request) |No accessKey is configured|No acl config for "
    r"|No PlainAccessResource for |Need admin permission |No default permission for (?:topic|group):"
    r"|authorization context error|super user can only be ",
    re.IGNORECASE,
)

# Who asks was believed, and may not. Whatever else a refusal says counts as not believed.
_NOT_PERMITTED: Final = re.compile(
    r"has no permission (?:to access|for request) |Need admin permission |No default permission for (?:topic|group):",
    re.IGNORECASE,
)


def reply_error(reply: RemotingCommand, what: str, address: str) -> ReplyError:
    """The error for a reply that says no."""
    remark, kind = reply.remark or "", _KINDS.get(reply.code, ReplyError)
    if is_access_refusal(reply):
        kind = AccessDeniedError
        if of_acl := _OF_ACL.fullmatch(remark):
            remark = of_acl[1]  # without the place in the broker's source
    return kind(reply.code, remark, what=what, address=address, name=code_name(reply.code))


def is_access_refusal(reply: RemotingCommand) -> bool:
    """Whether a server refused because of who asks, not because of what is asked for."""
    if reply.code not in _REFUSED_CODES or not reply.remark:
        return False
    return _OF_ACL.fullmatch(reply.remark) is not None or _ACCESS_REFUSAL.search(reply.remark) is not None


def is_believed(error: AccessDeniedError) -> bool:
    """Whether a server knows who asked, and only does not let them."""
    return _NOT_PERMITTED.search(error.remark) is not None


def code_name(code: int) -> str:
    """``TOPIC_NOT_EXIST (17)``, or the number alone if it has no name here."""
    try:
        return f"{ResponseCode(code).name} ({code})"
    except ValueError:
        return f"code {code}"


def queue_name(queue: MessageQueue) -> str:
    """A queue as logs and errors call it."""
    return f"queue {queue.queue_id} of topic {queue.topic} on {queue.broker_name}"
