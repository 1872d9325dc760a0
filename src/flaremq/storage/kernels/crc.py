"""CRC-32 with the zlib polynomial, at memory speed.

Two ways to the same number:

* *slicing*: sixteen table lookups per sixteen bytes. Works everywhere;
* *folding*: where the machine has a carry-less multiply (``pclmul``), a message of any length is first
  replaced by sixteen bytes with the same remainder, four lanes of sixteen bytes at a time; slicing does the
  rest. A CRC is the remainder of a polynomial division, so a block may be moved ``n`` bits down the message
  by multiplying its two halves with ``x^n mod P``: one step costs two multiplications.

The CRC register is kept in the reflected order of zlib throughout, without the final complement.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import registry
from numba.extending import models, register_model

from flaremq.storage.kernels.compile import I64, U64, helper, instruction, types
from flaremq.storage.kernels.memory import load_u8, load_word

_POLYNOMIAL = 0xEDB88320


def _tables() -> Any:
    """``tables[k * 256 + b]``: what byte ``b`` contributes when ``k`` more bytes of its block follow."""
    tables = np.zeros((16, 256), np.uint32)
    value = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        value = np.where(value & 1, (value >> 1) ^ np.uint32(_POLYNOMIAL), value >> 1).astype(np.uint32)
    tables[0] = value
    for k in range(1, 16):
        tables[k] = (tables[k - 1] >> 8) ^ value[tables[k - 1] & 0xFF]
    return tables.reshape(-1)


def _power(bits: int) -> int:
    """``x^bits mod P`` in reflected order, placed for a reflected carry-less multiply (one bit up)."""
    remainder = 0x80000000  # x^0
    for _ in range(bits):
        remainder = (remainder >> 1) ^ (_POLYNOMIAL if remainder & 1 else 0)
    return remainder << 1


_TABLES = _tables()
_K64_LOW, _K64_HIGH = _power(4 * 128 + 32), _power(4 * 128 - 32)  # move a lane 64 bytes down
_K16_LOW, _K16_HIGH = _power(128 + 32), _power(128 - 32)  # move a lane 16 bytes down

# The kernel cache is keyed by these very features, so cached code never meets a machine without them.
_cpu: Any = registry.cpu_target
FOLDS = "+pclmul" in str(_cpu.target_context.codegen().magic_tuple()[2])


# A 128-bit register, known inside kernels only: how it is called there and what it is to the compiler.
_LANE_IR = ir.VectorType(ir.IntType(64), 2)
_Lane: Any = type("Lane", (types.Type,), {})
_LANE: Any = _Lane(name="flaremq_lane")


def _lane_model(manager: Any, lane: Any) -> Any:
    return models.PrimitiveModel(manager, lane, _LANE_IR)


register_model(_Lane)(_lane_model)


@instruction(_LANE, U64, U64)
def _lane(builder: Any, low: Any, high: Any) -> Any:
    lane = ir.Constant(_LANE_IR, ir.Undefined)
    for place, half in enumerate((low, high)):
        lane = builder.insert_element(lane, half, ir.Constant(ir.IntType(32), place))
    return lane


@instruction(_LANE, I64)
def _load_lane(builder: Any, address: Any) -> Any:
    return builder.load(builder.inttoptr(address, _LANE_IR.as_pointer()), align=1)


@instruction(_LANE, _LANE, _LANE)
def _xor(builder: Any, first: Any, second: Any) -> Any:
    return builder.xor(first, second)


@instruction(_LANE, _LANE, _LANE, _LANE)
def _fold(builder: Any, lane: Any, constants: Any, following: Any) -> Any:
    """``following`` xor the lane moved down by the distance the constants stand for."""
    immediate = ir.IntType(8)
    kind = ir.FunctionType(_LANE_IR, [_LANE_IR, _LANE_IR, immediate])
    multiply = builder.module.declare_intrinsic("llvm.x86.pclmulqdq", [], kind)
    low = builder.call(multiply, [lane, constants, ir.Constant(immediate, 0x00)])
    high = builder.call(multiply, [lane, constants, ir.Constant(immediate, 0x11)])
    return builder.xor(builder.xor(low, high), following)


def _half(place: int) -> Any:
    def half(builder: Any, lane: Any) -> Any:
        return builder.extract_element(lane, ir.Constant(ir.IntType(32), place))

    return instruction(U64, _LANE)(half)


_low_half, _high_half = _half(0), _half(1)


@helper
def _slice_word(word: int, first_table: int) -> int:
    register = types.uint32(0)
    for k in range(8):
        register ^= _TABLES[U64(first_table - 256 * k) + ((word >> U64(8 * k)) & U64(255))]
    return U64(register)


@helper
def slicing(register: int, address: int, length: int) -> int:
    """Continue a CRC register over ``length`` bytes."""
    end = address + length
    while end - address >= 16:
        register = _slice_word(load_word(address) ^ register, 15 * 256) ^ _slice_word(load_word(address + 8), 7 * 256)
        address += 16
    while address < end:
        register = (register >> U64(8)) ^ U64(_TABLES[(register ^ U64(load_u8(address))) & U64(255)])
        address += 1
    return register


@helper
def _folding(address: int, length: int) -> int:
    """CRC register of ``length`` bytes, at least 64, from the start of a message."""
    end = address + length
    step = _lane(U64(_K64_LOW), U64(_K64_HIGH))
    a = _xor(_load_lane(address), _lane(U64(0xFFFFFFFF), U64(0)))
    b = _load_lane(address + 16)
    c = _load_lane(address + 32)
    d = _load_lane(address + 48)
    address += 64
    while end - address >= 64:
        a = _fold(a, step, _load_lane(address))
        b = _fold(b, step, _load_lane(address + 16))
        c = _fold(c, step, _load_lane(address + 32))
        d = _fold(d, step, _load_lane(address + 48))
        address += 64
    step = _lane(U64(_K16_LOW), U64(_K16_HIGH))
    a = _fold(_fold(_fold(a, step, b), step, c), step, d)
    while end - address >= 16:
        a = _fold(a, step, _load_lane(address))
        address += 16
    # The lane holds 16 bytes with the remainder of everything before them; the start value is already in it.
    register = _slice_word(_low_half(a), 15 * 256) ^ _slice_word(_high_half(a), 7 * 256)
    return slicing(register, address, end - address)


if FOLDS:

    @helper
    def crc32_at(address: int, length: int) -> int:
        """zlib's CRC-32 of a range, 0..2^32-1."""
        if length >= 64:
            return I64(_folding(address, length) ^ U64(0xFFFFFFFF))
        return I64(slicing(U64(0xFFFFFFFF), address, length) ^ U64(0xFFFFFFFF))

else:

    @helper
    def crc32_at(address: int, length: int) -> int:
        """zlib's CRC-32 of a range, 0..2^32-1."""
        return I64(slicing(U64(0xFFFFFFFF), address, length) ^ U64(0xFFFFFFFF))
