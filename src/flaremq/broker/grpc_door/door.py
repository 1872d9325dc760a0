"""BrokerDoor: the port of gRPC of one broker."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final

from flaremq.broker.grpc_door.local_backend import LocalBackend
from flaremq.broker.options import BrokerOptions
from flaremq.broker.parts import BrokerState
from flaremq.errors import UnavailableError
from flaremq.grpc.door import Door
from flaremq.grpc.guard import CallGuard
from flaremq.grpc.receipt_key import own_key, read_key
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.options import RemotingOptions

if TYPE_CHECKING:
    from flaremq.access.control import AccessControl

_log = logging.getLogger(__name__)
_KEY_NAME: Final = "grpcReceiptKey"


class BrokerDoor:
    """Open between ``start`` and ``stop``. Use from one event loop."""

    def __init__(
        self, state: BrokerState, table: HandlerTable, remoting: RemotingOptions, access: AccessControl | None
    ) -> None:
        """Reads the files of TLS and the key of handles."""
        self._options: Final[BrokerOptions] = state.options
        store = state.store_loop.store
        path = state.options.grpc.grpc_receipt_key_file
        key = read_key(path) if path else own_key(os.path.join(store.path, "config", _KEY_NAME))
        self._door = Door(
            LocalBackend(state, table),
            state.options.grpc,
            remoting,
            body_max=store.options.max_message_size,
            seal_key=key,
            guard=None if access is None else CallGuard(access.callers),
        )
        self.port = 0  # 0: it is not open

    async def start(self) -> None:
        """Listen. A default port that is taken leaves the broker without one: nobody has asked for it."""
        host, port = self._options.bind_address, self._options.grpc.grpc_server_port
        try:
            await self._door.start(host, port)
        except UnavailableError as error:
            if self._options.grpc.is_asked_for:
                raise
            _log.warning("no port for gRPC: %s; grpcServerPort names another one, or -1", error)
            return
        self.port = self._door.port

    async def stop(self) -> None:
        if self.port:
            await self._door.stop()
            self.port = 0
