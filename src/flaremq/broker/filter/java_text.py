"""How Java reads a number or a boolean from text: the typing rules of the property filter.

All properties are text. Compared with a literal, a property is read as the literal's type, by Java's own readers:
an Integer takes no blanks and no fraction, a Double takes both, and whatever is no Boolean's "true" is false.
Text that cannot be read raises ValueError, which ends the evaluation of the whole expression.
"""

from __future__ import annotations

import math
import re

# Possessive repeats: a property of 32 KB of digits costs one pass, never a search.
_WHOLE = re.compile(r"[+-]?\d++\Z")
_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fFdD]?)\Z", re.ASCII
)
_HEX_DOUBLE = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]++(?:\.[0-9a-fA-F]*+)?|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[fFdD]?\Z", re.ASCII
)
_BLANK = "".join(map(chr, range(33)))  # what Java's trim takes off
_WHOLE_LENGTH_MAX = 400  # far beyond 64 bits, leading zeros included


def read_integer(text: str) -> int:
    """``Integer.valueOf``."""
    return _read_whole(text, 31)


def read_long(text: str) -> int:
    """``Long.valueOf``."""
    return _read_whole(text, 63)


def _read_whole(text: str, bits: int) -> int:
    if not _WHOLE.match(text) or len(text) > _WHOLE_LENGTH_MAX:
        raise ValueError("not a whole number")
    value = int(text)
    if not -(1 << bits) <= value < 1 << bits:
        raise ValueError(f"does not fit {bits + 1} bits")
    return value


def read_double(text: str) -> float:
    """``Double.valueOf``: blanks around it, exponents, NaN, a final f or d, hexadecimal with a binary exponent."""
    text = text.strip(_BLANK)
    if _DOUBLE.match(text):
        return float(text.rstrip("fFdD"))
    hexadecimal = _HEX_DOUBLE.match(text)
    if hexadecimal is None:
        raise ValueError("not a number")
    try:
        return float.fromhex(hexadecimal[1])
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def read_boolean(text: str) -> bool:
    """``Boolean.valueOf``: everything but "true" is false."""
    return text.lower() == "true"


def compare_doubles(left: float, right: float) -> int:
    """``Double.compareTo``: a total order in which NaN is largest and equal to itself, and -0.0 is below 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    return (_rank(left) > _rank(right)) - (_rank(left) < _rank(right))


def _rank(value: float) -> int:
    """Order among values that ``<`` and ``>`` do not tell apart from an equal one."""
    if math.isnan(value):
        return 2
    return 0 if value == 0 and math.copysign(1, value) < 0 else 1
