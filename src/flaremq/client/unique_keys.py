"""The keys of new messages: one is made for every message sent, so this is compiled."""

from __future__ import annotations

import cython

from flaremq.clock import Clock, SystemClock
from flaremq.message.message_id import UniqueKeyFactory

if not cython.compiled:
    from flaremq.core.memory import store_u8, writable_view_of
    from flaremq.core.wall_clock import wall_clock_ms

_COUNTED = 4  # digits at the end of a key


class UniqueKeys:
    """Makes unique keys for one client.

    The same keys as ``UniqueKeyFactory`` makes: all but the last four digits is kept for as long as the millisecond
    lasts, and there is no lock, since a client lives on one event loop.
    """

    __slots__ = ("_clock", "_counter", "_factory", "_is_wall_clock", "_now_ms", "_text")

    def __init__(self, factory: UniqueKeyFactory, clock: Clock) -> None:
        self._factory = factory
        self._clock = clock
        self._is_wall_clock = type(clock) is SystemClock
        self._now_ms = -1
        self._text = bytearray()
        self._counter = 0

    def make(self) -> str:
        now_ms = wall_clock_ms() if self._is_wall_clock else self._clock.now_ms()
        if now_ms != self._now_ms:
            self._now_ms = now_ms
            self._text = bytearray(self._factory.make(now_ms).encode())
        self._counter = counter = (self._counter + 1) & 0xFFFF
        text = writable_view_of(self._text)
        for place in range(_COUNTED):
            digit = (counter >> (4 * place)) & 15
            store_u8(text, text.size - 1 - place, digit + (48 if digit < 10 else 55))
        return self._text.decode("ascii")
