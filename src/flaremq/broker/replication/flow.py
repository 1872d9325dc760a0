"""How much goes over an HA connection: measured (for request 907), and kept below a limit where one is set."""

from __future__ import annotations

from typing import Final

_WINDOW_SECONDS: Final = 1.0


class RateMeter:
    """Bytes a second, over the last whole second."""

    __slots__ = ("_bytes", "_last", "_since", "total")

    def __init__(self, now: float) -> None:
        self.total = 0
        self._bytes = 0  # in the second that began at ``_since``
        self._last = 0  # in the one before
        self._since = now

    def count(self, size: int, now: float) -> None:
        if now - self._since >= _WINDOW_SECONDS:
            self._turn(now)
        self._bytes += size
        self.total += size

    def per_second(self, now: float) -> int:
        if now - self._since >= _WINDOW_SECONDS:
            self._turn(now)
        return self._last

    def _turn(self, now: float) -> None:
        elapsed = now - self._since
        self._last = int(self._bytes / elapsed) if elapsed < 2 * _WINDOW_SECONDS else 0
        self._bytes = 0
        self._since = now


class FlowControl:
    """At most so many data bytes a second, by a debt: a frame is sent whole, and the next one waits until it is paid.

    Idle time saves up a tenth of a second's bytes, no more, so that a slave that was away does not get a burst.
    """

    __slots__ = ("_credit", "_paid_at", "per_second")

    def __init__(self, now: float, per_second: int = 0) -> None:
        self.per_second = per_second  # 0: no limit
        self._credit = 0.0
        self._paid_at = now

    def wait_seconds(self, now: float) -> float:
        """0 if the next frame may go now."""
        if not self.per_second:
            return 0.0
        self._credit = min(self._credit + (now - self._paid_at) * self.per_second, self.per_second / 10)
        self._paid_at = now
        return 0.0 if self._credit > -1 else -self._credit / self.per_second  # less than a byte is nothing

    def spend(self, size: int) -> None:
        if self.per_second:
            self._credit -= size
