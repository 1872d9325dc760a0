"""Digests of rows that do not depend on their order, so that two places that hold the same rows give the same sum."""

from __future__ import annotations

from typing import Any

from flaremq.storage.kernels.compile import (
    I64,
    READ_BYTES,
    TABLE,
    U64,
    VOID,
    WRITE_INTEGERS,
    ArrowOffsets,
    Bytes,
    Integers,
    helper,
    kernel,
    several,
    types,
)
from flaremq.storage.kernels.crc import crc32_at
from flaremq.storage.kernels.memory import address_of

_READ_OFFSETS: Any = types.Array(types.int32, 1, "C", readonly=True)
_A, _B = U64(0xBF58476D1CE4E5B9), U64(0x94D049BB133111EB)  # the finalizer of splitmix64
_STEP = U64(0x9E3779B97F4A7C15)
_OTHER_LANE = U64(0xD6E8FEB86659FD93)


@helper
def _mix(value: int) -> int:
    value = (value ^ (value >> U64(30))) * _A
    value = (value ^ (value >> U64(27))) * _B
    return value ^ (value >> U64(31))


@kernel(VOID, READ_BYTES, _READ_OFFSETS, WRITE_INTEGERS)
def crc_slices(data: Bytes, offsets: ArrowOffsets, out: Integers) -> None:
    """``out[i]`` = CRC-32 of ``data[offsets[i]:offsets[i+1]]``, sign bit cleared as in a record; -1 if out of range."""
    base, size = address_of(data), len(data)
    for row in range(len(out)):
        at, end = I64(offsets[row]), I64(offsets[row + 1])
        out[row] = crc32_at(base + at, end - at) & 0x7FFFFFFF if 0 <= at <= end <= size else -1


@kernel(VOID, _READ_OFFSETS, WRITE_INTEGERS, WRITE_INTEGERS, WRITE_INTEGERS)
def hash_entries(offsets: ArrowOffsets, keys: Integers, values: Integers, out: Integers) -> None:
    """``out[i]`` = sum over the entries of map ``i`` of a mix of their two CRCs: their order does not count."""
    count = len(keys)
    for row in range(len(out)):
        at, end = I64(offsets[row]), I64(offsets[row + 1])
        total = U64(0)
        if 0 <= at <= end <= count:
            for entry in range(at, end):
                total += _mix((U64(keys[entry]) << U64(32)) ^ U64(values[entry]) ^ _STEP)
        out[row] = I64(total)


@kernel(several(2, U64), TABLE)
def digest_fields(fields: Any) -> Any:
    """Two sums, modulo 2^64, over the hashes of all rows; ``fields[k, i]`` is field ``k`` of row ``i``."""
    low, high = U64(0), U64(0)
    for row in range(fields.shape[1]):
        value = _STEP
        for field in range(fields.shape[0]):
            value = _mix(value + U64(fields[field, row]) * _STEP + U64(field))
        low += value
        high += _mix(value ^ _OTHER_LANE)
    return low, high
