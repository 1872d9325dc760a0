"""``format("flaremq")`` in a real Spark: batches, projections, ranges, filters, errors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.conftest import FIRST_MS, FilledStore
from tests.support.golden import GoldenStore
from tests.support.golden_rows import golden_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def read(spark: SparkSession, store: FilledStore, **options: object) -> DataFrame:
    return spark.read.format("flaremq").options(**store.options).options(**options).load()


def error_of(frame: Any) -> str:
    """What a query fails with, planned only: no task may be needed to see it."""
    with pytest.raises(Exception) as caught:
        frame()
    assert "Traceback" not in str(caught.value)
    return str(caught.value)


def test_every_row_of_a_rocketmq_store_has_the_values_java_read(spark: SparkSession, golden_55: GoldenStore) -> None:
    geometry = {name: golden_55.options[name] for name in ("maxHashSlotNum", "maxIndexNum")}
    frame = spark.read.format("flaremq").options(brokerName="g", minPartitions=3, **geometry).load(str(golden_55.root))
    assert frame.rdd.getNumPartitions() >= 3
    rows = [row.asDict() for row in frame.orderBy("physicalOffset").collect()]
    for row in rows:
        row["body"] = hashlib.sha256(row["body"]).hexdigest()
        for name in ("bornTimestamp", "storeTimestamp"):
            row[name] = row[name].astimezone(UTC)
    assert rows == golden_rows(golden_55, broker="g")


def test_columns_and_a_schema_decide_what_is_read(spark: SparkSession, orders_store: FilledStore) -> None:
    frame = read(spark, orders_store, columns="queueOffset,topic", topic="users")
    assert frame.columns == ["queueOffset", "topic"]
    assert frame.count() == 120
    reader = spark.read.format("flaremq").options(**orders_store.options).option("topic", "users")
    frame = reader.schema("body string, properties map<string,string>, storeTimestamp timestamp").load()
    first = frame.orderBy("storeTimestamp").first()
    assert first is not None
    put = next(row for row in orders_store.rows if row["topic"] == "users")
    assert first["body"] == put["body"].decode()
    assert first["properties"]["region"] == "eu"
    assert first["storeTimestamp"].astimezone(UTC) == datetime.fromtimestamp(put["storeTimestamp"] / 1000, UTC)


def test_offsets_times_tags_and_keys_choose(spark: SparkSession, orders_store: FilledStore) -> None:
    def found(**options: object) -> list[tuple[Any, ...]]:
        return sorted(
            tuple(row) for row in read(spark, orders_store, columns="topic,queueId,queueOffset", **options).collect()
        )

    wanted = ("topic", "queueId", "queueOffset")
    some = '{"users": {"broker-a": {"0": 10, "1": -1}}}'
    assert found(topic="users", startingOffsets=some) == [("users", 0, n) for n in range(10, 60)]
    times = {"startingTimestamp": FIRST_MS + 100_000, "endingTimestamp": FIRST_MS + 160_000}
    by_time = [tuple(row[name] for name in wanted) for row in orders_store.rows if 100 <= row["at"] < 160]
    assert found(**times) == sorted(by_time)
    assert found(subExpression="paid", topic="orders") == orders_store.offsets(*wanted, tags="paid", topic="orders")
    assert found(keys="k-7,k-11") == orders_store.offsets(*wanted, at=7) + orders_store.offsets(*wanted, at=11)
    assert found(startingOffsets="latest") == []


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    if tuple(int(part) for part in spark.version.split(".")[:2]) < (4, 1):
        pytest.skip("Spark 4.0 does not hand filters over")
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.set(PUSHDOWN, "false")


def test_filters_give_the_same_rows_with_push_down_and_without_and_read_less(
    spark: SparkSession, orders_store: FilledStore, pushdown: None
) -> None:
    instant = datetime.fromtimestamp(FIRST_MS / 1000, UTC) + timedelta(seconds=300)
    filters = [
        "topic = 'users' and queueId = 1 and queueOffset >= 10 and queueOffset < 20",
        "topic in ('users', '%RETRY%billing') and tags = 'paid'",
        "brokerName = 'broker-b'",
        f"storeTimestamp >= timestamp'{instant:%Y-%m-%d %H:%M:%S}'",
        "keys in ('k-7 shared-7', 'k-8 shared-8') and length(body) > 3",
        "(tags = 'shipped' or topic = 'users') and topic <> 'orders'",
    ]
    frame = read(spark, orders_store, maxRecordsPerPartition=100, pushFilters=True)
    with_it = [sorted(map(str, frame.where(text).collect())) for text in filters]
    partitions = [frame.where(text).rdd.getNumPartitions() for text in filters]
    spark.conf.set(PUSHDOWN, "false")
    frame = read(spark, orders_store, maxRecordsPerPartition=100)
    assert frame.rdd.getNumPartitions() == 6
    assert [sorted(map(str, frame.where(text).collect())) for text in filters] == with_it
    assert [len(rows) for rows in with_it] == [10, 80, 0, 300, 2, 160]
    assert partitions == [1, 3, 1, 6, 1, 6]


def test_a_frame_that_is_queried_with_a_filter_and_without_gives_all_its_rows(
    spark: SparkSession, orders_store: FilledStore, pushdown: None
) -> None:
    # Spark keeps the plan made for a pushed filter and takes it for the next scan that has none.
    frame = read(spark, orders_store, columns="topic,queueOffset")
    assert (frame.count(), frame.where("topic = 'users'").count(), frame.count()) == (600, 120, 600)
    assert frame.where("topic = 'users'").union(frame).count() == 720


def test_what_cannot_work_is_an_error_on_the_driver(spark: SparkSession, orders_store: FilledStore) -> None:
    source = spark.read.format("flaremq")
    assert "unknown option colour" in error_of(lambda: read(spark, orders_store, colour="red"))
    assert "neither path nor nameServer" in error_of(lambda: spark.read.format("flaremq").load())
    both = error_of(lambda: spark.read.format("flaremq").options(nameServer="h:1").load(str(orders_store.root)))
    assert "both path" in both
    assert "unknown column 'tpoic'" in error_of(lambda: read(spark, orders_store, columns="tpoic"))
    assert "topic 'nope'" in error_of(lambda: read(spark, orders_store, topic="nope").rdd.getNumPartitions())
    assert "nowhere does not exist" in error_of(lambda: source.load("/nowhere").rdd.getNumPartitions())
    typed = source.options(**orders_store.options).schema("queueId string")
    assert "column 'queueId' is string in the schema but int in messages" in error_of(
        lambda: typed.load().rdd.getNumPartitions()
    )
    misspelled = source.options(**orders_store.options).schema("queueid int")
    assert "did you mean queueId" in error_of(lambda: misspelled.load().rdd.getNumPartitions())
