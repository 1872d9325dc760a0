"""BrokerState: what a broker knows and the services that act on it by themselves. No ports, no handlers.

Tables are loaded from ``config/`` in the order they depend on each other. Offsets that lie beyond the data (a crash
took unsynced messages of an ASYNC_FLUSH store with it) are cut before anybody reads them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from flaremq.broker.catalog.catalog import Catalog
from flaremq.broker.catalog.consumer_offsets import ConsumerOffsets
from flaremq.broker.catalog.groups import GroupTable
from flaremq.broker.catalog.request_modes import RequestModes
from flaremq.broker.catalog.table_saver import TableSaver
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.delay.levels import ScheduleService
from flaremq.broker.delay.message_rules import TimerRules
from flaremq.broker.delay.timer import TimerService
from flaremq.broker.members.cluster_queues import ClusterQueues
from flaremq.broker.members.consumers import ConsumerTable
from flaremq.broker.members.producers import ProducerTable
from flaremq.broker.members.queue_locks import QueueLocks
from flaremq.broker.options import BrokerOptions
from flaremq.broker.pop.order_info import ConsumerOrderInfo
from flaremq.broker.pop.service import PopService
from flaremq.broker.role import Role
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.broker.statistics.slow_consumers import SlowConsumerProtection
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.broker.transactions.service import TransactionService
from flaremq.clock import Clock
from flaremq.message.delay import parse_delay_levels
from flaremq.message.hosts import encode_host
from flaremq.remoting.address import parse_addresses
from flaremq.remoting.client import RemotingClient
from flaremq.remoting.options import RemotingOptions
from flaremq.storage.config.config_file import ConfigFile
from flaremq.storage.files.filesystem import FileSystem

_log = logging.getLogger(__name__)
_SHOWN_SECONDS_MAX = 5.0  # that a new master waits for its slaves to have the end of its log
_LOOK_SECONDS = 0.005

Interval = int | Callable[[], int]
PeriodicWork = tuple[str, Interval, Callable[[], Awaitable[object] | object]]


class BrokerState:
    """Tables and services of one broker. Event loop only."""

    def __init__(
        self,
        options: BrokerOptions,
        remoting: RemotingOptions,
        clock: Clock,
        filesystem: FileSystem,
        store_loop: StoreLoop,
        role: Role | None = None,
    ) -> None:
        self.options = options
        self.role = role or Role.of(options, store_loop.store.options)
        self.clock = clock
        self.store_loop = store_loop
        self._filesystem = filesystem
        self._folder = os.path.join(store_loop.store.path, "config")
        store_options = store_loop.store.options
        self.store_host = encode_host(f"{options.broker_ip1}:{options.listen_port}")
        self.delay_levels = parse_delay_levels(store_options.message_delay_level)
        self.topics = TopicTable(options, self._file("topics.json"), clock, store_loop.run)
        self.groups = GroupTable(options, self._file("subscriptionGroup.json"), clock, store_loop.run)
        self.offsets = ConsumerOffsets(options, self._file("consumerOffset.json"), clock, store_loop.run)
        self.catalog = Catalog(self.topics, self.groups, self.offsets)
        self.request_modes = RequestModes(options, self._file("messageRequestMode.json"), store_loop.run)
        self.consumers = ConsumerTable(options, clock)
        self.producers = ProducerTable(options, clock)
        self.locks = QueueLocks(options, clock)
        self.statistics = BrokerStatistics(
            options.broker_cluster_name,
            clock.now_ms(),
            is_system=self.topics.is_system,
            series_max=options.metrics.metrics_otel_cardinality_limit,
        )
        self.slow_consumers = SlowConsumerProtection(options, self.statistics.fall_behind, self.groups)
        name_servers = parse_addresses(options.namesrv_addr) if options.namesrv_addr.strip() else []
        self._client = RemotingClient(remoting)
        self.cluster_queues = ClusterQueues(options, self.topics, clock, self._client, name_servers)
        self.schedule = ScheduleService(
            store_loop, clock, self.delay_levels, self._file("delayOffset.json"), filesystem, self._declare_topic
        )
        self.timer = TimerService(store_loop, clock, TimerRules.of(options), filesystem, self._declare_topic)
        self.transactions = TransactionService(
            options, clock, store_loop, self.topics, self.offsets, self.producers, self.store_host
        )
        self._order_file = self._file("consumerOrderInfo.json")
        self.order_info = ConsumerOrderInfo()
        self._order_saver = TableSaver(self._order_file, lambda: self._order_document, store_loop.run)
        self.pop = PopService(options, clock, store_loop, self.catalog, self.statistics, order_info=self.order_info)
        for service in (self.schedule, self.transactions, self.pop):
            service.tell_traffic(self.statistics.traffic)
        self.has_services = False  # those of a master: they deliver, ask and give again

    def _file(self, name: str) -> ConfigFile:
        return ConfigFile(self._filesystem, os.path.join(self._folder, name))

    def _declare_topic(self, topic: str) -> object:
        """A topic that the broker itself sends to must exist, or nobody could read it."""
        return self.topics.create_on_send_back(topic, 1)

    def _order_document(self) -> dict[str, Any]:
        return self.order_info.to_document()

    async def load(self) -> None:
        """Read ``config/``. A master's services follow with :meth:`start_services`, when slaves can be heard."""
        self._filesystem.make_directories(self._folder)
        self.topics.load()
        self.topics.on_delete.append(self.request_modes.remove_topic)
        self.topics.on_delete.append(self.statistics.forget_topic)
        self.groups.load()
        self.groups.on_delete.append(self.request_modes.remove_group)
        self.groups.on_delete.append(self.statistics.forget_group)
        self.offsets.load()
        self.request_modes.load()
        self.order_info.load(self._order_file.load(_as_is))
        self.order_info.on_change.append(self._order_saver.changed)
        if not self.role.is_master:
            self._set_copies(True)
            await self.store_loop.run(self.schedule.load_copy)
        self.topics.save_now()
        self.groups.save_now()

    def _set_copies(self, is_copy: bool) -> None:
        self.topics.is_copy = self.groups.is_copy = self.offsets.is_copy = is_copy

    async def start_services(self, *, was_slave: bool = False) -> None:
        """Begin to act as a master: deliver what is due, ask for outcomes, give again what was popped.

        Once in the life of a state: a master that becomes a slave starts anew. ``was_slave``: until now another broker
        led, and its clients have seen more of the log than was shown here.
        """
        assert not self.has_services
        self._set_copies(False)
        await self._show_all(was_slave)
        for sentence in self.offsets.clamp(self.store_loop.store.next_offset):
            _log.warning("%s", sentence)
        await self.store_loop.run(self.schedule.load)  # these two may have to search the end of the log
        await self.store_loop.run(self.timer.load)
        await self.pop.start()
        await self.transactions.load()
        self.has_services = True

    async def _show_all(self, was_slave: bool) -> None:
        """Wait for what is in the log to be shown, if somebody's progress may lie behind what is shown.

        With slaves that is when they have it; no message would be acknowledged earlier anyway. Who waits in vain goes
        on: something may be delivered or consumed twice then.
        """
        store_loop, loop = self.store_loop, asyncio.get_running_loop()
        end, deadline = store_loop.store.max_physical_offset, loop.time() + _SHOWN_SECONDS_MAX
        store_loop.dispatching.catch_up()
        shown = store_loop.store.dispatched_offset
        if shown < end and not was_slave and not self._has_progress_behind_shown():
            _log.info("the log is shown to %d of %d: the rest waits for slaves", shown, end)
            return
        while store_loop.store.dispatched_offset < end:
            if not store_loop.durability.has_group or loop.time() > deadline:
                _log.warning("the log is shown to %d of %d", store_loop.store.dispatched_offset, end)
                return
            await asyncio.sleep(_LOOK_SECONDS)
            store_loop.dispatching.catch_up()

    def _has_progress_behind_shown(self) -> bool:
        """Whether a group, or a service, may have come further than readers see now.

        A master that was killed and waits for slaves to come back has shown all that anybody has read, as a rule: it
        need not wait for them to go on. A loss of power can take what was shown last.
        """
        store = self.store_loop.store
        if self.store_loop.driver.undispatched > 0 or self.offsets.has_beyond(store.max_offset):
            return True
        own = ((topic, queue_id) for topic, queue_id in store.queues_in_log() if self.topics.is_system(topic))
        return any(store.next_offset(*queue) > store.max_offset(*queue) for queue in own)

    async def stop_services(self) -> None:
        """Act as a master no more: what is under way comes to its end, and is remembered."""
        if not self.has_services:
            return
        self.has_services = False
        self.stop_deliveries()
        await self._run_all(
            self.pop.stop,
            self.transactions.operations.retry,
            self.transactions.persist,
            self.schedule.persist,
            self.timer.persist,
            self.timer.hand_over,
        )

    def periodic_work(self) -> list[PeriodicWork]:
        """(name, milliseconds between two runs, what to do)."""
        options, now_ms = self.options, self.clock.now_ms
        return [
            ("delay levels", 50, self._as_master(self.schedule.run_due)),
            ("timers", 50, self._as_master(self.timer.run_due)),
            ("pop", 100, self._as_master(self.pop.run_due)),
            ("transaction marks", 1_000, self._as_master(self.transactions.operations.retry)),
            (
                "transaction check",
                lambda: options.transaction_check_interval,
                self._as_master(self.transactions.check_round),
            ),
            ("consumer offsets", lambda: options.flush_consumer_offset_interval, self.offsets.persist_if_changed),
            ("groups", 1_000, self.groups.save_changes),  # those that came into being by use
            ("request modes", 5_000, self.request_modes.save_changes),
            ("order info", 5_000, self._order_saver.save),
            ("delay offsets", lambda: options.flush_delay_offset_interval, self._as_master(self._persist_delays)),
            ("client expiry", 10_000, self._expire),
            ("statistics", 1_000, lambda: self.statistics.tick(now_ms())),
            ("slow consumers", 180_000, self._protect),
        ]

    def _as_master(self, work: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[object] | None]:
        return lambda: work() if self.has_services else None

    def stop_deliveries(self) -> None:
        """Let steps under way come to an end soon: what is cut off in the middle might be delivered twice."""
        self.schedule.stop()
        self.timer.stop()

    async def _persist_delays(self) -> None:
        await self.schedule.persist()
        await self.timer.persist()

    def _expire(self) -> None:
        self.consumers.expire()
        self.producers.expire()
        self.locks.expire()

    async def _protect(self) -> None:
        if self.slow_consumers.tick():
            await self.groups.save_changes()

    async def close(self) -> None:
        """Persist everything. The store must still be open.

        A step that fails does not keep the others from being done; the first error is raised at the end.
        """
        await self._run_all(
            self.stop_services,
            self.timer.close,
            self.topics.save_now,
            self.groups.save_now,
            self.offsets.save_now,
            self.request_modes.save_now,
            self._order_saver.save_now,
            self._client.close,
        )

    async def _run_all(self, *steps: Callable[[], Awaitable[object] | object]) -> None:
        errors: list[Exception] = []
        for step in steps:
            try:
                outcome = step()
                if isawaitable(outcome):
                    await outcome
            except Exception as error:
                _log.exception("while closing the broker's state")
                errors.append(error)
        if errors:
            raise errors[0]


def _as_is(document: dict[str, Any]) -> dict[str, Any]:
    return document
