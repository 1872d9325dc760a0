"""Our text against Prometheus' own parser."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families

from flaremq.metrics.bounded_table import BoundedTable
from flaremq.metrics.exposition import write
from flaremq.metrics.family import Family, Names, counter, gauge, histogram
from flaremq.metrics.histogram import Histogram
from flaremq.metrics.samples import Samples
from flaremq.metrics.turns import Turns

GAUGE = gauge("lag", "How far.\nAnd \\ back.", "group topic")
COUNTER = counter("messages", "So many.", "topic")
HISTOGRAM = histogram("took", "Time.", "code", unit="milliseconds", bounds=(1, 10, 100))
COMMON = {"cluster": 'a"b\\c', "zone": "50%"}
HOSTILE = (
    'a"b',
    "a\\b",
    "a\nb",
    "\\",
    '"',
    "\n",
    "%s%d%%",
    "{}",
    'x",topic="y',
    "snow☃",
    "\r\t\x00",
    "",
    "a,b=c}",
    "😀",
)


def written(fill: Any, *, names: Names = Names.WITH_UNIT, open_metrics: bool = False, limit: int = 1000) -> str:
    async def main() -> str:
        samples = Samples(COMMON, limit=limit)
        fill(samples)
        return b"".join(await write(samples, names=names, open_metrics=open_metrics)).decode()

    return asyncio.run(main())


def parsed(text: str) -> dict[str, Any]:
    return {family.name: family for family in text_string_to_metric_families(text)}


@pytest.mark.parametrize("value", HOSTILE)
def test_label_values_come_back_as_they_were(value: str) -> None:
    text = written(lambda samples: samples.add(GAUGE, 1, "g", value))
    (sample,) = parsed(text)["lag"].samples
    assert sample.labels == {**COMMON, "group": "g", "topic": value}


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20), st.floats(allow_nan=False)), max_size=10))
def test_whatever_is_written_is_read_back(rows: list[tuple[str, str, float]]) -> None:
    rows = [(_encodable(group), _encodable(topic), value) for group, topic, value in rows]

    def fill(samples: Samples) -> None:
        for group, topic, value in rows:
            samples.add(GAUGE, value, group, topic)

    families = parsed(written(fill))
    found = [(s.labels["group"], s.labels["topic"], s.value) for s in families["lag"].samples] if rows else []
    assert found == rows


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def test_a_name_that_cannot_be_encoded_spoils_only_itself() -> None:
    text = written(lambda samples: samples.add(COUNTER, 2, "lone \ud800"))
    (sample,) = parsed(text)["messages"].samples
    assert (sample.labels["topic"], sample.value) == ("lone ?", 2.0)


def test_histograms_are_cumulated_and_end_at_infinity() -> None:
    took = Histogram(HISTOGRAM.bounds)
    for value in (0, 1, 5, 10, 11, 1000):
        took.observe(value)
    family = parsed(written(lambda samples: samples.add(HISTOGRAM, took, "ok")))["took_milliseconds"]
    buckets = {s.labels["le"]: s.value for s in family.samples if s.name.endswith("_bucket")}
    assert buckets == {"1.0": 2, "10.0": 4, "100.0": 5, "+Inf": 6}
    totals = {s.name: s.value for s in family.samples if not s.name.endswith("_bucket")}
    assert totals == {"took_milliseconds_count": 6, "took_milliseconds_sum": 1027.0}


@pytest.mark.parametrize(("value", "text"), [(math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN"), (True, "1.0")])
def test_numbers_that_are_none(value: float, text: str) -> None:
    assert written(lambda samples: samples.add(COUNTER, value, "t")).splitlines()[-1].endswith(f" {text}")


def test_the_same_is_open_metrics() -> None:
    took = Histogram(HISTOGRAM.bounds)
    took.observe(3)

    def fill(samples: Samples) -> None:
        samples.add(GAUGE, 1.5, "g", 'hostile "\n\\')
        samples.add(COUNTER, 2, "t")
        samples.add(HISTOGRAM, took, "ok")

    text = written(fill, open_metrics=True)
    families = {family.name: family for family in open_metrics_families(text)}
    assert {name: family.type for name, family in families.items()} == {
        "lag": "gauge",
        "messages": "counter",
        "took_milliseconds": "histogram",
    }
    assert text.endswith("# EOF\n")


def test_both_fashions_of_names_tell_a_family_with_a_unit_twice() -> None:
    took = Histogram(HISTOGRAM.bounds)

    def fill(samples: Samples) -> None:
        samples.add(HISTOGRAM, took, "ok")
        samples.add(GAUGE, 1, "g", "t")

    assert parsed(written(fill, names=Names.BOTH)).keys() == {"lag", "took", "took_milliseconds"}
    assert parsed(written(fill, names=Names.BARE)).keys() == {"lag", "took"}


def test_gauges_beyond_the_limit_are_left_out_and_counted() -> None:
    samples = Samples({}, limit=3)
    for number in range(5):
        samples.add(GAUGE, number, "g", str(number))
    assert (len(samples.columns[GAUGE].labels), samples.cut[GAUGE]) == (3, 2)


def test_counters_beyond_the_limit_are_added_up_under_one_label() -> None:
    table: BoundedTable[str, list[int]] = BoundedTable(lambda: [0], limit=3)
    for topic in ("a", "b", "c", "d", "c", "a"):
        table.made(topic)[0] += 1
    assert ({topic: count[0] for topic, count in table.items()}, table.overflow, table.cut) == (
        {"a": 2, "b": 1},
        [3],
        2,
    )

    async def main() -> tuple[str, Samples]:
        samples = Samples({"zone": "z"})
        await samples.add_table(table, lambda topic: (topic,), {COUNTER: lambda count: count[0]})
        return b"".join(await write(samples)).decode(), samples

    text, samples = asyncio.run(main())
    assert 'messages_total{zone="z",otel_metric_overflow="true"} 3.0' in text
    assert samples.cut[COUNTER] == 2


def test_own_labels_do_not_take_the_place_of_a_familys() -> None:
    async def main() -> str:
        samples = Samples({"topic": "everywhere", "zone": "z"})
        samples.add(COUNTER, 1, "orders")
        return b"".join(await write(samples)).decode()

    assert 'messages_total{topic="orders",zone="z"} 1.0' in asyncio.run(main())


def test_a_name_asks_for_its_family_only() -> None:
    async def main(name: str) -> bytes:
        samples = Samples({})
        samples.add(COUNTER, 1, "t")
        samples.add(GAUGE, 1, "g", "t")
        samples.add(HISTOGRAM, Histogram(HISTOGRAM.bounds), "ok")
        return b"".join(await write(samples, asked=frozenset((name,))))

    def families(name: str) -> set[str]:
        return set(parsed(asyncio.run(main(name)).decode()))

    assert families("messages_total") == families("messages") == {"messages"}
    assert families("took_milliseconds_bucket") == {"took_milliseconds"}
    assert families("nothing") == set()


def test_long_texts_are_written_in_slices() -> None:
    async def main() -> int:
        samples = Samples({})
        for number in range(5_000):
            samples.add(GAUGE, number, "g", str(number))
        samples.turns = Turns(0.0)  # every look at the clock ends a slice
        await write(samples)
        return samples.turns.slices

    assert asyncio.run(main()) >= 5_000 // 256


def test_families_name_their_labels_in_order() -> None:
    families: tuple[Family, ...] = (GAUGE, COUNTER, HISTOGRAM)
    assert all(list(family.labels) == sorted(family.labels) for family in families)
