"""Address patterns: which peers a white list means.

=====================================  =====================================================================
pattern                                means
=====================================  =====================================================================
blank                                  nobody
``*``  ``*.*.*.*``  ``*:*:*:*:*:*:*:*``  everybody
``10.0.0.{1,2}``  ``fe80::{1,2}``      the last element from a set
``10.0.0.1,fe80::1``                   a list of whole addresses
``10.0.0.*``  ``10.0.1-20.0``          any value or a range in the 2nd, 3rd or 4th element
``fe80::*``  ``fe80::1-2f:*``          the same at the end of an IPv6 address, its numbers hexadecimal
anything else                          one address
=====================================  =====================================================================

As in RocketMQ, elements behind the first ``*`` or range are not looked at: ``10.1-5.0.9`` is ``10.1-5.*.*``. They must
be elements of an address all the same.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from flaremq.errors import InvalidArgumentError

_EVERYBODY: Final = frozenset(("*", "*.*.*.*", "*:*:*:*:*:*:*:*"))
_PATTERN_LENGTH_MAX: Final = 4096
_RANGE: Final = re.compile(r"([0-9A-Fa-f]{1,4})-([0-9A-Fa-f]{1,4})")

Elements = tuple[int, ...]  # four numbers or eight


@dataclass(frozen=True, slots=True)
class AddressPattern:
    """One pattern, taken apart once."""

    text: str
    is_everybody: bool = False
    addresses: frozenset[Elements] = frozenset()
    # A head, then one element within bounds; the rest does not matter.
    head: Elements | None = None
    width: int = 0
    lowest: int = 0
    highest: int = 0

    def matches(self, host: str) -> bool:
        """Whether the pattern means this address, which has no port."""
        if self.is_everybody:
            return True
        elements = _elements(host)
        if elements is None:
            return False
        if elements in self.addresses:
            return True
        head = self.head
        if head is None or len(elements) != self.width:
            return False
        at = len(head)
        return elements[:at] == head and self.lowest <= elements[at] <= self.highest


def parse_pattern(text: str) -> AddressPattern:
    """The pattern; InvalidArgumentError if it is none."""
    wanted = text.strip()
    if not wanted:
        return AddressPattern(text)
    if len(wanted) > _PATTERN_LENGTH_MAX:
        raise InvalidArgumentError(f"address pattern {wanted[:64]!r}... has {len(wanted)} characters")
    if wanted in _EVERYBODY:
        return AddressPattern(text, is_everybody=True)
    if wanted.endswith("}"):
        return AddressPattern(text, addresses=_parse_set(wanted))
    if "," in wanted:
        return AddressPattern(text, addresses=frozenset(_address(part.strip(), wanted) for part in wanted.split(",")))
    if "*" in wanted or "-" in wanted:
        return _parse_range(text, wanted)
    return AddressPattern(text, addresses=frozenset((_address(wanted, wanted),)))


def split_patterns(text: str) -> list[str]:
    """Patterns joined by commas, of which those in braces join nothing."""
    parts = re.findall(r"(?:[^,{]|\{[^}]*\}?)+", text)
    return [part.strip() for part in parts if part.strip()]


def _parse_set(text: str) -> frozenset[Elements]:
    head, brace, members = text[:-1].partition("{")
    if not brace or not head.endswith((".", ":")):
        raise _bad(text)
    return frozenset(_address(head + member.strip(), text) for member in members.split(","))


def _parse_range(text: str, wanted: str) -> AddressPattern:
    is_v6 = ":" in wanted
    highest = 0xFFFF if is_v6 else 0xFF
    parts = wanted.split(":" if is_v6 else ".")
    at = next((index for index, part in enumerate(parts) if "*" in part or "-" in part), 0)
    if at == 0:  # of the first element nothing is ever left open but by "everybody"
        raise _bad(wanted)
    low, high = _bounds(parts[at].strip(), highest, wanted, is_v6=is_v6)
    rest = [part.strip() for part in parts[at + 1 :]]
    if is_v6:
        if any(part != "*" for part in rest):
            raise _bad(wanted)
        head = _v6_head(parts[:at], len(rest), wanted)
        return AddressPattern(text, head=head, width=8, lowest=low, highest=high)
    if len(parts) != 4:
        raise _bad(wanted)
    for part in rest:
        _bounds(part, highest, wanted, is_v6=False)
    first = tuple(_bounds(part.strip(), highest, wanted, is_v6=False)[0] for part in parts[:at])
    return AddressPattern(text, head=first, width=4, lowest=low, highest=high)


def _bounds(part: str, highest: int, text: str, *, is_v6: bool) -> tuple[int, int]:
    """Lowest and highest value of an element."""
    if part == "*":
        return 0, highest
    ends = _RANGE.fullmatch(part) if "-" in part else re.fullmatch(r"(([0-9A-Fa-f]{1,4}))", part)
    try:
        low, high = (int(end, 16 if is_v6 else 10) for end in (ends.groups() if ends else ("", "")))
    except ValueError:
        raise _bad(text) from None
    if not low <= high <= highest:
        raise _bad(text)
    return low, high


def _v6_head(parts: list[str], behind: int, text: str) -> Elements:
    """The groups before the open one; a ``::`` among them stands for as many zeros as are missing."""
    if len(parts) > 1 and parts[0] == "" and parts[1] == "":
        parts = parts[1:]  # "::1:*" has an empty text before its first colon too
    groups = [part.strip() for part in parts]
    if groups.count("") > 1:
        raise _bad(text)
    if "" in groups:
        at = groups.index("")
        missing = 8 - 1 - behind - (len(groups) - 1)
        if missing < 1:
            raise _bad(text)
        groups[at : at + 1] = ["0"] * missing
    if len(groups) + 1 + behind > 8:
        raise _bad(text)
    return tuple(_bounds(group, 0xFFFF, text, is_v6=True)[0] for group in groups)


def _address(text: str, pattern: str) -> Elements:
    elements = _elements(text)
    if elements is None:
        raise _bad(pattern)
    return elements


@lru_cache(maxsize=4096)
def _elements(host: str) -> Elements | None:
    """The numbers of an address, IPv4 inside of IPv6 taken out; None if it is no address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            packed = address.packed
            return tuple(int.from_bytes(packed[at : at + 2]) for at in range(0, 16, 2))
        address = address.ipv4_mapped
    return tuple(address.packed)


def _bad(text: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"address pattern {text[:64]!r} is none: expected an address, a list of them, or one whose end is open, "
        "such as 10.0.0.*, 10.0.0.1-20 or 10.0.0.{1,2}"
    )
