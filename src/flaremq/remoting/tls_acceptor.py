"""TlsAcceptor: accepts on a port where connections may begin with TLS; the first byte tells.

A connection is *greeted* until its first byte and its handshake have come. Greetings are bounded: with too many, or no
descriptor left for another, the oldest is given up, which had the most time, so that peers who say nothing keep nobody
out.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from flaremq.log_lines import LimitedLog
from flaremq.remoting import descriptors

_failures = LimitedLog(logging.getLogger(__name__), lines_max=20)  # anybody who reaches a port can cause them
_TLS_HELLO: Final = 0x16
_GREETING_SECONDS: Final = 10.0
GREETINGS_MAX: Final = 1024


class Contexts(Protocol):
    """Where a connection that begins with TLS gets its context."""

    async def fresh(self) -> ssl.SSLContext: ...


class TlsAcceptor:
    """One listening socket. Event loop only."""

    def __init__(
        self,
        listener: socket.socket,
        context: Contexts,
        make: Callable[[], asyncio.BaseProtocol],
        *,
        enforcing: bool,
        has_room: Callable[[], bool],
    ) -> None:
        self._listener = listener
        self._context = context
        self._make = make
        self._enforcing = enforcing
        self._has_room = has_room
        self._greetings: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._task = asyncio.create_task(self._accept())
        self.refused = 0

    @property
    def greetings(self) -> int:
        """Connections whose first byte or handshake is awaited."""
        return len(self._greetings)

    async def stop(self) -> None:
        """Take no more connections, and give up those that are still greeted."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._listener.close()
        for greeting in list(self._greetings):
            greeting.cancel()
        await asyncio.gather(*self._greetings, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                _failures.warning("cannot accept a connection: %s", error)
                await asyncio.sleep(0.1)
                continue
            if len(self._greetings) >= GREETINGS_MAX or (self._greetings and not descriptors.has_room()):
                await self._give_up_oldest()
            if not self._has_room():
                self.refused += 1
                client.close()
                continue
            descriptors.take()
            greeting = asyncio.create_task(self._greet(client))
            self._greetings[greeting] = None
            greeting.add_done_callback(partial(self._greeted, client))

    async def _give_up_oldest(self) -> None:
        oldest = next(iter(self._greetings))
        oldest.cancel()
        await asyncio.wait([oldest])  # its descriptor is free now

    def _greeted(self, client: socket.socket, greeting: asyncio.Task[None]) -> None:
        self._greetings.pop(greeting, None)
        if greeting.cancelled():
            client.close()  # it may have been given up before it had begun
        descriptors.give_back()  # its connection, if it became one, is counted by the server

    async def _greet(self, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(_GREETING_SECONDS):
                first = await _peek(loop, client)
            encrypted = first == _TLS_HELLO
            if first is None or (not encrypted and self._enforcing):
                client.close()
                return
            await loop.connect_accepted_socket(
                self._make,
                client,
                ssl=await self._context.fresh() if encrypted else None,
                ssl_handshake_timeout=_GREETING_SECONDS if encrypted else None,
            )
        except (OSError, TimeoutError, ssl.SSLError) as error:
            _failures.info("a connection ended before its first frame: %s", error)
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
