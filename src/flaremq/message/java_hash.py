"""Java's ``String.hashCode`` and the two values the store derives from it.

Queue units carry the hash of the tag, index files the hash of ``topic#key``. Both are Java's: over UTF-16
code units, ``h = 31 * h + unit``, wrapping at 32 bits, read as a signed number.

A Python loop costs about 60 ns a character, which is too much beside an append of a few microseconds. The
hash is a polynomial in 31, and ``int(text, 31)`` evaluates exactly such a polynomial in C, only for digits
below 31. Every byte is ``31 * q + r`` with both parts below 31, so

    hash(bytes) = int(r digits, 31) + 31 * int(q digits, 31)      (mod 2**32)

with two table translations for the digits. Non-ASCII text does the same for the high and the low byte of
each code unit. The tests hold this form to the definition above.
"""

from __future__ import annotations

from functools import lru_cache

_DIGITS = b"0123456789abcdefghijklmnopqrstu"
_REMAINDER = bytes(_DIGITS[byte % 31] for byte in range(256))
_QUOTIENT = bytes(_DIGITS[byte // 31] for byte in range(256))

# int() refuses decimal-like text of more than 4,300 digits by default, and its cost grows with the square
# of the length; 64 digits keep the intermediate number below 40 bytes.
_CHUNK = 64
_LOOP_BELOW = 7  # measured: up to here the plain loop is the faster form
_POWERS = tuple(pow(31, exponent, 1 << 32) for exponent in range(_CHUNK + 1))


def java_hash(text: str) -> int:
    """``text.hashCode()`` of Java: signed 32 bits, 0 for the empty string."""
    return continue_hash(0, text)


def continue_hash(prefix_hash: int, text: str) -> int:
    """Hash of ``prefix + text``, given the hash of the prefix."""
    if not text.isascii():
        return _continue_units(prefix_hash, text)
    data = text.encode()
    size = len(data)
    if size < _LOOP_BELOW:
        h = prefix_hash
        for byte in data:
            h = h * 31 + byte
    elif size <= _CHUNK:
        h = int(data.translate(_REMAINDER), 31) + 31 * int(data.translate(_QUOTIENT), 31)
        if prefix_hash:
            h += prefix_hash * _POWERS[size]
    else:
        h = _continue_bytes(prefix_hash, data)
    return ((h + 0x80000000) & 0xFFFFFFFF) - 0x80000000


@lru_cache(maxsize=4096)
def tags_code(tags: str) -> int:
    """The value a queue unit carries for a tag string (0 for none).

    Cached: an application uses few tags and sends each a million times.
    """
    return java_hash(tags)


@lru_cache(maxsize=4096)
def topic_prefix_hash(topic: str) -> int:
    """Hash of ``topic#``, the part all index keys of a topic share."""
    return java_hash(topic + "#")


def index_hash(topic: str, key: str) -> int:
    """The hash an index file stores for a key: never negative."""
    return fold_index_hash(continue_hash(topic_prefix_hash(topic), key))


def fold_index_hash(key_hash: int) -> int:
    """``Math.abs`` as RocketMQ uses it: the one value without a positive counterpart becomes 0."""
    return 0 if key_hash == -0x80000000 else abs(key_hash)


def _continue_units(prefix_hash: int, text: str) -> int:
    # surrogatepass: a lone surrogate is one ordinary code unit for Java.
    units = text.encode("utf-16-be", "surrogatepass")
    h = _continue_bytes(prefix_hash, units[1::2]) + 256 * _continue_bytes(0, units[0::2])
    return ((h + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def _continue_bytes(h: int, data: bytes) -> int:
    for start in range(0, len(data), _CHUNK):
        chunk = data[start : start + _CHUNK]
        part = int(chunk.translate(_REMAINDER), 31) + 31 * int(chunk.translate(_QUOTIENT), 31)
        h = (h * _POWERS[len(chunk)] + part) & 0xFFFFFFFF
    return h
