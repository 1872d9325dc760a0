"""Units into messages, a run of them in one call: as far as their records lie in one log file and leave no doubt.

Where a unit says one thing and the log another, the plain code of ``reader`` goes on with that unit alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import cython

if TYPE_CHECKING:
    from flaremq.message.message_ext import MessageExt

if not cython.compiled:
    from flaremq.core.frame import frame_at
    from flaremq.core.memory import load_i32, load_i64, prefetch_read, view_of
    from flaremq.core.table import CHECK_BODY_CRC, CHECK_RECORD_CRC, OK
    from flaremq.message.message_ext import lent_message

_UNIT_SIZE = 20
_FILLER_SIZE = 2**31 - 1
_LOW_32 = 0xFFFFFFFF
_FETCHED_AHEAD = 1024
_EXT_ADDRESS_MAX = -(2**31) - 1  # a tag hash never lies this low: it is an address in the ext file


# How much one answer may hold besides its first message: messages; then, for records before the physical offset that
# comes next (taken to be on disk) bytes and messages, and the same two for later ones.
Limits: TypeAlias = tuple[int, int, int, int, int, int]


# Long on purpose: every field of a unit is used once, and a call for each would cost more than what it does.
def collect(
    found: list[MessageExt],
    size: int,
    units: bytes,
    number: int,
    stop: int,
    log: memoryview,
    base: int,
    end: int,
    queue_id: int,
    queue_offset: int,
    skip_below: int,
    limits: Limits,
    wanted: dict[int, set[str]] | None,
) -> tuple[int, int, int, bool]:
    """Add the messages of ``units[number:stop]`` to ``found``; unit 0 is that of ``queue_offset``.

    ``log`` is the file that begins at physical offset ``base``; records end before ``end``. Units before ``skip_below``
    lead to records that are gone. It stops before a unit whose record is elsewhere or not as it should be, and answers
    with the number of the first unit not examined, ``size`` and the bytes of what was found, the physical offset of the
    last unit it looked at (-1 if there is none), and whether there is room for no more.
    """
    unit = view_of(units)
    view = view_of(log)
    max_count, far, disk_bytes, disk_count, memory_bytes, memory_count = limits
    limit = min(end - base, view.size)
    last_physical = -1
    count = len(found)
    stop = min(stop, unit.size // _UNIT_SIZE)
    number = max(number, 0)
    while number < stop:
        physical = load_i64(unit, number * _UNIT_SIZE)
        record_size = load_i32(unit, number * _UNIT_SIZE + 8)
        if record_size == _FILLER_SIZE:
            number += 1
            continue
        if count > 0:
            room, most = (disk_bytes, disk_count) if physical < far else (memory_bytes, memory_count)
            if count >= max_count or count >= most or size + record_size > room:
                return number, size, last_physical, True
        if skip_below < 0 or physical >= skip_below:
            if wanted is not None:
                code = load_i64(unit, number * _UNIT_SIZE + 12)
                if code <= _EXT_ADDRESS_MAX:
                    break
                if code & _LOW_32 not in wanted:
                    last_physical = physical
                    number += 1
                    continue
            at = physical - base
            if at < 0 or at >= limit:
                break
            if number + 1 < stop:  # the next record comes from memory while this one is checked
                ahead = min(load_i32(unit, (number + 1) * _UNIT_SIZE + 8), _FETCHED_AHEAD)
                following = load_i64(unit, (number + 1) * _UNIT_SIZE) - base
                while ahead > 0:
                    ahead -= 64
                    prefetch_read(view, following + ahead)
            frame = frame_at(view, at, limit, base, CHECK_BODY_CRC | CHECK_RECORD_CRC)
            if (
                frame.code != OK
                or frame.size != record_size
                or load_i32(view, at + 12) != queue_id
                or load_i64(view, at + 20) != queue_offset + number
            ):
                break
            message = lent_message(log, at, record_size)
            if wanted is None or _has_wanted_tag(message, wanted):
                found.append(message)
                count += 1
                size += record_size
        last_physical = physical
        number += 1
    return number, size, last_physical, False


def _has_wanted_tag(message: MessageExt, wanted: dict[int, set[str]]) -> bool:
    tags = message.tags
    return tags is not None and any(tags in texts for texts in wanted.values())
