"""Handlers: every request family of a broker, wired to the state it works on."""

from __future__ import annotations

from flaremq.broker.administration.broker import AdminHandler
from flaremq.broker.administration.group_query import GroupQueryHandler
from flaremq.broker.administration.groups import GroupHandler
from flaremq.broker.administration.progress import ConsumeStatsHandler
from flaremq.broker.administration.relay import ClientRelayHandler
from flaremq.broker.administration.replication import ReplicationHandler
from flaremq.broker.administration.reset_offset import ResetOffsetHandler
from flaremq.broker.administration.topics import TopicHandler
from flaremq.broker.filter.message_filter import compile_filter
from flaremq.broker.ha_service import HAService
from flaremq.broker.ingest.admission import SendAdmission
from flaremq.broker.ingest.replies import SendReplies
from flaremq.broker.live_config import ConfigAdmin
from flaremq.broker.parts import BrokerState, PeriodicWork
from flaremq.broker.requests.assignment import AssignmentHandler
from flaremq.broker.requests.membership import ClientManageHandler
from flaremq.broker.requests.offsets import OffsetHandler
from flaremq.broker.requests.pop import PopHandler
from flaremq.broker.requests.pop_ack import PopAckHandler
from flaremq.broker.requests.pulls import PullHandler
from flaremq.broker.requests.queries import QueryHandler
from flaremq.broker.requests.queue_lock import QueueLockHandler
from flaremq.broker.requests.recall import RecallHandler
from flaremq.broker.requests.reply import ReplyHandler
from flaremq.broker.requests.send_back import SendBackHandler
from flaremq.broker.requests.sends import SendHandler
from flaremq.broker.requests.transactions import EndTransactionHandler
from flaremq.broker.statistics.runtime_info import RuntimeInfo
from flaremq.log_lines import set_level
from flaremq.message.tags import SQL92
from flaremq.options_file import OptionsFile
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.options import RemotingOptions


class Handlers:
    """The request table of one broker."""

    def __init__(
        self, state: BrokerState, remoting: RemotingOptions, ha: HAService, options_file: OptionsFile | None = None
    ) -> None:
        self.table = HandlerTable()
        self._state = state
        self._ha = ha
        role = state.role
        options, clock, store_loop = state.options, state.clock, state.store_loop
        catalog, topics, groups, offsets = state.catalog, state.topics, state.groups, state.offsets
        consumers, producers, statistics = state.consumers, state.producers, state.statistics
        self._pull = PullHandler(options, clock, store_loop, catalog, consumers, statistics, role)
        self._pop = PopHandler(options, store_loop, clock, topics, groups, state.pop)
        puller = store_loop.driver.puller
        config = self._config_admin(remoting, options_file)
        waits, more = store_loop.durability.put_seconds, self._more_runtime_info
        self._runtime_info = RuntimeInfo(options, store_loop, statistics, self.table, clock, more=more, waits=waits)
        replies = SendReplies(options, store_loop.store, state.store_host)
        admission = SendAdmission(options, clock, topics, groups, statistics, replies, state.locks.is_ordered)
        send = SendHandler(options, store_loop, statistics, admission, replies, state.transactions)
        config.on_change.append(lambda changed: set_level(changed["logLevel"]) if "logLevel" in changed else None)
        config.on_change += [send.options_changed, lambda _: store_loop.options_changed(), ha.options_changed]
        role.on_change.append(lambda: send.options_changed({}))  # what is known of topics counts for masters only
        families = (
            send,
            self._pull,
            self._pop,
            ClientManageHandler(
                options,
                topics,
                groups,
                consumers,
                producers,
                lambda text: compile_filter(SQL92, text),
                store_loop.run_long,
            ),
            OffsetHandler(topics, groups, offsets, store_loop, puller.is_cold, store_loop.dispatching.catch_up),
            QueueLockHandler(topics, state.locks),
            TopicHandler(options, topics, offsets, self._delete_queues, store_loop.run_long),
            GroupHandler(groups, offsets, store_loop.run_long),
            AssignmentHandler(options, consumers, state.request_modes, state.cluster_queues.find, store_loop.run_long),
            QueryHandler(store_loop),
            ClientRelayHandler(options, store_loop, topics, groups, consumers),
            ConsumeStatsHandler(options, clock, store_loop, catalog, consumers, statistics, self._pulled_offset),
            GroupQueryHandler(options, store_loop, offsets, consumers, statistics),
            AdminHandler(store_loop, topics, config, self._runtime_info, delay=state.schedule),
            SendBackHandler(options, store_loop, topics, groups, statistics),
            EndTransactionHandler(state.transactions),
            ReplyHandler(options, clock, store_loop, admission, producers, state.store_host),
            RecallHandler(options, clock, store_loop, topics),
            PopAckHandler(topics, state.pop),
            ResetOffsetHandler(options, store_loop, topics, groups, offsets, consumers),
            ReplicationHandler(role, state.timer, lambda: state.has_services and options.timer_wheel_enable, ha),
        )
        for family in families:
            family.register(self.table)

    def _config_admin(self, remoting: RemotingOptions, options_file: OptionsFile | None) -> ConfigAdmin:
        state, store_loop = self._state, self._state.store_loop
        return ConfigAdmin(
            state.options,
            store_loop.store.options,
            remoting,
            state.clock,
            appliers={"flushDiskType": store_loop.change_flush_disk_type},
            in_effect=self._in_effect,
            file=options_file,
        )

    def _more_runtime_info(self) -> dict[str, str]:
        """What delay levels and timers have to say, and who this broker is; one that is active is a master."""
        state, in_effect = self._state, self._in_effect()
        return {
            **state.schedule.runtime_info(),
            **state.timer.runtime_info(),
            "brokerActive": str(state.role.is_master).lower(),
            "brokerRole": in_effect["brokerRole"],
            "brokerId": in_effect["brokerId"],
        }

    def _in_effect(self) -> dict[str, str]:
        """What is shown of the configuration where a role or a port was chosen."""
        store = self._state.store_loop.store.options
        role = self._state.role
        master = "SYNC_MASTER" if store.broker_role == "SYNC_MASTER" else "ASYNC_MASTER"
        return {
            "brokerRole": master if role.is_master else "SLAVE",
            "brokerId": str(role.broker_id),
            "haListenPort": str(self._ha.port),
        }

    def _pulled_offset(self, group: str, topic: str, queue_id: int) -> int:
        """Where a group stands that has taken more than it has acknowledged, by pull or by POP."""
        pulled = self._state.offsets.find_pulled(group, topic, queue_id)
        return pulled if pulled >= 0 else self._state.pop.taking.next_offset(group, topic, queue_id)

    async def _delete_queues(self, topic: str) -> None:
        await self._state.store_loop.run(self._state.store_loop.store.delete_topics, [topic])

    def periodic_work(self) -> list[PeriodicWork]:
        """As ``BrokerState.periodic_work``."""
        now_ms = self._state.clock.now_ms
        return [
            ("pop polling", 100, self._pop.run_due),
            ("rates", 1_000, lambda: self._runtime_info.tick(now_ms())),
        ]

    async def stop(self) -> None:
        """The broker stops: nobody is left waiting."""
        self._pull.holds.answer_all()
        await self._pop.stop()
