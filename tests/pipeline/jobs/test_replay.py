"""Replaying messages: what arrives, in what order, and each once however often a run is repeated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flaremq.clock import SystemClock
from flaremq.errors import InvalidArgumentError
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.pipeline.jobs.archive import archive
from flaremq.pipeline.jobs.replay.job import (
    ReplayResult,
    default_replay_id,
    finish_replay,
    plan_replay,
    replay,
    result_of,
)
from flaremq.pipeline.jobs.replay.task import PacedTarget, replay_from
from flaremq.pipeline.model.source import Source
from flaremq.pipeline.options import ScanOptions, parse_options
from flaremq.pipeline.planning.partitions import scan_spans
from flaremq.pipeline.sink.options import SinkOptions, parse_sink_options
from flaremq.pipeline.sources.open import open_source, source_spec
from flaremq.storage.at_rest.reader import StoreReader
from flaremq.sync import Admin, Producer
from flaremq.testing import EphemeralBroker, ephemeral_broker
from tests.pipeline.conftest import FIRST_MS, FilledStore
from tests.pipeline.sink_lab import stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Stopped(Exception):
    """The process is gone."""


@pytest.fixture(scope="module")
def broker() -> Iterator[EphemeralBroker]:
    with ephemeral_broker(clock=SystemClock(), flushDiskType="ASYNC_FLUSH") as broker:
        yield broker


def sink_of(**given: str) -> SinkOptions:
    return parse_sink_options({"reservedProperties": "drop", **given})


def run(
    options: dict[str, str],
    sink: SinkOptions,
    name: str,
    *,
    stop_after: int | None = None,
    source: Source | None = None,
) -> ReplayResult:
    """A replay without Spark, task after task; it dies when it has read so many batches."""
    parsed = parse_options(options)
    spec = source_spec(parsed)
    with open_source(spec) as opened:
        given = source or opened
        tasks = plan_replay(
            parsed, spec, scan_spans(given, parsed), replace(sink, write_id=name), name, keep_queues=False
        )
        if stop_after is not None:
            given = _Dying(given, stop_after)  # type: ignore[assignment]
        reports = [replay_from(given, task) for task in tasks]
    finish_replay(sink, name, reports)
    return result_of(name, tasks, reports)


class _Dying:
    """A source that ends the process after so many rows."""

    def __init__(self, inner: Source, rows: int) -> None:
        self._inner = inner
        self._rows = rows

    def read(self, spans: Any, request: Any) -> Iterator[Any]:
        for batch in self._inner.read(spans, request):
            if batch.num_rows > self._rows:
                yield batch.slice(0, self._rows)
                raise Stopped
            self._rows -= batch.num_rows
            yield batch


def stored_in(broker: EphemeralBroker, topic: str) -> list[MessageExt]:
    return stored(broker, topic)


def origins(messages: list[MessageExt]) -> list[str]:
    return sorted(message.properties["REPLAY_ORIGIN"] for message in messages)


def expected_origins(store: FilledStore, **values: Any) -> list[str]:
    rows = store.offsets("topic", "queueId", "queueOffset", **values)
    return sorted(f"{topic}/broker-a/{queue}/{offset}" for topic, queue, offset in rows)


def test_messages_arrive_with_body_tags_keys_and_properties_and_say_where_they_came_from(
    broker: EphemeralBroker, orders_store: FilledStore
) -> None:
    sink = sink_of(nameServer=broker.name_server, topic="all-of-it")
    result = run(orders_store.options | {"topic": "orders"}, sink, "whole")
    assert (result.rows, result.sent, result.sent_before, result.missing) == (360, 360, 0, 0)
    arrived = stored_in(broker, "all-of-it")
    assert origins(arrived) == expected_origins(orders_store, topic="orders")
    by_origin = {message.properties["REPLAY_ORIGIN"]: message for message in arrived}
    for row in orders_store.rows:
        if row["topic"] == "orders":
            message = by_origin[f"orders/broker-a/{row['queueId']}/{row['queueOffset']}"]
            assert (message.body, message.tags) == (row["body"], row["tags"])
            assert " ".join(message.keys) == row["keys"]
            assert message.properties["region"] == ("eu" if row["at"] % 2 else "us")
            assert message.properties["REPLAY_ID"] == "whole" and message.properties["REPLAY_MSG_ID"] == row["msgId"]


def test_messages_of_one_queue_keep_their_order_in_one_queue(
    broker: EphemeralBroker, orders_store: FilledStore
) -> None:
    run(orders_store.options | {"topic": "users"}, sink_of(nameServer=broker.name_server, topic="in-order"), "order")
    places: dict[str, list[tuple[int, int]]] = {}
    for message in stored_in(broker, "in-order"):
        queue, _, offset = message.properties["REPLAY_ORIGIN"].rpartition("/")
        places.setdefault(queue, []).append((message.queue_id, int(offset)))
    assert len(places) == 2
    for found in places.values():
        assert len({queue_id for queue_id, _ in found}) == 1
        assert [offset for _, offset in found] == sorted(offset for _, offset in found)


@pytest.mark.parametrize("stop_after", [0, 1, 100, 250, 359])
def test_run_that_died_is_repeated_without_a_message_twice(
    broker: EphemeralBroker, orders_store: FilledStore, stop_after: int
) -> None:
    topic, options = f"died-at-{stop_after}", orders_store.options | {"topic": "orders"}
    sink = sink_of(nameServer=broker.name_server, topic=topic)
    with pytest.raises(Stopped):
        run(options, sink, "again", stop_after=stop_after)
    result = run(options, sink, "again")
    assert result.rows == 360 and result.missing == 0
    assert run(options, sink, "again").sent == 0
    assert origins(stored_in(broker, topic)) == expected_origins(orders_store, topic="orders")


@pytest.mark.parametrize(
    ("chosen", "values"),
    [({"subExpression": "paid"}, {"tags": "paid"}), ({"keys": "shared-7"}, {}), ({"endingTimestamp": ""}, {})],
)
def test_tags_keys_and_times_choose(
    broker: EphemeralBroker, orders_store: FilledStore, chosen: dict[str, str], values: dict[str, Any]
) -> None:
    topic = f"by-{next(iter(chosen))}"
    if "endingTimestamp" in chosen:
        chosen = {"endingTimestamp": str(FIRST_MS + 100_000)}
        rows = [row for row in orders_store.rows if row["at"] < 100]
    elif "keys" in chosen:
        rows = [row for row in orders_store.rows if "shared-7" in row["keys"].split()]
    else:
        rows = [row for row in orders_store.rows if row["tags"] == "paid"]
    options = orders_store.options | chosen
    for _ in range(2):
        result = run(options, sink_of(nameServer=broker.name_server, topic=topic), topic)
        assert result.rows == len(rows)
    wanted = sorted(f"{row['topic']}/broker-a/{row['queueId']}/{row['queueOffset']}" for row in rows)
    assert origins(stored_in(broker, topic)) == wanted


def test_replay_into_its_own_topic_does_not_replay_itself(broker: EphemeralBroker) -> None:
    with Producer(broker.name_server) as producer:
        producer.send_batch([Message("circle", b"%d" % at) for at in range(10)])
    options = {"nameServer": broker.name_server, "topic": "circle"}
    sink = sink_of(nameServer=broker.name_server, topic="circle")
    assert run(options, sink, "circle").sent == 10
    again = run(options, sink, "circle")
    assert (again.sent, again.sent_before, again.skipped) == (0, 10, 10)
    with Admin(broker.name_server) as admin:
        assert sum(admin.max_offset(queue) for queue in admin.queues("circle")) == 20


def test_closed_store_takes_each_message_once_too(fresh_store: FilledStore, tmp_path: Path) -> None:
    target = tmp_path / "target"
    sizes = {"mappedFileSizeCommitLog": "1048576", "mappedFileSizeConsumeQueue": "60000"}
    sink = sink_of(path=str(target), topic="copy", **sizes, maxHashSlotNum="500", maxIndexNum="2000")
    options = fresh_store.options | {"topic": "orders"}
    first = run(options | {"endingTimestamp": str(FIRST_MS + 300_000)}, sink, "store")
    assert (first.rows, first.sent) == (180, 180)
    second = run(options, sink, "store")
    assert (second.rows, second.sent, second.sent_before) == (360, 180, 180)
    with StoreReader.open(target) as reader:
        copies = [MessageExt(bytes(record)) for _, record in reader.records(0)]
    assert origins(copies) == expected_origins(fresh_store, topic="orders")


def test_rate_is_kept_by_waiting_before_each_portion() -> None:
    clock = [100.0]
    put: list[tuple[float, int]] = []

    class Target:
        def put(self, lane: Any, parcel: Any) -> None:
            put.append((clock[0], parcel.count))

        def finish(self) -> None:
            clock[0] += 0.01  # what a send takes

    class Parcel:
        count = 10

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    target = PacedTarget(Target(), 100, now=lambda: clock[0], sleep=sleep)  # type: ignore[arg-type]
    for _ in range(21):
        target.put(None, Parcel())  # type: ignore[arg-type]
    assert put[-1][0] - put[0][0] == pytest.approx(2.0)


def test_same_arguments_are_the_same_replay_and_others_are_not(tmp_path: Path) -> None:
    def name(to_topic: str | None = None, **given: Any) -> str:
        options = ScanOptions(path=str(tmp_path), **given)
        return default_replay_id(options, source_spec(options), "a:1", None, to_topic, keep_queues=False)

    assert name() == name() == name(max_bytes_per_partition=5)
    assert len({name(), name("t"), name(topic="t"), name(starting_timestamp=5), name(sub_expression="a")}) == 5


def test_spark_replays_an_archive_exactly_once(
    spark: SparkSession, broker: EphemeralBroker, orders_store: FilledStore, tmp_path: Path
) -> None:
    archive(spark, orders_store.options, str(tmp_path))
    told: list[tuple[str, int, int]] = []
    for sent in (600, 0):
        result = replay(
            spark,
            {"archive": str(tmp_path)},
            to_name_server=broker.name_server,
            to_topic="from-archive",
            rate=20_000,
            on_progress=lambda *progress: told.append(progress),
        )
        assert (result.to_json()["rows"], result.to_json()["sent"], result.queues) == (600, sent, 7)
    assert told[-1] == ("replay", 7, 7)
    assert origins(stored_in(broker, "from-archive")) == expected_origins(orders_store)


def test_targets_that_cannot_be_are_refused_before_any_task(
    spark: SparkSession, orders_store: FilledStore, broker: EphemeralBroker
) -> None:
    with pytest.raises(InvalidArgumentError, match="neither of a name server and a store"):
        replay(spark, orders_store.options)
    with pytest.raises(InvalidArgumentError, match="both of a name server and a store"):
        replay(spark, orders_store.options, to_name_server="a:1", to_path="b")
    with pytest.raises(InvalidArgumentError, match=r"%RETRY%billing.*choose topics, or give one to send to"):
        replay(spark, orders_store.options, to_name_server=broker.name_server)
    with pytest.raises(InvalidArgumentError, match="rate of 0"):
        replay(spark, orders_store.options, to_name_server=broker.name_server, rate=0)
