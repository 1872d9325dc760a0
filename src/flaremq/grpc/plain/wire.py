"""Pieces of protobuf's wire format, for those who read and write plain messages where they lie.

Part of the compiled core (``docs/compiled-core.md``): C types are in the ``.pxd`` beside it.
"""

from __future__ import annotations

import cython

if not cython.compiled:
    from flaremq.core.memory import View, load_u8

IS_COMPILED: bool = cython.compiled  # interpreted, protobuf is faster

VARINT, BYTES = 0, 2  # wire types
_MORE = 0x80
_FIRST, _LAST = 0x20, 0x7E  # what is printed of ASCII


def read_varint(view: View, at: int, end: int) -> tuple[int, int]:
    """A number and where it ends; (-1, -1) if it is cut off, longer than need be, negative or larger than 63 bits."""
    value = shift = 0
    while 0 <= at < end and shift < 63:
        byte = load_u8(view, at)
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            if not byte and shift:
                break
            return value, at
        shift += 7
    return -1, -1


def is_text(view: View, at: int, length: int) -> bool:
    """Whether it is printed as it stands, and has more than blanks."""
    has_more = False
    for place in range(at, at + length):
        byte = load_u8(view, place)
        if byte < _FIRST or byte > _LAST:
            return False
        if byte > _FIRST:
            has_more = True
    return has_more


def read_name(view: View, at: int, end: int) -> tuple[int, int]:
    """Where the name of a resource without a namespace is, and its length; (-1, -1) if it is not plain."""
    tag, at = read_varint(view, at, end)
    length, at = read_varint(view, at, end)
    if tag != 2 << 3 | BYTES or at < 0 or length != end - at or not is_text(view, at, length):
        return -1, -1
    return at, length


def varint(value: int) -> bytes:
    if value < _MORE:
        return bytes((value,))
    out = bytearray()
    while value >= _MORE:
        out.append(value & 0x7F | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)
