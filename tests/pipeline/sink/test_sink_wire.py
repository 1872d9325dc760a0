"""The sink over the wire, task by task: each row once, whatever happens to tasks and brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest

from flaremq.client.streams.ledger import FencedError
from flaremq.errors import InvalidArgumentError, NotFoundError, UnavailableError
from flaremq.message.write_stream import DoubtError
from flaremq.pipeline.sink.options import parse_sink_options
from flaremq.pipeline.sink.partitions import check_partitions
from flaremq.pipeline.sink.rows import RowRules
from flaremq.pipeline.sink.task import LaneKey, SinkTask, TaskIdentity
from flaremq.pipeline.sink.wire import WireTarget
from flaremq.protocol.codes import RequestCode
from flaremq.testing import EphemeralBroker, ephemeral_broker
from tests.pipeline.sink_lab import (
    TaskDied,
    bodies,
    dying,
    numbered,
    options_for,
    restart,
    run_task,
    stored,
    stored_bodies,
)

TASK = TaskIdentity("query", 3, 1)


@pytest.fixture(params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def broker(request: pytest.FixtureRequest) -> Iterator[EphemeralBroker]:
    with ephemeral_broker(flushDiskType=request.param) as running:
        yield running


def test_rows_arrive_in_order_in_one_queue_of_the_partition(broker: EphemeralBroker) -> None:
    options = options_for(broker)
    report = run_task(options, TASK, [bodies(numbered(0, 3000)), bodies(numbered(3000, 5000))], request_bytes=8192)
    assert (report.rows, report.stored_before, report.missing) == (5000, 0, 0)
    messages = stored(broker)
    assert [bytes(message.body).decode() for message in messages] == numbered(0, 5000)
    assert len({message.queue_id for message in messages}) == 1
    run_task(options, TaskIdentity("query", 3, 2), [bodies(["other"])])
    assert {message.queue_id for message in stored(broker)} != {messages[0].queue_id}


def test_the_same_task_again_stores_nothing(broker: EphemeralBroker) -> None:
    options = options_for(broker)
    run_task(options, TASK, [bodies(numbered(0, 1000))])
    report = run_task(options, TASK, [bodies(numbered(0, 300)), bodies(numbered(300, 1000))])
    assert report.stored_before == 1000
    assert stored_bodies(broker) == numbered(0, 1000)


def test_the_next_batch_and_another_query_are_not_taken_for_the_same(broker: EphemeralBroker) -> None:
    options = options_for(broker)
    for task in (TASK, TaskIdentity("query", 4, 1), TaskIdentity("other", 3, 1)):
        run_task(options, task, [bodies(numbered(0, 10))])
    assert sorted(stored_bodies(broker)) == sorted([*numbered(0, 10)] * 3)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_retry_goes_on_where_the_first_attempt_died(broker: EphemeralBroker, is_restarted: bool) -> None:
    options = options_for(broker)
    with pytest.raises(TaskDied):
        # More than is handed over at once, so that some of it is stored when the task dies.
        run_task(options, TASK, dying(*(bodies(["x" * 100_000 + f"{n}-{m}" for m in range(30)]) for n in range(4))))
    before = len(stored(broker))
    assert before > 0
    if is_restarted:
        restart(broker)
    report = run_task(options, TASK, [bodies(["x" * 100_000 + f"{n}-{m}" for m in range(30)]) for n in range(5)])
    assert report.stored_before >= before and report.missing == 0
    assert stored_bodies(broker) == ["x" * 100_000 + f"{n}-{m}" for n in range(5) for m in range(30)]


def test_a_broker_that_restarts_under_a_task_gets_the_rest(broker: EphemeralBroker) -> None:
    def batches() -> Iterable[pa.RecordBatch]:
        for number in range(6):
            yield bodies([f"{number}-{row}-" + "x" * 20_000 for row in range(100)])
            if number == 3:
                restart(broker)

    run_task(options_for(broker), TASK, batches())
    found = [body.rpartition("-")[0] for body in stored_bodies(broker)]
    assert found == [f"{number}-{row}" for number in range(6) for row in range(100)]


def test_rows_in_another_order_are_told_by_their_content(broker: EphemeralBroker) -> None:
    options = options_for(broker)
    run_task(options, TASK, [bodies(numbered(0, 200))])
    order = [*numbered(0, 50), *reversed(numbered(50, 300))]
    report = run_task(options, TASK, [bodies(order[:80]), bodies(order[80:])])
    assert (report.stored_before, report.missing) == (200, 0)
    assert sorted(stored_bodies(broker)) == sorted(numbered(0, 300))
    # The stored order is what a third attempt is compared with.
    report = run_task(options, TASK, [bodies(numbered(0, 300))])
    assert (report.stored_before, report.missing) == (300, 0)
    assert len(stored(broker)) == 300


def test_equal_rows_are_counted_not_merged(broker: EphemeralBroker) -> None:
    options = options_for(broker)
    run_task(options, TASK, [bodies(["a", "a", "b"])])
    run_task(options, TASK, [bodies(["b", "a", "a", "a"])])
    assert sorted(stored_bodies(broker)) == ["a", "a", "a", "b"]


def test_rows_that_do_not_come_again_stop_the_task_before_it_sends_others(broker: EphemeralBroker) -> None:
    options = options_for(broker)
    run_task(options, TASK, [bodies(["a", "b", "c"])])
    with pytest.raises(DoubtError, match="2 rows that an earlier attempt stored did not come again"):
        run_task(options, TASK, [bodies(["a"])])
    with pytest.raises(DoubtError, match="None of them was sent"):
        run_task(options, TASK, [bodies(["d", "c"]), bodies(["e"])])
    assert stored_bodies(broker) == ["a", "b", "c"]


def test_rows_that_do_not_come_again_are_counted_where_duplicates_are_allowed(broker: EphemeralBroker) -> None:
    options = options_for(broker, onDoubt="send")
    run_task(options, TASK, [bodies(["a", "b", "c"])])
    assert run_task(options, TASK, [bodies(["a"])]).missing == 2
    assert run_task(options, TASK, [bodies(["d", "c", "e"])]).missing == 2
    assert stored_bodies(broker) == ["a", "b", "c", "d", "e"]


def test_new_rows_wait_until_all_stored_ones_have_come_again_and_then_go_in_order(broker: EphemeralBroker) -> None:
    options = options_for(broker)
    run_task(options, TASK, [bodies(numbered(0, 100))])
    again = [*numbered(100, 150), *reversed(numbered(50, 100)), *numbered(150, 200)]
    batches = [bodies(again), bodies(numbered(200, 220)), bodies(numbered(0, 50)), bodies(numbered(220, 230))]
    report = run_task(options, TASK, batches, request_bytes=512)
    assert (report.rows, report.stored_before, report.missing) == (230, 100, 0)
    assert stored_bodies(broker) == numbered(0, 230)


def test_a_write_in_fewer_partitions_than_before_is_found_out(broker: EphemeralBroker) -> None:
    options = options_for(broker)
    first, second = TaskIdentity("w", 0, 0), TaskIdentity("w", 0, 1)
    one = run_task(options, first, [bodies(["a"])])
    check_partitions(options, [(first, one)])
    two = run_task(options, second, [bodies(["b"])])
    check_partitions(options, [(first, one), (second, two)])
    joined = run_task(options, first, [bodies(["a", "b"])])
    with pytest.raises(DoubtError, match="has 1 partitions, and an earlier attempt at it stored rows of number 1 in"):
        check_partitions(options, [(first, joined)])


def test_an_attempt_that_was_replaced_cannot_write(broker: EphemeralBroker) -> None:
    options = options_for(broker)
    rules = RowRules("T", 4 << 20)
    with WireTarget(options, TASK) as zombie:
        old = SinkTask(zombie, TASK, rules, request_bytes=4096)
        old.write([bodies(numbered(0, 10))])
        run_task(options, TASK, [bodies(numbered(0, 20))])
        with pytest.raises(FencedError, match="another attempt"):
            old.write([bodies(numbered(10, 30))])
    assert stored_bodies(broker) == numbered(0, 20)


def test_topics_queues_and_delays_of_rows_are_kept(broker: EphemeralBroker) -> None:
    count = 120
    batch = pa.record_batch(
        {
            "body": pa.array([f"row-{n}" for n in range(count)]),
            "topic": pa.array([("A", "B")[n % 2] for n in range(count)]),
            "queueId": pa.array([(None, 0, 3)[n % 3] for n in range(count)]),
            "delayLevel": pa.array([0 if n % 4 else 1 for n in range(count)]),
        }
    )
    options = parse_sink_options({"nameServer": broker.name_server})
    for expected in (0, count):
        assert run_task(options, TASK, [batch]).stored_before == expected
    broker.advance(seconds=2)
    assert run_task(options, TASK, [batch]).stored_before == count  # now found under their own topic
    found = {bytes(m.body).decode(): m for topic in ("A", "B") for m in stored(broker, topic)}
    assert len(found) == count == len(stored(broker, "A")) + len(stored(broker, "B"))
    for n in range(count):
        message = found[f"row-{n}"]
        assert message.topic == ("A", "B")[n % 2]
        if n % 3:
            assert message.queue_id == (None, 0, 3)[n % 3]


def test_what_a_cluster_cannot_take_is_refused_with_a_reason(broker: EphemeralBroker) -> None:
    batch = pa.record_batch({"body": pa.array([b"x", b"y"]), "queueId": pa.array([0, 77])})
    with pytest.raises(InvalidArgumentError, match="no queue 77"):
        run_task(options_for(broker), TASK, [batch])
    assert stored(broker) == []
    nowhere = parse_sink_options({"nameServer": "127.0.0.1:1", "topic": "T"})
    with WireTarget(nowhere, None) as target, pytest.raises(UnavailableError, match="no name server can be reached"):
        target.check_topic("T")


def test_an_unknown_topic_is_refused_where_topics_are_not_made_by_sends() -> None:
    no_topic = pytest.raises(NotFoundError, match="create it first")
    with (
        ephemeral_broker(autoCreateTopicEnable=False) as broker,
        WireTarget(options_for(broker), None) as target,
        no_topic,
    ):
        target.check_topic("T")


def test_a_message_the_broker_finds_too_large_stops_the_task() -> None:
    with ephemeral_broker(maxMessageSize=20_000) as broker, pytest.raises(InvalidArgumentError, match="ILLEGAL"):
        run_task(options_for(broker), TASK, [bodies(["x" * 50_000])])


def test_a_broker_without_fences_is_asked_through_its_index(
    broker: EphemeralBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    del broker.broker.handlers.table.entries[int(RequestCode.OPEN_WRITE_STREAM)]
    monkeypatch.setattr("flaremq.broker.requests.sends.STAMP", "nobody looks at stamps")
    options = options_for(broker)
    run_task(options, TASK, [bodies(numbered(0, 400))], request_bytes=2048)
    reordered = [*numbered(0, 100), *reversed(numbered(100, 500))]
    report = run_task(options, TASK, [bodies(reordered)], request_bytes=2048)
    assert (report.stored_before, report.missing) == (400, 0)
    assert sorted(stored_bodies(broker)) == sorted(numbered(0, 500))


def test_lanes_name_their_streams_by_everything_that_tells_them_apart() -> None:
    lanes = [LaneKey(topic, queue, delayed) for topic in "AB" for queue in (-1, 0) for delayed in (False, True)]
    tasks = [TaskIdentity(write, batch, part) for write in "xy" for batch in (0, 1) for part in (0, 1)]
    assert len({lane.stem(task) for lane in lanes for task in tasks}) == 64
    assert len({lane.stream(task) for lane in lanes for task in tasks}) == 32
