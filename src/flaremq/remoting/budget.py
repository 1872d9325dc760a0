"""ByteBudget: how much memory the requests of all connections of a server may take together.

Two kinds of bytes count. Requests *in flight* (complete, waiting for their replies): while there are too many,
connections are not read from; their replies are on the way and make room. *Half-received* frames: while there are too
many, only the connection that holds most goes on, for it is nearest to being done; the others wait for it. Whoever
makes no progress then, and so keeps the others from theirs, is cut off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection


class ByteBudget:
    """Shared by the connections of one server. Event loop only."""

    __slots__ = ("_was_overdrawn", "_was_spent", "bytes_max", "choked", "half", "in_flight")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.half = 0  # bytes of half-received frames
        self.in_flight = 0  # bytes of requests that wait for their replies
        self.choked: set[Connection] = set()  # not read from, for whatever reason
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
        return self.half > self.bytes_max

    def half_received(self, difference: int) -> bool:
        """A connection holds so many more bytes of a frame that is not complete; whether that is too much."""
        self.half += difference
        if self.half > self.bytes_max:
            self._was_overdrawn = True
            return difference > 0
        if self._was_overdrawn:
            self._was_overdrawn = False
            self._wake()
        return False

    def _wake(self) -> None:
        for connection in list(self.choked):
            connection.look_again()

    def forget(self, connection: Connection) -> None:
        """A connection is closed."""
        self.choked.discard(connection)
