"""RemotingServer: accepts connections on one port and keeps house over them."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter

from flaremq.errors import UnavailableError
from flaremq.log_lines import LimitedLog
from flaremq.remoting import descriptors
from flaremq.remoting.address import why_not
from flaremq.remoting.budget import ByteBudget
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.options import RemotingOptions
from flaremq.remoting.tls import server_tls
from flaremq.remoting.tls_acceptor import TlsAcceptor

_log = logging.getLogger(__name__)
_reliefs = LimitedLog(_log, lines_max=20)
_SWEEP_SECONDS = 1.0
_LOG_SECONDS = 10.0  # between two lines about refused connections


class RemotingServer:
    """One listening port. Use from one event loop."""

    def __init__(self, table: HandlerTable, options: RemotingOptions | None = None) -> None:
        self._table = table
        self._options = options or RemotingOptions()
        self.connections: set[Connection] = set()
        self._by_address: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._acceptor: TlsAcceptor | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._tls = server_tls(self._options)
        self._look: asyncio.Task[object] | None = None  # at the files of TLS
        self._budget = ByteBudget(self._options.in_flight_bytes_max, self._options.half_received_bytes_max)
        self._next_line = 0.0
        self.port = 0
        self.refused = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one, ``port`` then says which."""
        loop = asyncio.get_running_loop()
        try:
            if self._tls is None:
                self._server = await loop.create_server(
                    self._connection, host, port, backlog=descriptors.backlog(), reuse_address=True
                )
                self.port = self._server.sockets[0].getsockname()[1]
            else:
                family = socket.AF_INET6 if ":" in host else socket.AF_INET
                tls_listener = socket.create_server((host, port), family=family, backlog=descriptors.backlog())
                tls_listener.setblocking(False)
                self.port = tls_listener.getsockname()[1]
                self._acceptor = TlsAcceptor(
                    tls_listener,
                    self._tls,
                    self._connection,
                    enforcing=self._options.tls_mode == "enforcing",
                    has_room=self._has_room,
                )
        except OSError as error:
            raise UnavailableError(f"cannot listen on {host}:{port}: {why_not(error)}") from error
        self._sweeper = loop.call_later(_SWEEP_SECONDS, self._sweep)
        descriptors.tell_limit(self._options.connections_max)

    async def stop_listening(self) -> None:
        """Take no new connections; those there are go on."""
        if self._server is not None:
            self._server.close()
        if self._acceptor is not None:
            await self._acceptor.stop()

    async def stop_reading(self) -> None:
        """Take neither connections nor requests any more; what was taken can still be answered."""
        await self.stop_listening()
        for connection in list(self.connections):
            connection.stop_reading()

    async def stop(self) -> None:
        """Close the port and all connections, after what is written has gone out."""
        await self.stop_listening()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self.connections):
            connection.close()
        for _ in range(20):
            if not self.connections:
                break
            await asyncio.sleep(0.01)
        for connection in list(self.connections):
            connection.abort()
        if self.connections:
            await asyncio.sleep(0)

    def _connection(self) -> Connection:
        return Connection(self._table, self._options, opened=self._opened, closed=self._closed, budget=self._budget)

    def _opened(self, connection: Connection) -> bool:
        host = connection.peer.rpartition(":")[0]
        # Where TLS may begin the room was looked for when the connection was accepted, and it has its descriptor.
        has_room = self._has_room() if self._acceptor is None else len(self.connections) < self._options.connections_max
        if not has_room or self._by_address[host] >= self._options.connections_per_address_max:
            self.refused += 1
            now = asyncio.get_running_loop().time()
            if now >= self._next_line:
                self._next_line = now + _LOG_SECONDS
                _log.warning(
                    "refusing a connection from %s: %d are open, %d of them from there; %d were refused so far",
                    connection.peer,
                    len(self.connections),
                    self._by_address[host],
                    self.refused,
                )
            return False
        self.connections.add(connection)
        self._by_address[host] += 1
        descriptors.take()
        return True

    def _has_room(self) -> bool:
        return len(self.connections) < self._options.connections_max and descriptors.has_room()

    def _closed(self, connection: Connection) -> None:
        if connection not in self.connections:
            return
        self.connections.discard(connection)
        descriptors.give_back()
        host = connection.peer.rpartition(":")[0]
        self._by_address[host] -= 1
        if self._by_address[host] <= 0:
            del self._by_address[host]

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._sweeper = loop.call_later(_SWEEP_SECONDS, self._sweep)
        for connection in list(self.connections):
            connection.sweep_server_side(now)
        if self._budget.is_overdrawn:
            self._relieve(now)
        if self._tls is not None and self._tls.is_due:
            self._look = loop.create_task(self._tls.fresh())

    def _relieve(self, now: float) -> None:
        """Frames that are not complete take all the memory there is for them, and those allowed to go on do not."""
        for connection in sorted(self.connections, key=_buffered, reverse=True):
            if not self._budget.is_overdrawn:
                break
            if connection.stands_still(now):
                _reliefs.warning("closing the connection from %s: too many bytes in flight", connection.peer)
                connection.drop_half_received()
        self._budget.choose()


def _buffered(connection: Connection) -> int:
    return connection.buffered
