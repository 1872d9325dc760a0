"""Budget: how much memory the calls of all connections of a server may take together.

Three kinds of bytes count: requests that have not come in whole, requests that are being answered, replies that their
clients have no room for (``replies``). A request larger than a stream's window comes in when it is its turn: so there
are only so many of them at a time, however many clients begin one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from flaremq.grpc.http2.limits import Waiting

if TYPE_CHECKING:
    from flaremq.grpc.server.connection import GrpcConnection
    from flaremq.grpc.server.exchange import Exchange

SMALL_BYTES: Final = 65_536


class Budget:
    """Shared by the connections of one server. Event loop only."""

    __slots__ = (
        "_granted",
        "_held_back",
        "_waiting",
        "calls",
        "half",
        "half_max",
        "in_flight",
        "in_flight_max",
        "replies",
    )

    def __init__(self, in_flight_max: int, half_max: int) -> None:
        self.in_flight_max = in_flight_max
        self.half_max = half_max
        self.in_flight = 0
        self.half = 0
        self.calls = 0
        self.replies = Waiting()
        self._granted = 0  # bytes of large requests that may come
        self._waiting: deque[Exchange] = deque()  # for their turn
        self._held_back: set[GrpcConnection] = set()

    # Requests that are answered

    def begin(self, connection: GrpcConnection, size: int) -> None:
        self.in_flight += size
        if self.in_flight > self.in_flight_max and connection not in self._held_back:
            self._held_back.add(connection)
            connection.hold_back(True)

    def end(self, size: int) -> None:
        self.in_flight -= size
        if self._held_back and self.in_flight <= self.in_flight_max * 3 // 4:
            held, self._held_back = self._held_back, set()
            for connection in held:
                connection.hold_back(False)

    def forget(self, connection: GrpcConnection) -> None:
        self._held_back.discard(connection)

    @property
    def is_spent(self) -> bool:
        """Whether nothing more can be taken at all."""
        return self.in_flight > 2 * self.in_flight_max or self.replies.bytes > self.in_flight_max

    # Requests that have not come in whole

    def received(self, exchange: Exchange, difference: int) -> bool:
        """A call holds so many more bytes of a request; False if there is no room for them."""
        self.half += difference
        if difference <= 0 or self.half <= self.half_max or exchange.granted:
            return True
        is_small = exchange.reader.buffered <= SMALL_BYTES and self.half <= 2 * self.half_max
        return is_small

    def ask(self, exchange: Exchange) -> None:
        """A request is larger than its window: let it come when there is room."""
        if not exchange.granted and not exchange.waits_for_turn:
            exchange.waits_for_turn = True
            self._waiting.append(exchange)
            self._next()

    def leave(self, exchange: Exchange) -> None:
        """The request is complete, or its call over."""
        if exchange.granted:
            self._granted -= exchange.granted
            exchange.granted = 0
            self._next()
        elif exchange.waits_for_turn:
            self._waiting.remove(exchange)
        exchange.waits_for_turn = False

    def _next(self) -> None:
        while self._waiting:
            exchange = self._waiting[0]
            size = exchange.reader.missing
            if self._granted and self._granted + size > self.half_max:
                return
            self._waiting.popleft()
            exchange.waits_for_turn = False
            self._granted += size
            exchange.granted = size
            exchange.grant()
