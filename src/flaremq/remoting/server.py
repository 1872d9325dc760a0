"""RemotingServer: accepts connections on one port and keeps house over them."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter

from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.remoting.budget import ByteBudget
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.options import RemotingOptions

_log = logging.getLogger(__name__)
_SWEEP_SECONDS = 1.0
_BACKLOG = 1024
_TLS_HELLO = 0x16
_PEEK_SECONDS = 10.0


class RemotingServer:
    """One listening port. Use from one event loop."""

    def __init__(self, table: HandlerTable, options: RemotingOptions | None = None) -> None:
        self._table = table
        self._options = options or RemotingOptions()
        self.connections: set[Connection] = set()
        self._by_address: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._listener: socket.socket | None = None
        self._acceptor: asyncio.Task[None] | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._tls = _tls_context(self._options)
        self._greeting: set[asyncio.Task[None]] = set()
        self._budget = ByteBudget(self._options.in_flight_bytes_max)
        self.port = 0
        self.refused = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one, ``port`` then says which."""
        loop = asyncio.get_running_loop()
        try:
            if self._tls is None:
                self._server = await loop.create_server(
                    self._connection, host, port, backlog=_BACKLOG, reuse_address=True
                )
                self.port = self._server.sockets[0].getsockname()[1]
            else:
                family = socket.AF_INET6 if ":" in host else socket.AF_INET
                self._listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
                self._listener.setblocking(False)
                self.port = self._listener.getsockname()[1]
                self._acceptor = asyncio.create_task(self._accept())
        except OSError as error:
            raise UnavailableError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        self._sweeper = loop.call_later(_SWEEP_SECONDS, self._sweep)

    async def stop_listening(self) -> None:
        """Take no new connections; those there are go on."""
        if self._server is not None:
            self._server.close()
        if self._acceptor is not None:
            self._acceptor.cancel()
            await asyncio.gather(self._acceptor, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()

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
        for task in self._greeting:
            task.cancel()
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
        options = self._options
        full = len(self.connections) >= options.connections_max
        if full or self._by_address[host] >= options.connections_per_address_max:
            self.refused += 1
            _log.warning("refusing a connection from %s: too many", connection.peer)
            return False
        self.connections.add(connection)
        self._by_address[host] += 1
        return True

    def _closed(self, connection: Connection) -> None:
        if connection not in self.connections:
            return
        self.connections.discard(connection)
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

    def _relieve(self, now: float) -> None:
        """Frames that are not complete take all the memory there is for them, and those allowed to go on do not."""
        for connection in sorted(self.connections, key=_buffered, reverse=True):
            if not self._budget.is_overdrawn:
                break
            if connection.stands_still(now):
                _log.warning("closing the connection from %s: too many bytes in flight", connection.peer)
                connection.drop_half_received()
        if self._budget.is_overdrawn:
            largest = max(self.connections, key=_buffered)
            largest.go_on()

    # TLS on the same port: the first byte tells

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        assert self._listener is not None
        while True:
            try:
                client, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                _log.warning("cannot accept a connection: %s", error)
                await asyncio.sleep(0.1)
                continue
            task = asyncio.create_task(self._greet(client))
            self._greeting.add(task)
            task.add_done_callback(self._greeting.discard)

    async def _greet(self, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(_PEEK_SECONDS):
                first = await _peek(loop, client)
            encrypted = first == _TLS_HELLO
            if first is None or (not encrypted and self._options.tls_mode == "enforcing"):
                client.close()
                return
            await loop.connect_accepted_socket(
                self._connection,
                client,
                ssl=self._tls if encrypted else None,
                ssl_handshake_timeout=_PEEK_SECONDS if encrypted else None,
            )
        except (OSError, TimeoutError, ssl.SSLError) as error:
            _log.info("a connection ended before its first frame: %s", error)
            client.close()
        except BaseException:
            client.close()
            raise


async def _peek(loop: asyncio.AbstractEventLoop, client: socket.socket) -> int | None:
    """The first byte without taking it; None at the end of the stream."""
    while True:
        try:
            data = client.recv(1, socket.MSG_PEEK)
            return data[0] if data else None
        except (BlockingIOError, InterruptedError):
            pass
        ready = loop.create_future()
        loop.add_reader(client, _set, ready)
        try:
            await ready
        finally:
            loop.remove_reader(client)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _buffered(connection: Connection) -> int:
    return connection.buffered


def _tls_context(options: RemotingOptions) -> ssl.SSLContext | None:
    if options.tls_mode == "disabled":
        return None
    if not options.tls_cert_path or not options.tls_key_path:
        raise InvalidArgumentError(f"tlsMode={options.tls_mode} needs tlsCertPath and tlsKeyPath")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(options.tls_cert_path, options.tls_key_path)
        if options.tls_trust_path:
            context.load_verify_locations(options.tls_trust_path)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        raise InvalidArgumentError(f"the TLS certificate or key cannot be used: {error}") from error
    return context
