"""HAService: replication of one broker as a whole: its slaves, its master, and who waits for whom.

Every broker listens for slaves, a slave too. A SYNC_MASTER's appends wait for them (``durability``), and readers see
what enough of them have. A slave fetches the log from its master and copies its tables; where the master is it learns
from the name servers, unless ``haMasterAddress`` says it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from flaremq.broker.metadata_copy.metadata_copy import MetadataCopy
from flaremq.broker.parts import BrokerState
from flaremq.broker.registration.name_servers import Registration
from flaremq.broker.replication.door import Door
from flaremq.broker.replication.ha_client import HAClient
from flaremq.broker.replication.ha_server import HAServer
from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.protocol.bodies.replication import HAClientRuntimeInfo, HAConnectionRuntimeInfo, HARuntimeInfo
from flaremq.remoting.address import format_address, parse_address
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.options import RemotingOptions
from flaremq.replication.epochs import EpochTable
from flaremq.replication.replicas import Replicas
from flaremq.replication.sync_rules import SyncMode, SyncRules
from flaremq.storage.options import StoreOptions

_log = logging.getLogger(__name__)
_HA_STEP: Final = 1  # from the port for clients to the port for slaves, if nothing else is said


class HAService:
    """The replication of one broker. Make and use it on the loop."""

    def __init__(
        self,
        state: BrokerState,
        registration: Registration,
        door: Door,
        remoting: RemotingOptions,
        *,
        rules: SyncRules | None = None,
        epochs: Callable[[], EpochTable] | None = None,
    ) -> None:
        """``rules`` and ``epochs`` are a controller's; without them the options decide, for good."""
        self._state = state
        self._registration = registration
        store_loop = state.store_loop
        self._options = options = store_loop.store.options
        self._durability = store_loop.durability
        self._driver = store_loop.driver
        self.role = state.role
        self._has_own_rules = rules is None
        self.replicas = Replicas(rules or sync_rules(options))
        # A broker that does not lead tells nobody where to cut: its log may have become shorter than theirs.
        served = None if epochs is None else (lambda: epochs() if self.role.is_master else None)
        self.server = HAServer(
            self._driver, self.replicas, options, door, epochs=served, confirm_offset=lambda: self._driver.readable
        )
        self.server.on_acknowledged.append(self._slaves_changed)
        self.client = HAClient(store_loop, options, door, state.clock, broker_id=state.role.broker_id, epochs=epochs)
        self._remoting = RemotingClient(remoting)
        self.copy = MetadataCopy(state, self._remoting, state.options.address)
        self.master_flush_offset = 0
        self._is_listening = False
        self.alarm: Callable[[], str] = str  # what a controller's absence or word makes of this broker
        self._is_controlled = epochs is not None
        self._chosen: tuple[str | None, str | None] = None, None  # the controller's word: main and HA address

    async def start(self, *, any_port: bool = False) -> None:
        """Listen for slaves, and follow the master if there is one.

        ``any_port``: if the port for slaves is taken, another one will do.
        """
        self.master_flush_offset = self._driver.appended if self.role.is_master else 0
        await self._listen(any_port)
        await self.client.start()
        self.role.on_change.append(self.role_changed)
        self._state.store_loop.dispatching.on_arrival.append(self.copy.arrived)
        self._registration.on_master.append(self._follow)
        self.role_changed()

    async def stop(self) -> None:
        """Follow nobody, and let the slaves go. Whoever still waits for them is answered that they are away."""
        self._registration.on_master.remove(self._follow)
        self.role.on_change.remove(self.role_changed)
        self._state.store_loop.dispatching.on_arrival.remove(self.copy.arrived)
        self._durability.on_progress = None
        await self.client.stop()
        await self.server.stop()
        if self._durability.has_group:
            self._durability.wait_for(None)  # what is still stored at the end reaches slaves when we are back
        await self._remoting.close()

    async def _listen(self, any_port: bool) -> None:
        options = self._state.options
        host = options.ha_bind_address or options.bind_address
        port = self._options.ha_listen_port or options.listen_port + _HA_STEP
        try:
            await self.server.start(host, port)
        except (UnavailableError, OverflowError) as error:
            if any_port:
                await self.server.start(host, 0)
                self._is_listening = True
                return
            # Who never asked for slaves must not fail for want of a port for them.
            if self._options.ha_listen_port or self.replicas.rules.waits or not self.role.is_master:
                raise
            _log.warning("no slave can follow this broker: %s", error)
            return
        self._is_listening = True

    @property
    def port(self) -> int:
        """The port for slaves, listened at or not."""
        configured = self._options.ha_listen_port or self._state.options.listen_port + _HA_STEP
        return self.server.port if self._is_listening else configured

    @property
    def advertised_address(self) -> str:
        """Where slaves find this broker, as name servers tell them."""
        options = self._state.options
        return format_address(options.broker_ip2 or options.broker_ip1, self.port)

    # Role and master

    def role_changed(self) -> None:
        """Wait for slaves, or follow the master: whatever the role is now."""
        self.client.broker_id = self.role.broker_id
        if self.role.is_master and self.replicas.rules.waits:
            self._durability.wait_for(self.replicas)
        elif self._durability.has_group or not self._is_controlled:  # else its master says what may be shown
            self._durability.wait_for(None)
        self._follow()

    def follow(self, address: str | None, ha_address: str | None) -> None:
        """Under a controller: fetch tables and log from this master; name servers may still name another one."""
        self._chosen = address, ha_address
        self._follow()

    def _follow(self) -> None:
        """Fetch log and tables from where the master is known to be."""
        if self.role.is_master:
            self.client.set_master(None)
            self.copy.set_master(None)
        elif self._is_controlled:
            address, ha_address = self._chosen
            named = self._registration
            if address is not None and named.master_address == address:
                ha_address = named.master_ha_address or ha_address
            self._set_ha_master(ha_address)
            self.copy.set_master(address)
        else:
            known, ha_address = self._registration.master_address, self._options.ha_master_address
            self._set_ha_master(ha_address or self._registration.master_ha_address)
            self.copy.set_master(known or _main_address(ha_address))
        self._watch()

    def _set_ha_master(self, address: str | None) -> None:
        try:
            self.client.set_master(address or None)
        except InvalidArgumentError as error:  # from a name server
            _log.error("the master cannot be followed: %s", error)

    def look(self) -> None:
        """Every second: a slave whose master does not answer asks the name servers more often where it is."""
        self._watch()
        if not self.role.is_master:
            self._registration.look_for_master(not self.client.facts.is_connected)

    def look_for_master(self) -> None:
        self._registration.look_for_master(True)

    def own_addresses(self) -> tuple[str, str]:
        return self._state.options.address, self.advertised_address

    # Slaves

    def options_changed(self, _: Mapping[str, str]) -> None:
        """How far a slave may be behind can change while the broker runs; a controller's rules stay."""
        if self._has_own_rules:
            self.replicas.rules = sync_rules(self._options)
            self._durability.group_changed()

    def _slaves_changed(self) -> None:
        self._watch()
        self._durability.group_changed()

    def _watch(self) -> None:
        """Hear of the log's growth while anybody is there to be told: every append costs a little more then.

        A slave in ASYNC_FLUSH reports what it appends by itself, in SYNC_FLUSH when it has become durable.
        """
        is_needed = len(self.replicas) > 0 or (not self.role.is_master and self._durability.waits_for_sync)
        self._durability.on_progress = self._progressed if is_needed else None

    def _progressed(self) -> None:
        self.server.appended()
        if not self.role.is_master:
            self.client.progressed()

    # Telling

    def runtime_info(self) -> HARuntimeInfo:
        """GET_BROKER_HA_STATUS."""
        if not self.role.is_master:
            return HARuntimeInfo(master=False, ha_client_runtime_info=self._client_info(), alarm=self.alarm() or None)
        end = self._driver.appended
        gap_max = self._options.ha_max_gap_not_in_sync
        connections = tuple(
            HAConnectionRuntimeInfo(
                addr=slave.address,
                slave_ack_offset=slave.acknowledged,
                diff=end - slave.acknowledged,
                in_sync=end - slave.acknowledged < gap_max,
                transferred_byte_in_second=slave.transferred_bytes_per_second,
                transfer_from_where=slave.next_offset,
            )
            for slave in self.server.slaves
        )
        return HARuntimeInfo(
            master=True,
            master_commit_log_max_offset=end,
            in_sync_slave_nums=self.replicas.in_sync(end) - 1,
            ha_connection_info=connections,
            alarm=self.alarm() or self.role.refusal,
        )

    def _client_info(self) -> HAClientRuntimeInfo:
        facts = self.client.facts
        return HAClientRuntimeInfo(
            master_addr=facts.master_address,
            transferred_byte_in_second=facts.transferred_bytes_per_second,
            max_offset=facts.max_offset,
            last_read_timestamp=facts.last_read_ms,
            last_write_timestamp=facts.last_write_ms,
            master_flush_offset=self.master_flush_offset,
            failure=facts.failure or self.copy.failure or None,
            store_timestamp=None if self._driver.is_empty else self._driver.stored_at_ms,
        )


def sync_rules(options: StoreOptions) -> SyncRules:
    """Whom a master waits for, as the options say."""
    if options.broker_role != "SYNC_MASTER":
        return SyncRules(mode=SyncMode.ASYNC)
    if options.in_sync_replicas == 0:
        return SyncRules(mode=SyncMode.ANY_SLAVE, copies=2, gap_max=options.ha_slave_fallbehind_max)
    return SyncRules(
        mode=SyncMode.COPIES,
        copies=options.in_sync_replicas,
        copies_min=options.min_in_sync_replicas if options.enable_auto_in_sync_replicas else 1,
        is_auto=options.enable_auto_in_sync_replicas,
        gap_max=options.ha_max_gap_not_in_sync,
    )


def controlled_rules(options: StoreOptions) -> SyncRules:
    """Whom a master waits for under a controller: every broker in sync, each of them may be elected."""
    return SyncRules(
        mode=SyncMode.SET,
        copies=max(options.in_sync_replicas, 1),
        copies_min=options.min_in_sync_replicas,
        gap_max=options.ha_max_gap_not_in_sync,
        not_caught_up_max_s=options.ha_max_time_slave_not_catchup / 1000,
    )


def _main_address(ha_address: str) -> str | None:
    """Where a master with the usual ports answers requests; a guess for those who named only its HA port."""
    if not ha_address:
        return None
    host, port = parse_address(ha_address)
    return format_address(host, port - _HA_STEP) if port > _HA_STEP else None
