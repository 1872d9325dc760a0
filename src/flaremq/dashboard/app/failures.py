"""What went wrong, as a status, a code and a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from flaremq.errors import (
    AccessDeniedError,
    FlareMQError,
    InvalidArgumentError,
    NotFoundError,
    ProtocolError,
    RequestError,
    UnavailableError,
)
from flaremq.visible import visible

_TEXT_MAX: Final = 1_000
_HINTS: Final = {
    "sign_in": "sign in first",
    "forbidden": "start the dashboard with --token-file and sign in with the token",
    "unreachable": "is the name server running, and is its address right?",
    "denied": "another account, or another policy at the broker",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Of one request."""

    status: int
    code: str
    message: str
    hint: str | None = None

    @property
    def value(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "code": self.code,
            "message": self.message,
            "hint": self.hint or _HINTS.get(self.code),
        }


class RefusedError(Exception):
    """A request that is not served."""

    def __init__(self, status: int, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.failure = Failure(status, code, message, hint)


_KINDS: Final[tuple[tuple[type[FlareMQError], int, str], ...]] = (
    (AccessDeniedError, 403, "denied"),
    (NotFoundError, 404, "not_found"),
    (InvalidArgumentError, 400, "bad_request"),
    (UnavailableError, 503, "unreachable"),
    (RequestError, 409, "refused"),
    (ProtocolError, 502, "unreachable"),
)


def failure_of(error: Exception) -> Failure:
    """Of an error that is ours, or of one that nobody thought of: then no more is said than that."""
    if isinstance(error, RefusedError):
        return error.failure
    for kind, status, code in _KINDS:
        if isinstance(error, kind):
            return Failure(status, code, visible(" ".join(str(error).split()))[:_TEXT_MAX])
    return Failure(500, "internal", "the dashboard failed; its log says why")
