"""``flaremq.table``: a DataFrame of which each query reads what it uses, by the columns that reach the reader."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

import flaremq
from flaremq.errors import UnavailableError
from flaremq.pipeline.jobs.sql import register_views
from flaremq.pipeline.model.columns import NAMES
from flaremq.pipeline.spark.table import table_frame
from tests.pipeline.conftest import FIRST_MS, FilledStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def orders(spark: SparkSession, orders_store: FilledStore) -> DataFrame:
    geometry: Any = {"maxHashSlotNum": 200, "maxIndexNum": 800}
    return flaremq.table(spark, orders_store.root, topic="orders", **geometry)


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def columns_read(frame: DataFrame) -> list[set[str]]:
    """What the readers of a query deliver, as Spark made them for its tasks."""
    plan: Any = frame._jdf
    leaves = plan.queryExecution().optimizedPlan().collectLeaves()
    read = []
    for at in range(leaves.size()):
        leaf = leaves.apply(at)
        if leaf.getClass().getSimpleName() == "DataSourceV2ScanRelation":
            read.append(set(leaf.scan().readSchema().fieldNames()))
    return read


def test_a_query_reads_what_it_uses(spark: SparkSession, orders: DataFrame) -> None:
    assert columns_read(orders.select("keys")) == [{"keys"}]
    assert columns_read(orders.where("tags = 'paid'").groupBy("queueId").count()) == [{"tags", "queueId"}]
    assert columns_read(orders.groupBy().count()) == [{"queueId"}]
    assert columns_read(orders) == [set(NAMES)]
    assert orders.count() == 360
    joined = orders.alias("a").join(orders.alias("b"), ["queueId", "queueOffset"]).select("a.keys", "b.tags")
    assert columns_read(joined) == [{"queueId", "queueOffset", "keys"}, {"queueId", "queueOffset", "tags"}]
    assert joined.count() == 360


def test_rows_are_those_of_the_source(spark: SparkSession, orders: DataFrame, orders_store: FilledStore) -> None:
    rows = orders.select("queueId", "queueOffset", "body").collect()
    found = sorted((row["queueId"], row["queueOffset"], bytes(row["body"])) for row in rows)
    assert found == orders_store.offsets("queueId", "queueOffset", "body", topic="orders")


def test_it_is_a_table_of_sql_and_can_be_cached(spark: SparkSession, orders: DataFrame) -> None:
    orders.createOrReplaceTempView("pruned_orders")
    query = "SELECT max(flag) FROM pruned_orders WHERE queueOffset > (SELECT avg(queueOffset) FROM pruned_orders)"
    assert [{"flag", "queueOffset"}] == columns_read(spark.sql(query))
    narrow = orders.select("keys").cache()
    try:
        assert narrow.count() == narrow.where("keys IS NOT NULL").count() == 360
        assert columns_read(narrow.where("keys > 'k'")) == []
    finally:
        narrow.unpersist()
        spark.catalog.dropTempView("pruned_orders")


def test_filters_are_handed_on_to_each_query_alone(spark: SparkSession, orders: DataFrame, pushdown: None) -> None:
    one = orders.where("queueId = 1 AND queueOffset >= 5 AND queueOffset < 9").select("keys")
    assert columns_read(one) == [{"keys", "queueId", "queueOffset"}]
    assert one.rdd.getNumPartitions() == 1
    assert one.count() == 4
    assert orders.count() == 360
    assert orders.where("keys = 'k-1 shared-1'").select("tags").collect() == [("shipped",)]


def test_fields_of_bodies_are_pruned_too(spark: SparkSession, tmp_path: Path) -> None:
    with flaremq.MessageStore.open(tmp_path) as store:
        for at in range(3):
            store.put(flaremq.Message("orders", b'{"id": "x", "amount": %d}' % at, tags="paid"), queue_id=0)
    options: Any = {"bodyFormat": "json", "bodySchema": "id string, amount double"}
    orders = flaremq.table(spark, tmp_path, **options)
    total = orders.where("tags = 'paid'").groupBy("tags").sum("amount")
    assert columns_read(total) == [{"tags", "amount"}]
    assert [tuple(row) for row in total.collect()] == [("paid", 3.0)]


def test_times_and_views(spark: SparkSession, orders_store: FilledStore) -> None:
    until = datetime.fromtimestamp(FIRST_MS / 1000 + 10, UTC)
    assert flaremq.table(spark, orders_store.root, endingTimestamp=until).count() == 10
    register_views(spark, orders_store.options)
    assert columns_read(spark.sql("SELECT sum(storeSize) FROM messages")) == [{"storeSize"}]


def test_a_python_without_flaremq_is_told(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    class NotFound(AnalysisException):
        def __init__(self) -> None:
            pass

        def getCondition(self) -> str:
            return "DATA_SOURCE_NOT_FOUND"

    class Reader:
        def format(self, _: str) -> Reader:
            return self

        def options(self, **_: str) -> Reader:
            return self

        def load(self) -> None:
            raise NotFound

    class Session:
        read = Reader()

    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    with pytest.raises(UnavailableError, match="/usr/bin/python3, has no FlareMQ"):
        table_frame(Session(), {"path": "x"})  # type: ignore[arg-type]  # a stand-in
