"""Why something is not known, as a code that pages have a text for."""

from __future__ import annotations

from flaremq.dashboard.data.state import Failure
from flaremq.errors import AccessDeniedError, FlareMQError, RemoteProtocolError, ReplyError
from flaremq.protocol.codes import ResponseCode

NOT_READ_YET = "not_read_yet"
NOT_TOLD = "not_told"
DENIED = "denied"
UNREACHABLE = "unreachable"

_UNKNOWN_REQUESTS = frozenset((ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.VERSION_NOT_SUPPORTED))


def reason_of(error: FlareMQError) -> Failure:
    """``denied``, ``not_told`` (the server does not know the question) or ``unreachable``."""
    if isinstance(error, AccessDeniedError):
        return Failure(DENIED, str(error))
    if isinstance(error, RemoteProtocolError) or (isinstance(error, ReplyError) and error.code in _UNKNOWN_REQUESTS):
        return Failure(NOT_TOLD, str(error))
    if isinstance(error, ReplyError):
        return Failure(NOT_TOLD if error.code == ResponseCode.SYSTEM_ERROR else UNREACHABLE, str(error))
    return Failure(UNREACHABLE, str(error))
