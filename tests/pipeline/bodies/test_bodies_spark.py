"""``bodyFormat`` in a real Spark: batches, streams, schemas of the user's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flaremq.clock import SystemClock
from flaremq.pipeline.jobs.sql.job import SqlViews
from flaremq.testing import ephemeral_broker
from tests.pipeline.bodies.conftest import PutBodies
from tests.pipeline.sink_lab import stored_bodies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BODIES = [b'{"id": "a", "amount": 1.5, "lines": [{"n": 2}]}', b'{"id": "b"}', b"no json"]
DDL = "id string, amount double, lines array<struct<n:int>>, marks map<string,int>"
JSON: dict[str, Any] = {"bodyFormat": "json", "topic": "orders"}


def test_fields_of_bodies_are_columns_of_a_frame(spark: SparkSession, put_bodies: PutBodies) -> None:
    path = put_bodies(BODIES)
    frame = (
        spark.read.format("flaremq").options(bodySchema=DDL, propertyColumns="x-tenant as tenant", **JSON).load(path)
    )
    assert frame.columns[-6:] == ["tenant", "id", "amount", "lines", "marks", "_corrupt_body"]
    rows = frame.orderBy("queueOffset").collect()
    assert [(row["tenant"], row["id"], row["amount"]) for row in rows] == [
        ("zeta", "a", 1.5),
        ("acme", "b", None),
        ("zeta", None, None),
    ]
    assert (rows[0]["lines"][0]["n"], bytes(rows[2]["_corrupt_body"])) == (2, BODIES[2])
    dropped = spark.read.format("flaremq").options(bodySchema=DDL, bodyMode="DROPMALFORMED", columns="id", **JSON)
    assert [row[0] for row in dropped.load(path).collect()] == ["a", "b"]
    strict = spark.read.format("flaremq").options(bodySchema=DDL, bodyMode="FAILFAST", columns="id", **JSON).load(path)
    with pytest.raises(Exception, match="queue offset 2: no JSON"):
        strict.collect()


def test_a_schema_of_the_user_names_fields_of_json(spark: SparkSession, put_bodies: PutBodies) -> None:
    path = put_bodies(BODIES)
    reader = spark.read.format("flaremq").options(**JSON)
    frame = reader.schema("queueOffset bigint, amount double, id string, _corrupt_body string").load(path)
    found = [tuple(row) for row in frame.orderBy("queueOffset").collect()]
    assert found == [(0, 1.5, "a", None), (1, None, "b", None), (2, None, None, "no json")]
    wrong = spark.read.format("flaremq").options(bodySchema="id string", **JSON).schema("id int")
    with pytest.raises(Exception, match="column 'id' is int in the schema but string in messages"):
        wrong.load(path).rdd.getNumPartitions()


def test_columns_are_written_as_bodies_and_read_back(
    spark: SparkSession, put_bodies: PutBodies, tmp_path: Path
) -> None:
    target = str(tmp_path / "target")
    options: dict[str, Any] = JSON | {"bodySchema": f"{DDL}, at timestamp"}
    marks = "map('k', 1, 'none', null)"
    given = spark.sql(
        f"SELECT 't-1' AS tags, 'x' AS id, 2.5D AS amount, {marks} AS marks, timestamp'2026-11-19 10:00' AS at"
    )
    given.write.format("flaremq").options(mappedFileSizeCommitLog=1 << 20, **options).mode("append").save(target)
    found = spark.read.format("flaremq").options(columns="tags,id,amount,marks,at", **options).load(target)
    assert found.collect() == given.collect()
    wrong = given.selectExpr("id", "cast(amount AS string) AS amount").write.format("flaremq").options(**options)
    with pytest.raises(Exception, match="column amount is string, in bodySchema it is double"):
        wrong.mode("append").save(target)
    both = given.selectExpr("id", "id AS body").write.format("flaremq").options(**options)
    with pytest.raises(Exception, match="there is a column body, and bodyFormat makes one"):
        both.mode("append").save(target)


def test_a_stream_writes_rows_as_they_were_read(spark: SparkSession, put_bodies: PutBodies, tmp_path: Path) -> None:
    reader = spark.readStream.format("flaremq").options(bodySchema=DDL, startingOffsets="earliest", **JSON)
    rows = reader.load(put_bodies(BODIES)).drop("properties")
    with ephemeral_broker(clock=SystemClock()) as broker:
        query = rows.writeStream.format("flaremq").options(
            nameServer=broker.name_server, bodyFormat="json", checkpointLocation=str(tmp_path / "checkpoint")
        )
        query.trigger(availableNow=True).start().awaitTermination()
        written = [json.loads(body) if body != "no json" else body for body in stored_bodies(broker, "orders")]
    assert sorted(written, key=str) == sorted([*map(json.loads, BODIES[:2]), "no json"], key=str)


def test_a_stream_has_the_fields_of_bodies(spark: SparkSession, put_bodies: PutBodies, tmp_path: Path) -> None:
    reader = spark.readStream.format("flaremq").options(bodySchema=DDL, startingOffsets="earliest", **JSON)
    frame = reader.option("columns", "queueOffset,id,amount").load(put_bodies(BODIES))
    query = frame.writeStream.format("memory").queryName("orders_of_bodies").trigger(availableNow=True).start()
    query.awaitTermination()
    found = [tuple(row) for row in spark.table("orders_of_bodies").orderBy("queueOffset").collect()]
    assert found == [(0, "a", 1.5), (1, "b", None), (2, None, None)]


def test_fields_of_bodies_are_columns_in_sql(spark: SparkSession, put_bodies: PutBodies) -> None:
    options = {"path": put_bodies(BODIES), "bodySchema": DDL, "propertyColumns": "x-tenant as tenant", **JSON}
    with SqlViews(spark, options) as views:
        assert views.describe()["messages"]["lines"] == "array<struct<n:int>>"
        grouped = views.run("select tenant, count(id) n, sum(amount) s from messages group by tenant order by tenant")
        assert [tuple(row) for row in grouped.collect()] == [("acme", 1, None), ("zeta", 1, 1.5)]
        bad = views.run("select queueOffset from messages where _corrupt_body is not null", once=True)
        assert [tuple(row) for row in bad.collect()] == [(2,)]
