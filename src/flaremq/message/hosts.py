"""Born and store hosts: 4 or 16 address bytes, then the port as i32, 8 or 20 bytes together.

The text form is the one RocketMQ prints: ``10.0.0.5:10911``, and for IPv6 the full, uncompressed
``[0:0:0:0:0:0:0:1]:10911`` of Java. The parser takes any spelling of an address.
"""

from __future__ import annotations

import ipaddress
import struct
from functools import lru_cache

from flaremq.digits import whole_number
from flaremq.errors import InvalidArgumentError

HOST_V4 = struct.Struct(">4si")
HOST_V6 = struct.Struct(">16si")
assert HOST_V4.size == 8 and HOST_V6.size == 20

_GROUPS = struct.Struct(">8H")


@lru_cache(maxsize=1024)
def encode_host(text: str) -> bytes:
    """``"10.0.0.5:10911"`` or ``"[::1]:10911"`` as stored. An IPv4-mapped IPv6 address is stored as IPv4."""
    address_text, colon, port_text = text.rpartition(":")
    try:
        port = whole_number(port_text)
        if not colon or port is None or port > 65535:
            raise ValueError("a port between 0 and 65535 is needed")
        address = ipaddress.ip_address(address_text.removeprefix("[").removesuffix("]").partition("%")[0])
    except ValueError as error:
        raise InvalidArgumentError(f"host {text!r} is not address:port: {error}") from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return HOST_V6.pack(address.packed, port)
        address = address.ipv4_mapped
    return HOST_V4.pack(address.packed, port)


@lru_cache(maxsize=1024)
def format_host(host: bytes) -> str:
    """Text of a stored host; the port is printed as it is, even if it is no port number."""
    if len(host) == HOST_V4.size:
        a, b, c, d = host[:4]
        return f"{a}.{b}.{c}.{d}:{int.from_bytes(host[4:], 'big', signed=True)}"
    groups = ":".join(format(group, "x") for group in _GROUPS.unpack_from(host))
    return f"[{groups}]:{int.from_bytes(host[16:], 'big', signed=True)}"
