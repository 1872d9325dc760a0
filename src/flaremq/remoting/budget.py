"""ByteBudget: how much memory the requests of all connections of a server may take together.

Two kinds of bytes count. Requests *in flight* (complete, waiting for their replies): while there are too many,
connections are not read from; their replies are on the way and make room. *Half-received* frames: while there are too
many, only one of the large ones goes on, that which has received most, for it is nearest to being done; when it is, the
next one's turn comes. Reading from one of them instead of from all is also what leaves the loop time for others. Small
frames, which nearly all are, go on meanwhile, up to twice the budget. Whoever makes no progress when it is his turn,
and so keeps the others from theirs, is cut off (RemotingServer).

Receiving takes time as well as memory: of many connections in the middle of large frames only a few are read from in
one turn of the loop, the others *rest*.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection

SMALL_BYTES: Final = 256 << 10  # about what one read brings
_READ_AT_ONCE: Final = 4  # connections in the middle of large frames, in one turn of the loop


class ByteBudget:
    """Shared by the connections of one server. Event loop only."""

    __slots__ = (
        "_large",
        "_resting",
        "_was_overdrawn",
        "_was_spent",
        "bytes_max",
        "choked",
        "going",
        "half",
        "half_max",
        "in_flight",
    )

    def __init__(self, bytes_max: int, half_max: int) -> None:
        self.bytes_max = bytes_max
        self.half_max = half_max
        self.half = 0  # bytes of half-received frames
        self.in_flight = 0  # bytes of requests that wait for their replies
        self.choked: set[Connection] = set()  # not read from, for whatever reason
        self.going: Connection | None = None  # whose large frame is received while the others wait
        self._large: set[Connection] = set()  # in the middle of large frames
        self._resting: deque[Connection] = deque()  # those of them that have been read from in this turn of the loop
        self._was_spent = False  # connections wait for requests to be answered
        self._was_overdrawn = False  # connections wait for others to receive their frames

    @property
    def is_spent(self) -> bool:
        """Whether requests in flight leave no room for more."""
        return self.in_flight >= self.bytes_max

    def take(self, size: int) -> bool:
        """A request is in flight; whether the budget is spent now."""
        self.in_flight += size
        if self.in_flight < self.bytes_max:
            return False
        self._was_spent = True
        return True

    def give_back(self, size: int) -> None:
        """It is no more; with a quarter of the budget free those may go on that waited for room."""
        self.in_flight -= size
        if self._was_spent and self.in_flight <= self.bytes_max * 3 // 4:
            self._was_spent = False
            self._wake()

    @property
    def is_overdrawn(self) -> bool:
        """Whether half-received frames take more than there is."""
        return self.half > self.half_max

    def half_received(self, connection: Connection, difference: int) -> bool:
        """A connection holds so many more bytes of a frame that is not complete; whether it is to wait now."""
        self.half += difference
        if connection.buffered < SMALL_BYTES:
            self._large.discard(connection)
        if difference < 0 and connection is self.going:
            self.going = None
        if self.half <= self.half_max:
            if self._was_overdrawn:
                self._was_overdrawn = False
                self.going = None
                self._wake()
            return False
        self._was_overdrawn = True
        if difference < 0:
            self.choose()
            return False
        is_small = connection.buffered < SMALL_BYTES and self.half <= 2 * self.half_max
        return difference > 0 and connection is not self.going and not is_small

    def rests(self, connection: Connection) -> bool:
        """A connection received a part of a large frame; whether others are to be read from before it goes on."""
        self._large.add(connection)
        if len(self._large) <= _READ_AT_ONCE:
            return False
        if not self._resting:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._resting.append(connection)
        return True

    def _next_turn(self) -> None:
        for _ in range(min(_READ_AT_ONCE, len(self._resting))):
            self._resting.popleft().end_rest()
        if self._resting:
            asyncio.get_running_loop().call_soon(self._next_turn)

    def choose(self) -> None:
        """While half-received frames take too much: let one of those that wait go on, if none does."""
        if self.going is None and self.is_overdrawn:
            waiting = [connection for connection in self.choked if connection.waits_for_room]
            if waiting:
                self.going = max(waiting, key=lambda connection: connection.buffered)
                self.going.look_again()

    def _wake(self) -> None:
        for connection in list(self.choked):
            connection.look_again()

    def forget(self, connection: Connection) -> None:
        """A connection is closed."""
        self.choked.discard(connection)
        self._large.discard(connection)
        if self.going is connection:
            self.going = None
            self.choose()
