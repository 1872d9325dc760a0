"""NamesrvService: the name server as a whole, to be started in an event loop and stopped.

It owns the route table and the key-value configuration, listens on one port and looks for silent brokers now and then.
Time is read from the given clock, the steady one: a wall clock that is set forwards must not make all brokers look
silent. Tests with a manual clock move it and call :meth:`NamesrvService.tick`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from flaremq.clock import Clock, SystemClock
from flaremq.metrics.family import Family
from flaremq.metrics.server_monitor import CONNECTIONS, ServerMonitor, watched
from flaremq.namesrv import figures
from flaremq.namesrv.broker_table import LiveBroker
from flaremq.namesrv.kv_config import KVConfig
from flaremq.namesrv.options import NamesrvOptions
from flaremq.namesrv.requests.broker import BrokerHandlers
from flaremq.namesrv.requests.config import ConfigHandlers
from flaremq.namesrv.requests.route import RouteHandlers
from flaremq.namesrv.route_info import RouteInfo
from flaremq.options_file import OptionsFile
from flaremq.remoting.address import format_address
from flaremq.remoting.connection import Connection
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.server import RemotingServer
from flaremq.server.guarding import access_control

if TYPE_CHECKING:
    from flaremq.access.control import AccessControl

_log = logging.getLogger(__name__)
_TICK_SECONDS = 0.5


class NamesrvService:
    """One name server. Use from one event loop."""

    def __init__(
        self,
        options: NamesrvOptions | None = None,
        clock: Clock | None = None,
        *,
        options_file: OptionsFile | None = None,
    ) -> None:
        """``options_file``: where options that are changed while the server runs are kept."""
        self._options_file = options_file
        self.options = options or NamesrvOptions()
        self.routes = RouteInfo()
        self._clock = clock or SystemClock()
        self._server: RemotingServer | None = None
        self.access: AccessControl | None = None
        common = {"node_id": self.options.bind_address, "node_type": "namesrv"}
        self.monitor = ServerMonitor.of(self.options.metrics.endpoint, common, self._figures)
        self._timer: asyncio.TimerHandle | None = None
        self._scanned_at = self._clock.monotonic()

    async def start(self) -> None:
        """Load what was kept and listen; UnavailableError if the port is taken."""
        for warning in self.options.warnings:
            _log.warning("%s", warning)
        async with watched(self.monitor):
            await self._start()

    async def _start(self) -> None:
        kv_config = await asyncio.to_thread(KVConfig.load, self.options.kv_config_file)
        table = HandlerTable()
        BrokerHandlers(self.routes, kv_config, self.options, self._clock).register(table)
        RouteHandlers(self.routes, kv_config, self.options, self._clock).register(table)
        ConfigHandlers(kv_config, self.options, self._options_file).register(table)
        access, folder = self.options.access, os.path.dirname(os.path.abspath(self.options.kv_config_file))
        self.access = await asyncio.to_thread(access_control, access, folder, self._clock, is_controller=False)
        if self.access is not None:
            self.access.install(table)
        server = RemotingServer(table, self.options.remoting)
        await server.start(self.options.bind_address, self.options.listen_port)
        self._server = server
        if self.access is not None:
            self.access.start()
        self._schedule()
        _log.info("name server listens at %s", self.address)

    async def stop(self) -> None:
        """Close the port and all connections. Nothing is left to persist: every change was when it was answered."""
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            await self._server.stop()
        if self.access is not None:
            await self.access.stop()
        if self.monitor is not None:
            await self.monitor.stop()

    def _figures(self) -> list[tuple[Family, float]]:
        connections = 0 if self._server is None else len(self._server.connections)
        return [
            (figures.BROKERS, len(self.routes.brokers.live)),
            (figures.TOPICS, len(self.routes.queues.table)),
            (CONNECTIONS, connections),
        ]

    @property
    def port(self) -> int:
        """The port it listens at, once started."""
        return 0 if self._server is None else self._server.port

    @property
    def address(self) -> str:
        """Where brokers and clients of this machine find it."""
        return format_address(self.options.bind_address, self.port)

    def tick(self) -> list[LiveBroker]:
        """Forget brokers that have been silent for too long, if it is time to look; returns them."""
        now = self._clock.monotonic()
        if (now - self._scanned_at) * 1000 < self.options.scan_not_active_broker_interval:
            return []
        self._scanned_at = now
        expired = self.routes.expire(int(now * 1000))
        for broker in expired:
            _log.warning("broker %s:%d at %s is gone: silent for too long", *_words(broker))
            if isinstance(broker.connection, Connection):
                broker.connection.close()
        return expired

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._run)

    def _run(self) -> None:
        self._schedule()
        self.tick()


def _words(broker: LiveBroker) -> tuple[str, int, str]:
    return broker.broker_name, broker.broker_id, broker.address
