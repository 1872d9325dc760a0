"""Which brokers there are, and what each tells about itself."""

from __future__ import annotations

import asyncio
from typing import Final

from flaremq.clock import Clock
from flaremq.dashboard.data.broker_state import BrokerState
from flaremq.dashboard.data.reader import ClusterReader
from flaremq.dashboard.data.reasons import reason_of
from flaremq.dashboard.data.state import ClusterState
from flaremq.errors import AccessDeniedError, FlareMQError

_CONFIG_AGE_MS: Final = 30_000


class BrokerSteps:
    """Steps of the sampler."""

    def __init__(self, state: ClusterState, reader: ClusterReader, clock: Clock) -> None:
        self._state = state
        self._reader = reader
        self._clock = clock

    async def list_brokers(self) -> None:
        """From the name servers."""
        info = await self._reader.cluster_info()
        state = self._state
        state.clusters = {name: tuple(brokers) for name, brokers in sorted(info.cluster_addr_table.items())}
        found: dict[str, BrokerState] = {}
        for name, data in sorted(info.broker_addr_table.items()):
            for broker_id, address in sorted(data.broker_addrs.items()):
                known = state.brokers.get(address)
                if known is None or (known.name, known.broker_id) != (name, broker_id):
                    known = BrokerState(name, data.cluster, broker_id, address)
                found[address] = known
        for address, gone in state.brokers.items():  # a name server forgets a dead broker: it is down, not gone
            if address not in found and gone.told_ms:
                gone.miss("unreachable", "no name server knows it any more")
                if not any(broker.name == gone.name and broker.is_master for broker in found.values()):
                    found[address] = gone
        state.brokers = found

    async def ask_brokers(self) -> None:
        """Each for its runtime information; those that do not answer hold up nobody else for long."""
        await asyncio.gather(*(self._ask(broker) for broker in list(self._state.brokers.values())))
        self._note_totals()

    async def _ask(self, broker: BrokerState) -> None:
        try:
            told = await self._reader.runtime(broker.address)
        except FlareMQError as error:
            failure = reason_of(error)
            broker.miss(failure.reason, failure.detail)
            if isinstance(error, AccessDeniedError):
                self._state.has_access_control = True
            return
        broker.take(told, self._clock.now_ms(), self._clock.monotonic())

    def _note_totals(self) -> None:
        state, now_ms = self._state, self._clock.now_ms()
        masters = [broker for broker in state.masters if broker.is_up]
        for name in ("in", "out", "in_bytes"):
            rates = [broker.rates[name] for broker in masters]
            known = [rate for rate in rates if rate is not None]
            state.rings[name].note(now_ms, sum(known) if known else None)
        latencies = [broker.put_p99_ms for broker in masters if broker.put_p99_ms is not None]
        state.rings["put_p99"].note(now_ms, max(latencies) if latencies else None)
        lags = [group.lag for group in state.groups.values() if group.lag is not None]
        state.rings["lag"].note(now_ms, sum(lags) if state.progress_ms else None)
        state.as_of_ms = now_ms

    async def read_configs(self) -> None:
        """The options of one broker whose options are oldest: they change seldom."""
        now_ms = self._clock.now_ms()
        waiting = [broker for broker in self._state.brokers.values() if broker.is_up]
        waiting.sort(key=lambda broker: broker.config_ms)
        for broker in waiting[:4]:
            if now_ms - broker.config_ms < _CONFIG_AGE_MS:
                break
            broker.config_ms = now_ms
            try:
                broker.config = await self._reader.broker_config(broker.address)
            except (FlareMQError, ValueError):
                continue  # not every account may see them
            if broker.is_master:
                try:
                    broker.ha = await self._reader.ha_status(broker.address)
                except FlareMQError:
                    broker.ha = None  # 4.9 does not know the question
