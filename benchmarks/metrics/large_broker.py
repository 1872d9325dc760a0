"""One scrape of a broker with very many topics and groups, and how long it keeps the event loop from anybody else."""

from __future__ import annotations

import asyncio
import time

from benchmarks.timing import Row

_LOOKS = 3
_SENT = 2_000  # messages, so that some groups are behind


def measure(*, folder: str, topics: int, groups: int) -> Row:
    from flaremq.remoting import event_loop

    return event_loop.run(_measure(folder, topics, groups))


async def _measure(folder: str, topics: int, groups: int) -> Row:
    from flaremq.message.message import Message
    from flaremq.metrics.endpoint import Request
    from flaremq.protocol.bodies.topic import TopicConfig
    from flaremq.remoting import event_loop
    from flaremq.testing import ephemeral_broker

    options = {"metricsExporterType": "PROM", "metricsPromExporterPort": 0, "metricsOfflineGroups": True}
    async with ephemeral_broker(path=folder, **options) as broker:
        state, store = broker.broker.state, broker.broker.store
        names = [f"topic-{number}" for number in range(topics)]
        state.topics.update_all([TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1) for name in names])
        for number in range(_SENT):
            store.put(Message(names[number % topics], b"body"))
        for group in range(groups):
            for name in names:
                state.offsets.commit(f"group-{group}", name, 0, 0)
        event_loop.settle_memory()
        monitor = broker.broker.monitor
        assert monitor is not None
        found = [await _look(monitor.monitor.metrics, Request("/metrics", {}, "")) for _ in range(_LOOKS)]
        return min(found, key=lambda row: float(row["seconds"]))


async def _look(metrics: object, request: object) -> Row:
    worst, is_over = 0.0, False

    async def watch() -> None:
        nonlocal worst
        last = time.perf_counter()
        while not is_over:
            await asyncio.sleep(0)
            now = time.perf_counter()
            worst, last = max(worst, now - last), now

    watching = asyncio.create_task(watch())
    began = time.perf_counter()
    page = await metrics(request)  # type: ignore[operator]
    seconds = time.perf_counter() - began
    is_over = True
    await watching
    size = sum(map(len, page.body))
    return {"seconds": round(seconds, 3), "stall_ms": round(worst * 1000, 1), "MB": round(size / 1e6, 1)}
