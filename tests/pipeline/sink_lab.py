"""What the tests of the sink share: a broker that can be stopped and started, and tasks without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from flaremq.broker.options import load_options
from flaremq.broker.service import BrokerService
from flaremq.pipeline.sink.options import SinkOptions, parse_sink_options
from flaremq.pipeline.sink.task import SinkTask, TaskIdentity, TaskReport
from flaremq.pipeline.sink.wire import WireTarget
from flaremq.testing import EphemeralBroker


def bodies(texts: Iterable[str]) -> pa.RecordBatch:
    return pa.record_batch({"body": pa.array([text.encode() for text in texts])})


def options_for(broker: EphemeralBroker, **given: object) -> SinkOptions:
    texts = {name: str(value) for name, value in given.items()}
    return parse_sink_options({"nameServer": broker.name_server, "topic": "T", **texts})


def run_task(
    options: SinkOptions,
    task: TaskIdentity,
    batches: Iterable[pa.RecordBatch],
    *,
    request_bytes: int | None = None,
    begun_ms: int = 0,
) -> TaskReport:
    """One attempt at a task."""
    rules = options.row_rules
    size = request_bytes or options.request_bytes
    with WireTarget(options, task, begun_ms=begun_ms) as target:
        sink = SinkTask(target, task, rules, request_bytes=size, sends_in_doubt=options.sends_in_doubt)
        return sink.write(batches)


class TaskDied(Exception):
    """What a test lets a task die of."""


def dying(*batches: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    """Batches, and then the task dies."""
    yield from batches
    raise TaskDied


def stored(broker: EphemeralBroker, topic: str = "T") -> list[Any]:
    """All messages of a topic as they lie in its queues, queue by queue."""

    async def look() -> list[Any]:
        store = broker.broker.state.store_loop.store
        broker.broker.state.store_loop.dispatching.catch_up()
        found: list[Any] = []
        for name, queue_id in sorted(store.queues()):
            offset = 0
            while name == topic:
                got = store.get(name, queue_id, offset, 500)
                if not got.messages:
                    break
                found += got.messages
                offset = got.next_offset
        return found

    return broker.call(look())


def stored_bodies(broker: EphemeralBroker, topic: str = "T") -> list[str]:
    return [bytes(message.body).decode() for message in stored(broker, topic)]


def restart(broker: EphemeralBroker) -> None:
    """Stop the broker and start it again on the same port; the name server stays."""

    async def again() -> None:
        service = broker.broker
        path = service.state.store_loop.store.path
        port = service.address.rpartition(":")[2]
        await service.stop()
        assert broker._namesrv is not None
        settings = {"listenPort": port, "namesrvAddr": broker._namesrv.address, "mappedFileSizeCommitLog": "16777216"}
        settings |= {"mappedFileSizeConsumeQueue": "600000", "maxHashSlotNum": "10000", "maxIndexNum": "40000"}
        settings |= {"diskMaxUsedSpaceRatio": "95", "channelExpiredTimeout": str(2**31 - 1)}
        renewed = BrokerService(path, *load_options(None, settings | broker._options), clock=broker.clock)
        await renewed.start()
        broker._broker = renewed

    broker.call(again())


def numbered(start: int, end: int) -> Sequence[str]:
    return [f"row-{number}" for number in range(start, end)]
