"""DataFrame filters as ranges: what is applied here, what is left to Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("pyspark.sql.datasource")

from pyspark.sql import datasource as ds

from flaremq.pipeline.model.spans import QueueRef, Span
from flaremq.pipeline.planning.pushdown import CLOCK_SLACK_MS, push
from tests.support.fake_source import FakeSource, fake_queues

if not hasattr(ds, "EqualTo"):
    pytest.skip("this PySpark has no filters", allow_module_level=True)

SOURCE = FakeSource(fake_queues({"orders": [5_000, 5_000], "users": [5_000]}))
SPANS = [Span(queue, *ends) for queue, ends in SOURCE.queues.items()]


def narrowed(*filters: ds.Filter) -> tuple[list[Span], list[ds.Filter]]:
    pushed, left = push(filters)
    return pushed.narrowed(SPANS, SOURCE.offset_by_time), left


def at(second: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def test_topic_broker_and_queue_are_applied_whole() -> None:
    spans, left = narrowed(ds.EqualTo(("topic",), "orders"), ds.In(("queueId",), (1, 7)), ds.IsNotNull(("topic",)))
    assert spans == [Span(QueueRef("orders", "b", 1), 0, 5_000)]
    assert left == []
    assert narrowed(ds.EqualTo(("brokerName",), "other")) == ([], [])


def test_two_filters_on_one_column_both_hold() -> None:
    spans, _ = narrowed(ds.In(("topic",), ("orders", "users")), ds.In(("topic",), ("users", "x")))
    assert {span.queue.topic for span in spans} == {"users"}


@pytest.mark.parametrize(
    ("filters", "start", "end"),
    [
        ([ds.GreaterThan(("queueOffset",), 10)], 11, 5_000),
        ([ds.GreaterThanOrEqual(("queueOffset",), 10), ds.LessThan(("queueOffset",), 20)], 10, 20),
        ([ds.LessThanOrEqual(("queueOffset",), 20)], 0, 21),
        ([ds.EqualTo(("queueOffset",), 20)], 20, 21),
    ],
)
def test_ranges_of_offsets_are_exact(filters: list[ds.Filter], start: int, end: int) -> None:
    spans, left = narrowed(*filters)
    assert {span[1:] for span in spans} == {(start, end)}
    assert left == []


def test_times_prune_with_a_slack_for_clocks_and_stay_with_spark() -> None:
    slack = CLOCK_SLACK_MS // 1000
    filters = [ds.GreaterThanOrEqual(("storeTimestamp",), at(2_000)), ds.LessThan(("storeTimestamp",), at(2_060))]
    spans, left = narrowed(*filters)
    assert left == filters
    assert {span[1:] for span in spans} == {(2_000 - slack, 2_060 + slack + 1)}


def test_blanks_alone_stand_between_keys() -> None:
    pushed, _ = push([ds.In(("keys",), ("a\tb c", " d"))])
    assert pushed.keys == {"a\tb", "d"}


def test_tags_and_keys_are_looked_up_and_stay_with_spark() -> None:
    filters = [ds.In(("tags",), ("A", "B")), ds.EqualTo(("keys",), "k-1 k-2")]
    pushed, left = push(filters)
    assert pushed.tags == {"A", "B"}
    assert pushed.keys == {"k-1"}
    assert left == filters


@pytest.mark.parametrize(
    "given",
    [
        ds.Not(ds.EqualTo(("topic",), "orders")),
        ds.EqualNullSafe(("topic",), None),
        ds.IsNull(("tags",)),
        ds.IsNotNull(("tags",)),
        ds.EqualTo(("tags",), ""),
        ds.EqualTo(("keys",), " "),
        ds.EqualTo(("properties", "region"), "eu"),
        ds.GreaterThan(("storeTimestamp",), datetime(2020, 1, 1)),
        ds.StringStartsWith(("topic",), "or"),
        ds.GreaterThan(("topic",), "a"),
    ],
    ids=str,
)
def test_what_cannot_be_applied_changes_nothing_and_stays_with_spark(given: ds.Filter) -> None:
    spans, left = narrowed(given)
    assert spans == SPANS
    assert left == [given]
