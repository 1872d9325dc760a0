"""ProxyService: the port of gRPC before a cluster, to be started in an event loop and stopped."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from flaremq.access.inner import signing
from flaremq.clock import Clock, SystemClock
from flaremq.grpc.door import Door
from flaremq.grpc.guard import CallGuard
from flaremq.grpc.receipt_key import read_key
from flaremq.proxy.cluster_backend import ClusterBackend
from flaremq.proxy.options import ProxyOptions
from flaremq.remoting.address import format_address

if TYPE_CHECKING:
    from flaremq.access.control import AccessControl

_log = logging.getLogger(__name__)


class ProxyService:
    """One proxy. Use from one event loop."""

    def __init__(self, options: ProxyOptions, clock: Clock | None = None) -> None:
        """InvalidArgumentError without name servers."""
        self.options = options
        self._clock = clock or SystemClock()
        self._name_servers = options.name_servers
        self._backend: ClusterBackend | None = None
        self._door: Door | None = None
        self.access: AccessControl | None = None

    async def start(self) -> None:
        """UnavailableError if the port is taken or no name server can be reached."""
        options = self.options
        key_file = options.grpc.grpc_receipt_key_file
        key = await asyncio.to_thread(read_key, key_file) if key_file else None
        if options.access.is_enabled:
            self.access = await asyncio.to_thread(self._access_control)
        self._backend = ClusterBackend(
            self._name_servers,
            signing(options.remoting, options.access),
            self._clock,
            seconds=options.topic_route_cache_millis / 1000,
        )
        try:
            await self._backend.start()
            door = await asyncio.to_thread(self._make_door, self._backend, key)
            await door.start(options.bind_address, options.grpc.grpc_server_port)
        except BaseException:
            await self._backend.stop()
            raise
        self._door = door
        if self.access is not None:
            self.access.start()
        _log.info("proxy listens at %s", self.address)

    async def stop(self) -> None:
        """Take no more calls, end those that wait, and take leave of the brokers."""
        if self._door is not None:
            await self._door.stop()
        if self._backend is not None:
            await self._backend.stop()
        if self.access is not None:
            await self.access.stop()

    def _make_door(self, backend: ClusterBackend, key: bytes | None) -> Door:
        options = self.options
        return Door(
            backend,
            options.grpc,
            options.remoting,
            body_max=options.max_message_size,
            seal_key=key,
            guard=None if self.access is None else CallGuard(self.access.callers),
        )

    def _access_control(self) -> AccessControl:
        from flaremq.access.authority import BROKER  # what only guarded servers need
        from flaremq.access.control import AccessControl, Places
        from flaremq.access.rules import Surroundings

        home = self.options.home
        places = Places(home=home, users=home, state=home)
        around = Surroundings(self.options.access.access_cluster_name, knows_names=False)
        return AccessControl(self.options.access, places, BROKER, around, self._clock)

    @property
    def port(self) -> int:
        return 0 if self._door is None else self._door.port

    @property
    def address(self) -> str:
        """Where clients of this machine find it."""
        return format_address(self.options.bind_address, self.port)
