"""Source addresses: from where an entry of a policy counts. Addresses and networks, compared as numbers.

RocketMQ compares single addresses as texts, so that there ``::1`` does not meet ``0:0:0:0:0:0:0:1``. Here every text
becomes a number, and IPv4 inside of IPv6 is IPv4.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_MAPPED_BITS: Final = 96  # ::ffff:0:0/96 holds all of IPv4
_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")

Address = tuple[int, int]  # version, number


class SourceAddresses:
    """A set of networks; a look-up costs one test for each length of network in it, not for each network."""

    __slots__ = ("_by_length",)

    def __init__(self, texts: Iterable[str]) -> None:
        """ValueError for a text that is neither an address nor a network."""
        found: dict[tuple[int, int], set[int]] = {}
        for text in texts:
            version, shift, number = _network(text)
            found.setdefault((version, shift), set()).add(number)
        self._by_length = tuple((version, shift, frozenset(numbers)) for (version, shift), numbers in found.items())

    def __contains__(self, address: Address) -> bool:
        version, number = address
        return any(v == version and number >> shift in numbers for v, shift, numbers in self._by_length)


def is_source_address(text: str) -> bool:
    """Whether a policy may have it."""
    try:
        _network(text)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=4096)  # peers are few, and each asks often
def parse_address(text: str) -> Address | None:
    """The address of a peer; None if it is none."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.version, int(address)


def _network(text: str) -> tuple[int, int, int]:
    """Version, bits that do not count, the others as a number."""
    address, slash, bits = text.partition("/")
    if "%" in text or (slash and not (bits.isascii() and bits.isdigit())):
        raise ValueError(f"{text!r} is neither an address nor a network")
    network = ipaddress.ip_network(f"{address}{slash}{bits}", strict=False)
    start, length, version = int(network.network_address), network.prefixlen, network.version
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
        start, length, version = start & 0xFFFF_FFFF, length - _MAPPED_BITS, 4
    shift = (32 if version == 4 else 128) - length
    return version, shift, start >> shift
