"""Which bytes of a log file answer a pull, without touching a message from Python. Part of the compiled core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from array import array

if not cython.compiled:
    from flaremq.core.frame import frame_at
    from flaremq.core.memory import load_i32, load_i64, longs_of, view_of, writable_longs_of
    from flaremq.core.table import CHECK_BODY_CRC, CHECK_RECORD_CRC, OK

Buffer = bytes | bytearray | memoryview
IS_COMPILED: bool = cython.compiled  # interpreted, decoding records one by one is as fast

_INT_MIN = -(2**31)
_FILLER = 2**31 - 1


# Long on purpose: one loop over units, each judged where its numbers are at hand.
def select_units(
    units: Buffer,
    log: Buffer,
    base: int,
    end: int,
    queue_id: int,
    queue_offset: int,
    count_max: int,
    bytes_max: int,
    codes: array[int],
    ranges: array[int],
) -> tuple[int, int, int, int]:
    """(units examined, records, bytes, ranges) of the records that consecutive queue units point to.

    ``ranges`` gets begin and end in ``log`` of each run of adjoining records; it needs two places for each of
    ``count_max`` records. ``codes`` are the tag hashes wanted; none wants everything. Each record must agree with its
    unit (place, size, queue, queue offset), its parts must add up and its checksums hold. It stops, with the unit not
    examined, at the first unit whose record is not in this log file, does not agree or lies past ``end``, when
    ``count_max`` records are found, or when the next one would make it more than ``bytes_max`` (the first always fits).
    """
    source, table = view_of(log), view_of(units)
    wanted_codes, places = longs_of(codes), writable_longs_of(ranges)
    found = done = runs = 0
    run_end = -1
    total = table.size // 20
    if places.size < 2 * count_max:
        return 0, 0, 0, 0
    for number in range(total):
        if found == count_max:
            return number, found, done, runs
        unit = 20 * number
        offset = load_i64(table, unit)
        size = load_i32(table, unit + 8)
        code = load_i64(table, unit + 12)
        if size == _FILLER:
            continue
        at = offset - base
        if at < 0 or size < 91 or size > source.size - at or offset + size > end:
            return number, found, done, runs
        if wanted_codes.size:
            if code < _INT_MIN or code > _FILLER:  # the address of an extension unit: plain code looks there
                return number, found, done, runs
            wanted = False
            for place in range(wanted_codes.size):
                if wanted_codes.data[place] == code:
                    wanted = True
            if not wanted:
                continue
        # The whole record is judged, not only its body: a client that meets one it cannot take apart drops the rest.
        frame = frame_at(source, at, at + size, base, CHECK_BODY_CRC | CHECK_RECORD_CRC)
        if (
            frame.code != OK
            or frame.size != size
            or load_i32(source, at + 12) != queue_id
            or load_i64(source, at + 20) != queue_offset + number
        ):
            return number, found, done, runs
        if found and done + size > bytes_max:
            return number, found, done, runs
        if at == run_end:
            places.data[2 * runs - 1] = at + size
        else:
            places.data[2 * runs] = at
            places.data[2 * runs + 1] = at + size
            runs += 1
        run_end = at + size
        done += size
        found += 1
    return total, found, done, runs
