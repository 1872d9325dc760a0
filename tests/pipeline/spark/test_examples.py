"""The programs of examples/ do what they say, also when they are broken off and run again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from examples import foreach_batch, totals_with_state
from flaremq import Message, MessageStore
from tests.pipeline.conftest import ROOT
from tests.pipeline.spark.connect_server import ConnectServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


class Orders:
    """A store with orders."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.put = 0

    def add(self, count: int) -> None:
        with MessageStore.open(self.path) as store:
            for number in range(self.put, self.put + count):
                body = json.dumps({"customer": f"c{number % 3}", "amount": number * 10.0})
                store.put(Message("orders", body.encode()), queue_id=number % 2)
        self.put += count

    def totals(self) -> dict[str, tuple[int, float]]:
        amounts = [[number * 10.0 for number in range(self.put) if number % 3 == customer] for customer in range(3)]
        return {f"c{customer}": (len(found), sum(found)) for customer, found in enumerate(amounts)}


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    made = Orders(tmp_path / "store")
    made.add(24)
    return made


def bodies(spark: SparkSession, store: Path, topic: str) -> Counter[str]:
    rows = spark.read.format("flaremq").options(topic=topic, columns="body").load(str(store))
    return Counter(bytes(row.body).decode() for row in rows.collect())


def test_a_batch_that_runs_again_writes_only_what_is_missing(
    spark: SparkSession, orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import DataFrameWriter

    place = orders.path, str(tmp_path / "other"), str(tmp_path / "checkpoint")
    save = DataFrameWriter.save

    def save_and_die(self: DataFrameWriter, *arguments: Any, **options: Any) -> None:
        save(self, *arguments, **options)
        raise RuntimeError("the program is gone, behind the first of two writes")

    with monkeypatch.context() as patch, pytest.raises(Exception, match="the program is gone"):
        patch.setattr(DataFrameWriter, "save", save_and_die)
        foreach_batch.share_out(spark, *place)
    foreach_batch.share_out(spark, *place)
    orders.add(4)
    foreach_batch.share_out(spark, *place)
    amounts = [number * 10.0 for number in range(28)]
    assert bodies(spark, tmp_path / "other", "amounts") == Counter(map(str, amounts))
    large = bodies(spark, tmp_path / "other", "large-orders")
    assert Counter(json.loads(body)["amount"] for body in large.elements()) == Counter(a for a in amounts if a >= 100)


@pytest.mark.parametrize("way", ["by_transform_with_state", "by_apply_in_pandas"])
def test_totals_go_on_where_the_query_ended(spark: SparkSession, orders: Orders, tmp_path: Path, way: str) -> None:
    found: dict[str, tuple[int, float]] = {}

    def note(batch: DataFrame, batch_id: int) -> None:
        found.update({row.customer: (row.orders, row.total) for row in batch.collect()})

    provider = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(provider)
    spark.conf.set(provider, totals_with_state.ROCKS_DB)
    try:
        for _ in range(2):
            rows = getattr(totals_with_state, way)(totals_with_state.orders(spark, orders.path))
            query = rows.writeStream.outputMode("update").foreachBatch(note)
            query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
            query.awaitTermination()
            assert found == orders.totals()
            orders.add(5)
    finally:
        spark.conf.set(provider, before)


@pytest.mark.soak
def test_declarative_pipeline_makes_a_table_of_the_topic(orders: Orders, tmp_path: Path) -> None:
    folder = tmp_path / "pipeline"
    shutil.copytree(ROOT / "examples/declarative_pipeline", folder, ignore=shutil.ignore_patterns("__pycache__"))
    spec = folder / "spark-pipeline.yml"
    text = spec.read_text()
    spec.write_text(
        text.replace("/data/store", orders.path).replace("file:///tmp/orders-pipeline", f"file://{tmp_path}/storage")
    )
    with ConnectServer(tmp_path / "server", Path(sys.executable)) as server:
        environment = os.environ | {"SPARK_REMOTE": server.url}
        for _ in range(2):
            subprocess.run(
                [sys.executable, "-m", "pyspark.pipelines.cli", "run", "--spec", str(spec)],
                env=environment,
                check=True,
                timeout=200,
            )
            rows = spent(server.url)
            assert {row["customer"]: (row["orders"], row["total"]) for row in rows} == orders.totals()
            orders.add(6)


def spent(url: str) -> list[dict[str, Any]]:
    """What the view says; asked by another process, for this one has a session of the classic kind."""
    program = (
        "import json, sys; from pyspark.sql import SparkSession; spark = SparkSession.builder.remote(sys.argv[1])"
        ".getOrCreate(); print(json.dumps([row.asDict() for row in spark.read.table('spent').collect()]))"
    )
    done = subprocess.run([sys.executable, "-c", program, url], capture_output=True, text=True, check=True, timeout=120)
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found
