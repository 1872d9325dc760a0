"""What a put answers, as a response code."""

from __future__ import annotations

from typing import Final

from flaremq.protocol.codes import ResponseCode
from flaremq.protocol.command import RequestError
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.status import PutMessageStatus

_CODES: Final = {
    PutMessageStatus.PUT_OK: ResponseCode.SUCCESS,
    PutMessageStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutMessageStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    PutMessageStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutMessageStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutMessageStatus.CREATE_MAPPED_FILE_FAILED: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutMessageStatus.OS_PAGE_CACHE_BUSY: ResponseCode.SYSTEM_BUSY,
    PutMessageStatus.IN_SYNC_REPLICAS_NOT_ENOUGH: ResponseCode.SYSTEM_ERROR,
}
_NOT_ENOUGH: Final = "in-sync replicas not enough"  # RocketMQ's words, which clients may look for


def code_of(status: PutMessageStatus) -> ResponseCode:
    """10 to 12 say that the message is stored, but not as durably as asked."""
    return _CODES.get(status, ResponseCode.SYSTEM_ERROR)


def not_enough_replicas() -> PutResult:
    """The result of a put that was not made, because too few slaves keep up."""
    return PutResult(PutMessageStatus.IN_SYNC_REPLICAS_NOT_ENOUGH, -1, -1, -1, 0, b"", _NOT_ENOUGH)


def require_stored(result: PutResult) -> None:
    """Raise RequestError unless the record is in the log."""
    if not result.status.stored:
        raise RequestError(code_of(result.status), result.detail or result.status.name)
