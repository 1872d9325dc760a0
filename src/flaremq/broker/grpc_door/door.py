"""BrokerDoor: the port of gRPC of one broker."""

from __future__ import annotations

import logging
from typing import Final

from flaremq.broker.grpc_door.local_backend import LocalBackend
from flaremq.broker.options import BrokerOptions
from flaremq.broker.parts import BrokerState
from flaremq.errors import UnavailableError
from flaremq.grpc.door import Door
from flaremq.grpc.options import DEFAULT_PORT
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.options import RemotingOptions

_log = logging.getLogger(__name__)


class BrokerDoor:
    """Open between ``start`` and ``stop``. Use from one event loop."""

    def __init__(
        self, state: BrokerState, table: HandlerTable, remoting: RemotingOptions, *, seal_key: bytes | None = None
    ) -> None:
        """Reads the files of TLS."""
        self._options: Final[BrokerOptions] = state.options
        body_max = state.store_loop.store.options.max_message_size
        backend = LocalBackend(state, table)
        self._door = Door(backend, state.options.grpc, remoting, body_max=body_max, seal_key=seal_key)
        self.port = 0  # 0: it is not open

    async def start(self) -> None:
        """Listen. A default port that is taken leaves the broker without one: nobody has asked for it."""
        host, port = self._options.bind_address, self._options.grpc.grpc_server_port
        try:
            await self._door.start(host, port)
        except UnavailableError as error:
            if port != DEFAULT_PORT:
                raise
            _log.warning("no port for gRPC: %s; grpcServerPort names another one, or -1", error)
            return
        self.port = self._door.port

    async def stop(self) -> None:
        if self.port:
            await self._door.stop()
            self.port = 0
