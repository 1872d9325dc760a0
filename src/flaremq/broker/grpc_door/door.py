"""BrokerDoor: the port of gRPC of one broker.

What serves it weighs seven megabytes, and many brokers never meet a client of RocketMQ 5: it is loaded when the first
one comes, who waits in the listener's queue meanwhile. Where TLS has files to read they are read at the start.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from functools import partial
from typing import TYPE_CHECKING, Final

from flaremq.broker.options import BrokerOptions
from flaremq.broker.parts import BrokerState
from flaremq.errors import UnavailableError
from flaremq.grpc.listener import listen
from flaremq.grpc.receipt_key import own_key, read_key
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.options import RemotingOptions

if TYPE_CHECKING:
    from flaremq.access.control import AccessControl
    from flaremq.grpc.door import Door

_log = logging.getLogger(__name__)
_KEY_NAME: Final = "grpcReceiptKey"
_AGAIN_SECONDS: Final = 5.0  # after loading has failed


class BrokerDoor:
    """Open between ``start`` and ``stop``. Use from one event loop."""

    def __init__(
        self, state: BrokerState, table: HandlerTable, remoting: RemotingOptions, access: AccessControl | None
    ) -> None:
        """Reads the files of TLS and the key of handles."""
        self._options: Final[BrokerOptions] = state.options
        path = state.options.grpc.grpc_receipt_key_file
        key = read_key(path) if path else own_key(os.path.join(state.store_loop.store.path, "config", _KEY_NAME))
        self._make = partial(_door, state, table, remoting, access, key)
        self._door: Door | None = None if _may_wait(self._options, remoting) else self._make()
        self._listener: socket.socket | None = None
        self._opening: asyncio.Future[None] | None = None
        self._again: asyncio.TimerHandle | None = None
        self.port = 0  # 0: it is not open

    async def start(self) -> None:
        """Listen. A default port that is taken leaves the broker without one: nobody has asked for it."""
        host, port = self._options.bind_address, self._options.grpc.grpc_server_port
        try:
            self._listener = listener = listen(host, port)
        except UnavailableError as error:
            if self._options.grpc.is_asked_for:
                raise
            _log.warning("no port for gRPC: %s; grpcServerPort names another one, or -1", error)
            return
        self.port = listener.getsockname()[1]
        if self._door is not None:
            await self._door.serve(listener)
        else:
            asyncio.get_running_loop().add_reader(listener, self._begin, listener)

    def _begin(self, listener: socket.socket) -> None:
        """The first client is there."""
        asyncio.get_running_loop().remove_reader(listener)
        self._opening = asyncio.ensure_future(self._open(listener))

    async def _open(self, listener: socket.socket) -> None:
        try:
            door = await asyncio.to_thread(self._make)
            await door.serve(listener)
        except Exception:  # too many open files, a library that is just replaced: who came waits on
            _log.exception("nobody is served at the port of gRPC; the next try is in %g s", _AGAIN_SECONDS)
            self._again = asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._begin, listener)
        else:
            self._door = door

    async def stop(self) -> None:
        if not self.port or self._listener is None:
            return
        self.port = 0
        if self._opening is not None:
            await self._opening
        if self._door is not None:
            await self._door.stop()
            return
        if self._again is not None:
            self._again.cancel()
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()


def _may_wait(options: BrokerOptions, remoting: RemotingOptions) -> bool:
    """Whether there are no files of TLS that may be wrong."""
    files = remoting.tls_cert_path or remoting.tls_key_path
    return not files and remoting.tls_mode == "disabled" and options.grpc.grpc_tls_mode == "auto"


def _door(
    state: BrokerState, table: HandlerTable, remoting: RemotingOptions, access: AccessControl | None, key: bytes
) -> Door:
    from flaremq.broker.grpc_door.local_backend import LocalBackend
    from flaremq.grpc.door import Door
    from flaremq.grpc.guard import CallGuard

    return Door(
        LocalBackend(state, table),
        state.options.grpc,
        remoting,
        body_max=state.store_loop.store.options.max_message_size,
        seal_key=key,
        guard=None if access is None else CallGuard(access.callers),
    )
