"""BrokerMonitor: metrics and health of one broker, from before its store is open until after it is closed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from flaremq import interpreted
from flaremq.broker.metrics import catalogue as told
from flaremq.broker.metrics.certificates import Certificate
from flaremq.broker.metrics.clients import tell_clients
from flaremq.broker.metrics.creation_times import CreationTimes
from flaremq.broker.metrics.lags import Lags
from flaremq.broker.metrics.readiness import reasons, writing_reasons
from flaremq.broker.metrics.request_figures import tell_requests
from flaremq.broker.metrics.service_figures import tell_services
from flaremq.broker.metrics.store_figures import StoreFigures
from flaremq.broker.statistics.latencies import RequestLatencies
from flaremq.metrics.family import Family, Names
from flaremq.metrics.loop_delay import LoopDelay
from flaremq.metrics.monitor import Monitor
from flaremq.metrics.options import MetricsOptions
from flaremq.options import rows_by_key

if TYPE_CHECKING:
    from flaremq.broker.ha_service import HAService
    from flaremq.broker.options import BrokerOptions
    from flaremq.broker.parts import BrokerState, PeriodicWork
    from flaremq.broker.registration.name_servers import Registration
    from flaremq.metrics.samples import Samples
    from flaremq.remoting.handlers import HandlerTable
    from flaremq.remoting.options import RemotingOptions
    from flaremq.remoting.server import RemotingServer

_log = logging.getLogger(__name__)
_DISK_MS: Final = 60_000
_SWITCHES: Final = rows_by_key(MetricsOptions)


class BrokerMonitor:
    """``start`` it first and ``stop`` it last; in between ``attach`` and ``detach`` the broker's parts, which may be
    exchanged. What counts on its own outlives that: a counter never falls. Event loop only."""

    def __init__(self, options: BrokerOptions, remoting: RemotingOptions) -> None:
        settings = options.metrics
        common = {"cluster": options.broker_cluster_name, "node_id": options.broker_name, "node_type": "broker"}
        limit = settings.metrics_otel_cardinality_limit
        self._options = options
        self.monitor = Monitor(settings.endpoint, common, names=Names(settings.metrics_names), limit=limit)
        self.monitor.look = self._tell
        self.monitor.reasons = self.reasons
        self.monitor.is_told = self._is_on
        self.latencies = RequestLatencies(limit)
        self.loop_delay = LoopDelay()
        self._certificate = None if remoting.tls_mode == "disabled" else Certificate(remoting.tls_cert_path)
        self._parts: _Parts | None = None
        self._creation: CreationTimes | None = None
        self.phase = "the store is being opened"

    async def start(self) -> None:
        """Listen; UnavailableError if the port is taken."""
        await self.monitor.start()
        self.loop_delay.start()

    async def stop(self) -> None:
        self.loop_delay.stop()
        await self.monitor.stop()

    @property
    def port(self) -> int:
        return self.monitor.port

    def measure(self, state: BrokerState, table: HandlerTable) -> None:
        """Before any port is open: count the requests that this table serves."""
        table.latencies = self.latencies
        self._creation = self._creation or CreationTimes(state.topics.is_system)
        self._creation.measure(table)

    # Seven parts on purpose: each is read, none is owned.
    def attach(
        self,
        state: BrokerState,
        ha: HAService,
        registration: Registration,
        table: HandlerTable,
        servers: list[RemotingServer],
        *,
        is_controlled: bool,
    ) -> None:
        """The broker is open."""
        self._parts = _Parts(state, ha, registration, table, servers, is_controlled)

    def detach(self, phase: str = "it is stopping") -> None:
        """It is no more, or not for a while."""
        self._parts = None
        self.phase = phase

    def periodic_work(self) -> list[PeriodicWork]:
        """As ``BrokerState.periodic_work``."""
        return [("disk growth", _DISK_MS, self._look_at_disk)]

    def _look_at_disk(self) -> Awaitable[None] | None:
        return None if self._parts is None else self._parts.store.look()

    def reasons(self) -> list[str]:
        """Why the broker is not ready."""
        parts = self._parts
        if parts is None:
            return [self.phase]
        return reasons(parts.state, parts.ha, parts.registration, is_controlled=parts.is_controlled)

    # Telling

    async def _tell(self, samples: Samples) -> None:
        core = "compiled" if interpreted.reason() is None else "interpreted"
        samples.add(told.BUILD_INFO, 1, core, version("flaremq"))
        samples.add(told.BROKER_READY, not self.reasons())
        samples.add(told.LOOP_DELAY, self.loop_delay.histogram)
        parts = self._parts
        if parts is None:
            samples.add(told.BROKER_WRITABLE, 0)
            return
        if self._creation is not None:
            self._creation.tell(samples)
        steps: tuple[Callable[[], Awaitable[None]], ...] = (
            lambda: tell_requests(parts.state, parts.table, self.latencies, parts.refused, samples),
            lambda: parts.store.tell(samples),
            lambda: tell_services(parts.state, samples),
            lambda: tell_clients(parts.state, samples),
            lambda: parts.lags.tell(samples),
            lambda: self._tell_own(parts, samples),
        )
        for step in steps:
            try:
                await step()
            except Exception:  # one part that cannot be read, a store that closes, must not hide the others
                _log.exception("some metrics are missing")

    async def _tell_own(self, parts: _Parts, samples: Samples) -> None:
        state, durability = parts.state, parts.state.store_loop.durability
        samples.add(told.SYNC_LATENCY, durability.sync_seconds)
        samples.add(told.PUT_LATENCY, durability.put_seconds)
        samples.add(told.GROUP_COMMIT, durability.group_messages)
        samples.add(told.BROKER_WRITABLE, state.role.is_master and not writing_reasons(state))
        samples.add(told.NAME_SERVERS, len(parts.registration.registered_at))
        samples.add(told.REPLICATION_EPOCH, state.role.epoch)
        if state.role.is_master:
            end = state.store_loop.driver.appended
            samples.add(told.REPLICAS_IN_SYNC, parts.ha.replicas.in_sync(end))
            lags: dict[str, int] = {}
            for line in parts.ha.replicas.lines(end):
                # A port would make a new series of every connection.
                name = line.address.rpartition(":")[0] if line.broker_id is None else str(line.broker_id)
                if line.counts:
                    lags[name] = max(line.behind, lags.get(name, 0))
            for name, behind in sorted(lags.items()):
                samples.add(told.REPLICATION_LAG, behind, name)
        if self._certificate is not None and samples.wants(told.CERTIFICATE_EXPIRY):
            expires_ms = await state.store_loop.run(self._certificate.expires_ms)
            if expires_ms is not None:
                samples.add(told.CERTIFICATE_EXPIRY, (expires_ms - state.clock.now_ms()) / 1000)

    def _is_on(self, family: Family) -> bool:
        """Whether no option leaves it out; they may change while the broker runs."""
        return not family.switch or bool(getattr(self._options.metrics, _SWITCHES[family.switch].field_name))


class _Parts:
    """What is read of an open broker."""

    def __init__(
        self,
        state: BrokerState,
        ha: HAService,
        registration: Registration,
        table: HandlerTable,
        servers: list[RemotingServer],
        is_controlled: bool,
    ) -> None:
        self.state = state
        self.ha = ha
        self.registration = registration
        self.table = table
        self.is_controlled = is_controlled
        self.store = StoreFigures(state)
        self.lags = Lags(state)
        self._servers = servers

    @property
    def refused(self) -> int:
        """Connections that were not let in."""
        return sum(server.refused for server in self._servers)
