"""What becomes of a call: the ``status`` that every reply carries, and what the codes of brokers are in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from flaremq.errors import FlareMQError, InvalidArgumentError, UnavailableError
from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import Code
from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.remoting.connection import RequestTimeoutError

_MESSAGE_MAX: Final = 1024

# The original's local mode loses most of these on its way and says INTERNAL_SERVER_ERROR; clients know them all.
_OF_REMOTING: Final[Mapping[int, Code]] = {
    ResponseCode.SUCCESS: Code.OK,
    ResponseCode.SYSTEM_BUSY: Code.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: Code.NOT_IMPLEMENTED,
    ResponseCode.NO_PERMISSION: Code.FORBIDDEN,
    ResponseCode.TOPIC_NOT_EXIST: Code.TOPIC_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: Code.ILLEGAL_FILTER_EXPRESSION,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: Code.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.POLLING_FULL: Code.TOO_MANY_REQUESTS,
    ResponseCode.POLLING_TIMEOUT: Code.MESSAGE_NOT_FOUND,
    ResponseCode.PULL_NOT_FOUND: Code.MESSAGE_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY: Code.MESSAGE_NOT_FOUND,
    ResponseCode.PULL_OFFSET_MOVED: Code.ILLEGAL_OFFSET,
    ResponseCode.FLOW_CONTROL: Code.TOO_MANY_REQUESTS,
}
# Of sends alone: the message is stored, but not as durably as asked.
_OF_SENDS: Final[Mapping[int, Code]] = {
    ResponseCode.FLUSH_DISK_TIMEOUT: Code.MASTER_PERSISTENCE_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: Code.SLAVE_PERSISTENCE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: Code.HA_NOT_AVAILABLE,
}


class Refused(Exception):
    """A call, or one of its entries, that ends with this status."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> Any:
        return status(self.code, self.message)


def status(code: Code, message: str = "OK") -> Any:
    return classes.Status(code=code, message=message[:_MESSAGE_MAX])


OK: Final = status(Code.OK)


def of_send(code: int) -> Code:
    """The code of a send's reply."""
    return _OF_SENDS.get(code) or of_remoting(code)


def of_remoting(code: int) -> Code:
    """The code of any other reply of a broker."""
    return _OF_REMOTING.get(code, Code.INTERNAL_SERVER_ERROR)


def of_reply(reply: RemotingCommand) -> Refused:
    """Why a broker did not do what it was asked."""
    code = of_remoting(reply.code)
    return Refused(Code.INTERNAL_SERVER_ERROR if code is Code.OK else code, reply.remark or f"code {reply.code}")


def of_error(error: Exception) -> Refused:
    """What an error of ours says to a client."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, RequestError):
        return Refused(of_remoting(error.code), str(error))
    if isinstance(error, RequestTimeoutError | TimeoutError):
        return Refused(Code.PROXY_TIMEOUT, str(error) or "the broker did not answer in time")
    if isinstance(error, UnavailableError):
        return Refused(Code.INTERNAL_SERVER_ERROR, str(error))
    if isinstance(error, InvalidArgumentError):
        return Refused(Code.BAD_REQUEST, str(error))
    if isinstance(error, FlareMQError):
        return Refused(Code.INTERNAL_SERVER_ERROR, str(error))
    raise error


def of_many(entries: Iterable[Any]) -> Any:
    """The status of a call by those of its entries: theirs if they agree."""
    found = {entry.status.code: entry.status for entry in entries}
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        return status(Code.INTERNAL_SERVER_ERROR, "there are no entries")
    return status(Code.MULTIPLE_RESULTS, "the entries have different results")
