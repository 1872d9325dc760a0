"""A small cluster for tests of reading over the wire: brokers that come, go and come back, and what they hold."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from flaremq.broker.options import load_options
from flaremq.broker.service import BrokerService
from flaremq.clock import ManualClock
from flaremq.message.message import Message
from flaremq.pipeline.model.columns import schema_of
from flaremq.pipeline.model.source import ReadRequest, Source, SourceSpec, TopicSelector
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.options import parse_options
from flaremq.pipeline.sources.open import source_spec
from flaremq.pipeline.sources.wire import WireSource
from flaremq.pipeline.spark.group_progress import ProgressWriter
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.sync import Admin, Producer
from flaremq.testing import EphemeralBroker, ephemeral_broker

SMALL = {"mappedFileSizeCommitLog": "1048576", "mappedFileSizeConsumeQueue": "6000", "maxHashSlotNum": "1000"}
SMALL |= {"maxIndexNum": "4000", "diskMaxUsedSpaceRatio": "95", "channelExpiredTimeout": str(2**31 - 1)}


class WireLab:
    """A name server, the broker ``broker-a`` and any number of others; the clock stands still unless moved."""

    def __init__(self, path: str, **options: object) -> None:
        self.clock = ManualClock()
        self._path = path
        self._options = {name: str(value).lower() for name, value in options.items()}
        self._first: EphemeralBroker = ephemeral_broker(clock=self.clock, path=os.path.join(path, "a"), **options)
        self._others: dict[str, BrokerService] = {}

    def __enter__(self) -> Self:
        self._first.__enter__()
        self.admin = Admin(self.name_server)
        self.producer = Producer(self.name_server)
        self.admin.__enter__()
        self.producer.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.producer.__exit__(None, None, None)
        self.admin.__exit__(None, None, None)
        for name in list(self._others):
            self.stop(name)
        self._first.__exit__(kind, error, traceback)

    @property
    def name_server(self) -> str:
        return self._first.name_server

    @property
    def store(self) -> str:
        return os.path.join(self._path, "a")

    @property
    def first(self) -> BrokerService:
        return self._first.broker

    def start(self, name: str) -> BrokerService:
        """A further broker, or one that was stopped, with what it had."""
        values = {"listenPort": "0", "namesrvAddr": self.name_server, "brokerName": name, **SMALL, **self._options}
        service = BrokerService(os.path.join(self._path, name), *load_options(None, values), clock=self.clock)
        self._first.call(service.start())
        self._others[name] = service
        return service

    def stop(self, name: str) -> None:
        self._first.call(self._others.pop(name).stop())

    def start_soon(self, name: str, seconds: float) -> Future[None]:
        """The same in the background, after a while."""

        async def work() -> None:
            await asyncio.sleep(seconds)
            values = {"listenPort": "0", "namesrvAddr": self.name_server, "brokerName": name, **SMALL, **self._options}
            service = BrokerService(os.path.join(self._path, name), *load_options(None, values), clock=self.clock)
            await service.start()
            self._others[name] = service

        return self._first.thread.start(work())

    def topic(self, topic: str, *, queues: int = 1, broker: str | None = None) -> None:
        self.admin.create_topic(topic, read_queues=queues, write_queues=queues, broker=broker)

    def send(self, topic: str, count: int, *, queue_id: int = 0, broker: str = "broker-a", **fields: Any) -> None:
        """Messages ``body 0``, ``body 1``, … to one queue, one after the other."""
        queue = MessageQueue(topic=topic, broker_name=broker, queue_id=queue_id)
        size = fields.pop("size", 0)
        padding = random.Random(size).randbytes(size)  # not compressible
        for number in range(count):
            values = {name: value(number) if callable(value) else value for name, value in fields.items()}
            body = b"body %d" % number
            self.producer.send(Message(topic, body + padding[: max(0, size - len(body))], **values), queue=queue)

    def open(self, **client: str) -> WireSource:
        return WireSource(source_spec(parse_options({"nameServer": self.name_server, **client})))


def check_progress(spec: SourceSpec, group: str, *, commit_name_server: str | None = None) -> None:
    with ProgressWriter(spec, group, commit_name_server=commit_name_server) as writer:
        writer.check()


def commit_progress(spec: SourceSpec, group: str, offsets: Any) -> None:
    with ProgressWriter(spec, group) as writer:
        writer.commit(offsets)


def everything(source: Source, *topics: str) -> list[Span]:
    return [Span(each.queue, each.min_offset, each.max_offset) for each in source.extents(TopicSelector(topics))]


def rows(
    source: Source,
    spans: Sequence[Span],
    columns: Sequence[str] = ("topic", "brokerName", "queueId", "queueOffset", "body"),
    *,
    tags: frozenset[str] = frozenset(),
    fail_on_data_loss: bool = True,
) -> list[dict[str, Any]]:
    request = ReadRequest(schema_of(columns), tags, fail_on_data_loss)
    batches = list(source.read(spans, request))
    assert all(batch.schema.equals(request.schema) for batch in batches)
    return pa.Table.from_batches(batches, request.schema).to_pylist()


def offsets(found: Sequence[dict[str, Any]], queue_id: int = 0) -> list[int]:
    return [row["queueOffset"] for row in found if row["queueId"] == queue_id]


def queue(topic: str, queue_id: int = 0, broker: str = "broker-a") -> QueueRef:
    return QueueRef(topic, broker, queue_id)
