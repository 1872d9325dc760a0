"""Ports for servers that must be named before they are bound."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from contextlib import ExitStack
from pathlib import Path

# Below the ports that the system hands out: no connection and no listener at port 0 gets one of these in between,
# also not while a server that was killed is down.
_FIRST, _END = 11_000, 15_000
# A broker listens beside its own port: two below for priority requests, one above for replicas.
_BELOW, _ABOVE = 2, 1
_TURN = Path(tempfile.gettempdir()) / f"flaremq-test-ports-{os.getuid()}"


def free_ports(count: int = 1, step: int = 10) -> int:
    """The first of ``count`` ports, ``step`` apart, for servers whose neighbouring ports are free too.

    Processes that run tests side by side take turns by a file, so none gets what another was told a moment ago.
    """
    width = _BELOW + step * (count - 1) + _ABOVE + 1
    with _TURN.open("a+") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        turn.seek(0)
        start = int(turn.read() or _FIRST)
        for _ in range(_END - _FIRST):
            if start + width > _END:
                start = _FIRST
            if _all_free(start, width):
                turn.truncate(0)
                turn.write(str(start + width))
                return start + _BELOW
            start += 1
    raise RuntimeError(f"no {width} free ports in a row between {_FIRST} and {_END}")


def _all_free(start: int, width: int) -> bool:
    with ExitStack() as stack:
        for port in range(start, start + width):
            probe = stack.enter_context(socket.socket())
            # What a server does: a connection of the last one that lingers is no reason to pass over the port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True
