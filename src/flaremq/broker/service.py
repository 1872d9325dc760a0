"""BrokerService: a broker as a whole, to be started in an event loop and stopped.

Start: the store (which recovers), the tables of ``config/``, the services that move messages by themselves, the
handlers, the main port and the VIP port, and last the name servers: nobody is told of a broker that cannot answer yet.
Stop goes the other way round: no request is taken any more, those under way are answered, and everything is persisted
before the store is closed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import AsyncExitStack
from dataclasses import replace

from flaremq.broker.options import BrokerOptions, check_role
from flaremq.broker.parts import BrokerState
from flaremq.broker.registration.name_servers import Registration
from flaremq.broker.registry import Handlers
from flaremq.broker.scheduler import Scheduler
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.clock import Clock, SystemClock
from flaremq.errors import UnavailableError
from flaremq.protocol.codes import RequestCode
from flaremq.remoting.address import format_address, parse_addresses
from flaremq.remoting.options import RemotingOptions
from flaremq.remoting.server import RemotingServer
from flaremq.storage.config.broker_note import write_broker_note
from flaremq.storage.files.filesystem import FileSystem, LocalFileSystem
from flaremq.storage.message_store import MessageStore
from flaremq.storage.options import StoreOptions

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
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.options = options or BrokerOptions()
        if self.options.namesrv_addr.strip():
            parse_addresses(self.options.namesrv_addr)  # refused now rather than with the store open
        self._store_options = store_options or StoreOptions()
        check_role(self._store_options)
        self._remoting_options = remoting_options or RemotingOptions()
        self.clock = clock or SystemClock()
        self._filesystem = filesystem or LocalFileSystem()
        self._exit = AsyncExitStack()
        self._stopping = False

    async def start(self) -> None:
        """Open the store, listen, register. Whatever was started is stopped again if something fails."""
        try:
            await self._start()
        except BaseException:
            await self._exit.aclose()
            raise

    async def _start(self) -> None:
        for warning in [*self.options.warnings, *self._store_options.warnings]:
            _log.warning("%s", warning)
        self._choose_port()
        options = self.options
        self.store: MessageStore = await asyncio.to_thread(self._open_store)
        self._exit.push_async_callback(asyncio.to_thread, self.store.close)
        self.store_loop = StoreLoop(self.store, sync_timeout=self._store_options.sync_flush_timeout / 1000)
        self._exit.push_async_callback(self.store_loop.close)
        self.state = BrokerState(options, self._remoting_options, self.clock, self._filesystem, self.store_loop)
        await self.state.load()
        self._exit.push_async_callback(self.state.close)
        self.scheduler = Scheduler(self.clock)
        self.handlers = Handlers(self.state, self._remoting_options)
        table = self.handlers.table
        self.store_loop.durability.reads = table.reads
        self.server = RemotingServer(table, self._remoting_options)
        await self.server.start(options.bind_address, options.listen_port)
        self._servers = [self.server]
        self._exit.push_async_callback(self.server.stop)
        await self._start_vip()
        self._exit.push_async_callback(self._answer_all)
        self.registration = Registration(options, self.state.topics, self.clock, self._remoting_options)
        slaves_address = format_address(options.broker_ip2 or options.broker_ip1, options.listen_port + 1)
        # A name server that does not answer must not keep the broker from its work.
        self._schedule()
        self.scheduler.start()
        self._exit.push_async_callback(self.scheduler.stop)
        self._exit.callback(self.state.stop_deliveries)
        self._exit.push_async_callback(self.registration.stop)
        await self.registration.start(self.address, slaves_address)
        _log.info("broker %s serves at %s", options.broker_name, self.address)

    def _choose_port(self) -> None:
        """Records carry the port, so a free one must be known before the store is opened."""
        if self.options.listen_port == 0:
            family = socket.AF_INET6 if ":" in self.options.bind_address else socket.AF_INET
            with socket.socket(family) as probe:
                probe.bind((self.options.bind_address, 0))
                self.options = replace(self.options, listen_port=probe.getsockname()[1])
        self._store_options = replace(
            self._store_options, listen_port=self.options.listen_port, broker_ip1=self.options.broker_ip1
        )

    def _open_store(self) -> MessageStore:
        store = MessageStore.open(
            self.path, self._store_options, filesystem=self._filesystem, clock=self.clock, driven=True
        )
        write_broker_note(os.fspath(self.path), self.options.broker_name, self._filesystem)
        return store

    async def _start_vip(self) -> None:
        port = self.options.listen_port - _VIP_STEP
        vip = RemotingServer(self.handlers.table.without(*_NOT_VIP), self._remoting_options)
        try:
            await vip.start(self.options.bind_address, port)
        except (UnavailableError, OverflowError) as error:
            _log.warning("no VIP port: %s", error)  # only clients before 4.5.1 use it
            return
        self._servers.append(vip)
        self._exit.push_async_callback(vip.stop)

    @property
    def port(self) -> int:
        return self.options.listen_port

    @property
    def address(self) -> str:
        """Where clients find this broker, as name servers tell them."""
        return self.options.address

    def _schedule(self) -> None:
        every = self.scheduler.every
        every("sync timeouts", 500, self.store_loop.durability.expire)
        every("registration", 1000, self.registration.run_due)
        for name, interval, work in [*self.state.periodic_work(), *self.handlers.periodic_work()]:
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

    async def stop(self) -> None:
        """Leave the name servers, answer who waits, persist everything, close the store."""
        if self._stopping:
            return
        self._stopping = True
        await self._exit.aclose()
        _log.info("broker %s stopped", self.options.broker_name)
