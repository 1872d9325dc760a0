"""Buffers and single machine operations on them: big-endian loads and stores, word scans, copies.

The core works on a ``View`` (a run of bytes) and offsets into it, on ``Longs`` (int64 values in the machine's order),
on ``Ints`` (int32) and on a ``Table`` (columns of int64). What stands here is what these mean, and what runs without a
compiler; compiled modules take the C of the same names from ``memory.pxd``. There nothing is checked: the caller has
compared the range with the view's size before. (Here, and in a debug build, an access outside the view is an error.)
"""

from __future__ import annotations

import struct
from typing import Any

_U16 = struct.Struct(">H")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
_DOUBLE = struct.Struct(">d")
_WORD = struct.Struct("<Q")
_BITS_64 = (1 << 64) - 1


class View:
    """Bytes of a buffer that the caller keeps alive and in place."""

    __slots__ = ("data", "size")

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.size = len(data)


class Longs:
    """int64 values of an array, the same rule."""

    __slots__ = ("data", "size")

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.size = len(data)


class Ints:
    """int32 values of an array, such as the offsets of an Arrow column; the same rule."""

    __slots__ = ("data", "size")

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.size = len(data)


class Table:
    """Columns of int64, ``stride`` rows each: field ``c`` of row ``r`` is ``data[c * stride + r]``."""

    __slots__ = ("data", "stride")

    def __init__(self, data: memoryview, stride: int) -> None:
        self.data = data
        self.stride = stride


def view_of(source: Any) -> View:
    """The bytes of a contiguous buffer, to read."""
    return View(_flat(source))


def part_of(view: View, at: int, length: int) -> View:
    """A range of it as a view of its own."""
    _inside(view, at, length)
    return View(view.data[at : at + length])


def writable_view_of(target: Any) -> View:
    """The bytes of a contiguous buffer, to write; BufferError or TypeError if it is read-only."""
    data = _flat(target)
    if data.readonly:
        raise BufferError("underlying buffer is not writable")
    return View(data)


def new_bytearray(size: int) -> bytearray:
    """Room for what is written next; compiled, its bytes are anything before that."""
    return bytearray(size)


def longs_of(source: Any) -> Longs:
    return Longs(_flat(source).cast("q"))


def writable_longs_of(target: Any) -> Longs:
    return Longs(writable_view_of(target).data.cast("q"))


def ints_of(source: Any) -> Ints:
    return Ints(_flat(source).cast("i"))


def writable_ints_of(target: Any) -> Ints:
    return Ints(writable_view_of(target).data.cast("i"))


def table_of(columns: Any, count: int) -> Table:
    """A two-dimensional array of ``count`` columns, to write."""
    data = writable_view_of(columns).data.cast("q")
    return Table(data, len(data) // count)


def _flat(source: Any) -> memoryview:
    view = memoryview(source)
    return view.cast("B") if view.nbytes else memoryview(bytearray())


def load_u8(view: View, at: int) -> int:
    byte: int = view.data[_inside(view, at, 1)]
    return byte


def load_i8(view: View, at: int) -> int:
    return (load_u8(view, at) ^ 0x80) - 0x80


def load_u16(view: View, at: int) -> int:
    value: int = _U16.unpack_from(view.data, _inside(view, at, 2))[0]
    return value


def load_i16(view: View, at: int) -> int:
    value: int = _I16.unpack_from(view.data, _inside(view, at, 2))[0]
    return value


def load_i32(view: View, at: int) -> int:
    value: int = _I32.unpack_from(view.data, _inside(view, at, 4))[0]
    return value


def load_i64(view: View, at: int) -> int:
    value: int = _I64.unpack_from(view.data, _inside(view, at, 8))[0]
    return value


def load_word(view: View, at: int) -> int:
    """Eight bytes in memory order: the first byte is the lowest."""
    value: int = _WORD.unpack_from(view.data, _inside(view, at, 8))[0]
    return value


def store_u8(view: View, at: int, value: int) -> None:
    view.data[_inside(view, at, 1)] = value & 0xFF


def store_i16(view: View, at: int, value: int) -> None:
    _U16.pack_into(view.data, _inside(view, at, 2), value & 0xFFFF)


def store_i32(view: View, at: int, value: int) -> None:
    _U32.pack_into(view.data, _inside(view, at, 4), value & 0xFFFFFFFF)


def store_i64(view: View, at: int, value: int) -> None:
    _U64.pack_into(view.data, _inside(view, at, 8), value & _BITS_64)


def copy_bytes(target: View, target_at: int, source: View, source_at: int, length: int) -> None:
    """Copy between ranges that do not overlap."""
    _inside(target, target_at, length)
    _inside(source, source_at, length)
    target.data[target_at : target_at + length] = source.data[source_at : source_at + length]


def same_bytes(first: View, first_at: int, second: View, second_at: int, length: int) -> bool:
    _inside(first, first_at, length)
    _inside(second, second_at, length)
    return first.data[first_at : first_at + length] == second.data[second_at : second_at + length]


def zero_bytes(target: View, at: int, length: int) -> None:
    _inside(target, at, length)
    target.data[at : at + length] = bytes(length)


def find_byte(view: View, at: int, end: int, byte: int) -> int:
    """First place of a byte in ``at..end-1``, else ``end``."""
    while at < end:
        stop = min(at + 4096, end)  # a memoryview has no find: copy a little, not the rest of the file
        found = bytes(view.data[at:stop]).find(byte)
        if found >= 0:
            return at + found
        at = stop
    return end


def word_before(view: View, at: int, end: int) -> int:
    """The next up to eight bytes before ``end``, zero-filled; the first is the lowest."""
    return int.from_bytes(view.data[at : min(at + 8, end)], "little")


def first_marked_byte(word: int) -> int:
    """Which byte of a word is the first that is not zero; the word is not."""
    return ((word & -word).bit_length() - 1) >> 3


def double_bits(value: float) -> int:
    """A double as the int64 of its bits."""
    bits: int = _I64.unpack(_DOUBLE.pack(value))[0]
    return bits


def prefetch_read(view: View, at: int) -> None:
    """Ask for a cache line that will be needed soon; any offset is allowed."""


def prefetch_write(view: View, at: int) -> None:
    """The same, for a line that will be written."""


def release_fence() -> None:
    """What was stored before is there, for other threads and processes, before what is stored from here on."""


def bytes_at(view: View, at: int, length: int) -> bytes:
    """A copy of a range."""
    _inside(view, at, length)
    return bytes(view.data[at : at + length])


def as_i32(value: int) -> int:
    """The low 32 bits as a signed number."""
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def as_i64(value: int) -> int:
    """64 bits as a signed number."""
    return ((value & _BITS_64) ^ (1 << 63)) - (1 << 63)


def as_u64(value: int) -> int:
    """A signed number as 64 bits."""
    return value & _BITS_64


def bytes_view(data: bytes) -> View:
    """A view of a bytes object."""
    return View(memoryview(data))


def ascii_view(text: object) -> View:
    """A view of the characters of an ASCII str; of size -1 for everything else."""
    view = View(memoryview(text.encode() if type(text) is str and text.isascii() else b""))
    if type(text) is not str or not text.isascii():
        view.size = -1
    return view


def piece_of(name: bytes, value: View) -> bytes:
    """One property in its stored form; ``name`` comes with its 0x01."""
    return b"".join((name, value.data, b"\x02"))


def whole_number(value: object, low: int, high: int, otherwise: int) -> int:
    """An int (no bool, no subclass) in ``low..high`` as it is; ``otherwise`` for everything else."""
    return value if type(value) is int and low <= value <= high else otherwise


def _inside(view: View, at: int, length: int) -> int:
    if at < 0 or length < 0 or at + length > view.size:
        raise IndexError(f"the core touches {length} bytes at {at} of a buffer of {view.size}")
    return at
