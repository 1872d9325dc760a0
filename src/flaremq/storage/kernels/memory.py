"""Single machine operations on addresses: big-endian loads and stores, word scans, copies.

Kernels work on ``address_of(array)`` plus an offset instead of indexing. Numba's indexing would test every
index for being negative and read byte by byte; here one field is one load and a byte swap. Nothing is
checked: the caller has compared the range with the array's length before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from flaremq.storage.kernels.compile import I64, U64, VOID, Bytes, helper, instruction

_ONES = U64(0x0101010101010101)
_HIGH_BITS = U64(0x8080808080808080)
_BITS = {bits: ir.IntType(bits) for bits in (1, 8, 16, 32, 64)}


def as_array(buffer: bytes | bytearray | memoryview) -> Bytes:
    """The bytes of a buffer as an array over the same memory; read-only if the buffer is."""
    return np.frombuffer(buffer, np.uint8) if len(buffer) else np.empty(0, np.uint8)


def _address_of(typing_context: Any, array: Any) -> Any:

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.ptrtoint(data, _BITS[64])

    return I64(array), generate


# Address of an array's first byte; the array must outlive its use.
address_of: Callable[[Any], int] = intrinsic(_address_of)


def _load(builder: Any, address: Any, bits: int) -> Any:
    integer = _BITS[bits]
    return builder.load(builder.inttoptr(address, integer.as_pointer()), align=1)


def _store(builder: Any, address: Any, value: Any) -> None:
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=1)


@instruction(I64, I64)
def load_u8(builder: Any, address: Any) -> Any:
    return builder.zext(_load(builder, address, 8), _BITS[64])


@instruction(I64, I64)
def load_i8(builder: Any, address: Any) -> Any:
    return builder.sext(_load(builder, address, 8), _BITS[64])


@instruction(I64, I64)
def load_i16(builder: Any, address: Any) -> Any:
    return builder.sext(builder.bswap(_load(builder, address, 16)), _BITS[64])


@instruction(I64, I64)
def load_i32(builder: Any, address: Any) -> Any:
    return builder.sext(builder.bswap(_load(builder, address, 32)), _BITS[64])


@instruction(I64, I64)
def load_i64(builder: Any, address: Any) -> Any:
    return builder.bswap(_load(builder, address, 64))


@instruction(U64, I64)
def load_word(builder: Any, address: Any) -> Any:
    """Eight bytes in memory order: the first byte is the lowest."""
    return _load(builder, address, 64)


@instruction(VOID, I64, I64)
def store_u8(builder: Any, address: Any, value: Any) -> None:
    _store(builder, address, builder.trunc(value, _BITS[8]))


@instruction(VOID, I64, I64)
def store_i32(builder: Any, address: Any, value: Any) -> None:
    _store(builder, address, builder.bswap(builder.trunc(value, _BITS[32])))


@instruction(VOID, I64, I64)
def store_i64(builder: Any, address: Any, value: Any) -> None:
    _store(builder, address, builder.bswap(value))


@instruction(VOID, I64, I64)
def store_native(builder: Any, address: Any, value: Any) -> None:
    """An int64 in the machine's own order: a cell of a table."""
    _store(builder, address, value)


@instruction(I64, U64)
def trailing_zeros(builder: Any, word: Any) -> Any:
    return builder.cttz(word, ir.Constant(_BITS[1], 0))


@instruction(VOID, I64, I64, I64)
def copy_bytes(builder: Any, target: Any, source: Any, length: Any) -> None:
    """Copy between ranges that do not overlap."""
    pointer = _BITS[8].as_pointer()
    move = builder.module.declare_intrinsic("llvm.memcpy", [pointer, pointer, _BITS[64]])
    arguments = [builder.inttoptr(target, pointer), builder.inttoptr(source, pointer)]
    builder.call(move, [*arguments, length, ir.Constant(_BITS[1], 0)])


def _prefetch(builder: Any, address: Any, writing: int) -> None:
    pointer = _BITS[8].as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, _BITS[32], _BITS[32], _BITS[32]])
    fetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
    hints = [ir.Constant(_BITS[32], hint) for hint in (writing, 3, 1)]  # keep it close; data, not code
    builder.call(fetch, [builder.inttoptr(address, pointer), *hints])


@instruction(VOID, I64)
def prefetch_read(builder: Any, address: Any) -> None:
    """Ask for a cache line that will be needed soon; any address is allowed."""
    _prefetch(builder, address, 0)


@instruction(VOID, I64)
def prefetch_write(builder: Any, address: Any) -> None:
    """The same, for a line that will be written."""
    _prefetch(builder, address, 1)


@helper
def word_before(position: int, end: int) -> int:
    """The next up to eight bytes before ``end``, zero-filled; eight bytes before ``end`` must be readable.

    Every record has 88 header bytes before its first text, so the end of a text never reads past the record.
    """
    left = end - position
    if left >= 8:
        return load_word(position)
    return load_word(end - 8) >> U64(64 - 8 * left)


@helper
def find_byte(position: int, end: int, pattern: int) -> int:
    """First place of the byte repeated in ``pattern``, else ``end``; needs what word_before needs."""
    while position < end:
        difference = U64(word_before(position, end)) ^ U64(pattern)
        hit = (difference - _ONES) & ~difference & _HIGH_BITS  # its lowest set bit marks the first equal byte
        if hit != U64(0):
            return min(position + (trailing_zeros(hit) >> 3), end)
        position += 8
    return end


@helper
def same_bytes(first: int, second: int, length: int) -> bool:
    at = 0
    while length - at >= 8:
        if load_word(first + at) != load_word(second + at):
            return False
        at += 8
    while at < length:
        if load_u8(first + at) != load_u8(second + at):
            return False
        at += 1
    return True
