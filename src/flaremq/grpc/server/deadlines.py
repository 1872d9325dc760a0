"""Deadlines: ends calls that have not been answered in time.

Most calls are answered long before. So they are not kept in order: a call goes into the slot of its twentieth of a
second, and comes out of it when it is answered; when the slot's time has come whoever is left in it is late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")
_SLOTS_PER_SECOND = 20


class Deadlines(Generic[_T]):
    """Of one event loop."""

    def __init__(self, late: Callable[[_T], None]) -> None:
        self._late = late
        self._slots: dict[int, set[_T]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._done = 0  # the last slot that was emptied

    def add(self, item: _T, deadline: float) -> None:
        number = self._slot(deadline)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._done = int(loop.time() * _SLOTS_PER_SECOND)
            self._timer = loop.call_later(1 / _SLOTS_PER_SECOND, self._turn)
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = set()
        slot.add(item)

    def remove(self, item: _T, deadline: float) -> None:
        number = self._slot(deadline)
        slot = self._slots.get(number)
        if slot is not None:
            slot.discard(item)
            if not slot:
                del self._slots[number]

    @staticmethod
    def _slot(deadline: float) -> int:
        return int(deadline * _SLOTS_PER_SECOND) + 1  # not before its time

    def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        now = int(loop.time() * _SLOTS_PER_SECOND)
        self._timer = None
        due = range(self._done + 1, now + 1) if now - self._done <= len(self._slots) else sorted(self._slots)
        late = [item for number in due if number <= now for item in self._slots.pop(number, ())]
        self._done = now
        for item in late:
            self._late(item)
        if self._slots and self._timer is None:
            self._timer = loop.call_later(1 / _SLOTS_PER_SECOND, self._turn)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._slots.clear()
