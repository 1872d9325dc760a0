"""Reading a cluster over the wire: which queues there are, exact spans, filters, losses and brokers that go away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flaremq.client.scan.queue_pulls import Pulled, QueuePlace, QueuePulls
from flaremq.errors import FlareMQError, InvalidArgumentError, NotFoundError, UnavailableError
from flaremq.pipeline.model.columns import schema_of
from flaremq.pipeline.model.source import ReadRequest, SourceSpec, TopicSelector
from flaremq.pipeline.model.spans import QueueExtent, Span
from flaremq.pipeline.options import parse_options
from flaremq.pipeline.planning.partitions import plan_pieces
from flaremq.pipeline.sources.open import source_spec
from flaremq.pipeline.sources.wire import WireSource
from tests.pipeline.wire_lab import WireLab, everything, offsets, queue, rows


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[WireLab]:
    with WireLab(str(tmp_path)) as lab:
        yield lab


def test_extents_hold_every_queue_of_the_topics_asked_for(lab: WireLab) -> None:
    lab.topic("orders", queues=3)
    lab.topic("bills", queues=1)
    lab.send("orders", 5, queue_id=1)
    with lab.open() as source:
        assert source.extents(TopicSelector(("orders",))) == [
            QueueExtent(queue("orders", 0), 0, 0),
            QueueExtent(queue("orders", 1), 0, 5),
            QueueExtent(queue("orders", 2), 0, 0),
        ]
        assert {extent.queue.topic for extent in source.extents(TopicSelector())} == {"orders", "bills"}
        assert {extent.queue.topic for extent in source.extents(TopicSelector(pattern="b.*"))} == {"bills"}
        assert source.extents(TopicSelector(pattern="bill")) == []


def test_pattern_finds_system_topics_too_and_a_topic_without_permission_is_told(lab: WireLab) -> None:
    lab.topic("orders")
    with lab.open(fetchRetryMs="200") as source:  # a topic that was there once is waited for
        found = {extent.queue.topic for extent in source.extents(TopicSelector(pattern=".*"))}
        assert {"orders", "TBW102"} <= found and not {"broker-a", "DefaultCluster"} & found
        lab.admin.set_topic_permission("orders", 2)
        with pytest.raises(NotFoundError, match="'orders' has no queue that may be read"):
            source.extents(TopicSelector(("orders",)))
        assert source.extents(TopicSelector()) == []


def test_unknown_topic_is_named_with_its_nearest(lab: WireLab) -> None:
    lab.topic("orders")
    with lab.open() as source, pytest.raises(NotFoundError, match=r"'order' is unknown .* there is orders"):
        source.extents(TopicSelector(("order",)))


def test_queues_of_two_brokers_are_read_together(lab: WireLab) -> None:
    lab.start("broker-b")
    lab.topic("orders", queues=2)
    lab.send("orders", 30, queue_id=0)
    lab.send("orders", 40, queue_id=1, broker="broker-b")
    with lab.open() as source:
        spans = everything(source, "orders")
        assert [(span.queue.broker, span.count) for span in spans] == [
            ("broker-a", 30),
            ("broker-a", 0),
            ("broker-b", 0),
            ("broker-b", 40),
        ]
        found = rows(source, spans)
    assert (
        sorted((row["brokerName"], row["queueId"]) for row in found) == [("broker-a", 0)] * 30 + [("broker-b", 1)] * 40
    )


def test_spans_are_read_exactly_and_in_order(lab: WireLab) -> None:
    lab.topic("orders")
    lab.send("orders", 700)
    with lab.open() as source:
        for start, end in ((0, 700), (0, 1), (699, 700), (1, 130), (127, 400), (300, 300)):
            found = rows(source, [Span(queue("orders"), start, end)])
            assert offsets(found) == list(range(start, end))
            assert [row["body"] for row in found] == [b"body %d" % number for number in range(start, end)]


def test_replies_that_come_short_are_filled_up(tmp_path: Path) -> None:
    with WireLab(str(tmp_path), maxTransferCountOnMessageInMemory=3, maxTransferBytesOnMessageInMemory=2000) as lab:
        lab.topic("orders")
        for size in (10, 900, 10, 1900, 300):  # how many fit a reply keeps changing
            lab.send("orders", 40, size=size)
        with lab.open() as source:
            assert offsets(rows(source, [Span(queue("orders"), 7, 193)])) == list(range(7, 193))


def test_little_memory_reads_the_same(lab: WireLab) -> None:
    lab.topic("orders", queues=12)
    for queue_id in range(12):
        lab.send("orders", 60, queue_id=queue_id, size=3000)
    with lab.open(fetchBytesInFlight=str(1 << 20)) as source:
        found = rows(source, everything(source, "orders"))
    assert all(offsets(found, queue_id) == list(range(60)) for queue_id in range(12))


def test_tags_are_compared_by_text_behind_the_hash(lab: WireLab) -> None:
    lab.topic("orders")
    lab.send("orders", 900, tags=lambda number: ("Aa", "BB", "other")[number % 3])  # Aa and BB have one hash
    lab.send("orders", 1, tags="rare")
    with lab.open() as source:
        span = Span(queue("orders"), 100, 901)
        assert offsets(rows(source, [span], tags=frozenset(("Aa",)))) == list(range(102, 900, 3))
        assert offsets(rows(source, [span], tags=frozenset(("rare",)))) == [900]
        assert rows(source, [Span(queue("orders"), 100, 899)], tags=frozenset(("rare",))) == []


def test_reading_leaves_no_trace_in_group_offsets(lab: WireLab) -> None:
    lab.topic("orders")
    lab.send("orders", 5)
    with lab.open() as source:
        rows(source, everything(source, "orders"))
    assert lab.admin.topic_groups("orders") == []
    assert lab.admin.list_topics() == [name for name in lab.admin.list_topics() if not name.startswith("%RETRY%")]


def test_broker_that_makes_no_groups_is_read_with_the_group_of_the_tools(tmp_path: Path) -> None:
    with WireLab(str(tmp_path), autoCreateSubscriptionGroup=False) as lab:
        lab.topic("orders")
        lab.send("orders", 5)
        with lab.open() as source:
            assert offsets(rows(source, everything(source, "orders"))) == [0, 1, 2, 3, 4]
        with lab.open(consumerGroup="mine") as source, pytest.raises(NotFoundError, match="mine"):
            rows(source, everything(source, "orders"))


def test_profiles_end_with_the_size_of_the_span(lab: WireLab) -> None:
    lab.topic("orders", queues=2)
    lab.send("orders", 100, size=1000)
    with lab.open() as source:
        spans = everything(source, "orders")
        full, empty = source.profiles(spans)
        size = sum(row["storeSize"] for row in rows(source, spans, ("queueId", "storeSize")))
    assert full.points[0] == (0, 0, -1) and full.points[-1].offset == 100
    assert abs(full.size_bytes - size) < size / 50
    assert [point.offset for point in full.points] == sorted(point.offset for point in full.points)
    assert empty.size_bytes == 0


def test_a_small_batch_is_planned_without_pulls(lab: WireLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.topic("orders", queues=2)
    lab.send("orders", 20)
    lab.send("orders", 3, queue_id=1)
    pulled: list[int] = []
    ask = QueuePulls.pull

    async def pull(self: QueuePulls, queue: QueuePlace, offset: int, count: int, tags: str = "*") -> Pulled:
        pulled.append(offset)
        return await ask(self, queue, offset, count, tags)

    monkeypatch.setattr(QueuePulls, "pull", pull)
    options = parse_options({"nameServer": lab.name_server, "topic": "orders"})
    request = ReadRequest(schema_of(["body"]))
    with lab.open() as source:
        spans = everything(source, "orders")
        (piece,) = plan_pieces(source, source_spec(options), spans, options, request)
        assert piece.spans == tuple(spans)
        assert pulled == []
        many = [Span(spans[0].queue, 0, 20), Span(spans[1].queue, 0, 600)]
        assert plan_pieces(source, source_spec(options), many, options, request)
        assert pulled


def test_what_retention_deleted_is_a_loss(lab: WireLab) -> None:
    lab.start("broker-b")
    lab.topic("orders", broker="broker-b")
    lab.send("orders", 300, broker="broker-b", size=10_000)  # a log file holds about a hundred
    with lab.open() as source:
        (span,) = everything(source, "orders")
        lab.clock.advance(int(time.time() * 1000) - lab.clock.now_ms() + 100 * 3_600_000)  # files have real times
        lab.admin.delete_expired_commit_log(broker="broker-b")
        lab.admin.clean_expired_queues(broker="broker-b")
        (left,) = everything(source, "orders")
        assert 0 < left.start < 300
        with pytest.raises(
            UnavailableError, match=r"messages 0 to .* are gone: retention deleted them.*failOnDataLoss"
        ):
            rows(source, [span])
        assert offsets(rows(source, [span], fail_on_data_loss=False)) == list(range(left.start, 300))
        assert offsets(rows(source, [left])) == list(range(left.start, 300))


def test_end_that_a_broker_lost_is_a_loss(lab: WireLab) -> None:
    lab.topic("orders")
    lab.send("orders", 10)
    with lab.open(fetchRetryMs="200") as source:
        with pytest.raises(UnavailableError, match="the queue ends at 10 now"):
            rows(source, [Span(queue("orders"), 5, 12)])
        assert offsets(rows(source, [Span(queue("orders"), 5, 12)], fail_on_data_loss=False)) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("damaged", [(5,), (0, 1), (8, 9), tuple(range(10))])
def test_message_that_a_broker_cannot_read_any_more_is_a_loss(lab: WireLab, damaged: tuple[int, ...]) -> None:
    lab.topic("orders")
    lab.send("orders", 10)
    log = Path(lab.store, "commitlog", "0" * 20)
    with lab.open() as source, log.open("r+b") as file:
        spans = everything(source, "orders")
        content = file.read()
        for number in damaged:
            file.seek(content.index(b"body %d" % number))
            file.write(b"flip")
        file.flush()
        with pytest.raises(FlareMQError, match=r"damaged there.*failOnDataLoss=false"):
            rows(source, spans)
        left = [at for at in range(10) if at not in damaged]
        assert offsets(rows(source, spans, fail_on_data_loss=False)) == left


def test_broker_that_comes_back_elsewhere_is_read_on(lab: WireLab) -> None:
    lab.start("broker-b")
    lab.topic("orders", broker="broker-b")
    lab.send("orders", 400, broker="broker-b", size=2000)
    with lab.open(fetchBytesInFlight=str(1 << 20)) as source:
        batches = source.read(everything(source, "orders"), ReadRequest(schema_of(["queueOffset"])))
        found = next(batches).column(0).to_pylist()
        lab.stop("broker-b")
        back = lab.start_soon("broker-b", 0.3)
        for batch in batches:
            found += batch.column(0).to_pylist()
        back.result()
    assert found == list(range(400))


def test_broker_that_stays_away_is_named(lab: WireLab) -> None:
    lab.start("broker-b")
    lab.topic("orders", broker="broker-b")
    lab.send("orders", 10, broker="broker-b")
    with lab.open(fetchRetryMs="200") as source:
        spans = everything(source, "orders")
        lab.stop("broker-b")
        with pytest.raises(UnavailableError, match="broker broker-b gave no messages of topic orders"):
            rows(source, spans)


def test_reading_can_be_left_at_any_time(lab: WireLab) -> None:
    lab.topic("orders", queues=4)
    for queue_id in range(4):
        lab.send("orders", 100, queue_id=queue_id, size=5000)
    with lab.open(fetchBytesInFlight=str(1 << 20)) as source:
        batches = source.read(everything(source, "orders"), ReadRequest(schema_of(["body"])))
        next(batches)
        batches.close()  # type: ignore[attr-defined]  # a generator
        assert len(rows(source, everything(source, "orders"))) == 400


def test_options_are_checked() -> None:
    def spec(**client: str) -> SourceSpec:
        return source_spec(parse_options({"nameServer": "127.0.0.1:1", **client}))

    with pytest.raises(InvalidArgumentError, match="fetchRetryMs"):
        WireSource(spec(fetchRetryMs="soon"))
    with pytest.raises(InvalidArgumentError, match="unknown option acessKey: did you mean accessKey"):
        WireSource(spec(acessKey="me"))
    with WireSource(spec()) as source, pytest.raises(UnavailableError, match="no name server can be reached"):
        source.extents(TopicSelector(("orders",)))
