"""Addresses of peers as the access rules see them: texts without a port, IPv4 inside of IPv6 taken out."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@lru_cache(maxsize=4096)
def host_of(peer: str) -> str:
    """The address in ``host:port``; an IPv6 host may stand in brackets."""
    host = peer.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


@lru_cache(maxsize=4096)
def is_loopback(host: str) -> bool:
    """Whether only this machine has that address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=4096)
def neighbourhood(host: str) -> str:
    """Whose address it is, as far as one can tell: of IPv6 a line has 2^64, so its network stands for all of them."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return f"{ipaddress.IPv6Address(int(address) >> 64 << 64)}/64" if address.version == 6 else host


def parse_networks(text: str) -> tuple[Network, ...]:
    """Networks joined by ``;`` or ``,``; an address is a network of one. ValueError."""
    parts = [part.strip() for part in text.replace(",", ";").split(";")]
    return tuple(ipaddress.ip_network(part, strict=False) for part in parts if part)


def is_in(host: str, networks: tuple[Network, ...]) -> bool:
    """Whether one of the networks has that address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return any(address in network for network in networks)
