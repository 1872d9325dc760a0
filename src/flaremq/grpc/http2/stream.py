"""Stream: one call as HTTP/2 sees it."""

from __future__ import annotations

from collections import deque
from typing import Any

from flaremq.grpc.http2.header_blocks import RequestHeaders

Bytes = bytes | memoryview


class Stream:
    """A stream that is not closed at both ends. ``owner`` is the listener's."""

    __slots__ = (
        "head_sent",
        "headers",
        "id",
        "local_closed",
        "owner",
        "pending",
        "pending_bytes",
        "receive_window",
        "remote_closed",
        "send_window",
        "trailers",
        "waits_since",
    )

    def __init__(self, number: int, send_window: int, receive_window: int) -> None:
        self.id = number
        self.owner: Any = None
        self.headers: RequestHeaders | None = None  # of a call that its owner does not know yet
        self.send_window = send_window
        self.receive_window = receive_window
        self.remote_closed = False  # the peer sends no more
        self.local_closed = False  # we have sent all
        self.head_sent = False
        self.pending: deque[Bytes] | None = None  # data the peer has no room for
        self.pending_bytes = 0
        self.waits_since = 0.0  # when the peer last took some of it
        self.trailers: bytes | None = None  # to follow the pending data
