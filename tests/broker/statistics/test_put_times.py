"""What puts took, over the last minute, from buckets of all time."""

from __future__ import annotations

import pytest

from flaremq import Message
from flaremq.broker.statistics.put_times import PutTimes
from flaremq.metrics.histogram import Histogram
from flaremq.sync import Admin, Producer
from flaremq.testing import ephemeral_broker


def times() -> tuple[Histogram, PutTimes]:
    waits = Histogram((0.001, 0.01, 0.1))
    return waits, PutTimes(waits)


def test_without_puts_nothing_is_told() -> None:
    assert times()[1].quantile_ms(0.99) is None


def test_a_quantile_lies_in_its_bucket() -> None:
    waits, found = times()
    waits.observe(0.0005, 90)
    waits.observe(0.05, 10)
    assert found.quantile_ms(0.5) == pytest.approx(1000 * 0.001 * 50 / 90)
    assert found.quantile_ms(0.99) == pytest.approx(10 + 90 * 0.9)
    waits.observe(7.0, 1000)
    assert found.quantile_ms(0.99) == pytest.approx(100), "above all bounds the last one is told"


def test_what_is_older_than_a_minute_does_not_count() -> None:
    waits, found = times()
    waits.observe(0.05, 1000)
    for _ in range(59):
        found.tick()
    told = found.quantile_ms(0.99)
    assert told is not None and told > 10
    found.tick()
    assert found.quantile_ms(0.99) is None
    waits.observe(0.0005)
    told = found.quantile_ms(0.99)
    assert told is not None and told <= 1


@pytest.mark.parametrize(("flush_disk_type", "waits"), [("SYNC_FLUSH", True), ("ASYNC_FLUSH", False)])
def test_a_broker_tells_what_waiting_for_its_disk_takes(flush_disk_type: str, waits: bool) -> None:
    with ephemeral_broker(flushDiskType=flush_disk_type) as broker, Producer(broker.name_server) as producer:
        for _ in range(5):
            assert producer.send(Message("orders", b"x")).ok
        with Admin(broker.name_server) as admin:
            (name,) = admin.cluster_info().broker_addr_table
            told = float(admin.broker_status(name)["putLatency99"])
        assert (broker.broker.state.store_loop.durability.put_seconds.sum > 0) is waits
        assert told > 0 or not waits
