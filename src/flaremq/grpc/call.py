"""Call: what a handler knows of the call it answers. Handlers know no transport.

A handler is one of three shapes, by the shape of its method:

    unary          def or async def  f(request, call) -> reply
    server stream  async def         f(request, call, send)     await send(reply), as often as it likes
    bidi           async def         f(stream, call)            async for request in stream; await stream.send(reply)

A reply carries what became of a request in its ``status``. Raising GrpcError ends the call with another status of gRPC
than OK, which clients take for a fault of the network; any other exception becomes the reply with the status
INTERNAL_SERVER_ERROR. When the call is over early (the client cancelled it or is gone, its deadline passed, the server
stops), the handler's task is cancelled and then the callbacks given to ``on_cancel`` run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from enum import IntEnum
from typing import Any, Final, Protocol


class StatusCode(IntEnum):
    """Status codes of gRPC itself."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class GrpcError(Exception):
    """Ends a call with a status of gRPC."""

    def __init__(self, status: StatusCode, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Call:
    """One call, from its first frame to its last. Event loop only."""

    __slots__ = (
        "_callbacks",
        "account",
        "client_id",
        "deadline",
        "is_cancelled",
        "is_encrypted",
        "language",
        "local_address",
        "metadata",
        "method",
        "peer",
    )

    def __init__(
        self,
        method: str,
        metadata: Mapping[str, str],
        *,
        peer: str = "127.0.0.1:0",
        local_address: str = "127.0.0.1:8081",
        deadline: float | None = None,
        is_encrypted: bool = False,
    ) -> None:
        self.method: Final = method  # its name: "SendMessage"
        self.metadata: Final = metadata  # keys in small letters; of several values of a key the last
        self.peer: Final = peer  # "host:port" of the socket, never of a header
        self.local_address: Final = local_address  # "host:port" as the client reached us
        self.deadline: Final = deadline  # in the loop's time; None: none was given
        self.is_encrypted: Final = is_encrypted
        self.client_id: Final = metadata.get("x-mq-client-id", "")
        self.language: Final = metadata.get("x-mq-language", "")
        self.account = ""  # who has proved to be the caller; empty: nobody, or nobody was asked
        self.is_cancelled = False
        self._callbacks: list[Callable[[], object]] | None = None

    def remaining(self) -> float | None:
        """Seconds to the deadline, not below 0; None without one."""
        if self.deadline is None:
            return None
        return max(self.deadline - asyncio.get_running_loop().time(), 0.0)

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """Call this, once, if the call is over before its handler is done; at once if that is so already."""
        if self.is_cancelled:
            callback()
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def cancel(self) -> None:
        """The call is over. For the transport and for tests."""
        if self.is_cancelled:
            return
        self.is_cancelled = True
        callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            callback()


class Stream(Protocol):
    """The messages of a bidi call. ``async for`` ends when the client will send no more."""

    def __aiter__(self) -> AsyncIterator[Any]: ...

    async def send(self, message: Any) -> None:
        """Send, when the client has room for it."""

    def push(self, message: Any) -> bool:
        """Send without waiting, for those who are not the call's handler. False: the call is over, or its client does
        not read what it is sent; nothing was sent then."""

    def finish(self) -> None:
        """End the call, and its handler with it; not for the handler."""


Send = Callable[[Any], Awaitable[None]]  # of a message, or of bytes: some messages, each with its length before it
UnaryHandler = Callable[[Any, Call], Any]  # a reply or an awaitable of one
ServerStreamHandler = Callable[[Any, Call, Send], Awaitable[None]]
BidiHandler = Callable[[Stream, Call], Awaitable[None]]
# For unary calls that came whole: request and reply have their length before them; client id, peer. None: nothing was
# done, its handler is to be asked.
AtOnce = Callable[[bytes, str, str], bytes | None]
Handlers = Mapping[str, UnaryHandler | ServerStreamHandler | BidiHandler]  # by the name of the method
