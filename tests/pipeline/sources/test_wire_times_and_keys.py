"""Times and keys over the wire: exact whatever a broker answers, complete whatever its limits are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from flaremq.client.scan.queue_pulls import Pulled, QueuePulls
from flaremq.client.scan.queue_times import QueueTimes
from flaremq.message.record.codec import encode_record
from flaremq.pipeline.model.columns import schema_of
from flaremq.pipeline.model.source import ReadRequest
from flaremq.pipeline.model.spans import Span
from flaremq.pipeline.sources.wire import WireSource
from tests.pipeline.wire_lab import WireLab, everything, queue

TIMES = [100, 100, 100, 250, 300, 300, 400, 400, 400, 900]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[WireLab]:
    with WireLab(str(tmp_path)) as lab:
        yield lab


def first_at_or_after(timestamp_ms: int) -> int:
    return sum(time < timestamp_ms for time in TIMES)


def test_time_finds_the_first_message_stored_then_or_later(lab: WireLab) -> None:
    lab.topic("orders", queues=2)
    began = lab.clock.now_ms()
    for time in TIMES:
        lab.clock.advance(began + time - lab.clock.now_ms())
        lab.send("orders", 1)
    with lab.open() as source:
        for timestamp in (0, 99, 100, 101, 249, 250, 251, 300, 399, 400, 401, 899, 900, 901, 10**6):
            assert source.offset_by_time(queue("orders"), began + timestamp) == first_at_or_after(timestamp)
        assert source.offsets_by_time([queue("orders", 1), queue("orders")], began + 300) == [0, 4]


class FakePulls(QueuePulls):
    """A queue with these store times; None has no message."""

    def __init__(self, times: list[int | None]) -> None:
        self.times = times
        self.count = 0

    async def pull(self, queue: object, offset: int, count: int, tags: str = "*") -> Pulled:
        self.count += 1
        while offset < len(self.times) and self.times[offset] is None:
            offset += 1
        if offset >= len(self.times):
            return Pulled(19, "", offset, 0, len(self.times), 0, b"")
        time = self.times[offset]
        assert time is not None
        record = encode_record(
            topic=b"orders", body=b"", properties=b"", queue_id=0, queue_offset=offset, physical_offset=0,
            born_timestamp=1, born_host=bytes(8), store_timestamp=time, store_host=bytes(8),
        )  # fmt: skip
        return Pulled(0, "FOUND", offset + 1, 0, len(self.times), 0, bytes(record))


@pytest.mark.parametrize("times", [TIMES, [None, None, *TIMES[2:5], None, *TIMES[6:]], [None] * 3, [7], []])
def test_any_answer_of_a_broker_leads_to_the_right_offset(times: list[int | None]) -> None:
    for timestamp in (0, 100, 101, 250, 300, 350, 400, 900, 901):
        wanted = next((at for at, time in enumerate(times) if time is not None and time >= timestamp), len(times))
        for hint in range(-1, len(times) + 2):
            search = QueueTimes(FakePulls(times), queue("orders"), timestamp, low=0, high=len(times))
            assert asyncio.run(search.find(hint)) == wanted


def test_right_answer_costs_two_pulls() -> None:
    pulls = FakePulls(list(range(100_000)))
    assert asyncio.run(QueueTimes(pulls, queue("orders"), 77_777, low=0, high=100_000).find(77_777)) == 77_777
    assert pulls.count == 2


def found_by_keys(source: WireSource, keys: list[str], spans: list[Span]) -> list[tuple[int, int]]:
    request = ReadRequest(schema_of(["queueId", "queueOffset"]))
    batches = list(source.read_keys(keys, spans, request))
    assert all(batch.schema.equals(request.schema) for batch in batches)
    return [(row["queueId"], row["queueOffset"]) for batch in batches for row in batch.to_pylist()]


def test_keys_find_messages_in_the_spans_once_each(lab: WireLab) -> None:
    lab.topic("orders", queues=2)
    lab.topic("bills")
    lab.send("orders", 20, keys=lambda number: [f"k{number % 5}", "all"])
    lab.send("orders", 20, queue_id=1, keys="k3")
    lab.send("bills", 3, keys="k3")
    with lab.open() as source:
        spans = everything(source, "orders")
        assert sorted(found_by_keys(source, ["k3", "k4"], spans)) == sorted(
            [(0, at) for at in range(20) if at % 5 in (3, 4)] + [(1, at) for at in range(20)]
        )
        assert found_by_keys(source, ["k0", "all", "k0"], [Span(queue("orders"), 4, 7)]) == [(0, 4), (0, 5), (0, 6)]
        assert found_by_keys(source, ["k", "", "K3"], spans) == []


def test_unique_key_is_a_key_too(lab: WireLab) -> None:
    lab.topic("orders")
    lab.send("orders", 3)
    with lab.open() as source:
        spans = everything(source, "orders")
        (batch,) = source.read(spans, ReadRequest(schema_of(["properties"])))
        keys = [dict(row["properties"])["UNIQ_KEY"] for row in batch.to_pylist()]
        assert found_by_keys(source, [keys[1]], spans) == [(0, 1)]


def test_more_messages_of_a_key_than_a_query_gives_are_all_found(lab: WireLab) -> None:
    lab.topic("orders")
    for _ in range(30):
        lab.send("orders", 10, keys="often")
        lab.clock.advance(2000)
    with lab.open() as source:
        assert found_by_keys(source, ["often"], everything(source, "orders")) == [(0, at) for at in range(300)]


@pytest.mark.parametrize("has_index", [True, False])
def test_what_the_index_cannot_tell_is_read(tmp_path: Path, has_index: bool, caplog: pytest.LogCaptureFixture) -> None:
    with WireLab(str(tmp_path), messageIndexEnable=has_index) as lab:
        lab.topic("orders")
        lab.send("orders", 200, keys=lambda number: ["often", "even"] if number % 2 == 0 else "often")  # in one second
        with lab.open() as source, caplog.at_level(logging.WARNING):
            spans = everything(source, "orders")
            assert found_by_keys(source, ["often"], spans) == [(0, at) for at in range(200)]
            assert found_by_keys(source, ["even"], spans) == [(0, at) for at in range(0, 200, 2)]
        assert "its queues are read" in caplog.text


@pytest.mark.parametrize("has_index", [True, False])
def test_tab_is_part_of_a_key_with_and_without_an_index(tmp_path: Path, has_index: bool) -> None:
    with WireLab(str(tmp_path), messageIndexEnable=has_index) as lab:
        lab.topic("orders")
        lab.send("orders", 4, keys=lambda number: ["a\tb", "c"] if number % 2 else ["a", "b"])
        with lab.open() as source:
            spans = everything(source, "orders")
            assert found_by_keys(source, ["a\tb"], spans) == [(0, 1), (0, 3)]
            assert found_by_keys(source, ["b"], spans) == [(0, 0), (0, 2)]
