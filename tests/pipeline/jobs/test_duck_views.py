"""SQL without Spark: the same rows, and of the store only what a statement needs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from flaremq.cli.main import run
from flaremq.errors import CorruptionError, FlareMQError, InvalidArgumentError, NotFoundError, UnavailableError
from flaremq.pipeline.jobs.sql import duck
from flaremq.pipeline.jobs.sql.duck import DuckViews
from flaremq.pipeline.model.columns import NAMES
from flaremq.pipeline.options import LONG_MAX, ScanOptions
from flaremq.pipeline.planning.pushdown import NOTHING_PUSHED, Pushed
from flaremq.pipeline.scan import open_scan
from tests.pipeline.conftest import FIRST_MS, FilledStore

Seen = list[tuple[set[str], Pushed]]


@pytest.fixture(scope="module")
def views(orders_store: FilledStore) -> Iterator[DuckViews]:
    with DuckViews(orders_store.options) as made:
        yield made


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """The scans of the store that statements make: their columns, and what filters left of it."""
    seen: Seen = []

    def watched(options: ScanOptions, pushed_of: Any = None) -> pa.RecordBatchReader:
        columns = set(options.column_names or ())
        if pushed_of is None:
            seen.append((columns, NOTHING_PUSHED))
            return open_scan(options)

        def told(queues: Any) -> Pushed:
            pushed: Pushed = pushed_of(queues)
            seen.append((columns, pushed))
            return pushed

        return open_scan(options, told)

    monkeypatch.setattr(duck, "open_scan", watched)
    return seen


def rows(views: DuckViews, statement: str) -> list[tuple[Any, ...]]:
    return list(views.run(statement).toLocalIterator())


@pytest.mark.parametrize(
    ("statement", "columns"),
    [
        ("SELECT count(*) FROM messages", {"topic"}),
        ("SELECT topic, sum(storeSize) FROM messages GROUP BY topic", {"topic", "storeSize"}),
        ("SELECT keys FROM messages WHERE topic = 'users'", {"topic", "keys"}),
        ("SELECT max(flag) FROM messages WHERE tags = 'paid'", {"tags", "flag"}),
        ("SELECT * FROM messages LIMIT 1", set(NAMES)),
    ],
)
def test_only_the_columns_a_statement_uses_are_read(
    views: DuckViews, scans: Seen, statement: str, columns: set[str]
) -> None:
    assert rows(views, statement)
    assert [read for read, _ in scans] == [columns]


def test_filters_say_which_queues_offsets_times_tags_and_keys_are_read(views: DuckViews, scans: Seen) -> None:
    def pushed(where: str) -> Pushed:
        scans.clear()
        rows(views, f"SELECT queueId FROM messages WHERE {where}")
        return scans[-1][1]

    assert pushed("topic = 'orders' AND queueId IN (1, 3)").topics == {"orders"}
    assert pushed("topic = 'orders' AND queueId IN (1, 3)").queue_ids == {1, 3}
    assert pushed("topic = 'orders' OR queueId = 0").topics == {"orders", "users", "%RETRY%billing"}
    between = pushed("queueOffset >= 5 AND queueOffset < 9")
    assert (between.first_offset, between.end_offset) == (5, 9)
    assert pushed("queueOffset = 7 OR tags = 'paid'").end_offset == LONG_MAX
    assert pushed("keys IN ('k-3 shared-3', 'k-7 shared-7')").keys == {"k-3", "k-7"}
    assert pushed("keys = 'k-3 shared-3' OR flag = 0").keys is None
    assert pushed("tags = 'paid' AND keys > 'k'").tags == {"paid"}
    assert pushed("tags IS NULL").tags is None
    hour = pushed("storeTimestamp >= TIMESTAMPTZ '2023-11-14 22:20:00Z'")
    assert hour.first_ms == 1_700_000_400_000 and hour.end_ms is None


@pytest.mark.parametrize(
    "where",
    [
        "topic = 'orders'",
        "topic <> 'orders' AND queueOffset > 3",
        "queueId = 1 AND queueOffset BETWEEN 4 AND 6",
        "tags = 'paid' OR tags IS NULL",
        "tags IN ('shipped', 'none')",
        "keys = 'k-17 shared-17'",
        "keys = 'k-17'",
        "keys LIKE 'k-1%' AND tags = 'paid'",
        "storeTimestamp < TIMESTAMPTZ '2023-11-14 22:14:00Z' AND topic = 'users'",
        "topic = 'nobody'",
        "properties['region'] = 'eu' AND queueId = 0",
    ],
)
def test_rows_are_those_of_a_filter_over_everything(views: DuckViews, orders_store: FilledStore, where: str) -> None:
    everything = orders_store.options | {"topic": "orders,users,%RETRY%billing"}
    columns = "topic, queueId, queueOffset"
    found = rows(views, f"SELECT {columns} FROM messages WHERE {where} ORDER BY ALL")
    with DuckViews(everything) as whole:
        whole.run("CREATE TABLE copied AS SELECT * FROM messages")
        assert found == rows(whole, f"SELECT {columns} FROM copied WHERE {where} ORDER BY ALL")


def test_a_key_is_looked_up_by_the_options_of_the_source(orders_store: FilledStore) -> None:
    with DuckViews(orders_store.options | {"keys": "k-7"}) as views:
        assert rows(views, "SELECT topic, tags FROM messages") == [("orders", "shipped")]


def test_small_views_join_with_messages(views: DuckViews) -> None:
    statement = "SELECT q.topic, any_value(q.messages), count(*) FROM queues q JOIN messages m USING (topic, queueId)"
    assert rows(views, f"{statement} WHERE q.topic = 'users' GROUP BY q.topic") == [("users", 60, 120)]
    assert rows(views, "SELECT sum(entries) FROM index") == [(1200,)]
    assert set(views.describe()) == {"messages", "queues", "groups", "index"}
    assert views.describe()["groups"]["lag"] == "BIGINT"


def test_values_are_those_of_python(views: DuckViews, orders_store: FilledStore) -> None:
    statement = "SELECT properties, body, epoch_ms(storeTimestamp) FROM messages WHERE keys = 'k-1 shared-1'"
    ((properties, body, stored_ms),) = rows(views, statement)
    assert properties["region"] == "eu" and body == orders_store.rows[1]["body"] and stored_ms == FIRST_MS + 1000
    assert rows(views, "SELECT [MAP {'a': 1}, NULL], {'m': MAP {'b': 2}}") == [([{"a": 1}, None], {"m": {"b": 2}})]


def test_fields_of_bodies_are_columns(tmp_path: Any) -> None:
    from flaremq import Message, MessageStore

    with MessageStore.open(tmp_path) as store:
        store.put(Message("orders", b'{"id": "a", "amount": 2.5}'), queue_id=0)
    options = {"path": str(tmp_path), "bodyFormat": "json", "bodySchema": "id string, amount double"}
    with DuckViews(options) as views:
        assert rows(views, "SELECT id, amount * 2 FROM messages WHERE amount > 1") == [("a", 5.0)]


def test_wrong_statements_are_one_sentence_and_wrong_places_are_told_at_once(
    views: DuckViews, orders_store: FilledStore
) -> None:
    with pytest.raises(FlareMQError, match=r"^Parser Error: syntax error at or near .selec.$"):
        views.run("selec 1")
    with pytest.raises(FlareMQError, match="Could not convert string 'x' to INT32"):
        rows(views, "SELECT CAST(CASE WHEN queueId >= 0 THEN 'x' END AS INTEGER) FROM messages")
    with pytest.raises(NotFoundError, match="orders"):
        DuckViews(orders_store.options | {"topic": "order"})
    with pytest.raises(InvalidArgumentError, match="chosen by the statement"):
        DuckViews(orders_store.options | {"columns": "topic"})


def test_an_error_of_a_scan_is_raised_as_itself(views: DuckViews, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: Any) -> Any:
        raise CorruptionError("a record is damaged")

    monkeypatch.setattr(duck, "open_scan", damaged)
    with pytest.raises(CorruptionError, match="a record is damaged"):
        rows(views, "SELECT body FROM messages")


def test_without_duckdb_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.delitem(sys.modules, "flaremq.pipeline.jobs.sql.duck")
    with pytest.raises(UnavailableError, match="pip install duckdb"):
        importlib.import_module("flaremq.pipeline.jobs.sql.duck")


def test_the_command_prints_what_is_asked_and_tells_what_is_wrong(
    orders_store: FilledStore, capfd: pytest.CaptureFixture[str]
) -> None:
    def asked(*words: str) -> tuple[int, str, str]:
        code = run(["sql", *words])
        done = capfd.readouterr()
        return code, done.out, done.err

    place = ("--path", orders_store.options["path"])
    query = "SELECT topic, count(*) AS n FROM messages GROUP BY ALL ORDER BY ALL; SELECT 1 AS one"
    assert asked(*place, "-o", "csv", query) == (0, "topic,n\n%RETRY%billing,120\norders,360\nusers,120\none\n1\n", "")
    assert asked(*place, "--topic", "users", "SELECT count(*) AS n FROM messages") == (0, '{"n": 120}\n', "")
    for words, code, said in (
        ((*place, "SELECT nope FROM messages"), 1, "nope"),
        ((*place, " "), 2, "the query is empty"),
        (("--path", "nowhere", "SELECT 1"), 2, "does not exist"),
        ((*place, "--topic", "order", "SELECT 1"), 1, "did you mean orders?"),
    ):
        found = asked(*words)
        assert (found[:2], len(found[2].splitlines())) == ((code, ""), 1)
        assert said in found[2]
