"""The broker as a whole: its state, its configuration, its cleaning, what slaves would copy of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.live_config import ConfigAdmin
from flaremq.broker.statistics.runtime_info import RuntimeInfo
from flaremq.broker.store_loop.access import StoreAccess
from flaremq.java_json import integer_keyed, write_java_json
from flaremq.message.topics import is_system_topic
from flaremq.protocol.bodies.topic import KVTable
from flaremq.protocol.codes import RequestCode, ResponseCode
from flaremq.protocol.command import RemotingCommand, RequestError
from flaremq.protocol.headers.admin import GetBrokerConfigResponseHeader
from flaremq.server.option_requests import OptionRequests

if TYPE_CHECKING:
    from flaremq.remoting.connection import Connection
    from flaremq.remoting.handlers import HandlerTable, Outcome

_log = logging.getLogger(__name__)


class DelayProgress(Protocol):
    """What the delivery of delayed messages tells about itself: ScheduleService."""

    def document(self) -> Mapping[str, Any]:
        """``delayOffset.json`` as it would be saved now."""


class AdminHandler:
    """Administration of the broker itself."""

    def __init__(
        self,
        store_loop: StoreAccess,
        topics: TopicTable,
        config: ConfigAdmin,
        runtime_info: RuntimeInfo,
        *,
        delay: DelayProgress | None = None,
    ) -> None:
        self._store_loop = store_loop
        self._topics = topics
        self._config = config
        self._runtime_info = runtime_info
        self._delay = delay
        self._is_cleaning = False

    def register(self, table: HandlerTable) -> None:
        table.register(RequestCode.GET_BROKER_RUNTIME_INFO, self.runtime_info)
        table.register(RequestCode.GET_BROKER_CONFIG, self.config)
        table.register(RequestCode.UPDATE_BROKER_CONFIG, OptionRequests(self._config).change)
        table.register(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, self.clean_expired_queues)
        table.register(RequestCode.CLEAN_UNUSED_TOPIC, self.clean_unused_topics)
        table.register(RequestCode.DELETE_EXPIRED_COMMITLOG, self.delete_expired_logs)
        table.register(RequestCode.GET_ALL_DELAY_OFFSET, self.delay_offsets)

    # State and configuration

    async def runtime_info(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return RemotingCommand.response(body=KVTable(table=await self._runtime_info.collect()).to_json())

    def config(self, connection: Connection, request: RemotingCommand) -> Outcome:
        version = self._config.data_version.to_json().decode()
        ext = GetBrokerConfigResponseHeader(version=version).encode()
        return RemotingCommand.response(ext=ext, body=self._config.to_text().encode())

    # Cleaning: one at a time, each logged

    async def clean_expired_queues(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Forget queue units and index entries whose messages are gone."""
        await self._clean(connection, "clean expired queues", self._store_loop.store.clean_expired_queues)
        return RemotingCommand.response()

    async def delete_expired_logs(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Delete expired log files whatever the hour."""
        await self._clean(connection, "delete expired logs", self._store_loop.store.request_deletion)
        return RemotingCommand.response()

    async def clean_unused_topics(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Delete the queues of topics that were deleted."""
        unused = {topic for topic, _ in self._store_loop.store.queues() if not self._is_used(topic)}
        if unused:
            await self._clean(connection, f"delete the queues of {len(unused)} topics", self._delete, unused)
        return RemotingCommand.response()

    def _is_used(self, topic: str) -> bool:
        return self._topics.find(topic) is not None or is_system_topic(topic)

    def _delete(self, topics: set[str]) -> None:
        self._store_loop.store.delete_topics(topics)

    async def _clean(self, connection: Connection, what: str, work: Callable[..., None], *arguments: Any) -> None:
        if self._is_cleaning:
            raise RequestError(ResponseCode.SYSTEM_BUSY, "the broker is cleaning already")
        _log.warning("%s orders to %s", connection.peer, what)
        self._is_cleaning = True
        try:
            await self._store_loop.run(work, *arguments)
        finally:
            self._is_cleaning = False

    # What slaves copy

    def delay_offsets(self, connection: Connection, request: RemotingCommand) -> Outcome:
        document = dict(self._delay.document()) if self._delay is not None else {"offsetTable": {}}
        document["offsetTable"] = integer_keyed(document.get("offsetTable", {}))
        return RemotingCommand.response(body=write_java_json(document))
