"""The one exception tree, sorted by what the caller does next.

::

    FlareMQError
    ├── InvalidArgumentError     the caller's input is wrong; do not retry
    ├── NotFoundError            absent store, topic, group, key
    ├── UnavailableError         retry later or elsewhere (closing, locked, disk full, busy)
    ├── CorruptionError          bytes contradict the format; carries path, offset, expected, found
    ├── StoreIOError             the operating system said no; carries path and operation
    ├── ProtocolError
    │   ├── LocalProtocolError   we tried to send something illegal
    │   └── RemoteProtocolError  the peer did
    └── RequestError             a request ended with this response code and remark
        └── ReplyError           a server refused a request of ours; carries its address
            └── AccessDeniedError  because of who we are: other credentials, or another policy there

A refusal is at the same time the error that says what to do next, so nobody needs to know codes: a topic that does not
exist is a ``NotFoundReplyError`` (a ``NotFoundError``), a busy broker an ``UnavailableReplyError`` (an
``UnavailableError``), a filter that does not parse an ``InvalidReplyError`` (an ``InvalidArgumentError``).

Expected outcomes are results, not exceptions: ``PutMessageStatus``, ``GetMessageStatus``, ``None`` for
"need more bytes". The message always names the value, file or offset involved.
"""

from __future__ import annotations

import os


class FlareMQError(Exception):
    """Base of everything this package raises on purpose."""


class InvalidArgumentError(FlareMQError):
    """The input can never work: fix it, do not retry."""


class NotFoundError(FlareMQError):
    """The named thing does not exist."""


class UnavailableError(FlareMQError):
    """Not now or not here: retry later or elsewhere."""


class CorruptionError(FlareMQError):
    """Bytes contradict the format."""

    def __init__(
        self,
        what: str,
        *,
        path: str | os.PathLike[str] | None = None,
        offset: int | None = None,
        expected: object = None,
        found: object = None,
        advice: str = "",
    ) -> None:
        self.path = None if path is None else os.fspath(path)
        self.offset = offset
        self.expected = expected
        self.found = found
        place = "" if self.path is None else f" in {self.path}"
        if offset is not None:
            place += f" at {offset}"
        detail = "" if expected is None and found is None else f" (expected {expected!r}, found {found!r})"
        super().__init__(f"{what}{place}{detail}{advice}")


class StoreIOError(FlareMQError):
    """The operating system refused; chained from the ``OSError``."""

    def __init__(self, operation: str, path: str | os.PathLike[str], cause: OSError) -> None:
        self.operation = operation
        self.path = os.fspath(path)
        self.errno = cause.errno
        super().__init__(f"{operation} failed on {self.path}: {cause.strerror or cause}")


class ProtocolError(FlareMQError):
    """The wire protocol was broken."""


class LocalProtocolError(ProtocolError):
    """We tried to send something illegal."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something illegal."""


class RequestError(FlareMQError):
    """A request ends with this response code and remark. Raised by handlers (server) and for replies (client)."""

    def __init__(self, code: int, remark: str) -> None:
        self.code = code
        self.remark = remark
        super().__init__(f"code {code}: {remark}")


class ReplyError(RequestError):
    """A server refused a request: ``code``, ``remark`` and ``address`` tell the rest."""

    def __init__(self, code: int, remark: str, *, what: str, address: str, name: str = "") -> None:
        super().__init__(code, remark)
        self.address = address
        answered = f"{what} failed: {address} answered {name or f'code {code}'}"
        self.args = (answered + (f": {remark}" if remark else ""),)


class NotFoundReplyError(ReplyError, NotFoundError):
    """What was asked for does not exist there."""


class UnavailableReplyError(ReplyError, UnavailableError):
    """Not now or not there."""


class InvalidReplyError(ReplyError, InvalidArgumentError):
    """The server will never accept this."""


class AccessDeniedError(ReplyError):
    """The server does not believe who sends the request, or does not let them: another try changes nothing."""


class TransactionStateError(InvalidArgumentError):
    """A transaction listener answered something that is no state."""
