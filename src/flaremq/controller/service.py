"""ControllerService: a controller as a whole, to be started in an event loop and stopped.

It listens on one port, keeps its state in a store (a folder, or etcd that several controllers share), and looks for
masters that are gone: at once when the connection of a broker's heartbeats closes, else now and then. Time is read
from the given clock, the steady one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from flaremq.access.inner import signing
from flaremq.clock import Clock, SystemClock
from flaremq.controller import figures
from flaremq.controller.office import Office
from flaremq.controller.options import ControllerOptions
from flaremq.controller.outcomes import Notice
from flaremq.controller.requests.admin import AdminHandlers
from flaremq.controller.requests.broker import BrokerHandlers
from flaremq.controller.stores.opened import store_of
from flaremq.controller.stores.store import Peer, StateStore
from flaremq.errors import FlareMQError
from flaremq.metrics.family import Family
from flaremq.metrics.server_monitor import CONNECTIONS, ServerMonitor, watched
from flaremq.options_file import OptionsFile
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.address import format_address
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.server import RemotingServer
from flaremq.server.guarding import access_control

if TYPE_CHECKING:
    from flaremq.access.control import AccessControl

_log = logging.getLogger(__name__)
_LATE_SECONDS = 1.0  # by which a look may be late before brokers get the time back


class ControllerService:
    """One controller. Use from one event loop."""

    def __init__(
        self,
        options: ControllerOptions | None = None,
        store: StateStore | None = None,
        clock: Clock | None = None,
        *,
        options_file: OptionsFile | None = None,
    ) -> None:
        """``options_file``: where options that are changed while the controller runs are kept."""
        self._options_file = options_file
        self.options = options or ControllerOptions()
        self._clock = clock or SystemClock()
        self._store = store or store_of(self.options)
        self._client: RemotingClient | None = None
        self._server: RemotingServer | None = None
        self.access: AccessControl | None = None
        self._office = Office(self._store, self.options, self._clock, self._tell)
        self._look = asyncio.Event()  # set: look for lost masters now
        self._watch: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[None]] = set()
        common = {
            "group": self.options.controller_d_leger_group,
            "node_id": self.options.controller_d_leger_self_id,
            "node_type": "controller",
        }
        self.monitor = ServerMonitor.of(self.options.metrics.endpoint, common, self._figures)

    async def start(self) -> None:
        """Listen and read the state; UnavailableError if the port or the state is taken."""
        for warning in self.options.warnings:
            _log.warning("%s", warning)
        async with watched(self.monitor, self._reasons):
            await self._start()

    def _figures(self) -> list[tuple[Family, float]]:
        connections = 0 if self._server is None else len(self._server.connections)
        return [
            (figures.LEADING, self.is_leading),
            (figures.GROUPS, self._office.group_count),
            (CONNECTIONS, connections),
        ]

    def _reasons(self) -> list[str]:
        """Why it cannot answer brokers: not because another one leads."""
        if self.is_leading or self._store.leader is not None:
            return []
        return ["no controller leads: the state is not within reach"]

    async def _start(self) -> None:
        table = HandlerTable()
        BrokerHandlers(self._office, self._look.set).register(table)
        AdminHandlers(self._office, self.options, self._options_file).register(table)
        access, folder = self.options.access, self.options.store_folder
        self.access = await asyncio.to_thread(access_control, access, folder, self._clock, is_controller=True)
        if self.access is not None:
            self.access.install(table)
        self._client = RemotingClient(signing(self.options.remoting, self.options.access))
        self._server = RemotingServer(table, self.options.remoting)
        # The port first: the others learn the address together with who leads. Until then nobody leads here.
        await self._server.start(self.options.bind_address, self.options.listen_port)
        try:
            me = Peer(self.options.controller_d_leger_self_id, self.address)
            await self._store.start(me, self._office.lead, self._office.follow)
        except BaseException:
            await self.stop()
            raise
        self._watch = asyncio.create_task(self._watch_masters())
        if self.access is not None:
            self.access.start()
        _log.info("controller listens at %s", self.address)

    async def stop(self) -> None:
        """Close the port and all connections. Nothing is left to persist: every change was when it was answered."""
        for task in (self._watch, *self._telling):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        await self._store.stop()
        self._office.retire()
        if self._server is not None:
            await self._server.stop()
        if self._client is not None:
            await self._client.close()
        if self.access is not None:
            await self.access.stop()
        if self.monitor is not None:
            await self.monitor.stop()

    @property
    def port(self) -> int:
        """The port it listens at, once started."""
        return 0 if self._server is None else self._server.port

    @property
    def address(self) -> str:
        """Where brokers find it."""
        return self.options.advertised_address or format_address(self.options.bind_address, self.port)

    @property
    def is_leading(self) -> bool:
        """Whether this controller decides at present."""
        return self._store.is_leading

    async def look(self) -> None:
        """Replace the masters that are gone; for tests that move the clock."""
        await self._office.replace_lost_masters()

    async def _watch_masters(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            interval = self.options.scan_not_active_broker_interval / 1000
            began = loop.time()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await self._look.wait()
            self._look.clear()
            late = loop.time() - began - interval
            if late > _LATE_SECONDS:
                _log.warning("this controller stood still for %.1f s: no broker is blamed for that", late)
                self._office.forgive(late)
            try:
                await self._office.replace_lost_masters()
            except Exception:
                _log.exception("looking for lost masters failed")

    def _tell(self, notice: Notice) -> None:
        """Tell each live broker of a name who is master; who does not hear it asks by itself every few seconds."""
        for address in notice.addresses:
            task = asyncio.create_task(self._tell_one(address, notice))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _tell_one(self, address: str, notice: Notice) -> None:
        assert self._client is not None
        request = RemotingCommand.request(
            RequestCode.NOTIFY_BROKER_ROLE_CHANGED, notice.header.encode(), notice.body.to_json(), oneway=True
        )
        try:
            await self._client.oneway(address, request)
        except FlareMQError as error:
            _log.warning("broker at %s was not told of its new master: %s", address, error)
