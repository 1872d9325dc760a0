"""Socket addresses as texts and in the form records keep them."""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from typing import Any, Final

from flaremq.digits import whole_number
from flaremq.errors import InvalidArgumentError

_NO_HOST: Final = re.compile(r"[\s/]")  # as in http://host:9876


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of ``host:port``; an IPv6 host may stand in brackets."""
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    number = whole_number(port)
    if not colon or not host or number is None or number > 65535 or _NO_HOST.search(host):
        raise InvalidArgumentError(f"{text!r} is not an address like 127.0.0.1:9876")
    return host, number


def parse_addresses(text: str) -> list[str]:
    """The addresses of a list separated by ``;`` or ``,``, each checked."""
    addresses = [part.strip() for part in text.replace(",", ";").split(";") if part.strip()]
    for address in addresses:
        parse_address(address)
    if not addresses:
        raise InvalidArgumentError(f"{text!r} names no address like 127.0.0.1:9876")
    return addresses


def format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def why_not(error: OSError) -> str:
    """Why nobody can connect or listen at an address, for a sentence that has named it: asyncio names it again."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not signed by a certificate that is trusted ({error.verify_message})"
    if isinstance(error, ssl.SSLError) or error.errno is None:
        return error.strerror or str(error) or "timed out"
    return os.strerror(error.errno) if error.errno > 0 else str(error.strerror)  # below 0: of the resolver


def describe_peer(name: Any) -> tuple[str, bytes]:
    """Text and stored form (address bytes, 4-byte port) of a socket name; IPv4 inside IPv6 is unwrapped."""
    if not isinstance(name, tuple) or len(name) < 2:
        return "unknown:0", bytes(8)
    host, port = str(name[0]), int(name[1])
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return f"{host}:{port}", bytes(4) + port.to_bytes(4, "big")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return format_address(str(address), port), address.packed + port.to_bytes(4, "big")
