"""Which queue a message goes to."""

from __future__ import annotations

import pytest

from flaremq.client.producer.queue_selection import FaultTable, QueueSelector, queue_of_key
from flaremq.clock import ManualClock
from flaremq.errors import UnavailableError
from flaremq.protocol.bodies.queue import MessageQueue

QUEUES = [MessageQueue("T", broker, number) for broker in ("broker-a", "broker-b") for number in range(2)]


def brokers(selector: QueueSelector, count: int) -> set[str]:
    return {selector.pick(QUEUES).broker_name for _ in range(count)}


def test_queues_take_turns() -> None:
    selector = QueueSelector(FaultTable(ManualClock().monotonic))
    picked = [selector.pick(QUEUES) for _ in range(8)]
    assert all(picked.count(queue) == 2 for queue in QUEUES)


def test_broker_of_the_last_failure_is_left_out_while_there_is_another() -> None:
    selector = QueueSelector(FaultTable(ManualClock().monotonic))
    assert {selector.pick(QUEUES, last_broker="broker-a").broker_name for _ in range(8)} == {"broker-b"}
    assert selector.pick(QUEUES[:2], last_broker="broker-a").broker_name == "broker-a"


@pytest.mark.parametrize(("latency", "pause"), [(0.6, 2.0), (2.0, 5.0), (3.0, 6.0), (5.0, 10.0), (20.0, 30.0)])
def test_slow_broker_is_shunned_for_longer_the_slower_it_was(latency: float, pause: float) -> None:
    clock = ManualClock()
    faults = FaultTable(clock.monotonic)
    selector = QueueSelector(faults)
    faults.record("broker-a", latency)
    clock.advance(int(pause * 1000) - 1)
    assert brokers(selector, 8) == {"broker-b"}
    clock.advance(1)
    assert brokers(selector, 8) == {"broker-a", "broker-b"}


def test_failed_broker_is_shunned_until_it_answers_quickly_again() -> None:
    faults = FaultTable(ManualClock().monotonic)
    selector = QueueSelector(faults)
    faults.record("broker-a", 0.0, failed=True)
    assert brokers(selector, 8) == {"broker-b"}
    faults.record("broker-a", 0.01)
    assert brokers(selector, 8) == {"broker-a", "broker-b"}


def test_message_goes_somewhere_even_if_every_broker_is_shunned() -> None:
    faults = FaultTable(ManualClock().monotonic)
    selector = QueueSelector(faults)
    for name in ("broker-a", "broker-b"):
        faults.record(name, 0.0, failed=True)
    assert brokers(selector, 8) == {"broker-a", "broker-b"}
    assert selector.pick(QUEUES, last_broker="broker-b").broker_name == "broker-a"


def test_switched_off_table_shuns_nobody() -> None:
    faults = FaultTable(ManualClock().monotonic, is_enabled=False)
    faults.record("broker-a", 0.0, failed=True)
    assert brokers(QueueSelector(faults), 8) == {"broker-a", "broker-b"}


def test_topic_without_a_writable_queue_is_unavailable() -> None:
    selector = QueueSelector(FaultTable(ManualClock().monotonic))
    with pytest.raises(UnavailableError, match="no queue that can be written to"):
        selector.pick([])
    with pytest.raises(UnavailableError, match="no queue that can be written to"):
        queue_of_key([], "key")


def test_key_always_goes_to_the_queue_of_its_java_hash() -> None:
    # "polygenelubricants".hashCode() is -2147483648, whose remainder Java takes before the absolute value.
    assert queue_of_key(QUEUES, "polygenelubricants") == QUEUES[2147483648 % 4]
    assert queue_of_key(QUEUES, "TagA") == QUEUES[2598919 % 4]
