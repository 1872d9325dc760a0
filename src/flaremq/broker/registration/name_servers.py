"""Registration: makes a broker known at its name servers, and keeps it known.

Every name server gets all topics at the start and every 30 seconds, changed ones as soon as they change, and an
unregistration at the end. Each has a :class:`_NameServer` here with a task of its own, so one that is down or slow does
not delay the others. Changes during a registration are all in the next one.

What changed is found by comparing with what a name server accepted last, so nothing is lost between two registrations,
and the cost follows the number of changed topics. Deleted topics are not sent: whoever deletes a topic removes its
routes. Intervals are measured on the steady clock: a wall clock set back must not delay a registration.

A slave learns from the answers where its master is. While it does not know that, or its master is gone, it registers
every few seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.options import BrokerOptions
from flaremq.broker.registration.body import RegistrationBody, TopicState
from flaremq.broker.role import MASTER_ID, Role
from flaremq.clock import Clock
from flaremq.errors import FlareMQError, UnavailableError
from flaremq.protocol.bodies.register import body_crc32
from flaremq.protocol.bodies.topic import KVTable, TopicConfig
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand
from flaremq.protocol.headers.namesrv import (
    QueryDataVersionRequestHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
)
from flaremq.remoting.address import parse_addresses
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.options import RemotingOptions

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 3.0  # until the next try at a name server that did not take the registration
_MASTER_SECONDS = 3.0  # between two registrations of a slave that looks for its master
_UNREGISTER_SECONDS = 3.0


class Registration:
    """One broker at all its name servers. Event loop only."""

    def __init__(
        self,
        options: BrokerOptions,
        topics: TopicTable,
        clock: Clock,
        remoting: RemotingOptions | None = None,
        role: Role | None = None,
    ) -> None:
        self._options = options
        self._role = role or Role(is_master=True, broker_id=MASTER_ID)
        self._topics = topics
        self._clock = clock
        self._body = RegistrationBody(options, topics, lambda: self._role.epoch)
        self._client = RemotingClient(remoting, on_close=self._connection_lost)
        addresses = parse_addresses(options.namesrv_addr) if options.namesrv_addr.strip() else []
        self._servers = {address: _NameServer(address, self._register) for address in dict.fromkeys(addresses)}
        self._address = self._ha_address = ""
        self._is_running = False
        self.master_address: str | None = None  # as a slave read it from the answers
        self.master_ha_address: str | None = None
        self.on_master: list[Callable[[], None]] = []  # one of the two has changed
        self._is_looking = False

    async def start(self, address: str, ha_address: str) -> None:
        """Register everywhere; returns when each name server has answered or could not be reached."""
        self._address, self._ha_address = address, ha_address
        self._is_running = True
        self._topics.on_change.append(self.announce)
        self._role.on_change.append(self._role_changed)
        await _all_done([server.ask(everything=True) for server in self._servers.values()])

    async def stop(self) -> None:
        """Say goodbye to those who know us."""
        self._is_running = False
        if self.announce in self._topics.on_change:
            self._topics.on_change.remove(self.announce)
            self._role.on_change.remove(self._role_changed)
        for server in self._servers.values():
            await server.stop()
        known = [server.address for server in self._servers.values() if server.is_registered]
        await asyncio.gather(*(self._unregister(address) for address in known))
        await self._client.close()

    def announce(self, _: TopicConfig | None = None) -> Awaitable[None] | None:
        """Register now, because topics changed. What is returned is done when all name servers that knew us know."""
        if not self._is_running:
            return None
        # Also where a registration is under way: its topics may have been rendered before the change.
        asked = [(server.ask(), server.is_registered) for server in self._servers.values() if server.is_active]
        return _all_done([future for future, is_registered in asked if is_registered]) if asked else None

    def run_due(self) -> None:
        """Start the registrations whose time has come."""
        now = self._clock.monotonic()
        for server in self._servers.values():
            if self._is_running and server.due <= now:
                server.ask(everything=True)

    def look_for_master(self, is_looking: bool) -> None:
        """Whether the master that is known does not answer: it may be elsewhere, or come back."""
        if is_looking and not self._is_looking:
            soon = self._clock.monotonic() + _MASTER_SECONDS
            for server in self._servers.values():
                server.due = min(server.due, soon)
        self._is_looking = is_looking

    def _role_changed(self) -> None:
        """Master and slave are registered differently: all name servers get the new role now."""
        for server in self._servers.values():
            server.ask(everything=True)

    @property
    def _period(self) -> float:
        period = self._options.register_name_server_period / 1000
        if self._role.is_master or (self.master_address is not None and not self._is_looking):
            return period
        return min(period, _MASTER_SECONDS)

    @property
    def registered_at(self) -> list[str]:
        """The name servers that know us, as far as we know."""
        return [server.address for server in self._servers.values() if server.is_registered]

    # One exchange

    async def _register(self, server: _NameServer, everything: bool) -> None:
        """Register at one name server and note when to do it again."""
        due, server.due = server.due, self._clock.monotonic() + _RETRY_SECONDS
        try:
            if not everything and server.is_registered and await self._send_changes(server):
                server.due = due  # the next whole registration stays due when it was
                return
            if not self._options.force_register and server.is_registered and await self._has_nothing_new(server):
                reply = RemotingCommand.response()
            else:
                state = self._body.state()
                reply = await self._send(server.address, state.topics)
                server.accepted = state
        except UnavailableError as error:
            server.note_failure(str(error))
            return
        if reply.code != ResponseCode.SUCCESS:
            server.note_failure(f"code {reply.code}: {reply.remark}")
            return
        server.note_success()
        self._learn(server, reply)
        server.due = self._clock.monotonic() + self._period

    async def _send_changes(self, server: _NameServer) -> bool:
        """Register the topics that changed; False if the name server needs all of them."""
        if server.accepted is None or not self._options.enable_single_topic_register:
            return False
        state = self._body.state()
        changed = state.changed_since(server.accepted)
        if changed is None:
            return False
        if changed:
            reply = await self._send(server.address, changed)
            if reply.code != ResponseCode.SUCCESS:
                return False  # it may have dropped this broker
            self._learn(server, reply)
        server.accepted = state
        return True

    async def _send(self, address: str, topics: Mapping[str, TopicConfig]) -> RemotingCommand:
        """Register with these topics; they and the data version must be of the same moment."""
        body = self._body.render(topics)
        header = RegisterBrokerRequestHeader(
            cluster_name=self._options.broker_cluster_name,
            broker_name=self._options.broker_name,
            broker_id=self._role.broker_id,
            broker_addr=self._address,
            ha_server_addr=self._ha_address,
            enable_acting_master=False,
            compressed=self._options.compressed_register,
            body_crc32=body_crc32(body),
        )
        request = RemotingCommand.request(RequestCode.REGISTER_BROKER, header.encode(), body)
        return await self._client.request(address, request, self._timeout)

    @property
    def _timeout(self) -> float:
        return self._options.register_broker_timeout_mills / 1000

    async def _has_nothing_new(self, server: _NameServer) -> bool:
        """Ask a name server whether it knows the topics as they are."""
        header = QueryDataVersionRequestHeader(
            cluster_name=self._options.broker_cluster_name,
            broker_name=self._options.broker_name,
            broker_id=self._role.broker_id,
            broker_addr=self._address,
        )
        body = self._topics.data_version.to_json()
        request = RemotingCommand.request(RequestCode.QUERY_DATA_VERSION, header.encode(), body)
        reply = await self._client.request(server.address, request, self._timeout)
        return reply.code == ResponseCode.SUCCESS and reply.optional_field("changed") == "false"

    def _learn(self, server: _NameServer, reply: RemotingCommand) -> None:
        """Take over what the first name server that knows us says; they may differ, and one must decide."""
        first = next(other for other in self._servers.values() if other.is_registered)
        if first is not server:
            return
        self._learn_master(RegisterBrokerResponseHeader.decode(reply.ext))
        if reply.body_bytes:
            try:
                self._topics.set_order_topics(KVTable.from_json(reply.body_bytes).table)
            except FlareMQError as error:
                _log.warning("the order configuration from name server %s is not usable: %s", server.address, error)

    def _learn_master(self, header: RegisterBrokerResponseHeader) -> None:
        """An answer without a master says that there is none now; where its log was is where it will be."""
        before = self.master_address, self.master_ha_address
        self.master_address = header.master_addr or None
        self.master_ha_address = header.ha_server_addr or self.master_ha_address
        if before != (self.master_address, self.master_ha_address):
            for callback in self.on_master:
                callback()

    async def _unregister(self, address: str) -> None:
        header = UnRegisterBrokerRequestHeader(
            cluster_name=self._options.broker_cluster_name,
            broker_name=self._options.broker_name,
            broker_id=self._role.broker_id,
            broker_addr=self._address,
        )
        request = RemotingCommand.request(RequestCode.UNREGISTER_BROKER, header.encode())
        try:
            await self._client.request(address, request, _UNREGISTER_SECONDS)
        except UnavailableError as error:
            _log.warning("this broker could not be unregistered at name server %s: %s", address, error)

    def _connection_lost(self, address: str) -> None:
        """A name server forgets a broker with its connection, so the next try is not left for the next interval."""
        server = self._servers.get(address)
        if server is not None and server.is_registered:
            server.is_registered = False
            server.due = min(server.due, self._clock.monotonic() + _RETRY_SECONDS)


class _NameServer:
    """One name server: what it accepted, when the next registration is due, and at most one under way."""

    def __init__(self, address: str, register: Callable[[_NameServer, bool], Awaitable[None]]) -> None:
        self.address = address
        self.due = 0.0
        self.is_registered = False
        self.accepted: TopicState | None = None  # what it took last; means nothing while not registered
        self._register = register
        self._everything = False
        self._asked: asyncio.Future[None] | None = None  # done when a registration that begins later has ended
        self._task: asyncio.Task[None] | None = None
        self._failure = ""

    def ask(self, *, everything: bool = False) -> asyncio.Future[None]:
        """Register with what is known now, or a little later if a registration is under way."""
        self._everything |= everything
        if self._asked is None:
            self._asked = asyncio.get_running_loop().create_future()
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._work())
        return self._asked

    @property
    def is_active(self) -> bool:
        """Registered or registering; otherwise it waits for its next try."""
        return self.is_registered or (self._task is not None and not self._task.done())

    async def _work(self) -> None:
        while self._asked is not None:
            asked, self._asked = self._asked, None
            everything, self._everything = self._everything, False
            try:
                await self._register(self, everything)
            except Exception:
                _log.exception("registration at name server %s failed", self.address)
            finally:
                if not asked.done():
                    asked.set_result(None)

    async def stop(self) -> None:
        """Break off what is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(None)

    def note_success(self) -> None:
        if not self.is_registered:
            _log.info("registered at name server %s", self.address)
        self.is_registered = True
        self._failure = ""

    def note_failure(self, reason: str) -> None:
        """Keep the reason, and say it once: a name server that is down is tried every few seconds."""
        self.is_registered = False
        if reason != self._failure:
            _log.warning("not registered at name server %s: %s", self.address, reason)
            self._failure = reason


async def _all_done(asked: Iterable[asyncio.Future[None]]) -> None:
    futures = list(asked)
    if futures:
        await asyncio.wait(futures)
