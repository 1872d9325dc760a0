"""Writing to a socket at once, past a transport that would wait for the end of the loop's turn.

A peer that gets a large reply early works on it while we work on its next requests.
"""

from __future__ import annotations

import asyncio
import os

from flaremq.protocol.command import Body

_GATHERED_MAX = 1024  # buffers one call writes (IOV_MAX)


def socket_of(transport: asyncio.BaseTransport) -> int:
    """The descriptor that may be written to directly; -1 if there is none, or TLS is in between."""
    if transport.get_extra_info("ssl_object") is not None:
        return -1
    endpoint = transport.get_extra_info("socket")
    return int(endpoint.fileno()) if hasattr(endpoint, "fileno") else -1


def write_now(transport: asyncio.Transport, descriptor: int, out: list[Body]) -> list[Body]:
    """Write what the socket takes; what is left is for the transport.

    Only while the transport holds nothing back, so that the order is kept. Errors are left for it to meet.
    """
    if transport.is_closing() or transport.get_write_buffer_size():
        return out
    try:
        sent = os.writev(descriptor, out[:_GATHERED_MAX])
    except OSError:
        return out
    for number, part in enumerate(out):
        if sent < len(part):
            return [memoryview(part)[sent:], *out[number + 1 :]]
        sent -= len(part)
    return []
