"""UTF-8 in the core: validation, and Java's string hash taken straight from the bytes.

Java hashes UTF-16 units. For ASCII these are the bytes, eight of which are hashed per step; otherwise every
sequence is decoded, and a character beyond U+FFFF contributes its two surrogates. What counts as valid is
what Python's strict decoder and Java's both accept: no overlong forms, no surrogates, nothing above U+10FFFF.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from flaremq.core.arrays import Buffer, Integers

if not cython.compiled:
    from flaremq.core.memory import View, as_i32, load_u8, load_word, longs_of, view_of, writable_longs_of

_HIGH_BITS = 0x8080808080808080
_LOW_32 = 0xFFFFFFFF
_INT_MIN = -(2**31)
# 31^8 .. 31^1 modulo 2^32: one step over eight ASCII bytes.
_P1, _P2, _P3, _P4, _P5, _P6, _P7, _P8 = (pow(31, exponent, 1 << 32) for exponent in range(1, 9))
NOT_UTF8 = 1 << 40  # outside every hash


def next_character(text: View, at: int, end: int) -> int:
    """Code point at ``at`` times 8 plus its length in bytes; 0 if no valid sequence starts here."""
    first = load_u8(text, at)
    if first < 0x80:
        return first * 8 + 1
    left = end - at
    if first < 0xC2 or left < 2:
        return 0
    second = load_u8(text, at + 1)
    if second & 0xC0 != 0x80:
        return 0
    if first < 0xE0:
        return (((first & 0x1F) << 6) | (second & 0x3F)) * 8 + 2
    if left < 3:
        return 0
    third = load_u8(text, at + 2)
    if third & 0xC0 != 0x80:
        return 0
    if first < 0xF0:
        code = ((first & 0x0F) << 12) | ((second & 0x3F) << 6) | (third & 0x3F)
        if code < 0x800 or 0xD800 <= code < 0xE000:
            return 0
        return code * 8 + 3
    if left < 4 or first > 0xF4:
        return 0
    fourth = load_u8(text, at + 3)
    code = ((first & 0x07) << 18) | ((second & 0x3F) << 12) | ((third & 0x3F) << 6) | (fourth & 0x3F)
    if fourth & 0xC0 != 0x80 or code < 0x10000 or code > 0x10FFFF:
        return 0
    return code * 8 + 4


def is_utf8(text: View, at: int, end: int) -> bool:
    while at < end:
        if end - at >= 8 and load_word(text, at) & _HIGH_BITS == 0:
            at += 8
            continue
        character = next_character(text, at, end)
        if character == 0:
            return False
        at += character & 7
    return True


def hash_text(h: int, text: View, at: int, length: int) -> int:
    """Continue a Java hash, given modulo 2^32, over UTF-8 bytes; ``NOT_UTF8`` if they are not."""
    end = at + length
    while at < end:
        if end - at >= 8:
            word = load_word(text, at)
            if word & _HIGH_BITS == 0:
                h = (
                    h * _P8
                    + (word & 255) * _P7
                    + ((word >> 8) & 255) * _P6
                    + ((word >> 16) & 255) * _P5
                    + ((word >> 24) & 255) * _P4
                    + ((word >> 32) & 255) * _P3
                    + ((word >> 40) & 255) * _P2
                    + ((word >> 48) & 255) * _P1
                    + (word >> 56)
                ) & _LOW_32
                at += 8
                continue
        character = next_character(text, at, end)
        if character == 0:
            return NOT_UTF8
        at += character & 7
        code = character >> 3
        if code > 0xFFFF:
            code -= 0x10000
            h = h * 31 + 0xD800 + (code >> 10)
            code = 0xDC00 + (code & 0x3FF)
        h = (h * 31 + code) & _LOW_32
    return h


def signed(h: int) -> int:
    """The signed 32-bit value Java sees."""
    return as_i32(h)


def index_hash(h: int) -> int:
    """``Math.abs`` as RocketMQ uses it: the one value without a positive counterpart becomes 0."""
    value = signed(h)
    if value == _INT_MIN:
        return 0
    return -value if value < 0 else value


def key_hash(topic: Buffer, key: Buffer) -> int:
    """The index hash of ``topic#key``; -1 where one of them is not UTF-8."""
    name = view_of(topic)
    text = view_of(key)
    h = hash_text(0, name, 0, name.size)
    if h != NOT_UTF8:
        h = hash_text(h * 31 + 35, text, 0, text.size)  # 35 is '#'
    return -1 if h == NOT_UTF8 else index_hash(h)


def key_hashes(topic: Buffer, keys: Buffer, key_offsets: Buffer | Integers, out: Buffer | Integers) -> int:
    """Index hashes of ``topic#key`` for keys laid end to end; ``out[i]`` is -1 where a key is not UTF-8.

    Key ``i`` is ``keys[key_offsets[i]:key_offsets[i+1]]``. Returns the number of hashes written.
    """
    name = view_of(topic)
    text = view_of(keys)
    ends = longs_of(key_offsets)
    hashes = writable_longs_of(out)
    count = min(ends.size - 1, hashes.size)
    prefix = hash_text(0, name, 0, name.size)
    for number in range(count):
        at = ends.data[number]
        length = ends.data[number + 1] - at
        h = NOT_UTF8
        if prefix != NOT_UTF8 and at >= 0 and 0 <= length <= text.size - at:
            h = hash_text(prefix * 31 + 35, text, at, length)  # 35 is '#'
        hashes.data[number] = -1 if h == NOT_UTF8 else index_hash(h)
    return max(count, 0)
