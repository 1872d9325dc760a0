"""Host and Origin: a page of somebody else's must not reach us through a browser that can.

A name of theirs may resolve to our address (DNS rebinding): then the Host header is their name. And a form of theirs
may be sent here: then the Origin is theirs.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

_LOCAL: Final = frozenset(("localhost", "127.0.0.1", "::1"))


def host_name(header: str) -> str:
    """The name in a Host header, without its port; empty if it is none."""
    text = header.strip().lower()
    if not text or any(char in text for char in "/@?#\\ \t,"):
        return ""
    if text.startswith("["):
        name, bracket, rest = text[1:].partition("]")
        return name if bracket and (not rest or (rest.startswith(":") and rest[1:].isdigit())) else ""
    name, colon, port = text.partition(":")
    return name.rstrip(".") if not colon or port.isdigit() else ""


class HostCheck:
    """Which names we answer to: those of this machine's loopback, the address we listen at, and those allowed."""

    def __init__(self, listen_host: str, allowed: Iterable[str] = ()) -> None:
        names = {name.lower().strip("[]") for name in allowed}
        self.is_local = _is_loopback(listen_host)
        if not _is_unspecified(listen_host):
            names.add(listen_host.lower())
        self._names = frozenset(names | _LOCAL)

    def allows(self, header: str) -> bool:
        return host_name(header) in self._names

    def is_own_origin(self, origin: str, host: str) -> bool:
        """Whether a request that names an origin comes from a page of ours; ``null`` is nobody's page."""
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.strip().lower()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_unspecified(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
