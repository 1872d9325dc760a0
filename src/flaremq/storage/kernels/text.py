"""UTF-8 inside kernels: validation, and Java's string hash taken straight from the bytes.

Java hashes UTF-16 units. For ASCII these are the bytes, eight of which are hashed per step; otherwise every
sequence is decoded, and a character beyond U+FFFF contributes its two surrogates. What counts as valid is
what Python's strict decoder and Java's both accept: no overlong forms, no surrogates, nothing above U+10FFFF.
"""

from __future__ import annotations

from flaremq.storage.kernels.compile import (
    I64,
    READ_BYTES,
    READ_INTEGERS,
    U64,
    WRITE_INTEGERS,
    Bytes,
    Integers,
    helper,
    kernel,
    types,
)
from flaremq.storage.kernels.memory import address_of, load_u8, load_word

_HIGH_BITS = U64(0x8080808080808080)
_LOW_32 = 0xFFFFFFFF
# 31^8 .. 31^1 modulo 2^32: one step over eight ASCII bytes.
_P1, _P2, _P3, _P4, _P5, _P6, _P7, _P8 = (pow(31, exponent, 1 << 32) for exponent in range(1, 9))
NOT_UTF8 = 1 << 40  # outside every hash


@helper
def next_character(address: int, end: int) -> int:
    """Code point at ``address`` times 8 plus its length in bytes; 0 if no valid sequence starts here."""
    first = load_u8(address)
    if first < 0x80:
        return first * 8 + 1
    left = end - address
    if first < 0xC2 or left < 2:
        return 0
    second = load_u8(address + 1)
    if second & 0xC0 != 0x80:
        return 0
    if first < 0xE0:
        return (((first & 0x1F) << 6) | (second & 0x3F)) * 8 + 2
    if left < 3:
        return 0
    third = load_u8(address + 2)
    if third & 0xC0 != 0x80:
        return 0
    if first < 0xF0:
        code = ((first & 0x0F) << 12) | ((second & 0x3F) << 6) | (third & 0x3F)
        if code < 0x800 or 0xD800 <= code < 0xE000:
            return 0
        return code * 8 + 3
    if left < 4 or first > 0xF4:
        return 0
    fourth = load_u8(address + 3)
    code = ((first & 0x07) << 18) | ((second & 0x3F) << 12) | ((third & 0x3F) << 6) | (fourth & 0x3F)
    if fourth & 0xC0 != 0x80 or code < 0x10000 or code > 0x10FFFF:
        return 0
    return code * 8 + 4


@helper
def is_utf8(address: int, end: int) -> bool:
    while address < end:
        if end - address >= 8 and load_word(address) & _HIGH_BITS == U64(0):
            address += 8
            continue
        character = next_character(address, end)
        if character == 0:
            return False
        address += character & 7
    return True


@helper
def hash_text(h: int, address: int, length: int) -> int:
    """Continue a Java hash, given modulo 2^32, over UTF-8 bytes; ``NOT_UTF8`` if they are not."""
    end = address + length
    while address < end:
        if end - address >= 8:
            word = load_word(address)
            if word & _HIGH_BITS == U64(0):
                w = I64(word)
                h = (
                    h * _P8
                    + (w & 255) * _P7
                    + ((w >> 8) & 255) * _P6
                    + ((w >> 16) & 255) * _P5
                    + ((w >> 24) & 255) * _P4
                    + ((w >> 32) & 255) * _P3
                    + ((w >> 40) & 255) * _P2
                    + ((w >> 48) & 255) * _P1
                    + (w >> 56)
                ) & _LOW_32
                address += 8
                continue
        character = next_character(address, end)
        if character == 0:
            return NOT_UTF8
        address += character & 7
        code = character >> 3
        if code > 0xFFFF:
            code -= 0x10000
            h = h * 31 + 0xD800 + (code >> 10)
            code = 0xDC00 + (code & 0x3FF)
        h = (h * 31 + code) & _LOW_32
    return h


@helper
def signed(h: int) -> int:
    """The signed 32-bit value Java sees."""
    return I64(types.int32(h))


@helper
def index_hash(h: int) -> int:
    """``Math.abs`` as RocketMQ uses it: the one value without a positive counterpart becomes 0."""
    value = signed(h)
    return 0 if value == -0x80000000 else abs(value)


@kernel(I64, READ_BYTES, I64, I64, I64)
def java_hash_utf8(data: Bytes, at: int, length: int, seed: int) -> int:
    """Java's hash of the text ``prefix + data[at:at+length]``, ``seed`` being the hash of the prefix.

    ``NOT_UTF8`` if the bytes are not valid (or not inside ``data``): the caller decodes them itself.
    """
    if at < 0 or length < 0 or length > data.size - at:
        return NOT_UTF8
    h = hash_text(seed & _LOW_32, address_of(data) + at, length)
    return h if h == NOT_UTF8 else signed(h)


@kernel(I64, READ_BYTES, READ_BYTES, READ_INTEGERS, WRITE_INTEGERS)
def key_hashes(topic: Bytes, keys: Bytes, key_offsets: Integers, out: Integers) -> int:
    """Index hashes of ``topic#key`` for keys laid end to end; ``out[i]`` is -1 where a key is not UTF-8.

    Key ``i`` is ``keys[key_offsets[i]:key_offsets[i+1]]``. Returns the number of hashes written.
    """
    count = min(key_offsets.size - 1, out.size)
    prefix = hash_text(0, address_of(topic), topic.size)
    address = address_of(keys)
    for number in range(count):
        at = key_offsets[number]
        length = key_offsets[number + 1] - at
        h = NOT_UTF8
        if prefix != NOT_UTF8 and at >= 0 and 0 <= length <= keys.size - at:
            h = hash_text(prefix * 31 + 35, address + at, length)  # 35 is '#'
        out[number] = -1 if h == NOT_UTF8 else index_hash(h)
    return max(count, 0)
