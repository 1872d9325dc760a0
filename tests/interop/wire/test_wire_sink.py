"""The sink writes to a real RocketMQ broker: what is stored is found through its index, whatever happens in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from flaremq.errors import FlareMQError
from flaremq.pipeline.sink.options import SinkOptions, parse_sink_options
from flaremq.pipeline.sink.task import TaskIdentity
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.sync import Admin
from tests.interop import jvm
from tests.interop.wire import servers
from tests.interop.wire.selection import require
from tests.pipeline.sink_lab import TaskDied, bodies, dying, numbered, run_task

pytestmark = pytest.mark.interop

_BROKERS = [f"rocketmq-{version}" for version in jvm.pinned_versions("ROCKETMQ_WIRE_VERSIONS")]
TASK = TaskIdentity("query", 3, 1)


@pytest.fixture(scope="module", params=[*_BROKERS, "flaremq"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Servers]:
    require(servers.why_not(request.param))
    with servers.started(request.param, tmp_path_factory.mktemp("servers")) as started:
        with Admin(started.name_server) as admin:
            for topic in ("SinkReplay", "SinkRetry", "SinkDelay", "SinkKill"):
                admin.create_topic(topic, read_queues=4, write_queues=4)
        yield started


def stored(cluster: servers.Servers, topic: str) -> list[str]:
    found: list[str] = []
    with Admin(cluster.name_server) as admin:
        for queue_id in range(4):
            queue, offset = MessageQueue(topic=topic, broker_name="broker-a", queue_id=queue_id), 0
            while (pulled := admin.pull(queue, offset, max_count=32)).messages:
                found += [bytes(message.body).decode() for message in pulled.messages]
                offset = pulled.next_offset
    return found


def options(cluster: servers.Servers, topic: str) -> SinkOptions:
    return parse_sink_options({"nameServer": cluster.name_server, "topic": topic, "requestBytes": "65536"})


def test_a_replayed_batch_is_found_through_the_index(cluster: servers.Servers) -> None:
    told = options(cluster, "SinkReplay")
    run_task(told, TASK, [bodies(numbered(0, 3000))])
    assert run_task(told, TASK, [bodies(numbered(0, 1000)), bodies(numbered(1000, 3000))]).stored_before == 3000
    assert stored(cluster, "SinkReplay") == numbered(0, 3000)
    order = [*numbered(0, 100), *reversed(numbered(100, 3100))]
    report = run_task(told, TASK, [bodies(order)])
    assert (report.stored_before, report.missing) == (3000, 0)
    assert sorted(stored(cluster, "SinkReplay")) == sorted(numbered(0, 3100))


def test_a_retry_goes_on_where_the_first_attempt_died(cluster: servers.Servers) -> None:
    told = options(cluster, "SinkRetry")
    rows = [[f"{n}-{m}-" + "x" * 50_000 for m in range(60)] for n in range(4)]
    with pytest.raises(TaskDied):
        run_task(told, TASK, dying(*map(bodies, rows[:3])))
    before = len(stored(cluster, "SinkRetry"))
    assert before > 0
    report = run_task(told, TASK, map(bodies, rows))
    assert report.stored_before >= before
    assert stored(cluster, "SinkRetry") == [row for part in rows for row in part]


def test_delayed_rows_are_found_while_they_wait(cluster: servers.Servers) -> None:
    told = options(cluster, "SinkDelay")
    batch = pa.record_batch({"body": pa.array(numbered(0, 40)), "delayLevel": pa.array([5] * 40)})
    for expected in (0, 40):
        assert run_task(told, TASK, [batch]).stored_before == expected


def test_a_broker_that_is_killed_under_a_task_gets_the_rest(cluster: servers.Servers) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(6):
            yield bodies([f"{number}-{row}-" + "x" * 20_000 for row in range(100)])
            if number == 3:
                cluster.kill_and_restart()

    run_task(options(cluster, "SinkKill"), TASK, batches())
    assert stored(cluster, "SinkKill") == [f"{n}-{row}-" + "x" * 20_000 for n in range(6) for row in range(100)]


@pytest.mark.parametrize("target", [*_BROKERS, "flaremq"])
def test_a_broker_without_an_index_is_refused(target: str, tmp_path: Path) -> None:
    require(servers.why_not(target))
    given = {**servers.SMALL_OPTIONS, "messageIndexEnable": "false"}
    with servers.started(target, tmp_path, options=given) as started:
        with Admin(started.name_server) as admin:
            admin.create_topic("SinkUnindexed", read_queues=4, write_queues=4)
        told = options(started, "SinkUnindexed")
        with pytest.raises(FlareMQError, match="index"):
            run_task(told, TASK, [bodies(numbered(0, 10))])
        assert stored(started, "SinkUnindexed") == []
