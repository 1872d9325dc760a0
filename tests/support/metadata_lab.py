"""The tables of a broker and the handlers over them, on a clock that stands still."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from flaremq.broker.administration.groups import GroupHandler
from flaremq.broker.administration.topics import TopicHandler
from flaremq.broker.catalog.consumer_offsets import ConsumerOffsets
from flaremq.broker.catalog.groups import GroupTable
from flaremq.broker.catalog.request_modes import RequestModes
from flaremq.broker.catalog.topics import TopicTable
from flaremq.broker.filter.sql import parse_weighed
from flaremq.broker.members.consumers import ConsumerTable
from flaremq.broker.members.producers import ProducerTable
from flaremq.broker.members.queue_locks import QueueLocks
from flaremq.broker.options import BrokerOptions
from flaremq.broker.requests.membership import ClientManageHandler
from flaremq.broker.requests.queue_lock import QueueLockHandler
from flaremq.clock import ManualClock
from flaremq.java_json import parse_java_json
from flaremq.protocol.codes import RequestCode
from flaremq.protocol.command import RemotingCommand
from flaremq.remoting.handlers import HandlerTable
from flaremq.storage.config.config_file import ConfigFile
from flaremq.storage.files.filesystem import FileSystem, LocalFileSystem
from tests.support.fake_connection import FakeConnection, ask


class MetadataLab:
    """Everything below ``config`` of one broker, loaded; ``reopened`` is the same after a restart."""

    def __init__(self, folder: Path, options: BrokerOptions | None = None, *, files: FileSystem | None = None) -> None:
        self.folder = folder
        self.options = options or BrokerOptions()
        self.clock = ManualClock()
        self.files: FileSystem = files or LocalFileSystem()
        self.topics = TopicTable(self.options, self.file("topics"), self.clock)
        self.groups = GroupTable(self.options, self.file("subscriptionGroup"), self.clock)
        self.offsets = ConsumerOffsets(self.options, self.file("consumerOffset"), self.clock)
        self.modes = RequestModes(self.options, self.file("messageRequestMode"))
        for table in (self.topics, self.groups, self.offsets, self.modes):
            table.load()
        self.consumers = ConsumerTable(self.options, self.clock)
        self.producers = ProducerTable(self.options, self.clock)
        self.locks = QueueLocks(self.options, self.clock)
        self.deleted: list[str] = []
        self.table = HandlerTable()
        ClientManageHandler(
            self.options, self.topics, self.groups, self.consumers, self.producers, parse_weighed
        ).register(self.table)
        QueueLockHandler(self.topics, self.locks).register(self.table)
        TopicHandler(self.options, self.topics, self.offsets, self._delete_queues).register(self.table)
        GroupHandler(self.groups, self.offsets).register(self.table)

    def file(self, name: str) -> ConfigFile:
        return ConfigFile(self.files, str(self.folder / "config" / f"{name}.json"))

    def reopened(self) -> MetadataLab:
        return MetadataLab(self.folder, self.options, files=self.files)

    def on_disk(self, name: str) -> Any:
        """The document in a file of ``config``."""
        return parse_java_json((self.folder / "config" / f"{name}.json").read_bytes())

    def ask(
        self,
        code: RequestCode,
        ext: dict[str, Any] | None = None,
        body: bytes = b"",
        *,
        connection: FakeConnection | None = None,
    ) -> RemotingCommand:
        """The reply to a request."""
        texts = None if ext is None else {name: _text(value) for name, value in ext.items()}
        request = RemotingCommand(code, ext=texts, body=body, language="JAVA", version=407)
        return asyncio.run(ask(self.table, connection or FakeConnection(), request))

    async def _delete_queues(self, topic: str) -> None:
        self.deleted.append(topic)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
