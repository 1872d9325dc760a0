"""LogEnd: where the log ends, and how it is moved on: claim a place, write behind the end, publish.

All of it under ``lock``, which also guards the next queue offsets; whatever fails before ``publish`` leaves the log as
it was. ``CommitLog`` is the log that ends here; it makes room when a file is full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from flaremq.clock import Clock, SystemClock
from flaremq.storage.log.put_lock import PutLock

if not cython.compiled:
    from flaremq.core.memory import writable_view_of
    from flaremq.core.wall_clock import wall_clock_ms

if TYPE_CHECKING:
    from flaremq.storage.files.mapped_file import MappedFile

_SPARE = 8  # every file keeps room for the header of a filler
_CLOCK_BACKSTEP_MAX_MS = 600_000  # smaller steps back are hidden, so store times do not decrease in the log


class LogEnd:
    """The end of one log. Change it under ``lock`` only."""

    __slots__ = (
        "_clock",
        "_is_system_clock",
        "buffer",
        "current",
        "end_offset",
        "last_timestamp",
        "limit",
        "lock",
        "view",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_system_clock = isinstance(clock, SystemClock)
        self.lock = PutLock()  # guards appending: the current file, end_offset and the queue offsets
        self.current: MappedFile | None = None
        self.limit = -1  # appends end at or before this file offset, minus the spare bytes
        self.last_timestamp = 0  # store time of the newest record
        self.end_offset = 0
        self.write_into(memoryview(bytearray()))

    def write_into(self, buffer: memoryview) -> None:
        """Appends go into this memory from now on."""
        self.buffer = buffer
        self.view = writable_view_of(buffer)

    def claim(self, total: int) -> int:
        """A place for the next ``total`` bytes: the file offset in ``current``.

        Raises StoreIOError, with nothing changed, when there is no space.
        """
        file = self.current
        if file is None or file.wrote + total + _SPARE > self.limit:
            file = self.make_room(total)
        return file.wrote

    def make_room(self, total: int) -> MappedFile:
        """Reserve more of the current file, or finish it and go to the next one."""
        raise NotImplementedError

    def store_time(self) -> int:
        """The store time of the next record, never before that of the one before, unless the clock was corrected."""
        now = wall_clock_ms() if self._is_system_clock else self._clock.now_ms()
        if now < self.last_timestamp and self.last_timestamp - now <= _CLOCK_BACKSTEP_MAX_MS:
            return self.last_timestamp  # small steps back are hidden, a corrected clock is believed
        return now

    def publish(self, end: int, now: int) -> None:
        """The log goes up to file offset ``end``: what was written at the claimed place is part of it."""
        file = self.current
        assert file is not None
        file.wrote = end
        self.last_timestamp = now
        self.end_offset = file.start + end
