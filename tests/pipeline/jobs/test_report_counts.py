"""What tasks of a report count equals a plain recount, and parts add up in any order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flaremq.pipeline.jobs.group_lag import GroupLag
from flaremq.pipeline.jobs.report.disk import DAY_MS, FolderUse, StoreDisk, forecast
from flaremq.pipeline.jobs.report.histogram import Histogram, bucket_range, buckets_of
from flaremq.pipeline.jobs.report.partial import COUNTED_COLUMNS, Partial
from flaremq.pipeline.jobs.report.scan import Findings
from flaremq.pipeline.jobs.report.sections import groups_of, summary_of
from flaremq.pipeline.jobs.report.series import CELLS_MAX, STEPS_S, Series
from flaremq.pipeline.jobs.report.texts import TextCounter, TextTotals, count_bucket, text_hashes
from flaremq.pipeline.model.columns import schema_of

TOPICS = ("orders", "users", "%RETRY%billing", "%DLQ%billing", "SCHEDULE_TOPIC_XXXX")

rows_of_messages = st.lists(
    st.fixed_dictionaries(
        {
            "topic": st.sampled_from(TOPICS),
            "brokerName": st.sampled_from(("a", "b")),
            "queueId": st.integers(0, 3),
            "storeSize": st.integers(91, 5_000_000),
            "tags": st.sampled_from((None, "x", "y", "zz")),
            "keys": st.sampled_from((None, "k1", "k1 k2", "k3  k1", "é k2")),
            "sysFlag": st.sampled_from((0, 1, 4, 8, 12)),
            "bornTimestamp": st.integers(1_700_000_000_000, 1_700_000_400_000),
            "storeTimestamp": st.integers(1_700_000_000_000, 1_700_400_000_000),
            "reconsumeTimes": st.integers(0, 16),
        }
    ),
    max_size=30,
)


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    schema = schema_of(COUNTED_COLUMNS)
    arrays = []
    for field in schema:
        values = [row[field.name] for row in rows]
        if pa.types.is_timestamp(field.type):
            values = [value * 1000 for value in values]
        arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def counted(rows: list[dict[str, Any]]) -> Partial:
    partial = Partial()
    partial.count(batch_of(rows))
    return partial


@settings(max_examples=60, deadline=None)
@given(rows_of_messages)
def test_counts_of_a_batch_equal_a_plain_recount(rows: list[dict[str, Any]]) -> None:
    partial = counted(rows)
    queues = Counter((row["topic"], row["brokerName"], row["queueId"]) for row in rows)
    assert {queue: count.messages for queue, count in partial.queues.items()} == queues
    for queue, count in partial.queues.items():
        mine = [row for row in rows if (row["topic"], row["brokerName"], row["queueId"]) == queue]
        assert count.size_bytes == sum(row["storeSize"] for row in mine)
        assert count.first_ms == min(row["storeTimestamp"] for row in mine)
        assert count.last_ms == max(row["storeTimestamp"] for row in mine)
    for topic, histogram in partial.sizes.items():
        sizes = [row["storeSize"] for row in rows if row["topic"] == topic]
        assert (histogram.count, histogram.total) == (len(sizes), sum(sizes))
        assert (histogram.minimum, histogram.maximum) == (min(sizes), max(sizes))
    for topic, histogram in partial.latencies.items():
        waits = [max(r["storeTimestamp"] - r["bornTimestamp"], 0) for r in rows if r["topic"] == topic]
        assert (histogram.count, histogram.total, histogram.maximum) == (len(waits), sum(waits), max(waits))
    early = Counter(row["topic"] for row in rows if row["storeTimestamp"] < row["bornTimestamp"])
    assert partial.clock_skew == early
    assert partial.committed == Counter(row["topic"] for row in rows if row["sysFlag"] & 12 == 8)
    again = Counter((r["topic"], r["reconsumeTimes"]) for r in rows if r["topic"].startswith(("%RETRY%", "%DLQ%")))
    assert partial.consumed_again == again
    in_steps = Counter[str]()
    for by_topic in partial.series.cells.values():
        in_steps.update({topic: cell[0] for topic, cell in by_topic.items()})
    assert in_steps == Counter(row["topic"] for row in rows)


@settings(max_examples=40, deadline=None)
@given(rows_of_messages, rows_of_messages, rows_of_messages)
def test_adding_partials_is_associative_and_commutative(
    a: list[dict[str, Any]], b: list[dict[str, Any]], c: list[dict[str, Any]]
) -> None:
    left = counted(a)
    left.add(counted(b))
    left.add(counted(c))
    inner = counted(b)
    inner.add(counted(c))
    right = counted(a)
    right.add(inner)
    turned = counted(c)
    turned.add(counted(b))
    turned.add(counted(a))
    assert left == right == turned == counted(a + b + c)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 400_000), max_size=400, unique=True), min_size=1, max_size=4))
def test_series_end_up_with_the_same_step_in_any_order(parts: list[list[int]]) -> None:
    def series(seconds: list[int]) -> Series:
        made = Series()
        times = np.array(seconds, np.int64) * 37
        made.count(["t"], np.zeros(len(times), np.int64), times, np.ones(len(times), np.int64))
        return made

    forwards, backwards = Series(), Series()
    for part in parts:
        forwards.add(series(part))
    for part in reversed(parts):
        backwards.add(series(part))
    whole = series([second for part in parts for second in part])
    assert forwards == backwards == whole
    assert len(whole.cells) <= CELLS_MAX or whole.step_s == STEPS_S[-1]


def test_series_over_years_are_kept_by_day() -> None:
    series = Series()
    times = np.arange(0, 86_400 * 1000, 3600)
    series.count(["t"], np.zeros(len(times), np.int64), times, np.ones(len(times), np.int64))
    assert (series.step_s, len(series.cells)) == (86_400, 1000)
    assert sum(cell["t"][0] for cell in series.cells.values()) == len(times)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2**45), min_size=1, max_size=200), st.sampled_from((50.0, 90.0, 99.0, 99.9, 100.0)))
def test_percentiles_are_within_a_hundredth_above_the_true_ones(values: list[int], percent: float) -> None:
    found = Histogram.of(np.array(values, np.int64)).percentile(percent)
    rank = max(-(-len(values) * percent // 100), 1)
    true = sorted(values)[int(rank) - 1]
    assert true <= found <= true + true / 128 + 1


@given(st.integers(0, 2**50 - 1))
def test_every_value_lies_in_the_range_of_its_bucket(value: int) -> None:
    low, high = bucket_range(int(buckets_of(np.array([value], np.int64))[0]))
    assert low <= value <= high


def test_an_empty_histogram_has_a_summary() -> None:
    assert Histogram().summary()["max"] == 0
    assert list(Histogram().powers()) == []


@settings(max_examples=40, deadline=None)
@given(rows_of_messages, st.integers(1, 4), st.integers(1, 5))
def test_tags_and_keys_equal_a_plain_recount_for_any_number_of_buckets(
    rows: list[dict[str, Any]], buckets: int, top: int
) -> None:
    counters = [TextCounter(buckets) for _ in range(2)]
    pieces: list[tuple[int, bytes]] = []
    for at, counter in enumerate(counters):
        pieces += counter.count(batch_of(rows[at::2]))
        pieces += counter.flush()
    totals = TextTotals()
    for bucket in range(buckets):
        totals.add(count_bucket([piece for number, piece in pieces if number == bucket], top), top)

    own = [row for row in rows if row["topic"] in ("orders", "users")]
    tags = Counter((row["topic"], row["tags"]) for row in own if row["tags"])
    keys = Counter((row["topic"], key) for row in own for key in (row["keys"] or "").split())
    assert totals.tags == Counter(topic for topic, _ in tags)
    assert {topic: (t.keys, t.repeated, t.surplus) for topic, t in totals.keys.items()} == {
        topic: (
            len([1 for name, _ in keys if name == topic]),
            len([1 for (name, _), count in keys.items() if name == topic and count > 1]),
            sum(count - 1 for (name, _), count in keys.items() if name == topic),
        )
        for topic in {name for name, _ in keys}
    }
    expected = sorted(((-count, topic, text) for (topic, text), count in keys.items()))[:top]
    assert [(found.rank, found.topic, found.text) for found in totals.top_keys] == expected
    expected = sorted(((-count, topic, text) for (topic, text), count in tags.items()))[:top]
    assert [(found.rank, found.topic, found.text) for found in totals.top_tags] == expected


def test_hashes_do_not_depend_on_where_a_text_lies_in_its_array() -> None:
    texts = pa.array(["", "a", "b", "ab", "ba", "ü" * 300, "a"])
    whole = text_hashes(texts)
    assert whole[1] == whole[6] and len(set(whole.tolist())) == 6
    assert text_hashes(texts.slice(3, 2)).tolist() == whole[3:5].tolist()


def disk(*, used: int, own: int = 10, total: int = 1000) -> StoreDisk:
    folders = (FolderUse("commitlog", 1, own, own), FolderUse("consumequeue", 0, 0, 0), FolderUse("index", 0, 0, 0))
    return StoreDisk("a", "/store", folders, total, total - used, None)


def test_days_until_full_follow_from_rate_and_room() -> None:
    growth = forecast(disk(used=500), log_bytes=50, span_ms=DAY_MS, reserved_hours=24 * 365)
    assert growth is not None and not growth.is_extrapolated
    assert growth.days_until == {"75%": 5.0, "85%": 7.0, "90%": 8.0, "100%": 10.0}


def test_retention_that_holds_the_store_below_a_mark_means_never() -> None:
    growth = forecast(disk(used=500), log_bytes=50, span_ms=DAY_MS, reserved_hours=24 * 6)
    assert growth is not None
    assert growth.steady_bytes == 300 and growth.days_until == {"75%": 5.0, "85%": None, "90%": None, "100%": None}


@pytest.mark.parametrize(("log_bytes", "span_ms"), [(0, DAY_MS), (100, 0)])
def test_no_growth_is_told_without_bytes_or_time(log_bytes: int, span_ms: int) -> None:
    assert forecast(disk(used=1), log_bytes=log_bytes, span_ms=span_ms, reserved_hours=72) is None


def test_headline_counts_the_groups_that_the_table_lists() -> None:
    lags = [
        GroupLag("billing", "orders", "a", 0, 5, 7),
        GroupLag("billing", "users", "a", 0, 5, 1),
        GroupLag("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", "a", 0, 0, 9),
    ]
    summary, listed = summary_of(Findings(), lags), groups_of(lags, [])
    assert summary["groups"] == len({row["group"] for row in listed["rows"]}) == 1
    assert summary["lag"] == listed["lag"] == 8
