"""BrokerService: a broker as a whole, to be started in an event loop and stopped.

Start: the store (which recovers), the tables of ``config/``, the services that move messages by themselves, the
handlers, the main port and the VIP port, and last the name servers: nobody is told of a broker that cannot answer yet.
Stop goes the other way round: no request is taken any more, those under way are answered, and everything is persisted
before the store is closed.

Under a controller (``controller_mode``) a broker starts as a slave that nobody is told of, until it hears its role. The
role may change while it runs; for some changes store and ports are closed and opened again (``reopen``).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from flaremq.access.inner import signing
from flaremq.broker.ha_service import HAService, controlled_rules
from flaremq.broker.options import BrokerOptions
from flaremq.broker.parts import BrokerState
from flaremq.broker.registration.name_servers import Registration
from flaremq.broker.registry import Handlers
from flaremq.broker.replication.door import Door
from flaremq.broker.requests.write_guard import WriteGuard
from flaremq.broker.role import Role, check_role, role_warnings
from flaremq.broker.scheduler import Scheduler
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.clock import Clock, SystemClock
from flaremq.errors import UnavailableError
from flaremq.log_lines import set_level
from flaremq.metrics.options import is_enabled
from flaremq.options_file import OptionsFile
from flaremq.protocol.codes import RequestCode
from flaremq.remoting.address import format_address, parse_addresses
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.options import RemotingOptions
from flaremq.remoting.server import RemotingServer
from flaremq.storage.config.broker_note import write_broker_note
from flaremq.storage.files.filesystem import FileSystem, LocalFileSystem
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions

if TYPE_CHECKING:
    from flaremq.access.control import AccessControl
    from flaremq.broker.controller_mode.controller_mode import ControllerMode
    from flaremq.broker.grpc_door.door import BrokerDoor
    from flaremq.broker.metrics.broker_monitor import BrokerMonitor

_log = logging.getLogger(__name__)
_VIP_STEP = 2
_LOOK_SECONDS = 0.001  # how often a stop looks whether everybody was answered
# What a consumer waits for does not go through the VIP port.
_NOT_VIP = (
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.POP_MESSAGE,
    RequestCode.PEEK_MESSAGE,
    RequestCode.NOTIFICATION,
    RequestCode.POLLING_INFO,
)


class BrokerService:
    """One broker. Use from one event loop."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        options: BrokerOptions | None = None,
        store_options: StoreOptions | None = None,
        remoting_options: RemotingOptions | None = None,
        *,
        clock: Clock | None = None,
        filesystem: FileSystem | None = None,
        options_file: OptionsFile | None = None,
    ) -> None:
        """``options_file``: where options that are changed while the broker runs are kept."""
        self._options_file = options_file
        self.path = os.path.abspath(os.fspath(path))
        self.options = options or BrokerOptions()
        if self.options.namesrv_addr.strip():
            parse_addresses(self.options.namesrv_addr)  # refused now rather than with the store open
        self._store_options = store_options or StoreOptions()
        check_role(self.options, self._store_options)
        self._remoting_options = signing(remoting_options or RemotingOptions(), self.options.access)
        self.clock = clock or SystemClock()
        self._filesystem = filesystem or LocalFileSystem()
        self._exit = AsyncExitStack()
        self._stopping = False
        self.controller_mode: ControllerMode | None = None
        self._is_registering = False
        self.access: AccessControl | None = None
        self._takes_any_port = False  # for slaves
        self._asked_port = self.options.listen_port
        self.is_open = False
        self.monitor: BrokerMonitor | None = None
        self.grpc_door: BrokerDoor | None = None
        if self.options.enable_controller_mode:
            self._store_options = replace(self._store_options, broker_role="SLAVE")  # until it is elected

    async def start(self) -> None:
        """Open the store, listen, register. Whatever was started is stopped again if something fails.

        Under a controller the broker listens when this returns; its role, and the registration, come when they come.
        """
        if self.options.log_level:
            set_level(self.options.log_level)
        notes = role_warnings(self.options, self._store_options)
        for warning in [*self.options.warnings, *self._store_options.warnings, *notes]:
            _log.warning("%s", warning)
        self._choose_port()
        if self.options.access.is_enabled:
            self.access = await asyncio.to_thread(self._make_access_control)
        if self.options.enable_controller_mode:
            self.controller_mode = await asyncio.to_thread(self._make_controller_mode)
        await self._start_monitor()  # it answers while the store is being recovered
        try:
            await self._start()
        except BaseException:
            await self._exit.aclose()
            if self.monitor is not None:
                await self.monitor.stop()
            raise
        if self.controller_mode is not None:
            self.controller_mode.start()

    async def _start_monitor(self) -> None:
        if is_enabled(self.options.metrics.endpoint):
            from flaremq.broker.metrics.broker_monitor import BrokerMonitor  # what most brokers of tests do not need

            self.monitor = BrokerMonitor(self.options, self._remoting_options)
            await self.monitor.start()

    def _attach_monitor(self) -> None:
        if self.monitor is not None:
            is_controlled = self.controller_mode is not None
            table = self.handlers.table
            self.monitor.attach(
                self.state, self.ha, self.registration, table, self._servers, is_controlled=is_controlled
            )
            self._exit.callback(self.monitor.detach)

    def _make_access_control(self) -> AccessControl:
        from flaremq.broker.guarding import access_control  # what only guarded brokers need

        return access_control(self.options, self.path, self.clock, lambda: self.state)

    def _install(self, access: AccessControl, table: HandlerTable) -> None:
        from flaremq.broker.guarding import install

        install(access, self.options, table, self.state.producers)

    def _make_controller_mode(self) -> ControllerMode:
        from flaremq.broker.controller_mode.controller_mode import ControllerMode
        from flaremq.broker.controller_mode.epoch_store import EpochStore
        from flaremq.broker.controller_mode.identity_files import IdentityFiles

        options, filesystem = self.options, self._filesystem
        names = {"cluster": options.broker_cluster_name, "broker_name": options.broker_name}
        identity = IdentityFiles(self.path, filesystem, **names)
        epochs = EpochStore(self.path, filesystem)
        return ControllerMode(self, options, self._remoting_options, self.clock, identity=identity, epochs=epochs)

    def _obey(self, mode: ControllerMode, table: HandlerTable) -> None:
        from flaremq.broker.controller_mode.handlers import ControllerModeHandler

        mode.attach()
        ControllerModeHandler(mode, self.options, self.store_loop.driver).register(table)

    async def _start(self, cut_at: int | None = None) -> None:
        options, mode = self.options, self.controller_mode
        self.store: MessageStore = await asyncio.to_thread(self._open_store, cut_at)
        self._exit.push_async_callback(asyncio.to_thread, self.store.close)
        self.store_loop = StoreLoop(self.store, sync_timeout=self._store_options.sync_flush_timeout / 1000)
        self._exit.push_async_callback(self.store_loop.close)
        self.role = Role.of(options, self._store_options) if mode is None else mode.first_role()
        self.state = BrokerState(
            options, self._remoting_options, self.clock, self._filesystem, self.store_loop, self.role
        )
        await self.state.load()
        self._exit.push_async_callback(self.state.close)
        self.scheduler = Scheduler(self.clock)
        self.registration = Registration(options, self.state.topics, self.clock, self._remoting_options, self.role)
        door = await asyncio.to_thread(Door.of, options, self._remoting_options)
        self.ha = HAService(
            self.state,
            self.registration,
            door,
            self._remoting_options,
            rules=None if mode is None else controlled_rules(self._store_options),
            epochs=None if mode is None else lambda: mode.epochs.table,
        )
        self.handlers = Handlers(self.state, self._remoting_options, self.ha, self._options_file)
        table = self.handlers.table
        if mode is not None:
            self._obey(mode, table)
        if self.access is not None:
            self._install(self.access, table)
            self.access.start()
            self._exit.push_async_callback(self.access.stop)
        self.store_loop.durability.reads = table.reads
        if self.monitor is not None:
            self.monitor.measure(self.state, table)
        await self.ha.start(any_port=self._takes_any_port)
        self._exit.push_async_callback(self.ha.stop)
        if self.role.is_master:
            await self.state.start_services()
        self.server = RemotingServer(table, self._remoting_options)
        await self.server.start(options.bind_address, options.listen_port)
        self._servers = [self.server]
        self._exit.push_async_callback(self.server.stop)
        vip_table = table.without(*_NOT_VIP)
        WriteGuard(self.role, table, vip_table)
        await self._start_vip(vip_table)
        self._exit.push_async_callback(self._answer_all)
        await self._open_grpc_door(table)
        # A name server that does not answer must not keep the broker from its work.
        self._schedule()
        self.scheduler.start()
        self._exit.push_async_callback(self.scheduler.stop)
        self._exit.callback(self.state.stop_deliveries)
        self._exit.push_async_callback(self.registration.stop)
        self._attach_monitor()
        if mode is None:
            await self.announce()
        self.is_open = True
        _log.info("broker %s serves at %s", options.broker_name, self.address)

    async def announce(self) -> None:
        """Register at the name servers; from then on they hear of changes by themselves."""
        if not self._is_registering:
            self._is_registering = True
            await self.registration.start(self.address, self.ha.advertised_address)

    async def reopen(self, cut_at: int | None = None) -> None:
        """Close store and ports and open them again; what lies behind ``cut_at`` is set aside and removed."""
        self._is_registering = self.is_open = False
        try:
            await self._exit.aclose()
        except Exception:
            _log.exception("while closing the broker to open it again")  # what could be closed is closed
        self._exit = AsyncExitStack()
        try:
            await self._start(cut_at)
        except BaseException:
            await self._exit.aclose()
            raise

    def _choose_port(self) -> None:
        """Records carry the port, so a free one must be known before the store is opened."""
        if self.options.listen_port == 0:
            family = socket.AF_INET6 if ":" in self.options.bind_address else socket.AF_INET
            with socket.socket(family) as probe, socket.socket(family) as ha_probe:
                probe.bind((self.options.bind_address, 0))
                ha_probe.bind((self.options.bind_address, 0))
                self.options = replace(self.options, listen_port=probe.getsockname()[1])
                if self._store_options.ha_listen_port == 0:  # the port after a free one need not be free
                    self._takes_any_port = True
                    port = ha_probe.getsockname()[1]
                    self._store_options = replace(self._store_options, ha_listen_port=port)
        self._store_options = replace(
            self._store_options, listen_port=self.options.listen_port, broker_ip1=self.options.broker_ip1
        )

    def _open_store(self, cut_at: int | None) -> MessageStore:
        store = MessageStore.open(
            self.path,
            self._store_options,
            filesystem=self._filesystem,
            clock=self.clock,
            driven=True,
            hold_unconfirmed=True if self.controller_mode is not None else None,
            cut_at=cut_at,
        )
        write_broker_note(os.fspath(self.path), self.options.broker_name, self._filesystem)
        if self.controller_mode is not None:
            self.controller_mode.epochs.cut(store.max_physical_offset + 1)  # a crash may have taken an epoch's bytes
        return store

    async def _start_vip(self, table: HandlerTable) -> None:
        port = self.options.listen_port - _VIP_STEP
        vip = RemotingServer(table, self._remoting_options)
        try:
            await vip.start(self.options.bind_address, port)
        except (UnavailableError, OverflowError) as error:
            _log.warning("no VIP port: %s", error)  # only clients before 4.5.1 use it
            return
        self._servers.append(vip)
        self._exit.push_async_callback(vip.stop)

    async def _open_grpc_door(self, table: HandlerTable) -> None:
        if not self.options.grpc.is_served(self._asked_port):
            return
        from flaremq.broker.grpc_door.door import BrokerDoor  # its packages weigh megabytes that others save

        door = await asyncio.to_thread(BrokerDoor, self.state, table, self._remoting_options, self.access)
        await door.start()
        self.grpc_door = door
        self._exit.push_async_callback(door.stop)

    @property
    def grpc_address(self) -> str:
        """Where clients of RocketMQ 5 are served; empty: nowhere."""
        door = self.grpc_door
        return "" if door is None or not door.port else format_address(self.options.bind_address, door.port)

    @property
    def port(self) -> int:
        return self.options.listen_port

    @property
    def address(self) -> str:
        """Where clients find this broker, as name servers tell them."""
        return self.options.address

    def _schedule(self) -> None:
        every = self.scheduler.every
        every("registration", 1000, self.registration.run_due)
        every("master", 1000, self.ha.look)
        every("metadata copy", 1000, self.ha.copy.run_due)
        own = [] if self.monitor is None else self.monitor.periodic_work()
        for name, interval, work in [*self.state.periodic_work(), *self.handlers.periodic_work(), *own]:
            every(name, interval, work)

    async def run_due(self) -> None:
        """Do what the clock says is due, now. For tests with a manual clock."""
        self.store_loop.dispatching.catch_up()
        await self.scheduler.run_due()
        self.store_loop.dispatching.catch_up()

    async def _answer_all(self) -> None:
        """Take no more requests and see that those taken are answered, as long as a slow disk is waited for."""
        for server in self._servers:
            await server.stop_reading()
        await self.handlers.stop()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._store_options.sync_flush_timeout / 1000
        while (self.store_loop.durability.unacknowledged or not self.handlers.table.is_idle) and loop.time() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)
            self.store_loop.durability.expire()

    async def _finish_sends(self) -> None:
        """Take no more messages and wait for the copies of those taken: when we leave, another one leads at once."""
        self.role.hold_writes("the broker stops")
        durability, loop = self.store_loop.durability, asyncio.get_running_loop()
        deadline = loop.time() + self._store_options.slave_timeout / 1000
        while durability.unacknowledged and loop.time() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)

    async def stop(self) -> None:
        """Leave the name servers, answer who waits, persist everything, close the store."""
        if self._stopping:
            return
        self._stopping = True
        if self.controller_mode is not None:
            await self._finish_sends()
            await self.controller_mode.stop()
        await self._exit.aclose()
        if self.monitor is not None:
            await self.monitor.stop()
        _log.info("broker %s stopped", self.options.broker_name)
