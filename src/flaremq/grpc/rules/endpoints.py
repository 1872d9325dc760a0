"""Addresses as clients are told them."""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from flaremq.grpc.messages import classes
from flaremq.grpc.messages.enums import AddressScheme, Code
from flaremq.grpc.rules.status import Refused
from flaremq.remoting.address import parse_address

# They are repeated with each queue of a route, so they are not to be long.
_ADDRESSES_MAX: Final = 64
_HOST_MAX: Final = 255


def scheme_of(host: str) -> AddressScheme:
    try:
        version = ipaddress.ip_address(host.strip("[]")).version
    except ValueError:
        return AddressScheme.DOMAIN_NAME
    return AddressScheme.IPv6 if version == 6 else AddressScheme.IPv4


def at(address: str) -> Any:
    """The one address "host:port"."""
    host, port = parse_address(address)
    return classes.Endpoints(scheme=scheme_of(host), addresses=[classes.Address(host=host, port=port)])


def answering(asked: Any, local_address: str) -> Any:
    """Where the client finds us again: the hosts it asked for, the port it came to.

    A client takes endpoints of another text for another server, so they are given back as it wrote them. Behind
    something that forwards to us from another port the client's own port is right: it reached us by it.
    """
    if not asked.addresses:
        return at(local_address)
    if len(asked.addresses) > _ADDRESSES_MAX or any(len(address.host) > _HOST_MAX for address in asked.addresses):
        raise Refused(
            Code.ILLEGAL_ACCESS_POINT,
            f"an access point has at most {_ADDRESSES_MAX} addresses of at most {_HOST_MAX} characters",
        )
    result = classes.Endpoints(scheme=asked.scheme or scheme_of(asked.addresses[0].host))
    _, port = parse_address(local_address)
    for address in asked.addresses:
        result.addresses.add(host=address.host, port=address.port or port)
    return result
