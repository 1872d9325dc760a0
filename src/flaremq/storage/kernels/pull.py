"""The pull kernel: which bytes of a log file answer a pull, without touching a message from Python."""

from __future__ import annotations

from flaremq.storage.kernels.compile import (
    I64,
    READ_BYTES,
    READ_INTEGERS,
    WRITE_INTEGERS,
    Bytes,
    Integers,
    kernel,
    several,
)
from flaremq.storage.kernels.frame import frame_at
from flaremq.storage.kernels.memory import address_of, load_i32, load_i64
from flaremq.storage.kernels.table import CHECK_BODY_CRC, CHECK_RECORD_CRC, OK

_FILLER = 2**31 - 1


@kernel(several(4, I64), READ_BYTES, READ_BYTES, I64, I64, I64, I64, I64, I64, READ_INTEGERS, WRITE_INTEGERS)
def select_units(
    units: Bytes,
    log: Bytes,
    base: int,
    end: int,
    queue_id: int,
    queue_offset: int,
    count_max: int,
    bytes_max: int,
    codes: Integers,
    ranges: Integers,
) -> tuple[int, int, int, int]:
    """(units examined, records, bytes, ranges) of the records that consecutive queue units point to.

    ``ranges`` gets begin and end in ``log`` of each run of adjoining records; it needs two places for each of
    ``count_max`` records. ``codes`` are the tag hashes wanted; none wants everything. Each record must agree with its
    unit (place, size, queue, queue offset), its parts must add up and its checksums hold. It stops, with the unit not
    examined, at the first unit whose record is not in this log file, does not agree or lies past ``end``, when
    ``count_max`` records are found, or when the next one would make it more than ``bytes_max`` (the first always fits).
    """
    source = address_of(log)
    unit = address_of(units)
    found = done = runs = 0
    run_end = -1
    total = units.size // 20
    if ranges.size < 2 * count_max:
        return 0, 0, 0, 0
    for number in range(total):
        if found == count_max:
            return number, found, done, runs
        offset = load_i64(unit)
        size = load_i32(unit + 8)
        code = load_i64(unit + 12)
        unit += 20
        if size == _FILLER:
            continue
        at = offset - base
        if at < 0 or size < 91 or size > log.size - at or offset + size > end:
            return number, found, done, runs
        if codes.size:
            if not -(2**31) <= code < 2**31:  # the address of an extension unit: plain code looks there
                return number, found, done, runs
            wanted = False
            for place in range(codes.size):
                if codes[place] == code:
                    wanted = True
            if not wanted:
                continue
        # The whole record is judged, not only its body: a client that meets one it cannot take apart drops the rest.
        frame = frame_at(source, at, at + size, log.size, base, CHECK_BODY_CRC | CHECK_RECORD_CRC)
        if (
            frame.code != OK
            or frame.size != size
            or load_i32(source + at + 12) != queue_id
            or load_i64(source + at + 20) != queue_offset + number
        ):
            return number, found, done, runs
        if found and done + size > bytes_max:
            return number, found, done, runs
        if at == run_end:
            ranges[2 * runs - 1] = at + size
        else:
            ranges[2 * runs] = at
            ranges[2 * runs + 1] = at + size
            runs += 1
        run_end = at + size
        done += size
        found += 1
    return total, found, done, runs
