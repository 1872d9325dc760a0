"""Listener: accepts at the HA port, and keeps strangers from taking what slaves need.

An address that could not be let in whatever it says is turned away at once. The others are *half-open* until they
showed who they are; there are few of those at a time, and with too many the oldest is given up, which had the most
time, so that peers who say nothing keep nobody out.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from flaremq.broker.replication.door import Door
from flaremq.broker.replication.ha_connection import HAConnection
from flaremq.errors import UnavailableError
from flaremq.log_lines import LimitedLog
from flaremq.remoting import descriptors
from flaremq.remoting.address import format_address, why_not

_log = logging.getLogger(__name__)
_TLS_SECONDS: Final = 10.0
_BACKLOG: Final = 64
HALF_OPEN_MAX: Final = 16


class Listener:
    """One listening socket. Event loop only."""

    def __init__(self, door: Door, make: Callable[[], HAConnection]) -> None:
        self._door = door
        self._make = make
        self._listener: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None
        self._handshakes: dict[asyncio.Task[bool], socket.socket] = {}  # TLS under way, the oldest first
        self._refusals = LimitedLog(_log)
        self.connections: dict[HAConnection, None] = {}  # the oldest first
        self.refused = 0
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one, ``port`` then says which."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            where = format_address(host, port)
            raise UnavailableError(f"cannot listen for slaves at {where}: {why_not(error)}") from error
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._task = asyncio.create_task(self._accept(self._listener))

    async def stop(self) -> None:
        """Close the port and all connections."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
        for handshake in list(self._handshakes):
            handshake.cancel()
        await asyncio.gather(*self._handshakes, return_exceptions=True)
        connections = list(self.connections)
        for connection in connections:
            connection.abort()
        while self.connections:
            await asyncio.sleep(0)
        for connection in connections:
            await connection.settle()

    def changed(self, connection: HAConnection) -> None:
        """A connection was opened or closed."""
        if connection.is_open and connection not in self.connections:
            self.connections[connection] = None
        elif not connection.is_open and connection in self.connections:
            del self.connections[connection]
            descriptors.give_back()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, name = await loop.sock_accept(listener)
            except OSError as error:
                self._refusals.warning("cannot accept a connection from a slave: %s", error)
                await asyncio.sleep(0.1)
                continue
            reason = self._refusal(str(name[0]))
            if reason:
                self.refused += 1
                self._refusals.warning("refusing an HA connection from %s: %s", name[0], reason)
                client.close()
                continue
            descriptors.take()
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            handshake = asyncio.create_task(self._connect(client))
            self._handshakes[handshake] = client
            handshake.add_done_callback(self._connected)

    def _connected(self, handshake: asyncio.Task[bool]) -> None:
        """A connection stands, or does not: also one that was given up before its task had begun."""
        client = self._handshakes.pop(handshake)
        if handshake.cancelled() or not handshake.result():
            client.close()
            descriptors.give_back()

    def _refusal(self, host: str) -> str:
        """Why a peer at this address is not even listened to; empty if it is. Makes room among the half-open."""
        if self._door.admits_nobody_at(host):
            return "haPeerAllow has it not, and there is no shared secret by which it could prove itself (haSecretFile)"
        if not descriptors.has_room():
            return "the process has no descriptors left"
        half_open = [connection for connection in self.connections if not connection.is_admitted]
        if len(half_open) + len(self._handshakes) >= HALF_OPEN_MAX:
            if half_open:
                half_open[0].close("others want its place, and it has not shown yet who it is")
            else:
                next(iter(self._handshakes)).cancel()
        if len(self.connections) - len(half_open) >= self._door.connections_max:
            return f"{self._door.connections_max} slaves are connected (haConnectionsMax)"
        return ""

    async def _connect(self, client: socket.socket) -> bool:
        loop = asyncio.get_running_loop()
        tls = None if self._door.server_tls is None else await self._door.server_tls.fresh()
        try:
            await loop.connect_accepted_socket(
                self._make, client, ssl=tls, ssl_handshake_timeout=_TLS_SECONDS if tls is not None else None
            )
        except (OSError, TimeoutError, ssl.SSLError) as error:
            self._refusals.warning("an HA connection ended before its first byte: %s", error)
            return False
        return True
