"""RocketMQ's files about waiting timers: read when we take over a store from it, written when we hand ours over.

RocketMQ keeps a log of 52-byte units (``timerlog``), one for each record of the timer topic it has read and found not
due, and a wheel (``timerwheel``) that names the last unit of each time slot; units of a slot are chained backwards.
``config/timercheck`` says up to which slot it has delivered and which queue offset it reads next. What waits
is exactly: the units whose slot it has not reached, and the topic from that queue offset on.

All numbers big-endian. A unit:

    at  size  field
     0     4  size            52
     4     8  previous        position of the unit before in its slot, or -1
    12     4  magic           1 always, + 2 to be rolled, + 4 deletes another
    16     8  write_ms        when it was written
    24     4  delay_ms        its slot is write_ms + delay_ms
    28     8  physical_offset of the record
    36     4  record_size
    40     4  topic_hash      of the real topic
    44     8  reserved

A file of the log ends with a filler of 16 bytes: the bytes that remain (4), zero (8), another magic (4). A slot is its
time in units of the precision (8), the position of its first and last unit (8, 8), their count (4) and a zero (4); it
lies at that time modulo the number of slots.

RocketMQ goes by the last unit of the log rather than by ``timercheck`` to find the queue offset it reads next, so the
last unit is always that of the last record read, in a slot that is over if the record does not wait. We take what says
less: too great by a flipped bit, the queue offset of ``timercheck`` would pass over what nobody has read.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from math import gcd
from struct import Struct
from typing import Final, NamedTuple

from flaremq.storage.files import layout
from flaremq.storage.files.directory import read_small_file
from flaremq.storage.files.filesystem import FileSystem, write_atomically

_log = logging.getLogger(__name__)

UNIT = Struct(">iqiqiqiiq")
assert UNIT.size == 52
_SLOT = Struct(">qqqii")
assert _SLOT.size == 32
CHECK = Struct(">7q")
_FILLER = Struct(">iqi")
_FILLER_MAGIC: Final = ((0xBBCCDDEE ^ (1880681586 + 8)) ^ 0x80000000) - 0x80000000  # as a signed number
_CHECK_FILE_BYTES: Final = 4096
_LOG_FILE_BYTES: Final = 100 << 20  # mappedFileSizeTimerLog
_SLOTS: Final = 2 * 7 * 86_400
_REACH_SLOTS: Final = 7 * 86_400 - 60  # slots before the present one that RocketMQ still looks at
_ROLL_SLOTS: Final = 2 * 86_400  # timerRollWindowSlot
_DEFAULT, _ROLL, _DELETE = 1, 2, 4
_READ_UNITS: Final = 8192
_LEAST_PRECISION_MS: Final = 100  # of those that RocketMQ takes; all are multiples
_AHEAD_MS: Final = 86_400_000  # clocks are set back, but not by more


class TimerCheck(NamedTuple):
    """``config/timercheck`` without its data version."""

    read_ms: int
    log_end: int
    queue_offset: int

    def is_sound(self, now_ms: int, precision_ms: int) -> bool:
        """Whether RocketMQ can have been there. The file has no checksum, but its time is one of a slot, which no
        flipped bit of another is, and none that is far ahead."""
        is_slot = self.read_ms % gcd(precision_ms, _LEAST_PRECISION_MS) == 0
        return is_slot and 0 <= self.read_ms <= now_ms + _AHEAD_MS and self.queue_offset >= 0

    def is_past(self, queue_offset: int, out_ms: int) -> bool:
        """Whether a record has been read and delivered."""
        return queue_offset < self.queue_offset and out_ms < self.read_ms


class WaitingTimer(NamedTuple):
    """A record of the timer topic that waits."""

    slot_ms: int
    physical_offset: int
    size: int
    topic_hash: int
    is_delete: bool


class TimerWheelFiles:
    """The three kinds of files below one store. Any thread, one at a time; everything touches the disk."""

    def __init__(self, filesystem: FileSystem, store_path: str, precision_ms: int) -> None:
        self._filesystem = filesystem
        self._root = store_path
        self._log_folder = os.path.join(store_path, "timerlog")
        self._check_path = os.path.join(store_path, "config", "timercheck")
        self._precision_ms = precision_ms

    # Taking over

    def check_bytes(self) -> bytes | None:
        """What ``timercheck`` says, to be compared; None if there is none."""
        content = read_small_file(self._filesystem, self._check_path)
        return None if content is None or len(content) < CHECK.size else content[: CHECK.size]

    def read_check(self, check: bytes, now_ms: int) -> TimerCheck | None:
        """None, and a word in the log, if it is damaged: to repeat what RocketMQ delivered is better than to lose what
        it did not."""
        found = TimerCheck(*CHECK.unpack(check)[:3])
        if found.is_sound(now_ms, self._precision_ms):
            return found
        _log.warning("%s is damaged (%s): what RocketMQ delivered since is not known", self._check_path, found)
        return None

    def waiting(self, check: TimerCheck) -> Iterator[tuple[int, bool]] | None:
        """Physical offsets of the records RocketMQ has read and not delivered, each with True; None if its log is not
        there. The last record read, if it is none of them, comes last, with False."""
        names = [name for name in self._filesystem.list_directory(self._log_folder) if layout.is_file_name(name)]
        return self._units(sorted(names), check) if names else None

    def _units(self, names: list[str], check: TimerCheck) -> Iterator[tuple[int, bool]]:
        over = -1  # where the record of the last unit is, if that does not wait
        for name in names:
            file = self._filesystem.open(os.path.join(self._log_folder, name), read_only=True)
            try:
                at, is_over = 0, False
                while not is_over:
                    # Up to its last unit, as RocketMQ reads it, and not only to where ``check`` says that it ends.
                    data = file.read_at(at, _READ_UNITS * UNIT.size)
                    whole = len(data) - len(data) % UNIT.size
                    for unit in UNIT.iter_unpack(data[:whole]):
                        if unit[0] != UNIT.size or unit[2] & ~0xF:
                            is_over = True  # a filler, or never written
                            break
                        if unit[3] + unit[4] >= check.read_ms:
                            yield unit[5], True
                            over = -1
                        else:
                            over = unit[5]
                    at += whole
                    is_over = is_over or not whole
            finally:
                file.close()
        if over >= 0:
            yield over, False

    # Handing over

    def next_check(self, queue_offset: int, slots: Iterable[int], count: int, now_ms: int) -> bytes:
        """``timercheck`` for timers that wait in these slots, the topic read up to a queue offset."""
        read_ms = min([self._start(now_ms), *map(self._start, slots)])
        before = self.check_bytes()
        changes = CHECK.unpack(before)[6] if before is not None else 0
        end = _end_of(count, self._log_file_size())
        return CHECK.pack(read_ms, end, queue_offset, queue_offset, 0, now_ms, changes + 1)

    def write(self, timers: list[WaitingTimer], check: bytes, now_ms: int) -> None:
        """Replace all files. The last timer must be of the last record read; ``check`` comes last, atomically."""
        size = self._log_file_size()
        self._remove_old()
        if timers:
            slots = self._write_log(timers, size, now_ms)
            self._write_wheel(slots)
        self._filesystem.make_directories(os.path.dirname(self._check_path))
        write_atomically(self._filesystem, self._check_path, check.ljust(_CHECK_FILE_BYTES, b"\0"))

    def clamp(self, slot_ms: int, now_ms: int) -> int:
        """The slot for a timer that is long overdue: one that RocketMQ still looks at."""
        return slot_ms if slot_ms >= now_ms - _REACH_SLOTS * self._precision_ms else self._start(now_ms)

    def _start(self, time_ms: int) -> int:
        return time_ms // self._precision_ms * self._precision_ms

    def _log_file_size(self) -> int:
        """As RocketMQ was told to make them, if it was here: it refuses others. A file cut short does not count."""
        for name in self._filesystem.list_directory(self._log_folder):
            if layout.is_file_name(name):
                size = self._filesystem.size(os.path.join(self._log_folder, name))
                if _units_per_file(size) > 0:
                    return size
        return _LOG_FILE_BYTES

    def _remove_old(self) -> None:
        for name in self._filesystem.list_directory(self._log_folder):
            self._filesystem.remove(os.path.join(self._log_folder, name))
        for name in self._filesystem.list_directory(self._root):
            if name == "timerwheel" or name.startswith("timerwheel."):  # the latter: its snapshots
                self._filesystem.remove(os.path.join(self._root, name))
        self._filesystem.sync_directory(self._root)

    def _write_log(self, timers: list[WaitingTimer], file_size: int, now_ms: int) -> dict[int, list[int]]:
        """Write the units; the slots as (first position, last position, count) by time in units of the precision."""
        write_ms = self._start(now_ms)
        slots: dict[int, list[int]] = {}
        per_file = _units_per_file(file_size)
        self._filesystem.make_directories(self._log_folder)
        for number, first in enumerate(range(0, len(timers), per_file)):
            start = number * file_size
            data = bytearray()
            for index, timer in enumerate(timers[first : first + per_file]):
                position = start + index * UNIT.size
                slot_ms, magic = self._slot_and_magic(timer, write_ms)
                slot = slots.setdefault(slot_ms // self._precision_ms, [position, -1, 0])
                data += UNIT.pack(
                    UNIT.size,
                    slot[1],
                    magic,
                    write_ms,
                    slot_ms - write_ms,
                    timer.physical_offset,
                    timer.size,
                    timer.topic_hash,
                    0,
                )
                slot[1] = position
                slot[2] += -1 if timer.is_delete else 1
            if first + per_file < len(timers):
                data += _FILLER.pack(file_size - len(data), 0, _FILLER_MAGIC)
            self._write_file(os.path.join(self._log_folder, f"{start:020d}"), file_size, [(0, bytes(data))])
        self._filesystem.sync_directory(self._log_folder)
        return slots

    def _slot_and_magic(self, timer: WaitingTimer, write_ms: int) -> tuple[int, int]:
        """RocketMQ rolls by its own rule: a timer far ahead is put into the topic again before its record expires."""
        magic = _DEFAULT | (_DELETE if timer.is_delete else 0)
        ahead, roll = timer.slot_ms - write_ms, _ROLL_SLOTS * self._precision_ms
        if ahead < roll:
            return timer.slot_ms, magic
        return write_ms + (roll // 2 if ahead - roll < roll // 3 else roll), magic | _ROLL

    def _write_wheel(self, slots: dict[int, list[int]]) -> None:
        places = sorted((time % _SLOTS, time, slot) for time, slot in slots.items())
        parts: list[tuple[int, bytes]] = []
        run, run_at, next_place = bytearray(), 0, -1
        for place, time, (first, last, count) in places:
            if place != next_place and run:
                parts.append((run_at * _SLOT.size, bytes(run)))
                run.clear()
            if not run:
                run_at = place
            run += _SLOT.pack(time, first, last, count, 0)
            next_place = place + 1
        parts.append((run_at * _SLOT.size, bytes(run)))
        self._write_file(os.path.join(self._root, "timerwheel"), _SLOTS * _SLOT.size, parts)
        self._filesystem.sync_directory(self._root)

    def _write_file(self, path: str, size: int, parts: list[tuple[int, bytes]]) -> None:
        file = self._filesystem.open(path, create=True)
        try:
            file.resize(size)
            for at, data in parts:
                file.write_at(at, data)
            file.sync()
        finally:
            file.close()


def _units_per_file(file_size: int) -> int:
    return (file_size - _FILLER.size) // UNIT.size


def _end_of(count: int, file_size: int) -> int:
    """Where a log of ``count`` units ends."""
    if not count:
        return 0
    full, last = divmod(count - 1, _units_per_file(file_size))
    return full * file_size + (last + 1) * UNIT.size
