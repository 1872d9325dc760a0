"""SQL over a store: the right rows, and only the columns that a statement needs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.pipeline.jobs.sql.job import PUSHDOWN, SqlViews, register_views, run_sql
from flaremq.pipeline.jobs.sql.output import arrow_table, json_lines
from flaremq.pipeline.jobs.sql.prompt import quiet_spark, run_statement
from flaremq.pipeline.model.columns import NAMES
from flaremq.storage.message_store import MessageStore
from tests.pipeline.conftest import FIRST_MS, FilledStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def store(orders_store: FilledStore) -> FilledStore:
    config = orders_store.root / "config"
    config.mkdir(exist_ok=True)
    (config / "consumerOffset.json").write_text('{"offsetTable":{"orders@billing":{0:10,1:20},"users@crm":{0:5}}}')
    return orders_store


@pytest.fixture(scope="module")
def views(spark: SparkSession, store: FilledStore) -> Iterator[SqlViews]:
    with SqlViews(spark, store.options) as made, quiet_spark():
        yield made


def columns_read(frame: DataFrame) -> set[str]:
    """The columns that the scan of messages delivers, as Spark's own plan says."""
    plan = frame._jdf.queryExecution().optimizedPlan()  # type: ignore[operator]  # a Java object
    leaves = plan.collectLeaves()
    names: set[str] = set()
    for at in range(leaves.size()):
        leaf = leaves.apply(at)
        output = leaf.output()
        if "flaremq" in leaf.toString():
            names |= {output.apply(number).name() for number in range(output.size())}
    return names


@pytest.mark.parametrize(
    ("statement", "columns"),
    [
        ("SELECT count(*) FROM messages", {"queueId"}),
        ("SELECT topic, sum(storeSize) FROM messages GROUP BY topic", {"topic", "storeSize"}),
        ("SELECT m.keys FROM messages m JOIN queues q ON m.topic = q.topic WHERE q.messages > 3", {"topic", "keys"}),
        ("SELECT 1 FROM messages WHERE queueOffset > (SELECT avg(flag) FROM messages)", {"queueOffset", "flag"}),
        ("WITH a AS (SELECT topic, tags FROM messages) SELECT tags FROM a UNION ALL SELECT msgId FROM messages",
         {"tags", "msgId"}),
        ("SELECT * FROM messages", set(NAMES)),
    ],
)  # fmt: skip
def test_only_the_columns_a_statement_uses_are_read(views: SqlViews, statement: str, columns: set[str]) -> None:
    frame = views.run(statement)
    assert columns_read(frame) == columns


def test_filters_are_pushed_down_for_results_that_are_read_once_from_views_that_are_read_once(views: SqlViews) -> None:
    def pushes(statement: str, once: bool) -> bool:
        return bool(views.run(statement, once=once).sparkSession.conf.get(PUSHDOWN) == "true")

    assert pushes("SELECT * FROM messages WHERE topic = 'users'", once=True)
    assert not pushes("SELECT * FROM messages WHERE topic = 'users'", once=False)
    twice = "SELECT (SELECT count(*) FROM messages WHERE topic = 'users') a, (SELECT count(*) FROM messages) b"
    assert not pushes(twice, once=True)


def test_a_statement_may_read_messages_with_a_filter_and_without(views: SqlViews, store: FilledStore) -> None:
    twice = "SELECT (SELECT count(*) FROM messages WHERE topic = 'users') a, (SELECT count(*) FROM messages) b"
    users = sum(row["topic"] == "users" for row in store.rows)
    assert [tuple(row) for row in views.run(twice, once=True).collect()] == [(users, len(store.rows))]


def test_rows_are_those_of_the_store(views: SqlViews, store: FilledStore) -> None:
    rows = views.run("SELECT topic, count(*) AS n, max(queueOffset) AS last FROM messages GROUP BY topic").collect()
    assert {row["topic"]: row["n"] for row in rows} == Counter(row["topic"] for row in store.rows)
    found = views.run(
        "SELECT queueId, queueOffset, body FROM messages WHERE topic = 'users' AND tags = 'paid'"
    ).collect()
    assert sorted((r["queueId"], r["queueOffset"], bytes(r["body"])) for r in found) == store.offsets(
        "queueId", "queueOffset", "body", topic="users", tags="paid"
    )


def test_queues_groups_and_index_tell_what_the_store_holds(views: SqlViews, store: FilledStore) -> None:
    queues = {(r["topic"], r["queueId"]): r for r in views.run("SELECT * FROM queues").collect()}
    counts = Counter((row["topic"], row["queueId"]) for row in store.rows)
    assert {queue: row["messages"] for queue, row in queues.items()} == counts
    assert {queue: row["maxOffset"] - row["minOffset"] for queue, row in queues.items()} == counts
    total = views.run("SELECT sum(bytes) AS a, (SELECT sum(storeSize) FROM messages) AS b FROM queues").collect()[0]
    assert total["a"] == total["b"]
    first = min(row["storeTimestamp"] for row in store.rows if (row["topic"], row["queueId"]) == ("orders", 0))
    assert views.run(
        "SELECT unix_millis(firstStoreTimestamp) AS ms FROM queues WHERE topic = 'orders' AND queueId = 0"
    ).collect()[0]["ms"] == first  # fmt: skip
    groups = {(r["group"], r["queueId"]): (r["committedOffset"], r["lag"]) for r in _all(views, "groups")}
    assert groups == {
        ("billing", 0): (10, counts["orders", 0] - 10),
        ("billing", 1): (20, counts["orders", 1] - 20),
        ("crm", 0): (5, counts["users", 0] - 5),
    }
    index = _all(views, "index")
    assert [row["name"] for row in index] == sorted(path.name for path in (store.root / "index").iterdir())
    assert sum(row["entries"] for row in index) == 2 * len(store.rows)  # two keys each
    assert {(row["slots"], row["entriesMax"]) for row in index} == {(200, 800)}


def _all(views: SqlViews, name: str) -> list[Any]:
    return list(views.run(f"SELECT * FROM {name}").collect())


def test_commands_take_effect_and_views_of_views_are_pruned_too(views: SqlViews, spark: SparkSession) -> None:
    assert (
        list(run_statement(views, "CREATE OR REPLACE TEMP VIEW paid AS SELECT * FROM messages WHERE tags = 'paid'"))
        == []
    )
    frame = views.run("SELECT count(*) AS n FROM paid")
    assert columns_read(frame) == {"tags"}
    assert frame.collect()[0]["n"] == 200
    spark.catalog.dropTempView("paid")


def test_results_as_json_lines_and_arrow(views: SqlViews) -> None:
    frame = views.run("SELECT topic, storeTimestamp, properties FROM messages WHERE topic = 'users' ORDER BY 2 LIMIT 1")
    (line,) = json_lines(frame)
    row = json.loads(line)
    assert row["topic"] == "users" and row["properties"]["region"] in ("eu", "us")
    assert row["storeTimestamp"] == "2023-11-14 22:13:23.000Z" and FIRST_MS == 1_700_000_000_000
    assert arrow_table(views.run("SELECT count(*) AS n FROM messages")).to_pydict() == {"n": [600]}


def test_wrong_statements_are_answered_with_a_sentence(views: SqlViews) -> None:
    (line,) = run_statement(views, "SELECT nope FROM messages")
    assert line.startswith("error: ") and "nope" in line and "Project" not in line
    (line,) = run_statement(views, "SELEC 1")
    assert line.startswith("error: ") and "SELEC" in line and "\n" not in line


def test_registered_views_stay_for_the_session(spark: SparkSession, store: FilledStore) -> None:
    register_views(spark, store.options)
    assert spark.sql("SELECT count(*) AS n FROM messages").collect()[0]["n"] == 600
    assert spark.sql("SELECT count(*) AS n FROM groups").collect()[0]["n"] == 3


def test_an_empty_store_has_empty_views(spark: SparkSession, tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "store"):
        pass
    with SqlViews(spark, {"path": str(tmp_path / "store")}) as views:
        for name in ("messages", "queues", "groups", "index"):
            assert views.run(f"SELECT count(*) AS n FROM {name}").collect()[0]["n"] == 0, name


def test_wrong_options_are_refused(spark: SparkSession, store: FilledStore) -> None:
    with pytest.raises(InvalidArgumentError, match="chosen by the statement"):
        run_sql(spark, "SELECT 1", store.options | {"columns": "topic"})
    with pytest.raises(NotFoundError, match="does not exist"):
        run_sql(spark, "SELECT 1", {"path": "/nowhere"})
