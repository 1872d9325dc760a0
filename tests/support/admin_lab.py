"""A broker's store and tables with the handlers of administration over them; no sockets, a clock that stands still."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from flaremq.broker.administration.broker import AdminHandler, DelayProgress
from flaremq.broker.administration.group_query import GroupQueryHandler
from flaremq.broker.administration.progress import ConsumeStatsHandler
from flaremq.broker.administration.relay import ClientRelayHandler
from flaremq.broker.administration.replication import ReplicationHandler
from flaremq.broker.administration.reset_offset import ResetOffsetHandler
from flaremq.broker.catalog.catalog import Catalog
from flaremq.broker.delay.timer import TimerService
from flaremq.broker.live_config import ConfigAdmin
from flaremq.broker.members.client_info import ClientInfo
from flaremq.broker.options import BrokerOptions
from flaremq.broker.requests.queries import QueryHandler
from flaremq.broker.role import Role
from flaremq.broker.statistics.counters import BrokerStatistics
from flaremq.broker.statistics.runtime_info import RuntimeInfo
from flaremq.broker.store_loop.store_loop import StoreLoop
from flaremq.message.hosts import encode_host
from flaremq.message.message import Message
from flaremq.message.stored_form import StoredForm
from flaremq.protocol.bodies.client import ConsumerData, SubscriptionData
from flaremq.protocol.bodies.group import SubscriptionGroupConfig
from flaremq.protocol.bodies.replication import HARuntimeInfo
from flaremq.protocol.bodies.topic import TopicConfig
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.handlers import HandlerTable
from flaremq.remoting.options import RemotingOptions
from flaremq.server.live_options import Applier
from flaremq.storage.message_store import MessageStore
from flaremq.storage.put.put_result import PutResult
from tests.support.fake_connection import FakeConnection, ask
from tests.support.metadata_lab import MetadataLab
from tests.support.store_lab import SMALL

ADDRESS = "127.0.0.1:10911"
_BORN_HOST = encode_host("127.0.0.1:40001")


def replication_alone(store: MessageStore) -> ReplicationHandler:
    """That of a master without slaves, and without timers."""

    class Facts:
        master_flush_offset = 0

        def runtime_info(self) -> HARuntimeInfo:
            return HARuntimeInfo(master=True, master_commit_log_max_offset=store.max_physical_offset)

        def own_addresses(self) -> tuple[str, str]:
            return "127.0.0.1:10911", "127.0.0.1:10912"

        def look_for_master(self) -> None:
            raise AssertionError("a master looks for none")

    return ReplicationHandler(Role(is_master=True, broker_id=0), cast(TimerService, None), lambda: False, Facts())


class AdminLab:
    """Use as an async context manager, inside of ``asyncio.run``."""

    def __init__(
        self,
        folder: Path,
        options: BrokerOptions | None = None,
        *,
        appliers: dict[str, Applier] | None = None,
        delay: DelayProgress | None = None,
    ) -> None:
        tables = MetadataLab(folder, options)
        self.options = tables.options
        self.clock = tables.clock
        self.topics, self.groups, self.offsets = tables.topics, tables.groups, tables.offsets
        self.consumers = tables.consumers
        self.statistics = BrokerStatistics(self.options.broker_cluster_name, self.clock.now_ms())
        self.table = HandlerTable()
        self.tool = FakeConnection("127.0.0.1:50001")
        self._folder = folder
        self._appliers, self._delay = appliers, delay

    async def __aenter__(self) -> Self:
        self.store = await asyncio.to_thread(MessageStore.open, self._folder, SMALL, clock=self.clock, driven=True)
        self.store_loop = store_loop = StoreLoop(self.store)
        self.config = ConfigAdmin(
            self.options, self.store.options, RemotingOptions(), self.clock, appliers=self._appliers
        )
        self.runtime_info = RuntimeInfo(self.options, store_loop, self.statistics, self.table, self.clock)
        options, topics, groups, offsets = self.options, self.topics, self.groups, self.offsets
        consumers, statistics = self.consumers, self.statistics
        for handler in (
            AdminHandler(store_loop, topics, self.config, self.runtime_info, delay=self._delay),
            ClientRelayHandler(options, store_loop, topics, groups, consumers),
            ConsumeStatsHandler(
                options, self.clock, store_loop, Catalog(topics, groups, offsets), consumers, statistics
            ),
            GroupQueryHandler(options, store_loop, offsets, consumers, statistics),
            QueryHandler(store_loop),
            ResetOffsetHandler(options, store_loop, topics, groups, offsets, consumers),
            replication_alone(self.store),
        ):
            handler.register(self.table)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.store_loop.close()
        await asyncio.to_thread(self.store.close)

    # What there is

    def topic(self, name: str, queues: int = 4, **changes: Any) -> None:
        self.topics.update(TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, **changes))

    def group(self, name: str) -> None:
        self.groups.update(SubscriptionGroupConfig(group_name=name))

    async def send(self, topic: str, queue_id: int = 0, body: bytes = b"body", **message: Any) -> PutResult:
        """Store a message and make it readable; a second passes."""
        self.clock.advance(1_000)
        form = StoredForm.of_message(
            Message(topic, body, **message),
            queue_id=queue_id,
            born_timestamp=self.clock.now_ms(),
            born_host=_BORN_HOST,
        )
        result = await self.store_loop.put(form)
        assert result.ok, result
        self.store_loop.dispatching.catch_up()
        return result

    def online(
        self,
        group: str,
        client_id: str = "client-1",
        topics: dict[str, str] | None = None,
        *,
        version: int = 513,
        language: str = "JAVA",
        connection: FakeConnection | None = None,
        expression_type: str = "TAG",
    ) -> FakeConnection:
        """A consumer of the group is connected and subscribes to these topics, each with its expression."""
        connection = connection or FakeConnection()
        subscriptions = tuple(
            SubscriptionData(topic=topic, sub_string=expression, expression_type=expression_type)
            for topic, expression in (topics or {}).items()
        )
        self.group(group)
        self.consumers.register(
            ClientInfo(connection, client_id, language, version),
            ConsumerData(group_name=group, subscription_data_set=subscriptions),
            notify=False,
        )
        return connection

    # Asking

    async def ask(self, code: int, body: bytes = b"", /, **ext: Any) -> RemotingCommand:
        """The reply to a request of a tool; ext fields by their names on the wire."""
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in ext.items()}
        request = RemotingCommand(code, ext=texts or None, body=body, language="JAVA", version=513)
        return await ask(self.table, self.tool, request)
