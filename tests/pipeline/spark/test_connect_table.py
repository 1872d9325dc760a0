"""The columns that a query of ``flaremq.table`` reads through Spark Connect, by the plans that a client writes out."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("grpc")

from pyspark.sql.connect import functions as F
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.plan import DataSource
from pyspark.sql.connect.window import Window

from flaremq.pipeline.model.columns import NAMES
from flaremq.pipeline.spark.connect_table import PrunedSource

ALL = list(NAMES)
# A session that nothing is asked of: plans are written out, not run.
SESSION: Any = SimpleNamespace(session_id="s", client=None, _client=None)


def table(*more: str) -> Any:
    return DataFrame(PrunedSource(DataSource("flaremq", options={"path": "/store"}), [*NAMES, *more]), SESSION)


def read(frame: Any) -> list[list[str]]:
    """The columns of each leaf of a frame's plan."""
    found: list[list[str]] = []

    def walk(message: Any) -> None:
        if message.DESCRIPTOR.name == "Read":
            named = message.data_source.options
            assert named["path"] == "/store"
            found.append(named["columns"].split(",") if "columns" in named else ALL)
        for field, value in message.ListFields():
            if field.message_type is not None and not field.message_type.GetOptions().map_entry:
                for each in value if hasattr(value, "__len__") else [value]:
                    walk(each)

    walk(frame._plan.plan(SESSION.client))
    return found


QUERIES: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "columns": (lambda t: t.select("keys"), ["keys"]),
    "in any case": (lambda t: t.select("Keys"), ["keys"]),
    "of the frame itself": (lambda t: t.select(t._col("keys")), ["keys"]),
    "count": (lambda t: t.groupBy().agg(F.count(F.lit(1))), ["queueId"]),
    "count of rows": (lambda t: t.groupBy().agg(F.count("*")), ["queueId"]),
    "count in SQL": (lambda t: t.selectExpr("COUNT( * )"), ["queueId"]),
    "groups": (lambda t: t.where(F.col("tags") == "paid").groupBy("queueId").agg(F.count("*")), ["queueId", "tags"]),
    "below what hides it": (lambda t: t.select("keys").where("tags = 'paid'"), ["tags", "keys"]),
    "sorted by another": (lambda t: t.select("keys").orderBy("storeTimestamp").limit(3), ["keys", "storeTimestamp"]),
    "an expression": (lambda t: t.selectExpr("length(body) AS n"), ["body"]),
    "of a map": (lambda t: t.select(F.col("properties")["a"]), ["properties"]),
    "alias": (lambda t: t.alias("t").select("t.keys"), ["keys"]),
    "renamed": (lambda t: t.withColumnRenamed("keys", "k").select("k"), ["keys"]),
    "made": (lambda t: t.withColumn("n", F.length("body")).select("n"), ["body"]),
    "without": (lambda t: t.drop("tags").select("keys"), ["tags", "keys"]),
    "window": (
        lambda t: t.select(F.row_number().over(Window.partitionBy("queueId").orderBy("queueOffset"))),
        ["queueId", "queueOffset"],
    ),
    "each once": (lambda t: t.dropDuplicates(["tags"]).select("keys"), ["tags", "keys"]),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_reads_what_it_mentions(name: str) -> None:
    query, columns = QUERIES[name]
    assert read(query(table())) == [columns]


WHOLE: dict[str, Callable[[Any], Any]] = {
    "itself": lambda t: t,
    "filtered": lambda t: t.where("tags = 'paid'").limit(2),
    "star": lambda t: t.select("*"),
    "star of an alias": lambda t: t.alias("t").select("t.*"),
    "star in a function": lambda t: t.select(F.struct("*")),
    "star in SQL": lambda t: t.selectExpr("count(*)", "to_json(struct(*))"),
    "different rows counted": lambda t: t.selectExpr("count(DISTINCT *)"),
    "a pattern": lambda t: t.select(t.colRegex("`key.*`")),
    "united by place": lambda t: t.union(t).select("keys"),
    "each row once": lambda t: t.distinct().select("keys"),
    "other names": lambda t: t.toDF(*(f"c{at}" for at in range(len(ALL)))).select("c1"),
    "a node that is not known": lambda t: t.na.drop().select("keys"),
    "shown": lambda t: t.where("keys = 'a'"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_query_that_may_mean_all_columns_reads_them(name: str) -> None:
    for columns in read(WHOLE[name](table())):
        assert columns == ALL


def test_joined_tables_read_what_the_query_mentions() -> None:
    left, right = table(), table()
    joined = left.alias("a").join(right.alias("b"), ["queueId", "queueOffset"]).select("a.keys", "b.tags")
    assert read(joined) == [["queueId", "queueOffset", "tags", "keys"]] * 2
    assert read(left.select("keys").join(right, "keys")) == [["keys"], ALL]


def test_a_subquery_is_a_result_of_its_own() -> None:
    most = table().select(F.max("queueOffset")).scalar()
    assert read(table().where(F.col("queueOffset") == most).select("keys")) == [["queueOffset", "keys"]] * 2
    there = table().where(F.col("tags") == "paid").exists()
    assert sorted(map(len, read(table().where(there).select("keys")))) == [2, len(ALL)]


def test_a_column_that_sql_may_spell_otherwise_is_read() -> None:
    assert read(table("a`b").select("keys")) == [["keys", "a`b"]]


def test_a_name_within_another_word_is_not_said() -> None:
    assert read(table().select("sysFlag")) == [["sysFlag"]]
