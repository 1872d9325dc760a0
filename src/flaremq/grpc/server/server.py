"""GrpcServer: listens on one port, for clients that begin with TLS and clients that do not, and keeps house."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Mapping

from flaremq.grpc.call import AtOnce, Handlers
from flaremq.grpc.http2.limits import Limits
from flaremq.grpc.options import GrpcOptions
from flaremq.grpc.server.budget import Budget
from flaremq.grpc.server.connection import GrpcConnection
from flaremq.grpc.server.deadlines import Deadlines
from flaremq.grpc.server.exchange import Exchange
from flaremq.grpc.server.serving import Guard, Serving, entries_of, message_max
from flaremq.grpc.server.tls import contexts, tls_mode
from flaremq.remoting import descriptors
from flaremq.remoting.options import RemotingOptions
from flaremq.remoting.tls_acceptor import TlsAcceptor

_log = logging.getLogger(__name__)
_SWEEP_SECONDS = 1.0
_LOG_SECONDS = 10.0  # between two lines about refused connections
_FAREWELL_SECONDS = 0.05  # in which calls that are on their way still come
_LOOK_SECONDS = 0.01
_BODY_MAX = 4_194_304


class GrpcServer:
    """One listening port. Use from one event loop."""

    def __init__(
        self,
        handlers: Handlers,
        options: GrpcOptions | None = None,
        remoting: RemotingOptions | None = None,
        *,
        at_once: Mapping[str, AtOnce] | None = None,
        guard: Guard | None = None,
        body_max: int = _BODY_MAX,
    ) -> None:
        """``at_once``: short ways of some calls, by name; ``body_max``: bytes of a message. Reads the files of TLS."""
        self._options = options = options or GrpcOptions()
        self._remoting = remoting = remoting or RemotingOptions()
        self._tls = contexts(options, remoting)
        self._serving = Serving(
            entries=entries_of(handlers, at_once or {}),
            options=options,
            remoting=remoting,
            limits=Limits(streams_max=options.grpc_concurrent_streams_max),
            budget=Budget(remoting.in_flight_bytes_max, remoting.half_received_bytes_max),
            deadlines=Deadlines[Exchange](Exchange.late),
            message_max=message_max(options, body_max),
            guard=guard,
        )
        self.connections: set[GrpcConnection] = set()
        self._by_address: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._acceptor: TlsAcceptor | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._next_line = 0.0
        self.port = 0

    async def serve(self, listener: socket.socket) -> None:
        """Take the connections of a socket that listens; it is ours from now on."""
        loop = asyncio.get_running_loop()
        self.port = listener.getsockname()[1]
        if self._tls is None:
            self._server = await loop.create_server(self._connection, sock=listener)
        else:
            enforcing = tls_mode(self._options, self._remoting) == "enforcing"
            self._acceptor = TlsAcceptor(
                listener, self._tls, self._connection, enforcing=enforcing, has_room=self._has_room
            )
        self._sweeper = loop.call_later(_SWEEP_SECONDS, self._sweep)

    @property
    def calls(self) -> int:
        """Calls that are open now."""
        return self._serving.budget.calls

    @property
    def calls_taken(self) -> int:
        """Calls since the start."""
        return self._serving.counts.calls

    @property
    def refused(self) -> int:
        """Connections there was no room for."""
        return self._serving.counts.refused

    async def stop(self) -> None:
        """Take no more calls, end those that wait, answer those under way, close."""
        if self._server is not None:
            self._server.close()
        if self._acceptor is not None:
            await self._acceptor.stop()
        if self.calls:
            for connection in list(self.connections):
                connection.leave(final=False)
            await asyncio.sleep(_FAREWELL_SECONDS)
        for connection in list(self.connections):
            connection.leave(final=True)
            connection.end_polls()
        await self._finish()
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._serving.deadlines.stop()

    async def _finish(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.grpc_shutdown_time_seconds
        while self.calls and loop.time() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)
        for connection in list(self.connections):
            connection.end_calls()
            connection.close()
        for _ in range(20):
            if not self.connections:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        for connection in list(self.connections):
            connection.abort()
        if self.connections:
            await asyncio.sleep(0)

    def _connection(self) -> GrpcConnection:
        return GrpcConnection(self._serving, opened=self._opened, closed=self._closed)

    def _has_room(self) -> bool:
        return len(self.connections) < self._remoting.connections_max and descriptors.has_room()

    def _opened(self, connection: GrpcConnection) -> bool:
        host = connection.peer.rpartition(":")[0]
        has_room = (
            self._has_room() if self._acceptor is None else len(self.connections) < self._remoting.connections_max
        )
        if not has_room or self._by_address[host] >= self._remoting.connections_per_address_max:
            self._serving.counts.refused += 1
            now = asyncio.get_running_loop().time()
            if now >= self._next_line:
                self._next_line = now + _LOG_SECONDS
                _log.warning(
                    "refusing a gRPC connection from %s: %d are open, %d of them from there; %d were refused so far",
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

    def _closed(self, connection: GrpcConnection) -> None:
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
            connection.sweep(now)
