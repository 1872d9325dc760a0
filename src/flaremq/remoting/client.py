"""RemotingClient: one connection to each address, made on first use and again after it was lost."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from flaremq.errors import UnavailableError
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.address import parse_address, why_not
from flaremq.remoting.client_connection import ClientConnection
from flaremq.remoting.connection import Connection, RequestTimeoutError
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.options import RemotingOptions
from flaremq.remoting.tls import TlsContext, outgoing_tls

__all__ = ["RemotingClient", "RequestTimeoutError"]

_CONNECT_SECONDS = 3.0
_SWEEP_SECONDS = 0.1


class RemotingClient:
    """Connections to servers, by address. Use from one event loop."""

    def __init__(
        self,
        options: RemotingOptions | None = None,
        table: HandlerTable | None = None,
        *,
        tls: TlsContext | ssl.SSLContext | None = None,
        on_close: Callable[[str], None] | None = None,
    ) -> None:
        """Without ``tls`` the options say whether connections are encrypted."""
        self._options = options or RemotingOptions()
        self._table = table or HandlerTable()
        self._tls = tls or outgoing_tls(self._options)
        self._on_close = on_close
        self._connections: dict[str, Connection] = {}
        self._connecting: dict[str, asyncio.Task[Connection]] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    def connected(self, address: str) -> Connection | None:
        """The open connection to an address, if there is one: callers in a hurry use it directly."""
        connection = self._connections.get(address)
        return connection if connection is not None and connection.is_open else None

    async def connect(self, address: str) -> Connection:
        """The connection to an address, opened if need be; raises UnavailableError."""
        connection = self._connections.get(address)
        if connection is not None and connection.is_open:
            return connection
        if self._closed:
            raise UnavailableError("the client is closed")
        task = self._connecting.get(address)
        if task is None:
            task = asyncio.create_task(self._open(address))
            self._connecting[address] = task
            task.add_done_callback(lambda _: self._connecting.pop(address, None))
        return await asyncio.shield(task)

    async def _open(self, address: str) -> Connection:
        host, port = parse_address(address)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                tls = await self._tls.fresh() if isinstance(self._tls, TlsContext) else self._tls
                _, connection = await loop.create_connection(
                    lambda: ClientConnection(self._table, self._options, closed=lambda _: self._lost(address)),
                    host,
                    port,
                    ssl=tls,
                )
        except (OSError, TimeoutError) as error:
            raise UnavailableError(f"cannot connect to {address}: {why_not(error)}") from error
        if self._closed:
            connection.close()
            raise UnavailableError("the client is closed")
        self._connections[address] = connection
        if self._sweeper is None:
            self._sweeper = loop.call_later(_SWEEP_SECONDS, self._sweep)
        return connection

    def _lost(self, address: str) -> None:
        connection = self._connections.get(address)
        if connection is not None and not connection.is_open:
            del self._connections[address]
        if self._on_close is not None and not self._closed:
            self._on_close(address)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweeper = loop.call_later(_SWEEP_SECONDS, self._sweep)
        now = loop.time()
        for connection in list(self._connections.values()):
            connection.sweep(now)

    async def request(self, address: str, command: RemotingCommand, timeout: float = 3.0) -> RemotingCommand:
        """Send a request and wait for the reply, whatever its code."""
        connection = self.connected(address) or await self.connect(address)
        if self._options.sign is not None:
            self._options.sign(command)
        return await connection.call(command, timeout)

    async def oneway(self, address: str, command: RemotingCommand) -> None:
        """Send a request that gets no reply."""
        connection = self.connected(address) or await self.connect(address)
        if self._options.sign is not None:
            self._options.sign(command)
        connection.notify(command)

    async def close(self) -> None:
        """Close all connections; what is written goes out first."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for task in list(self._connecting.values()):
            task.cancel()
        connections = list(self._connections.values())
        for connection in connections:
            connection.close()
        for _ in range(20):
            if not any(connection.is_open for connection in connections):
                break
            await asyncio.sleep(0.01)
        for connection in connections:
            connection.abort()
        self._connections.clear()
