"""The socket of a port of gRPC, apart from what serves it: a broker listens before it loads that."""

from __future__ import annotations

import socket

from flaremq.errors import UnavailableError
from flaremq.remoting import descriptors
from flaremq.remoting.address import why_not


def listen(host: str, port: int) -> socket.socket:
    """Port 0 takes a free one. UnavailableError if it is taken."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=descriptors.backlog())
    except OSError as error:
        raise UnavailableError(f"cannot listen on {host}:{port} for gRPC: {why_not(error)}") from error
    listener.setblocking(False)
    return listener
