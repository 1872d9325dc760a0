"""The pipeline reads a real RocketMQ broker: all messages, exact times, keys; and its progress shows there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flaremq.message.message import Message
from flaremq.pipeline.model.columns import schema_of
from flaremq.pipeline.model.source import ReadRequest, SourceSpec, TopicSelector, WireOptions
from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.sources.wire import WireSource
from flaremq.protocol.bodies.queue import MessageQueue
from flaremq.sync import Admin, Producer
from tests.interop import jvm
from tests.interop.wire import servers
from tests.interop.wire.mqadmin import Mqadmin
from tests.interop.wire.selection import require
from tests.pipeline.wire_lab import check_progress, commit_progress

pytestmark = pytest.mark.interop

TOPIC = "WireSource"
COUNT = 500
_BROKERS = [f"rocketmq-{version}" for version in jvm.pinned_versions("ROCKETMQ_WIRE_VERSIONS")]


@pytest.fixture(scope="module", params=_BROKERS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Servers]:
    """A real broker with messages: queue 0 has bursts that share milliseconds, queue 1 every tag, queue 2 one key."""
    require(servers.why_not(request.param))
    with servers.started(request.param, tmp_path_factory.mktemp("servers")) as started:
        with Admin(started.name_server) as admin:
            admin.create_topic(TOPIC, read_queues=4, write_queues=4)
        with Producer(started.name_server) as producer:
            for number in range(COUNT):
                message = Message(TOPIC, b"body %d" % number, tags=("Aa", "BB", "C")[number % 3], keys=[f"k{number}"])
                producer.send(message, queue=_queue(0))
                if number % 50 == 0:
                    time.sleep(0.02)
            for number in range(COUNT):
                producer.send(Message(TOPIC, bytes(900), tags=("Aa", "BB", "C")[number % 3]), queue=_queue(1))
            for _ in range(150):
                producer.send(Message(TOPIC, b"again", keys="often"), queue=_queue(2))
        yield started


def _queue(queue_id: int) -> MessageQueue:
    return MessageQueue(topic=TOPIC, broker_name="broker-a", queue_id=queue_id)


def _place(queue_id: int) -> QueueRef:
    return QueueRef(TOPIC, "broker-a", queue_id)


@pytest.fixture
def source(cluster: servers.Servers) -> Iterator[WireSource]:
    with WireSource(SourceSpec(name_server=cluster.name_server)) as source:
        yield source


def test_real_broker_shows_the_topics_of_users_alone(source: WireSource) -> None:
    extents = source.extents(TopicSelector())
    assert {extent.queue.topic for extent in extents} == {TOPIC}
    assert [(extent.min_offset, extent.max_offset) for extent in extents] == [(0, COUNT), (0, COUNT), (0, 150), (0, 0)]


def test_real_broker_is_read_exactly(source: WireSource) -> None:
    request = ReadRequest(schema_of(["queueId", "queueOffset", "body"]))
    spans = [Span(_place(0), 3, COUNT), Span(_place(1), 0, COUNT - 1), Span(_place(3), 0, 0)]
    found = [row for batch in source.read(spans, request) for row in batch.to_pylist()]
    assert [row["queueOffset"] for row in found if row["queueId"] == 0] == list(range(3, COUNT))
    assert [row["body"] for row in found if row["queueId"] == 0] == [b"body %d" % at for at in range(3, COUNT)]
    assert [row["queueOffset"] for row in found if row["queueId"] == 1] == list(range(COUNT - 1))


def test_real_broker_filters_tags(source: WireSource) -> None:
    request = ReadRequest(schema_of(["queueOffset"]), frozenset(("Aa",)))
    found = [
        row["queueOffset"] for batch in source.read([Span(_place(1), 5, 400)], request) for row in batch.to_pylist()
    ]
    assert found == [at for at in range(5, 400) if at % 3 == 0]


def test_real_broker_finds_times_exactly(source: WireSource) -> None:
    request = ReadRequest(schema_of(["storeTimestamp"]))
    batches = source.read([Span(_place(0), 0, COUNT)], request)
    stored = [int(row["storeTimestamp"].timestamp() * 1000) for batch in batches for row in batch.to_pylist()]
    wanted = sorted(
        {stored[0] - 10, stored[0], stored[-1], stored[-1] + 1, *(at + d for at in stored[::25] for d in (0, 1))}
    )
    assert {at: source.offset_by_time(_place(0), at) for at in wanted} == {
        at: sum(each < at for each in stored) for at in wanted
    }
    assert source.offset_by_time(_place(3), stored[0]) == 0


def test_real_broker_finds_keys(source: WireSource) -> None:
    request = ReadRequest(schema_of(["queueId", "queueOffset", "properties"]))
    spans = [Span(_place(queue_id), 0, end) for queue_id, end in enumerate((COUNT, COUNT, 150))]

    def found(*keys: str) -> list[tuple[int, int]]:
        batches = source.read_keys(keys, spans, request)
        return sorted((row["queueId"], row["queueOffset"]) for batch in batches for row in batch.to_pylist())

    assert found("k7", "k499", "k500") == [(0, 7), (0, 499)]
    assert found("often") == [(2, at) for at in range(150)]  # more than one query gives
    (batch,) = source.read([Span(_place(0), 4, 5)], request)
    assert found(dict(batch.to_pylist()[0]["properties"])["UNIQ_KEY"]) == [(0, 4)]


def test_progress_shows_in_the_real_mqadmin(cluster: servers.Servers, tmp_path: Path) -> None:
    spec = SourceSpec(name_server=cluster.name_server)
    check_progress(spec, "spark-query")
    commit_progress(spec, "spark-query", {TOPIC: {"broker-a": {0: 480, 1: COUNT}}})
    version = cluster.broker_version
    with Mqadmin(version, cluster, "wirep", tmp_path) as mqadmin:
        answer = mqadmin.run("consumerProgress", ["-g", "spark-query"])
    assert not answer.has_failed, answer.text
    lines = [line.split() for line in answer.output.splitlines() if line.startswith(TOPIC)]
    progress = {(line[2], line[3], line[4]) for line in lines}
    assert {("0", str(COUNT), "480"), ("1", str(COUNT), str(COUNT))} <= progress


def test_real_broker_that_restarts_is_read_on(cluster: servers.Servers) -> None:
    with WireSource(SourceSpec(name_server=cluster.name_server, wire=WireOptions(bytes_in_flight=1 << 20))) as source:
        request = ReadRequest(schema_of(["queueOffset"]))
        batches = source.read([Span(_place(1), 0, COUNT)], request)
        found = next(batches).column(0).to_pylist()
        cluster.restart()
        for batch in batches:
            found += batch.column(0).to_pylist()
    assert found == list(range(COUNT))
